"""Log divergence by leader epochs, and which batches an idempotent producer may append."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.errors import ErrorCode, OverloadedError, RaftlogError
from raftlog.model import MAX_SEQUENCE, NO_LEADER_EPOCH
from raftlog.partition.core.epochs import diverging_epoch, require_same_epoch, truncation_offset
from raftlog.partition.core.producers import ProducerLimits, ProducerStates
from raftlog.record import BatchHeader
from raftlog.record.batch import ATTRIBUTE_COMPACTED


@dataclass
class Log:
    """A log as a list: the epoch that wrote each offset."""

    epochs: list[int]

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        known = [e for e in self.epochs if e <= epoch]
        if not known:
            return -1, 0
        return known[-1], max(i for i, e in enumerate(self.epochs) if e == known[-1]) + 1

    @property
    def last(self) -> int:
        return self.epochs[-1] if self.epochs else -1


def reconcile(follower: Log, leader: Log) -> int:
    """Let a follower fetch until the leader no longer reports a divergence; return the number of rounds."""
    for rounds in range(1, 100):
        diverging = diverging_epoch(
            leader,
            log_start_offset=0,
            log_end_offset=len(leader.epochs),
            fetch_offset=len(follower.epochs),
            last_fetched_epoch=follower.last,
        )
        if diverging is None:
            return rounds
        end = truncation_offset(
            follower,
            log_end_offset=len(follower.epochs),
            leader_epoch=diverging[0],
            leader_end_offset=diverging[1],
        )
        assert end < len(follower.epochs)
        del follower.epochs[end:]
    raise AssertionError("no end")


@pytest.mark.parametrize(
    ("follower", "leader", "kept"),
    [
        ([], [1, 1], []),
        ([1, 1], [1, 1, 1], [1, 1]),
        ([1, 1, 1], [1, 1, 2], [1, 1]),
        ([1, 1, 1, 1], [1, 1], [1, 1]),
        ([0, 0, 1], [0, 0, 2], [0, 0]),  # KIP-279: the leader does not know the follower's epoch.
        ([0, 1, 1], [0, 0, 2], [0]),
        ([3, 3], [5, 5], []),
    ],
)
def test_divergence(follower: list[int], leader: list[int], kept: list[int]):
    log = Log(follower)
    reconcile(log, Log(leader))

    assert log.epochs == kept


@given(st.data())
def test_after_reconciling_the_follower_holds_a_prefix_of_the_leader(data: st.DataObject):
    """Histories as elections make them: each epoch continues some earlier log, and writes from one place on."""
    logs: list[list[int]] = [[0]]
    for epoch in range(1, data.draw(st.integers(1, 6))):
        base = data.draw(st.sampled_from(logs))
        cut = data.draw(st.integers(0, len(base)))
        # A leader continues its own log; others may hold any prefix of it.
        logs.append(base[:cut])
        logs.append([*base, *[epoch] * data.draw(st.integers(0, 3))])
    leader = data.draw(st.sampled_from(logs))
    follower = Log(list(data.draw(st.sampled_from(logs))))

    reconcile(follower, Log(leader))

    assert follower.epochs == leader[: len(follower.epochs)]


def test_an_epoch_before_all_others_ends_where_the_log_starts():
    """The table has the epoch of the last deleted record, too: it begins before the log."""
    diverging = diverging_epoch(
        Log([3, 3, 5]), log_start_offset=2, log_end_offset=3, fetch_offset=3, last_fetched_epoch=1
    )
    assert diverging == (NO_LEADER_EPOCH, 2)


def test_epochs_fence_both_sides():
    require_same_epoch(5, 5, "t-0")
    with pytest.raises(RaftlogError, match="leader epoch 4 has ended") as behind:
        require_same_epoch(5, 4, "t-0")
    with pytest.raises(RaftlogError, match="leader epoch 6 is newer than") as ahead:
        require_same_epoch(5, 6, "t-0")

    assert (behind.value.code, ahead.value.code) == (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH)


def batch(
    sequence: int, count: int = 1, *, offset: int = 0, producer: int = 7, epoch: int = 0, crc: int = 0
) -> BatchHeader:
    return BatchHeader(offset, 72, 0, 0, 1, 0, 0, crc, count, producer, sequence, epoch, 0, 0, count - 1, 0)


def outcome(states: ProducerStates, header: BatchHeader) -> object:
    try:
        known = states.check(header)
    except RaftlogError as error:
        return error.code.value
    return "append" if known is None else ("duplicate", known.base_offset, known.last_offset)


def test_the_last_five_batches_are_recognised():
    states = ProducerStates(batch(2 * i, 2, offset=100 + 2 * i) for i in range(6))

    assert outcome(states, batch(10, 2)) == ("duplicate", 110, 111)
    assert outcome(states, batch(2, 2)) == ("duplicate", 102, 103)
    assert outcome(states, batch(0, 2)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert outcome(states, batch(12)) == "append"
    assert outcome(states, batch(13)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert outcome(states, batch(10, 1)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_other_records_under_the_same_numbers_are_no_repeat():
    states = ProducerStates([batch(0, 2, crc=1), batch(2, crc=2)])
    again = ProducerStates()
    again.load(states.to_plain())

    for known in (states, again):
        assert outcome(known, batch(0, 2, crc=1)) == ("duplicate", 0, 1)
        assert outcome(known, batch(0, 2, crc=2)) == "DUPLICATE_SEQUENCE_NUMBER"
        assert outcome(known, batch(2, crc=1)) == "DUPLICATE_SEQUENCE_NUMBER"


def test_what_was_compacted_or_comes_from_an_old_snapshot_is_known_by_its_numbers():
    compacted = batch(0, 2, crc=1)._replace(attributes=ATTRIBUTE_COMPACTED)
    plain = ProducerStates([batch(0, 2, crc=1)]).to_plain()
    plain["producers"][0][3][0].pop()
    old = ProducerStates()
    old.load(plain)

    for states in (ProducerStates([compacted]), old):
        assert outcome(states, batch(0, 2, crc=5)) == ("duplicate", 0, 1)


def test_no_producer_is_pushed_out_while_it_may_send_a_batch_again():
    states = ProducerStates(limits=ProducerLimits(max_producers=2, min_idle_ms=1_000))
    for producer, now_ms in ((1, 0), (2, 500), (1, 900)):
        states.on_appended(batch(0 if now_ms < 900 else 1, producer=producer), now_ms)

    def offer(now_ms: int) -> str:
        try:
            return "append" if states.check(batch(0, producer=3), now_ms) is None else "duplicate"
        except OverloadedError as error:
            return error.code.value

    assert [offer(900), offer(1_499), offer(1_500)] == ["THROTTLING_QUOTA_EXCEEDED"] * 2 + ["append"]
    states.on_appended(batch(0, producer=3), 1_500)
    assert outcome(states, batch(1, producer=1))[0] == "duplicate"
    assert outcome(states, batch(5, producer=2)) == "THROTTLING_QUOTA_EXCEEDED"  # It was forgotten.


def test_sequences_wrap():
    states = ProducerStates([batch(MAX_SEQUENCE - 1, 2)])
    wrapped = ProducerStates([batch(MAX_SEQUENCE, 2)])

    assert outcome(states, batch(0)) == "append"
    assert outcome(wrapped, batch(1)) == "append"


def test_a_new_epoch_starts_at_0_and_fences_the_old_one():
    states = ProducerStates([batch(5, epoch=1)])

    assert outcome(states, batch(0, epoch=2)) == "append"
    assert outcome(states, batch(6, epoch=2)) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert outcome(states, batch(6, epoch=0)) == "INVALID_PRODUCER_EPOCH"
    states.on_appended(batch(0, epoch=2))
    assert outcome(states, batch(6, epoch=1)) == "INVALID_PRODUCER_EPOCH"


def test_producers_without_an_id_and_unknown_ones():
    states = ProducerStates([batch(-1, producer=-1, epoch=-1)])

    assert outcome(states, batch(-1, producer=-1, epoch=-1)) == "append"
    assert outcome(states, batch(40, producer=8)) == "append"
    assert outcome(states, batch(-1, producer=8)) == "INVALID_REQUEST"
