"""The transaction coordinator's decisions: stories of retries, zombies and time, and random histories under a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transaction_support import Shard

from raftlog.coordinator.transaction.records import TransactionChanged
from raftlog.coordinator.transaction.transitions import LAST_EPOCH, require_producer
from raftlog.errors import ErrorCode, InvalidRequestError


def test_a_transaction_from_its_first_partition_to_its_last_marker():
    shard = Shard()
    first = shard.init()
    assert (first, shard.phase()) == ((101, 0), "empty")
    assert (shard.join(first, 0, 1), shard.join(first, 1, 2), shard.phase()) == ("joined", "joined", "ongoing")
    second = shard.end(first)
    assert (second, shard.phase()) == ((101, 1), "committing")
    known = shard.state.by_id["t"]
    assert [p.partition for p in known.partitions] == [0, 1, 2]
    assert (known.marker_id, known.marker_epoch, list(shard.state.ending)) == (101, 1, ["t"])
    assert shard.join(second, 0) == "CONCURRENT_TRANSACTIONS"
    shard.complete()
    assert (shard.phase(), list(shard.state.ending)) == ("committed", [])
    assert (shard.join(second, 0), shard.phase()) == ("joined", "ongoing")


def test_an_end_whose_answer_was_lost_is_answered_again():
    shard = Shard()
    first = shard.init()
    shard.join(first, 0)
    assert [shard.end(first), shard.end(first)] == [(101, 1)] * 2
    assert shard.end(first, committed=False) == "INVALID_TXN_STATE"
    shard.complete()
    shard.fail_over()
    assert (shard.end(first), shard.end(first, committed=False)) == ((101, 1), "INVALID_TXN_STATE")


def test_a_late_end_does_not_touch_the_next_transaction():
    """KIP-890, scenario 11."""
    shard = Shard()
    first = shard.init()
    shard.join(first, 0)
    second = shard.end(first)
    shard.complete()
    shard.join(second, 0)

    for committed in (True, False):
        assert shard.end(first, committed=committed) == "INVALID_PRODUCER_EPOCH"
    assert shard.join(first, 7) == "INVALID_PRODUCER_EPOCH"
    assert (shard.phase(), [p.partition for p in shard.state.by_id["t"].partitions]) == ("ongoing", [0])
    assert shard.end(second) == (101, 2)


def test_an_abort_of_nothing_fences_batches_that_are_on_their_way():
    shard = Shard()
    first = shard.init()
    assert shard.end(first, committed=True) == "INVALID_TXN_STATE"
    assert shard.end(first, committed=False) == (101, 1)
    assert shard.join(first, 0) == "INVALID_PRODUCER_EPOCH"
    assert (shard.phase(), shard.end(first, committed=False)) == ("aborted", (101, 1))


def test_a_new_producer_fences_the_old_one_and_aborts_what_it_left():
    shard = Shard()
    zombie = shard.init()
    shard.join(zombie, 0)
    assert (shard.init(), shard.phase()) == (None, "aborting")
    assert shard.init() is None
    assert (shard.end(zombie), shard.join(zombie, 1)) == ("INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_EPOCH")
    shard.complete()
    assert shard.init() == (101, 2)
    assert (shard.end(zombie, committed=False), shard.join(zombie, 1)) == ("INVALID_PRODUCER_EPOCH",) * 2


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_may_go_on():
    shard = Shard()
    first = shard.init(timeout_ms=1_000)
    shard.join(first, 0)
    assert (shard.tick(999), shard.tick(1), shard.phase()) == (0, 1, "aborting")
    assert (shard.join(first, 1), shard.end(first)) == ("TRANSACTION_ABORTABLE", "TRANSACTION_ABORTABLE")
    shard.complete()
    assert shard.end(first) == "TRANSACTION_ABORTABLE"
    second = shard.end(first, committed=False)
    assert (second, shard.join(second, 0)) == ((101, 1), "joined")


def test_another_coordinator_goes_on_where_the_last_one_stopped():
    shard = Shard()
    first = shard.init()
    shard.join(first, 0, 1)
    shard.fail_over()
    assert list(shard.state.ongoing) == ["t"]
    shard.end(first, committed=False)
    shard.fail_over()
    known = shard.state.by_id["t"]
    assert (known.phase, known.marker_epoch, len(known.partitions)) == ("aborting", 1, 2)
    assert list(shard.state.ending) == ["t"]


@pytest.mark.parametrize("ends_by", ["commit", "abort", "time", "init"])
def test_epochs_that_run_out_give_way_to_a_new_producer_id(ends_by: str):
    shard = Shard()
    shard.write(
        [
            TransactionChanged(
                transactional_id="t", producer_id=7, producer_epoch=LAST_EPOCH - 1, timeout_ms=1_000, changed_ms=0
            )
        ]
    )
    last = (7, LAST_EPOCH - 1)
    shard.join(last, 0)
    if ends_by == "time":
        shard.tick(1_000)
        shard.complete()
        fresh = shard.end(last, committed=False)
        assert shard.end(last, committed=False) == fresh
    elif ends_by == "init":
        assert shard.init() is None
        shard.complete()
        fresh = shard.init()
        assert fresh[1] == 1
        fresh = (fresh[0], 0)
    else:
        fresh = shard.end(last, committed=ends_by == "commit")
        assert shard.state.by_id["t"].marker_epoch == LAST_EPOCH
        assert shard.end(last, committed=ends_by == "commit") == fresh
        shard.complete()
    assert fresh[0] > 100
    assert fresh[1] == 0
    if ends_by != "init":
        assert shard.join(fresh, 0) == "joined"


def test_ids_that_nobody_uses_are_forgotten():
    shard = Shard()
    first = shard.init("a")
    shard.init("b")
    shard.join(first, 0, name="a")
    assert (shard.tick(100_000), shard.phase("a")) == (1, "aborting")
    assert (shard.tick(0), sorted(shard.state.by_id)) == (1, ["a"])
    assert shard.join(first, 0, name="b") == "INVALID_PRODUCER_ID_MAPPING"


@pytest.mark.parametrize(("name", "details"), [("forgotten", {"expired": True}), ("b", {})])
def test_a_refusal_says_whether_nobody_has_the_id_any_more(name: str, details: dict[str, bool]):
    """A producer that was idle takes it again then; it is fenced if another one has it."""
    shard = Shard()
    first = shard.init("a")
    shard.init("b")
    with pytest.raises(InvalidRequestError) as refused:
        require_producer(shard.state, name, *first)
    assert (refused.value.code, refused.value.details) == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, details)


@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1, "INVALID_REQUEST"),
        ("x" * 250, 1, "INVALID_REQUEST"),
        ("t", 0, "INVALID_TRANSACTION_TIMEOUT"),
        ("t", 10_001, "INVALID_TRANSACTION_TIMEOUT"),
    ],
)
def test_ids_and_times_that_are_not_allowed(name: str, timeout_ms: int, code: str):
    assert Shard().init(name, timeout_ms) == code


@dataclass
class History:
    """Three producers share one transactional id; each keeps using what it was told last, however old that is."""

    shard: Shard = field(default_factory=Shard)
    held: dict[int, tuple[int, int]] = field(default_factory=dict)
    ends: dict[tuple[int, int], bool] = field(default_factory=dict)
    newest: tuple[int, int] = (-1, -1)

    def init(self, who: int) -> None:
        if (made := self.shard.init()) is not None:
            self.held[who] = self.newest = made

    def join(self, who: int) -> None:
        mine = self.held.get(who, (-1, -1))
        if self.shard.join(mine, who) == "joined":
            assert mine == self.newest, "a producer that was replaced joined"

    def end(self, who: int, committed: bool) -> None:
        mine = self.held.get(who, (-1, -1))
        answer = self.shard.end(mine, committed=committed)
        if isinstance(answer, tuple):
            assert self.ends.setdefault(mine, committed) == committed
            assert mine not in [held for other, held in self.held.items() if other != who]
            self.held[who] = self.newest = answer

    def check(self) -> None:
        known = self.shard.state.by_id.get("t")
        if known is not None and known.phase in ("committing", "aborting"):
            transaction, committed = (known.marker_id, known.marker_epoch - 1), known.phase == "committing"
            assert self.ends.setdefault(transaction, committed) == committed


STEPS = {
    "init": History.init,
    "join": History.join,
    "commit": lambda history, who: history.end(who, True),
    "abort": lambda history, who: history.end(who, False),
    "complete": lambda history, _: history.shard.complete() if history.shard.state.ending else None,
    "tick": lambda history, who: history.shard.tick(600 * who),
    "fail over": lambda history, _: history.shard.fail_over(),
}


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 2)), max_size=50))
def test_no_history_ends_a_transaction_twice_or_touches_the_next(steps: list[tuple[str, int]]):
    history = History()
    for kind, who in steps:
        STEPS[kind](history, who)
        history.check()


def test_a_transactions_time_counts_from_its_beginning_whatever_joins_later():
    shard = Shard()
    first = shard.init(timeout_ms=1_000)
    shard.join(first, 0)
    assert shard.tick(600) == 0
    shard.join(first, 1)
    assert (shard.tick(399), shard.tick(1), shard.phase()) == (0, 1, "aborting")


def test_a_transaction_that_began_in_the_future_times_out_all_the_same():
    shard = Shard(ahead_ms=300_000)
    first = shard.init(timeout_ms=1_000)
    shard.join(first, 0)
    shard.ahead_ms = 0  # Its coordinator's clock was wrong, and is set; or the next coordinator's is right.
    shard.fail_over()
    assert shard.tick(500) == 0  # Counts from here.
    assert (shard.tick(999), shard.tick(1), shard.phase()) == (0, 1, "aborting")

    shard.complete()
    shard.ahead_ms = 300_000
    second = shard.init(timeout_ms=1_000)
    shard.join(second, 0)
    shard.ahead_ms = 0
    assert (shard.tick(1), shard.tick(999), shard.tick(1)) == (0, 0, 1)


def test_a_transaction_that_began_in_the_future_has_its_own_time():
    shard = Shard(ahead_ms=300_000)
    shard.join(shard.init(timeout_ms=1_000), 0)
    shard.ahead_ms = 0
    assert shard.tick(100) == 0
    shard.state.apply(replace(shard.state.by_id["t"], began_ms=400_000))  # Another began between two ticks.
    assert (shard.tick(900), shard.tick(999), shard.tick(1)) == (0, 0, 1)


def test_a_completion_that_comes_late_does_not_end_the_next_transaction():
    shard = Shard()
    first = shard.init()
    shard.join(first, 0)
    second = shard.end(first)
    late = shard.state.by_id["t"]
    shard.complete()
    shard.join(second, 1)
    shard.end(second)

    shard.write(shard.coordinator.complete(shard.state, shard.now, late).records)

    assert (shard.phase(), list(shard.state.ending)) == ("committing", ["t"])


def test_an_id_whose_markers_are_still_to_be_written_is_not_forgotten():
    shard = Shard()
    first = shard.init()
    shard.join(first, 0)
    shard.end(first)

    assert (shard.tick(200_000), shard.phase()) == (0, "committing")


def test_the_last_epoch_is_left_for_markers():
    shard = Shard()
    before = TransactionChanged(
        transactional_id="t", producer_id=7, producer_epoch=LAST_EPOCH - 1, timeout_ms=1_000, changed_ms=0
    )
    shard.write([before])

    assert shard.init() == (101, 0)
