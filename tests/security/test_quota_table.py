"""Which quota applies to a sender, which senders share a bucket, and how many buckets invented names can make."""

from __future__ import annotations

import pytest

from raftlog.model import Quota
from raftlog.security.quotas import MAX_HOLD_S, TICKET_S, Buckets, Kind, QuotaTable, Turn

LEVELS = [
    ("ann", "app"),
    ("ann", "*"),
    ("ann", ""),
    ("*", "app"),
    ("*", "*"),
    ("*", ""),
    ("", "app"),
    ("", "*"),
]
"""The most specific first."""


def table(*quotas: Quota, now: float = 0.0, **limits: int) -> QuotaTable:
    made = QuotaTable(**limits)
    made.update(quotas, now)
    return made


def bytes_for(user: str, client_id: str, rate: float) -> Quota:
    return Quota(user=user, client_id=client_id, limits={"producer_byte_rate": rate})


def buckets(
    of: QuotaTable,
    user: str = "ann",
    client_id: str = "app",
    address: str = "10.0.0.1",
    *,
    kind: Kind = "produce",
    now: float = 0.0,
) -> Buckets:
    found = of.limits_of(user, client_id, address, now)
    return {} if found is None else found.by_kind[kind]


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_specific_quota_decides(first: int):
    """Every quota from a level on exists; the first of them gives the rate."""
    made = table(*(bytes_for(*level, rate=100.0 + number) for number, level in enumerate(LEVELS) if number >= first))
    assert buckets(made)["produce"].rate == 100.0 + first


@pytest.mark.parametrize("level", LEVELS)
def test_a_quota_leaves_senders_alone_that_it_does_not_name(level: tuple[str, str]):
    made = table(bytes_for(*level, rate=100))
    other = ("ann" if level[0] != "ann" else "bob", "app" if level[1] != "app" else "other")
    if "*" in level or level in (("ann", ""), ("", "app")):
        return
    assert buckets(made, *other) == {}


def test_each_limit_is_resolved_by_itself():
    made = table(
        Quota(user="ann", client_id="app", limits={"consumer_byte_rate": 5}),
        Quota(user="*", limits={"producer_byte_rate": 7, "request_percentage": 50}),
        Quota(client_id="*", limits={"request_rate": 9}),
    )
    assert {limit: bucket.rate for limit, bucket in buckets(made).items()} == {"produce": 7, "time": 0.5, "request": 9}
    assert {limit: bucket.rate for limit, bucket in buckets(made, kind="fetch").items()} == {
        "fetch": 5,
        "time": 0.5,
        "request": 9,
    }
    assert list(buckets(made, kind="request")) == ["time", "request"]


def test_who_shares_a_bucket():
    by_user = table(bytes_for("*", "", 1))
    assert buckets(by_user, client_id="a")["produce"] is buckets(by_user, client_id="b")["produce"]
    assert buckets(by_user, "ann")["produce"] is not buckets(by_user, "bob")["produce"]
    by_id = table(bytes_for("", "*", 1))
    assert buckets(by_id, "ann")["produce"] is buckets(by_id, "bob", address="10.0.0.2")["produce"]
    assert buckets(by_id, client_id="a")["produce"] is not buckets(by_id, client_id="b")["produce"]
    assert buckets(by_id, client_id="")["produce"] is not buckets(by_id, client_id="b")["produce"]
    both = table(bytes_for("ann", "*", 1))
    assert buckets(both, client_id="a")["produce"] is not buckets(both, client_id="b")["produce"]
    assert buckets(both, "bob") == {}


def test_a_change_takes_effect_for_what_is_owed_already():
    made = table(bytes_for("ann", "", 10))
    turn = Turn(buckets(made), 0.0)
    turn.charge("produce", 105, 0.0)
    assert turn.owed_s(0.0) == pytest.approx(10)
    made.update([bytes_for("*", "", 100)], 0.0)  # Another quota applies; the bucket stays.
    assert turn.owed_s(0.0) == pytest.approx(1)
    assert buckets(made)["produce"] is turn.buckets["produce"]
    made.update([], 0.0)
    assert turn.owed_s(0.0) == 0
    assert (buckets(made), len(made)) == ({}, 0)


def test_invented_client_ids_of_one_address_share_a_bucket():
    made = table(bytes_for("*", "*", 100))
    ids = []
    for number in range(100_000):
        ids.append(buckets(made, client_id=f"c{number}", address="10.0.0.9")["produce"])
        ids[-1].charge(1_000, 0.0)
    assert len({id(bucket) for bucket in ids}) <= 65
    assert ids[-1] is ids[-2]
    assert ids[-1].rate == 100
    own = buckets(made, client_id="c99999", address="10.0.0.1")["produce"]
    assert own is not ids[-1]


def test_strangers_of_many_addresses_do_not_grow_the_table():
    made = table(bytes_for("*", "*", 100), max_buckets=500)
    for number in range(20_000):
        buckets(made, client_id=f"c{number}", address=f"10.0.{number // 250}.{number % 250}")
    assert len(made) <= 501
    assert len(made._found) <= 500
    late = buckets(made, client_id="late", address="10.9.9.9")["produce"]
    assert late is buckets(made, client_id="later", address="10.9.9.8")["produce"]


