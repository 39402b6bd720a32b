"""Every decision about transactions fits one batch, so that each transaction can end."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st
from transaction_support import SETTINGS, Shard

from raftlog.config import TopicConfig
from raftlog.coordinator.runtime import LogRecord
from raftlog.coordinator.transaction.core import EXPIRY_CHECK_MS, MAX_EXAMINED, MAX_EXPIRED, TransactionCoordinator
from raftlog.coordinator.transaction.records import TransactionChanged, bytes_at_end
from raftlog.coordinator.transaction.sets import MAX_SET_BYTES, STEP_BYTES, abort_left, end_set
from raftlog.coordinator.transaction.transitions import prepare_end
from raftlog.record import NewRecord, build_batch
from raftlog.wire.transactions import EndSetBody, TransactionPartition

MOST_BYTES = TopicConfig().max_message_bytes
EACH = tuple(TransactionPartition(topic="orders", partition=number, topic_id="e" * 32) for number in range(300))
TIMEOUT_MS = 1_000


def batch_bytes(records: Iterable[LogRecord]) -> int:
    rows = [NewRecord(value, key, 1) for key, value in map(TransactionCoordinator.codec.encode, records)]
    return len(build_batch(rows)) if rows else 0


def tasks(count: int, *, set_id: str = "s") -> Shard:
    """Return a shard with the ongoing transactions of a Spark job's tasks, each with 300 partitions."""
    shard = Shard()
    shard.write(
        TransactionChanged(
            transactional_id=f"{set_id}::{task}.0",
            producer_id=1_000 + task,
            producer_epoch=0,
            phase="ongoing",
            timeout_ms=TIMEOUT_MS,
            began_ms=0,
            changed_ms=0,
            partitions=EACH,
        )
        for task in range(count)
    )
    return shard


def test_transactions_that_time_out_together_are_aborted_tick_by_tick():
    shard = tasks(400)
    shard.now_ms = TIMEOUT_MS
    ticks = 0
    while shard.state.ongoing:
        records = shard.coordinator.on_tick(shard.state, shard.now)
        assert records
        assert batch_bytes(records) <= STEP_BYTES
        shard.write(records)
        ticks += 1
    assert (len(shard.state.ending), ticks) == (400, 10)


def test_a_set_is_aborted_whatever_its_size():
    shard = tasks(400)
    decision = end_set(shard.state, shard.now, "s", EndSetBody(run="r", number=1, committed=False))
    left = decision.response.left
    assert batch_bytes(decision.records) <= STEP_BYTES
    shard.write(decision.records)
    while left:
        step = abort_left(shard.state, shard.now, left)
        assert batch_bytes(step.records) <= STEP_BYTES
        shard.write(step.records)
        left = step.response
    assert {one.phase for one in shard.state.by_id.values()} == {"aborting"}


def test_a_commit_that_no_batch_can_hold_is_refused_and_changes_nothing():
    shard = tasks(400)
    names = list(shard.state.by_id)
    assert shard.end_set(*names) == "MESSAGE_TOO_LARGE"
    assert (len(shard.state.ongoing), shard.state.sets) == (400, {})


def test_the_join_that_would_make_a_set_too_large_is_refused_and_the_set_can_be_committed():
    shard = tasks(250)
    names = list(shard.state.by_id)
    for task in range(250, 400):
        refused, who = f"s::{task}.0", shard.init(f"s::{task}.0")
        if (answer := shard.join(who, *range(300), name=refused)) != "joined":
            break
        names.append(refused)
    assert answer == "TRANSACTION_ABORTABLE"
    assert shard.join(shard.init("t::0"), *range(300), name="t::0") == "joined"
    assert MAX_SET_BYTES - 2 * bytes_at_end(shard.state.by_id[names[0]]) < shard.state.set_bytes["s"] <= MAX_SET_BYTES

    before = len(shard.log)
    assert shard.end_set(*names) == ("r", 0)
    assert 0.85 * MOST_BYTES < batch_bytes(shard.log[before:]) <= MOST_BYTES
    assert shard.join(who, *range(300), name=refused) == "joined"


