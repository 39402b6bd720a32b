"""The transactions of one partition: the last stable offset against a simple model, and stories of late batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import RaftlogError
from raftlog.partition.core.producers import ProducerLimits, ProducerStates
from raftlog.record import BatchHeader, Marker
from raftlog.record.batch import ATTRIBUTE_CONTROL, ATTRIBUTE_TRANSACTIONAL


def header(
    offset: int, producer: int, *, epoch: int = 0, sequence: int = 0, count: int = 1, attributes: int = 4
) -> BatchHeader:
    return BatchHeader(offset, 72, 0, 0, 1, attributes, 0, 0, count, producer, sequence, epoch, 0, 0, count - 1, 0)


@dataclass
class Story:
    """A leader's view of one partition, told step by step."""

    states: ProducerStates = field(default_factory=ProducerStates)
    end: int = 0

    def send(self, producer: int, *, epoch: int = 0, sequence: int = 0, transactional: bool = True) -> str:
        sent = header(
            self.end,
            producer,
            epoch=epoch,
            sequence=sequence,
            attributes=ATTRIBUTE_TRANSACTIONAL if transactional else 0,
        )
        asks = self.states.begins_transaction(sent)
        try:
            if self.states.check(sent) is not None:
                return "duplicate"
        except RaftlogError as error:
            return error.code.value
        self.states.on_appended(sent)
        self.end += 1
        return "begun" if asks else "ok"

    def mark(self, producer: int, *, epoch: int, committed: bool = True, coordinator: int = 1) -> str:
        try:
            if self.states.check_marker(producer, epoch, coordinator) is not None:
                return "duplicate"
        except RaftlogError as error:
            return error.code.value
        transactions = self.states.transactions
        marker = Marker(
            committed=committed,
            coordinator_epoch=coordinator,
            first_offset=transactions.ongoing.get(producer, -1),
            stable_offset=transactions.stable_offset_after(producer, self.end),
        )
        control = ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL
        self.states.on_appended(header(self.end, producer, epoch=epoch, sequence=-1, attributes=control), marker=marker)
        self.end += 1
        return "ok"

    def stable(self, high_watermark: int | None = None) -> int:
        return self.states.transactions.last_stable_offset(self.end if high_watermark is None else high_watermark)


def test_readers_stop_at_the_first_undecided_transaction():
    story = Story()
    assert (story.send(1), story.send(2), story.send(1, sequence=1)) == ("begun", "begun", "ok")
    assert story.stable() == 0
    assert story.mark(1, epoch=1) == "ok"  # At offset 3; not replicated yet.
    assert [story.stable(mark) for mark in (0, 2, 3)] == [0, 0, 0]
    assert story.stable(4) == 1  # Producer 2 has not decided.
    story.mark(2, epoch=1, committed=False)
    assert (story.stable(4), story.stable(5)) == (1, 5)


def test_the_next_transaction_begins_with_the_markers_epoch_and_sequence_0():
    story = Story()
    story.send(1)
    story.mark(1, epoch=1)

    assert story.send(1, epoch=0, sequence=1) == "INVALID_PRODUCER_EPOCH"
    assert story.send(1, epoch=1, sequence=1) == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert story.send(1, epoch=1) == "begun"
    assert story.send(1, epoch=1, sequence=1) == "ok"
    assert story.send(1, epoch=1, sequence=1) == "duplicate"


def test_a_late_marker_does_not_touch_the_next_transaction():
    story = Story()
    story.send(1)
    assert (story.mark(1, epoch=1), story.mark(1, epoch=1)) == ("ok", "duplicate")
    story.send(1, epoch=1)

    assert story.mark(1, epoch=1) == "INVALID_PRODUCER_EPOCH"
    assert story.mark(1, epoch=0) == "INVALID_PRODUCER_EPOCH"
    assert story.stable() == 2
    assert story.mark(1, epoch=2, coordinator=0) == "TRANSACTION_COORDINATOR_FENCED"
    assert story.mark(1, epoch=2, coordinator=2) == "ok"


def test_a_marker_fences_late_batches_of_a_transaction_that_wrote_nothing_here():
    story = Story()
    assert story.mark(1, epoch=1) == "ok"
    assert story.send(1, epoch=0) == "INVALID_PRODUCER_EPOCH"
    assert story.stable() == 1


