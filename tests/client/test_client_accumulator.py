"""What may be sent, and when: batches, lingering, order, expiry, backoff."""

from __future__ import annotations

from raftlog.client.core.accumulator import Accumulator, record_bytes
from raftlog.client.core.backoff import MAX_MS, backoff_ms
from raftlog.model import TopicPartition
from raftlog.record import NewRecord

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
RECORD = NewRecord(b"x" * 68)
SIZE = record_bytes(RECORD)


def accumulator(records_per_batch: int = 3, linger_ms: int = 10) -> Accumulator[int]:
    return Accumulator(batch_bytes=records_per_batch * SIZE, linger_ms=linger_ms)


def handles(ready: list) -> list[tuple[TopicPartition, list[int]]]:
    return [(partition, batch.handles) for partition, batch in ready]


def test_a_record_lingers_for_company_and_a_full_batch_does_not():
    queue = accumulator()
    queue.add(P0, RECORD, 1, now_ms=100)

    assert queue.ready(109) == []
    assert queue.next_due_ms() == 110
    assert handles(queue.ready(110)) == [(P0, [1])]
    queue.add(P0, RECORD, 2, now_ms=101)
    queue.add(P0, RECORD, 3, now_ms=102)
    assert handles(queue.ready(102)) == [(P0, [1, 2, 3])]


def test_a_flush_does_not_linger():
    queue = accumulator()
    queue.add(P0, RECORD, 1, now_ms=100)
    queue.flushing = True

    assert handles(queue.ready(100)) == [(P0, [1])]


def test_one_batch_of_a_partition_is_in_flight_and_order_holds_over_retries():
    queue = accumulator(records_per_batch=1)
    for handle in (1, 2, 3):
        queue.add(P0, RECORD, handle, now_ms=0)
    queue.add(P1, RECORD, 9, now_ms=0)

    assert handles(queue.ready(0)) == [(P0, [1]), (P1, [9])]
    queue.sending(P0)
    assert handles(queue.ready(0)) == [(P1, [9])]
    queue.retry(P0, not_before_ms=50)
    assert handles(queue.ready(49)) == [(P1, [9])]
    assert handles(queue.ready(50)) == [(P0, [1]), (P1, [9])]
    queue.sending(P0)
    assert queue.done(P0).handles == [1]
    assert handles(queue.ready(50)) == [(P0, [2]), (P1, [9])]


def test_a_batch_that_was_sent_takes_no_more_records():
    queue = accumulator()
    queue.add(P0, RECORD, 1, now_ms=0)
    queue.sending(P0)
    queue.add(P0, RECORD, 2, now_ms=0)
    queue.retry(P0, not_before_ms=0)

    assert handles(queue.ready(20)) == [(P0, [1])]


def test_a_record_larger_than_a_batch_goes_alone():
    queue = accumulator(records_per_batch=1)
    queue.add(P0, RECORD, 1, now_ms=0)
    queue.add(P0, NewRecord(b"x" * 10_000), 2, now_ms=0)
    queue.add(P0, RECORD, 3, now_ms=0)

    taken = []
    while not queue.empty:
        queue.sending(P0)
        taken.append(queue.done(P0).handles)
    assert taken == [[1], [2], [3]]


def test_the_size_counts_what_has_no_outcome():
    queue = accumulator()
    queue.add(P0, RECORD, 1, now_ms=0)
    queue.add(P1, RECORD, 2, now_ms=0)
    queue.sending(P0)

    assert queue.size == 2 * SIZE
    queue.done(P0)
    assert queue.size == SIZE


def test_batches_expire_unless_they_are_in_flight():
    queue = accumulator()
    queue.add(P0, RECORD, 1, now_ms=0)
    queue.add(P1, RECORD, 2, now_ms=500)
    queue.sending(P0)

    assert queue.expired(1_400, 1_000) == []
    queue.retry(P0, not_before_ms=0)
    assert queue.expired(1_400, 1_000) == [P0]


def test_backoff_grows_is_bounded_and_spread():
    waits = [backoff_ms(attempt, jitter=0.5) for attempt in range(1, 12)]

    assert waits == sorted(waits)
    assert waits[0] == 20
    assert max(waits) == MAX_MS
    assert backoff_ms(1000, jitter=0.99) <= 1.2 * MAX_MS
    assert backoff_ms(3, jitter=0.0) < backoff_ms(3, jitter=0.9)