def test_a_named_sender_has_its_bucket_also_when_strangers_have_filled_the_table():
    made = table(bytes_for("*", "*", 100), bytes_for("ann", "app", 7), max_buckets=10)
    for number in range(50):
        buckets(made, client_id=f"c{number}", address=f"10.0.0.{number}")
    assert buckets(made)["produce"].rate == 7


def test_idle_buckets_make_room():
    made = table(bytes_for("*", "*", 100), max_buckets=10)
    for number in range(10):
        buckets(made, client_id=f"c{number}", address=f"10.0.0.{number}")["produce"].charge(1_000, 0.0)
    shared = buckets(made, client_id="x", address="10.0.1.1")["produce"]
    assert shared is buckets(made, client_id="y", address="10.0.1.2")["produce"]
    later = buckets(made, client_id="z", address="10.0.1.3", now=100.0)["produce"]
    assert later is not shared
    assert buckets(made, client_id="x", address="10.0.1.1", now=100.0)["produce"] is not shared
    assert len(made) <= 11


def test_a_hidden_debt_cannot_be_left_by_a_change_of_name():
    """A client whose id is dropped and made again has no more credit than before."""
    made = table(bytes_for("*", "*", 100), max_buckets=2)
    buckets(made, client_id="a", now=0.0)["produce"].charge(10_000, 0.0)
    for number in range(100):
        buckets(made, client_id=f"b{number}", address=f"10.0.0.{number}", now=2.0 + number / 10)
    assert buckets(made, client_id="a", now=12.0)["produce"].wait_s(12.0) > 80


def test_a_connection_that_waited_for_its_own_debt_need_not_wait_for_others():
    made = table(bytes_for("ann", "", 100))
    own = buckets(made)
    first = Turn(own, 0.0)
    first.charge("produce", 150, 0.0)
    other = Turn(own, 0.0)
    assert other.hold_s(0.0) == pytest.approx(1.0)
    other.charge("produce", 100, 0.0)
    assert first.owed_s(0.0) == pytest.approx(1.0)
    assert not first.admits(own, 0.9)
    assert first.admits(own, 1.0)
    assert Turn(own, 1.0, may_begin=True).hold_s(1.0) == 0
    assert not first.admits(own, 1.0 + TICKET_S + 0.1)
    assert not first.admits(buckets(made, client_id="z", kind="fetch"), 1.0)


def test_a_place_in_the_queue_is_kept_whatever_other_senders_do():
    """Invented client ids empty the cache of what was found: its entries are made again, for the same buckets."""
    made = table(bytes_for("ann", "", 100), bytes_for("", "*", 1), ids_per_address=2)
    own = buckets(made)
    Turn(own, 0.0).charge("produce", 150, 0.0)
    refused = Turn(own, 0.0)
    for number in range(4):
        buckets(made, user="", client_id=f"invented-{number}", now=0.5)
    again = buckets(made, now=0.5)
    assert again is not own
    assert refused.comes_before(again, 0.5)
    assert refused.admits(again, 1.5)


def test_a_place_in_the_queue_follows_a_change_of_the_rate():
    """A connection that was refused at a low rate had its place in days, although the new rate pays in seconds."""
    made = table(bytes_for("ann", "", 1))
    own = buckets(made)
    Turn(own, 0.0).charge("produce", 1_000, 0.0)
    refused = Turn(own, 0.0)
    assert refused.hold_s(0.0) > MAX_HOLD_S
    made.update([bytes_for("ann", "", 1_000)], 1.0)
    own["produce"].charge(10_000, 1.0)  # Others keep it in debt.
    assert refused.hold_s(2.0) == 0
    assert refused.admits(buckets(made, now=2.0), 2.0)


def test_a_request_that_is_not_begun_costs_nothing():
    made = table(bytes_for("ann", "", 100))
    own = buckets(made)
    Turn(own, 0.0).charge("produce", 150, 0.0)
    held = Turn(own, 0.0)
    held.charge("produce", 1e6, 0.0)
    held.cancel()
    assert own["produce"].wait_s(0.0) == pytest.approx(1.0)
    assert held.owed_s(0.0) == 0


def test_percentages_of_the_loops_time():
    made = table(Quota(user="ann", limits={"request_percentage": 10}))
    turn = Turn(buckets(made, kind="request"), 0.0)
    turn.charge("time", 0.1, 0.0)
    turn.charge("produce", 1e9, 0.0)
    assert turn.owed_s(0.0) == pytest.approx(0.5)
    assert turn.limit_owed(0.0) == "time"


def test_names_that_no_client_can_have():
    """An id in a quota may be any text; `*` as a client id is refused when a request arrives."""
    made = table(bytes_for("ann", "\0", 5), bytes_for("ann", "*", 7))
    assert buckets(made, client_id="")["produce"].rate == 7
    assert MAX_HOLD_S < 3  # Clients wait at least 3 s for an answer.