def test_a_transaction_takes_only_its_own_batches():
    story = Story()
    story.send(1, epoch=3)
    assert story.send(1, epoch=3, sequence=1, transactional=False) == "INVALID_TXN_STATE"
    assert story.send(1, epoch=4) == "CONCURRENT_TRANSACTIONS"
    assert story.send(2, transactional=False) == "ok"


def test_a_producer_with_a_transaction_under_way_is_never_forgotten():
    story = Story(ProducerStates(limits=ProducerLimits(expiration_ms=10, max_producers=2, min_idle_ms=0)))
    story.send(1)
    for producer in (2, 3, 4):
        story.send(producer, transactional=False)
    assert (len(story.states), story.stable()) == (2, 0)
    story.states.expire(1_000)
    assert (len(story.states), story.stable()) == (1, 0)
    story.mark(1, epoch=1)
    story.states.expire(10_000)
    assert (len(story.states), story.stable()) == (0, 5)
    assert story.send(1, epoch=1, sequence=7) == "begun"  # Forgotten: any sequence may come next (KIP-360).


STEPS = st.lists(
    st.tuples(st.sampled_from(["send", "send", "commit", "abort", "plain", "snapshot"]), st.integers(1, 4)), max_size=60
)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.data())
def test_the_last_stable_offset_is_that_of_a_simple_model(steps: list[tuple[str, int]], data: st.DataObject):
    story, log = Story(), list[tuple[str, int]]()
    epochs, sequences = dict.fromkeys(range(1, 5), 0), dict.fromkeys(range(1, 5), 0)
    mark = 0
    for kind, producer in steps:
        if kind == "snapshot":
            loaded = ProducerStates()
            loaded.load(story.states.to_plain())
            story.states = loaded
        elif kind == "plain":
            assert story.send(producer + 10, sequence=sequences.get(producer + 10, 0), transactional=False) == "ok"
            sequences[producer + 10] = sequences.get(producer + 10, 0) + 1
            log.append(("plain", producer))
        elif kind == "send":
            assert story.send(producer, epoch=epochs[producer], sequence=sequences[producer]) in ("begun", "ok")
            sequences[producer] += 1
            log.append(("send", producer))
        else:
            epochs[producer], sequences[producer] = epochs[producer] + 1, 0
            assert story.mark(producer, epoch=epochs[producer], committed=kind == "commit") == "ok"
            log.append(("mark", producer))
        mark = data.draw(st.integers(mark, story.end))
        assert story.stable(mark) == model_stable(log, mark)


def model_stable(log: list[tuple[str, int]], high_watermark: int) -> int:
    """Return the first offset of a transaction without a marker below the high watermark, or that."""
    for offset, (kind, producer) in enumerate(log[:high_watermark]):
        ends = ("mark", producer) in log[offset + 1 : high_watermark]
        if kind == "send" and not ends:
            return offset
    return high_watermark


@pytest.mark.parametrize("plain", [{}, {"producers": [[1, 0, 0, [], -1, -1]], "ongoing": [], "ended": []}])
def test_a_snapshot_that_makes_no_sense_is_refused(plain: dict[str, object]):
    with pytest.raises((ValueError, KeyError)):
        ProducerStates().load(plain)


def test_sequences_of_a_kept_epoch_go_on_from_transaction_to_transaction():
    """Kafka's TV1: a missing batch between two transactions is found; for others each epoch begins at 0."""
    story = Story()
    story.send(1, epoch=3)
    story.send(1, epoch=3, sequence=1)
    story.mark(1, epoch=4)
    story.mark(1, epoch=5)

    def begin(sequence: int, since: int, states: ProducerStates) -> str:
        batch = header(9, 1, epoch=5, sequence=sequence, attributes=ATTRIBUTE_TRANSACTIONAL)
        try:
            states.check(batch, since=since)
        except RaftlogError as error:
            return error.code.value
        return "ok"

    loaded = ProducerStates()
    loaded.load(story.states.to_plain())
    for states in (story.states, loaded):
        assert [begin(sequence, 3, states) for sequence in (0, 1, 2, 3)] == [
            *("OUT_OF_ORDER_SEQUENCE_NUMBER", "OUT_OF_ORDER_SEQUENCE_NUMBER", "ok", "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ]
        assert [begin(sequence, -1, states) for sequence in (0, 2)] == ["ok", "OUT_OF_ORDER_SEQUENCE_NUMBER"]
        assert [begin(sequence, 5, states) for sequence in (0, 2)] == ["ok", "OUT_OF_ORDER_SEQUENCE_NUMBER"], "an init"
        assert {0, 1} & states.remembered_offsets() == {1}