def test_what_began_after_a_sets_end_is_not_aborted_with_what_it_left():
    shard = tasks(100)
    decision = end_set(shard.state, shard.now, "s", EndSetBody(run="r", number=1, committed=False))
    shard.write(decision.records)
    again, grown = (one.transactional_id for one in decision.response.left[:2])
    known = shard.state.by_id[again]
    next_one = shard.end((known.producer_id, known.producer_epoch), committed=False, name=again)
    shard.complete(again)
    shard.join(next_one, 1, name=again)
    shard.join((shard.state.by_id[grown].producer_id, 0), 7, name=grown)
    shard.join(shard.init("s::new"), 1, name="s::new")

    left = decision.response.left
    while left:
        step = abort_left(shard.state, shard.now, left)
        shard.write(step.records)
        left = step.response
    assert list(shard.state.ongoing) == [again, "s::new"]
    assert len(shard.state.by_id[grown].partitions) == len(EACH) + 1


names = st.text(min_size=1, max_size=60)
largest = st.integers(0, 2**40)


@given(names, st.lists(names, max_size=5), st.lists(st.integers(0, 10**6), max_size=5), largest, st.integers(0, 2**15))
def test_the_estimate_is_not_below_what_a_record_takes(
    name: str, groups: list[str], numbers: list[int], large: int, epoch: int
):
    partitions = tuple(TransactionPartition(topic="x" * 249, partition=one, topic_id="e" * 32) for one in numbers)
    ongoing = TransactionChanged(
        transactional_id=name,
        producer_id=large,
        producer_epoch=epoch,
        phase="ongoing",
        timeout_ms=900_000,
        began_ms=large,
        changed_ms=large,
        partitions=partitions,
        groups=tuple(groups),
    )
    ended = prepare_end(ongoing, Shard(now_ms=2**41).now, committed=True, fresh_id=large + 1, timed_out=False)
    key, value = TransactionCoordinator.codec.encode(ended)
    assert len(key) + len(value or b"") <= bytes_at_end(ongoing)


class Idle:
    """The state of a transactional id that counts how often it is examined."""

    examined = 0

    def __init__(self, changed_ms: int) -> None:
        self.changed_ms = changed_ms

    @property
    def phase(self) -> str:
        Idle.examined += 1
        return "committed"


def test_ticks_examine_some_of_many_idle_transactional_ids_and_each_of_them_in_time():
    """500,000 ids took 50 ms of the event loop five times a second."""
    shard, many = Shard(), 3 * MAX_EXAMINED
    shard.state.by_id = {f"id{number}": Idle(0) for number in range(many)}  # type: ignore[misc]
    Idle.examined = 0
    counts = []
    for _ in range(10):
        shard.tick(200)
        counts.append(Idle.examined)
    assert counts == [MAX_EXAMINED, 2 * MAX_EXAMINED, many, *[many] * 7]
    shard.tick(EXPIRY_CHECK_MS)
    assert Idle.examined == many + MAX_EXAMINED


def test_transactional_ids_that_expire_together_go_over_several_ticks():
    shard, many = Shard(), 2 * MAX_EXPIRED + 100
    for number in range(many):
        shard.init(f"id{number}")
    shard.tick(0)
    shard.now_ms += SETTINGS.id_expiration_ms
    assert [shard.tick(200) for _ in range(4)] == [MAX_EXPIRED, MAX_EXPIRED, 100, 0]
    assert not shard.state.by_id


def test_an_id_that_is_used_again_while_ids_are_checked_does_not_expire():
    shard = Shard()
    for number in range(MAX_EXPIRED + 1):
        shard.init(f"id{number}")
    shard.tick(0)
    shard.now_ms += SETTINGS.id_expiration_ms
    assert shard.tick(0) == MAX_EXPIRED
    (left,) = shard.state.by_id
    shard.init(left)
    assert [shard.tick(EXPIRY_CHECK_MS) for _ in range(2)] == [0, 0]
    assert left in shard.state.by_id
