"""What may be sent, and when: batches, lingering, order, expiry, backoff."""

from __future__ import annotations

import asyncio

import pytest

from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.backoff import MAX_MS, backoff_ms
from raftlog.client.core.partition_queue import BUSY_LINGER_MS
from raftlog.client.core.pending_batch import NO_SEQUENCE, PendingBatch, ProducerIdentity, record_bytes
from raftlog.client.record_outcomes import Handle, PartialHandle, RecordMetadata, Run, acknowledge, fail
from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    NotFoundError,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    TransactionAbortedError,
    UnknownOutcomeError,
    UnreachableError,
)
from raftlog.model import MAX_PRODUCER_EPOCH, MAX_SEQUENCE, TopicPartition
from raftlog.record import NewRecord

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
RECORD = NewRecord(b"x" * 68)
SIZE = record_bytes(RECORD)
MOVED = StaleRouteError("not the leader")
LOST = UnknownOutcomeError("no answer")
OUT_OF_ORDER = InvalidRequestError("expected another sequence", code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
TOO_LARGE = InvalidRequestError("too large", code=ErrorCode.MESSAGE_TOO_LARGE)


def accumulator(records_per_batch: int = 3, linger_ms: int = 10, **settings: int) -> Accumulator[int]:
    queue: Accumulator[int] = Accumulator(batch_bytes=records_per_batch * SIZE, linger_ms=linger_ms, **settings)
    queue.begin(ProducerIdentity(7))
    return queue


def take(queue: Accumulator[int], now_ms: int = 0, partition: TopicPartition = P0, topic_id: str = "id") -> list:
    taken, failed = queue.take(partition, topic_id, now_ms)
    assert failed == []
    return taken


def handles(batches: list[PendingBatch[int]]) -> list[list[int]]:
    return [batch.handles for batch in batches]


def refuse(queue: Accumulator[int], batch: PendingBatch[int], error: RaftlogError, now_ms: int = 0) -> list:
    return queue.on_refused(P0, batch, error, now_ms, jitter=0.5)


def in_flight(count: int, **settings: int) -> tuple[Accumulator[int], list[PendingBatch[int]]]:
    """Return an accumulator with so many batches of one record on their way, from handle 1; 0 is acknowledged."""
    queue = accumulator(1, **settings)
    for handle in range(count + 1):
        queue.add(P0, RECORD, handle, 0)
    (first,) = take(queue)
    assert queue.on_acknowledged(P0, first, 0) == []
    return queue, take(queue)


def test_a_record_lingers_for_company_and_a_full_batch_does_not():
    queue = accumulator()
    queue.add(P0, RECORD, 1, 100)

    assert queue.due(109) == []
    assert queue.next_due_ms(109) == 110
    assert queue.due(110) == [P0]
    queue.add(P0, RECORD, 2, 101)
    queue.add(P0, RECORD, 3, 102)
    assert queue.due(102) == [P0]
    assert handles(take(queue, 102)) == [[1, 2, 3]]


def test_without_linger_a_batch_waits_for_the_one_in_flight_for_a_short_time():
    queue = accumulator(linger_ms=0)
    queue.add(P0, RECORD, 1, 100)
    (first,) = take(queue, 100)
    queue.on_acknowledged(P0, first, 101)
    queue.add(P0, RECORD, 2, 102)
    (second,) = take(queue, 102)
    queue.add(P0, RECORD, 3, 103)

    assert queue.due(107) == []
    assert queue.next_due_ms(107) == 103 + BUSY_LINGER_MS
    queue.add(P0, RECORD, 4, 107)
    assert handles(take(queue, 108)) == [[3, 4]]
    queue.add(P0, RECORD, 5, 109)
    assert take(queue, 110) == []
    queue.add(P0, RECORD, 6, 110)
    queue.add(P0, RECORD, 7, 110)
    assert handles(take(queue, 110)) == [[5, 6, 7]], "it is full"
    assert second.in_flight


def test_without_linger_a_batch_is_sent_once_the_one_in_flight_has_its_outcome():
    queue = accumulator(linger_ms=0)
    queue.add(P0, RECORD, 1, 100)
    (first,) = take(queue, 100)
    queue.add(P0, RECORD, 2, 101)
    queue.add(P1, RECORD, 3, 101)

    assert queue.due(101) == [P1], "another partition waits for nothing"
    queue.on_acknowledged(P0, first, 102)
    assert sorted(queue.due(102)) == [P0, P1]
    assert handles(take(queue, 102)) == [[2]]


def test_a_flush_does_not_linger():
    queue = accumulator()
    queue.add(P0, RECORD, 1, 100)
    queue.flushing = True

    assert handles(take(queue, 100)) == [[1]]


def test_a_batch_that_was_sent_takes_no_more_records():
    queue = accumulator()
    queue.add(P0, RECORD, 1, 0)
    (sent,) = take(queue, 10)
    queue.add(P0, RECORD, 2, 10)

    assert refuse(queue, sent, MOVED, 10) == []
    assert handles(take(queue, 100)) == [[1]]


def test_a_record_larger_than_a_batch_goes_alone():
    queue = accumulator(1)
    queue.add(P0, RECORD, 1, 0)
    queue.add(P0, NewRecord(b"x" * 10_000), 2, 0)
    queue.add(P0, RECORD, 3, 0)

    assert handles(queue.take_waiting()) == [[1], [2], [3]]


def test_the_size_counts_what_has_no_outcome():
    queue = accumulator()
    queue.add(P0, RECORD, 1, 0)
    queue.add(P1, RECORD, 2, 0)
    (sent,) = take(queue, 10)

    assert queue.size == 2 * SIZE
    queue.on_acknowledged(P0, sent, 10)
    assert queue.size == SIZE
    assert list(queue.partitions()) == [P1]


def test_the_first_batch_goes_alone_and_then_as_many_as_are_allowed():
    queue = accumulator(1, max_in_flight=3)
    for handle in range(6):
        queue.add(P0, RECORD, handle, 0)

    (first,) = take(queue)
    assert (first.handles, first.sequence, queue.due(0)) == ([0], 0, [])
    queue.on_acknowledged(P0, first, 0)
    assert [(batch.handles, batch.sequence) for batch in take(queue)] == [([1], 1), ([2], 2), ([3], 3)]
    assert queue.due(0) == []


def test_no_batch_goes_beyond_what_the_leader_remembers_of_the_first_without_an_outcome():
    queue, (first, *later) = in_flight(8)
    for batch in later:
        queue.on_acknowledged(P0, batch, 0)

    assert queue.due(0) == []
    queue.on_acknowledged(P0, first, 0)
    assert handles(take(queue)) == [[6], [7], [8]]


def test_after_a_failure_the_first_goes_alone_and_the_others_follow_in_order():
    queue, (one, two, three) = in_flight(3)
    assert refuse(queue, two, OUT_OF_ORDER) == []
    assert refuse(queue, one, MOVED) == []
    assert refuse(queue, three, OUT_OF_ORDER) == []

    assert queue.due(0) == []
    assert take(queue, 100) == [one]
    assert queue.due(100) == []
    queue.on_acknowledged(P0, one, 100)
    assert take(queue, 100) == [two, three]
    assert [batch.sequence for batch in (one, two, three)] == [1, 2, 3]


def test_a_refusal_for_want_of_an_earlier_batch_says_nothing_once_that_one_is_there():
    queue, (one, two) = in_flight(2)
    queue.on_acknowledged(P0, one, 0)

    assert refuse(queue, two, OUT_OF_ORDER) == []
    assert take(queue) == [two]
    assert (two.sequence, two.identity) == (2, ProducerIdentity(7))


def test_after_a_pause_the_first_goes_alone():
    queue, (one,) = in_flight(1)
    queue.on_acknowledged(P0, one, 0)
    for handle in (2, 3):
        queue.add(P0, RECORD, handle, 5_000)

    assert handles(take(queue, 5_000)) == [[2]]
    assert queue.due(5_000) == []


def test_a_lost_sequence_begins_anew_in_the_next_epoch():
    queue, (one, two) = in_flight(2)
    assert refuse(queue, one, OUT_OF_ORDER) == []
    assert queue.due(1_000) == []  # Not before the other answer is there.
    assert refuse(queue, two, OUT_OF_ORDER) == []

    assert take(queue, 1_000) == [one]
    assert (one.sequence, one.identity, one.encoded) == (0, ProducerIdentity(7, 1), b"")
    queue.on_acknowledged(P0, one, 1_000)
    assert take(queue, 1_000) == [two]
    assert two.sequence == 1


def test_what_may_be_in_the_log_is_never_sent_in_another_epoch():
    queue, (one, two, three) = in_flight(3, delivery_timeout_ms=1_000)
    refuse(queue, one, LOST)
    refuse(queue, two, LOST)
    first = queue.expire(1_000)
    rest = refuse(queue, three, OUT_OF_ORDER, 1_000)

    assert [(batch, type(error)) for batch, error in first + rest] == [
        (one, UnknownOutcomeError),
        (two, UnknownOutcomeError),
    ]
    assert (three.sequence, three.identity, queue.size) == (NO_SEQUENCE, None, SIZE)


def test_a_batch_whose_sequence_is_lost_and_which_may_be_in_the_log_is_unknown():
    queue, (one,) = in_flight(1)
    refuse(queue, one, LOST)
    take(queue, 100)

    ((failed, error),) = refuse(queue, one, OUT_OF_ORDER, 100)
    assert failed is one
    assert isinstance(error, UnknownOutcomeError)


def test_what_would_come_out_of_order_fails():
    queue, (one, two) = in_flight(2)
    queue.on_acknowledged(P0, two, 0)

    ((failed, error),) = refuse(queue, one, OUT_OF_ORDER)
    assert (failed, error.code, queue.empty) == (one, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, True)


def test_after_a_hole_nothing_is_sent_anew_behind_which_something_is_in_the_log():
    queue, (one, two, three, four) = in_flight(4)
    queue.on_acknowledged(P0, three, 0)
    refuse(queue, two, MOVED)
    refuse(queue, four, MOVED)

    (_, too_large), (failed, error) = refuse(queue, one, TOO_LARGE)
    assert (too_large, failed, error.code) == (TOO_LARGE, two, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert take(queue, 100) == [four]
    assert (four.sequence, four.identity) == (0, ProducerIdentity(7, 1))


def test_a_hole_in_a_transaction_fails_what_follows():
    queue: Accumulator[int] = Accumulator(batch_bytes=SIZE, linger_ms=0, transactional=True)
    queue.begin(ProducerIdentity(7, 4))
    for handle in range(3):
        queue.add(P0, RECORD, handle, 0)
    (first,) = take(queue)

    (_, error), *rest = refuse(queue, first, TOO_LARGE)
    assert error is TOO_LARGE
    assert [type(error) for _, error in rest] == [TransactionAbortedError] * 2
    assert (queue.empty, queue.size) == (True, 0)


def test_a_batch_that_is_too_large_is_split_until_only_one_record_fails():
    queue = accumulator(4, linger_ms=0)
    for handle in range(4):
        queue.add(P0, RECORD, handle, 0)
    sequences, failures, stored = [], [], []
    for now_ms in range(0, 2_000, 100):
        for batch in take(queue, now_ms):
            sequences.append((batch.handles, batch.sequence))
            if 2 in batch.handles or len(batch.handles) > 2:
                failures += refuse(queue, batch, TOO_LARGE, now_ms)
            else:
                stored.append(batch.handles)
                queue.on_acknowledged(P0, batch, now_ms)

    assert [(batch.handles, error) for batch, error in failures] == [([2], TOO_LARGE)]
    assert stored == [[0, 1], [3]]
    assert sequences[:4] == [([0, 1, 2, 3], 0), ([0, 1], 0), ([2, 3], 2), ([2], 2)]
    assert queue.empty


def test_a_retry_never_reaches_a_topic_that_was_recreated():
    queue, (one, two) = in_flight(2)
    refuse(queue, one, MOVED)
    refuse(queue, two, LOST)

    taken, ((failed, error), (other, unknown)) = queue.take(P0, "new", 100)
    assert (taken, failed, error.code) == ([], one, ErrorCode.UNKNOWN_TOPIC_ID)
    assert (other, type(unknown)) == (two, UnknownOutcomeError)
    assert isinstance(error, NotFoundError)
    assert "deleted and recreated" in error.message


def test_records_that_were_not_sent_go_to_the_recreated_topic_in_a_new_epoch():
    queue, (one,) = in_flight(1)
    queue.add(P0, RECORD, 2, 0)
    assert take(queue, 20, topic_id="new") == []
    queue.on_acknowledged(P0, one, 20)

    (two,) = take(queue, 20, topic_id="new")
    assert (two.sequence, two.identity, two.topic_id) == (0, ProducerIdentity(7, 1), "new")


def test_batches_expire_in_order_unless_they_are_in_flight():
    queue = accumulator(1, delivery_timeout_ms=1_000)
    for handle, sent_ms in enumerate((0, 100, 500)):
        queue.add(P0, RECORD, handle, sent_ms)
    (first,) = take(queue, 900)

    assert queue.expire(1_400) == []
    failed = refuse(queue, first, MOVED, 1_400)
    failed += queue.expire(1_400)
    assert handles([batch for batch, _ in failed]) == [[0], [1]]
    assert all("it is not in the log" in error.message for _, error in failed)


def test_nobody_knowing_the_leader_makes_no_outcome_unknown():
    queue = accumulator(linger_ms=0, delivery_timeout_ms=1_000)
    queue.add(P0, RECORD, 0, 0)
    assert queue.on_unroutable(P0, LOST, 0, jitter=0.5) == []

    assert queue.due(1) == []
    ((_, error),) = queue.expire(1_000)
    assert "it is not in the log" in error.message


def test_everything_fails_at_once_when_there_is_no_such_topic():
    queue = accumulator(1)
    for handle in range(3):
        queue.add(P0, RECORD, handle, 0)

    failed = queue.on_unroutable(P0, NotFoundError("no topic"), 0, jitter=0.5)
    assert handles([batch for batch, _ in failed]) == [[0], [1], [2]]
    assert queue.empty


@pytest.mark.parametrize("code", ["OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "DUPLICATE_SEQUENCE_NUMBER"])
def test_what_was_never_sent_has_lost_no_sequence(code: str):
    """A broker that answers the request for a producer id so would be asked again at once, without end."""
    queue = accumulator(1)
    queue.add(P0, RECORD, 0, 0)

    ((batch, error),) = queue.on_unroutable(P0, RaftlogError("no", code=ErrorCode(code)), 0, jitter=0.5)

    assert (batch.handles, error.message) == ([0], "no")


def test_sequences_wrap():
    queue, (one,) = in_flight(1)
    queue.on_acknowledged(P0, one, 0)
    queue._queues[P0]._next_sequence = MAX_SEQUENCE - 1
    for handle in range(4):
        queue.add(P0, RECORD, handle, 0)

    assert [batch.sequence for batch in take(queue)] == [MAX_SEQUENCE - 1, MAX_SEQUENCE, 0, 1]


def test_when_epochs_are_used_up_another_producer_id_is_wanted():
    queue = accumulator(1)
    queue.begin(ProducerIdentity(7))
    queue._queues[P0] = queue._new_queue()
    queue._queues[P0].begin(ProducerIdentity(7, MAX_PRODUCER_EPOCH))
    queue.add(P0, RECORD, 0, 0)
    refuse(queue, take(queue)[0], OUT_OF_ORDER)

    assert queue.wants_identity
    queue.begin(ProducerIdentity(8))
    assert [(batch.identity, batch.sequence) for batch in take(queue, 100)] == [(ProducerIdentity(8), 0)]


def test_backoff_grows_is_bounded_and_spread():
    waits = [backoff_ms(attempt, jitter=0.5) for attempt in range(1, 12)]

    assert waits == sorted(waits)
    assert waits[0] == 20
    assert max(waits) == MAX_MS
    assert backoff_ms(1000, jitter=0.99) <= 1.2 * MAX_MS
    assert backoff_ms(3, jitter=0.0) < backoff_ms(3, jitter=0.9)


async def test_records_with_one_handle_are_split_with_it():
    queue: Accumulator[Handle] = Accumulator(batch_bytes=10 * SIZE, linger_ms=0)
    queue.begin(ProducerIdentity(7))
    run, alone = Run(5), asyncio.get_running_loop().create_future()
    queue.add(P0, RECORD, alone, 0)
    values = [b"%d" % number * 68 for number in range(5)]
    queue.add_run(P0, values, key=None, timestamp=9, size=5 * SIZE, handle=PartialHandle(run, 0, 5), sent_ms=0)
    offset = 100
    while not queue.empty:
        taken, failed = queue.take(P0, "id", 0)
        assert (bool(taken), failed) == (True, [])
        for batch in taken:
            if len(batch.records) > 1:
                assert refuse(queue, batch, TOO_LARGE) == []  # type: ignore[arg-type]
            elif batch.records.values == [values[1]]:
                fail(batch.handles, TOO_LARGE)
                assert queue.on_refused(P0, batch, TOO_LARGE, 0, jitter=0.5)[0] == (batch, TOO_LARGE)
            else:
                acknowledge(batch.handles, batch.records.timestamps, P0, offset)
                offset += 1
                assert queue.on_acknowledged(P0, batch, 0) == []

    assert alone.result() == RecordMetadata("t", 0, 100, 0)
    assert [list(row.rows()) for row in await run.outcome()] == [
        [RecordMetadata("t", 0, expected, 9)] for expected in (101, 102, 103, 104)
    ]
    assert run.error is TOO_LARGE
    assert queue.size == 0


def test_a_batch_whose_time_is_up_says_what_a_broker_said_last_rather_than_that_none_answered():
    queue = accumulator(1, delivery_timeout_ms=1_000)
    queue.add(P0, RECORD, 1, 0)
    (batch,) = take(queue)
    too_few = RetriableError("1 of 2 replicas are in sync", code=ErrorCode.NOT_ENOUGH_REPLICAS)
    assert refuse(queue, batch, too_few, 10) == []
    assert take(queue, 500) == [batch]
    assert refuse(queue, batch, LOST, 600) == []

    ((_, error),) = queue.expire(1_000)
    assert "2 attempts" in error.message
    assert "NOT_ENOUGH_REPLICAS: 1 of 2 replicas are in sync" in error.message


def test_a_batch_that_was_never_answered_names_why_its_last_attempt_failed():
    queue = accumulator(1, delivery_timeout_ms=1_000)
    queue.add(P0, RECORD, 1, 0)
    assert queue.on_unroutable(P0, UnreachableError("cannot connect"), 10, jitter=0.5) == []

    ((_, error),) = queue.expire(1_000)
    assert "BROKER_NOT_AVAILABLE: cannot connect" in error.message


def test_a_batch_that_waited_for_an_earlier_one_names_the_cause_of_that_one():
    """The leader refused its sequence only because the earlier batch was missing."""
    queue, (first, second) = in_flight(2, delivery_timeout_ms=1_000)
    assert refuse(queue, first, LOST, 10) == []
    assert refuse(queue, second, OUT_OF_ORDER, 20) == []

    (_, of_first), (failed, of_second) = queue.expire(1_000)
    assert failed is second
    assert LOST.message in of_first.message
    assert LOST.message in of_second.message
    assert OUT_OF_ORDER.message not in of_second.message


def test_the_reason_of_a_broker_stays_the_cause_of_a_batch_that_then_waits_for_an_earlier_one():
    """A broker's error explains more than a missing answer, also one to the batch before."""
    queue, (first, second) = in_flight(2, delivery_timeout_ms=1_000)
    too_few = RetriableError("1 of 2 replicas are in sync", code=ErrorCode.NOT_ENOUGH_REPLICAS)
    second.cause = too_few
    assert refuse(queue, first, LOST, 10) == []
    assert refuse(queue, second, OUT_OF_ORDER, 20) == []

    _, (_, error) = queue.expire(1_000)
    assert too_few.message in error.message


def test_a_batch_that_may_be_in_the_log_is_not_sent_in_another_epoch():
    queue, (first,) = in_flight(1)
    assert refuse(queue, first, LOST) == []
    (again,) = take(queue, 10_000)
    assert again is first

    ((failed, error),) = refuse(queue, first, OUT_OF_ORDER, 10_000)

    assert failed is first
    assert isinstance(error, UnknownOutcomeError)
    assert OUT_OF_ORDER.message in error.message  # It failed by itself, not because of one before it.


def test_a_batchs_time_counts_from_when_its_oldest_record_was_given():
    """One that waited for room or metadata joins it late."""
    queue = accumulator()
    queue.add(P0, RECORD, 1, 100)
    queue.add(P0, RECORD, 2, 50)

    assert queue.next_due_ms(51) == 60
