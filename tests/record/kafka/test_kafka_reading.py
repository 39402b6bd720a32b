"""What Kafka's readers get of a fetch: markers, compacted and empty batches, aborted transactions."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from kafka_records import read

from raftlog.broker.kafka.converted import ConvertedBatches
from raftlog.model import AbortedTransaction
from raftlog.record import Marker, NewRecord, build_batch, build_marker, parse_header, stamp, to_arrow
from raftlog.record.arrow import COMPACTED_SCHEMA
from raftlog.record.compacted import build_filler, keep_header, keep_rows
from raftlog.record.kafka.convert import to_kafka
from raftlog.record.kafka.reading import for_reader

PRODUCER = 9


def batch_at(offset: int, count: int = 2, *, producer: int = -1, transactional: bool = False) -> bytes:
    records = [NewRecord(b"value %d" % number, b"key", 1_000_000) for number in range(count)]
    epoch, sequence = (0, 0) if producer >= 0 else (-1, -1)
    batch = build_batch(
        records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )
    stamp(batch, base_offset=offset, leader_epoch=4)
    return bytes(batch)


def marker_at(offset: int, *, committed: bool) -> bytes:
    marker = Marker(committed=committed, coordinator_epoch=3, stable_offset=0)
    batch = build_marker(marker, producer_id=PRODUCER, producer_epoch=1, timestamp_us=5_000)
    stamp(batch, base_offset=offset, leader_epoch=4)
    return bytes(batch)


def sent(data: bytes, from_offset: int = 0, aborted: tuple[AbortedTransaction, ...] = ()) -> list[int]:
    """Return the base offsets of the batches that a reader gets."""
    return [header.base_offset for header, _ in for_reader(data, from_offset, aborted).batches]


def test_a_marker_is_a_control_record_of_kafka():
    for committed in (False, True):
        batch = marker_at(7, committed=committed)
        decoded = DefaultRecordBatch(bytes(to_kafka(parse_header(batch), batch)))
        assert decoded.validate_crc()
        assert (decoded.is_control_batch, decoded.is_transactional, decoded.producer_id) == (True, True, PRODUCER)
        (record,) = decoded
        assert record.offset == 7
        assert struct.unpack(">hh", record.key) == (0, int(committed))
        assert struct.unpack(">hi", record.value) == (0, 3)


def test_a_compacted_batch_keeps_the_offsets_of_its_records():
    for count in (6, 300):
        batch = batch_at(100, count)
        header = parse_header(batch)
        rows = to_arrow(header, batch)
        deltas = pa.array(range(count), pa.int32())
        left = pa.record_batch([*rows.columns, deltas], schema=COMPACTED_SCHEMA).take(pa.array(range(1, count, 2)))
        kept = keep_rows(header, left, cleaned_at_s=0)
        decoded = DefaultRecordBatch(bytes(to_kafka(parse_header(kept), kept)))
        assert decoded.validate_crc()
        assert [record.offset for record in decoded] == list(range(101, 100 + count, 2))
        assert decoded.next_offset == 100 + count


def test_empty_batches_are_sent_only_when_nothing_else_is():
    empty = keep_header(parse_header(batch_at(2)))
    filler = build_filler(4, 9, leader_epoch=4, max_timestamp=0)
    assert sent(batch_at(0) + empty + filler + batch_at(10)) == [0, 10]
    assert sent(empty + filler) == [4]
    header = parse_header(filler)
    last = bytes(to_kafka(header, filler))
    assert read(last) == []
    assert DefaultRecordBatch(last).next_offset == 10


def test_a_filler_of_more_offsets_than_kafka_counts():
    filler = build_filler(5, 5 + 2**32 - 2, leader_epoch=4, max_timestamp=0)
    assert DefaultRecordBatch(bytes(to_kafka(parse_header(filler), filler))).next_offset == 5 + 2**31


@pytest.mark.parametrize("first", [0, 7])
@pytest.mark.parametrize(("size", "steps"), [(1, 1), (2**31, 1), (2**31 + 1, 2), (3 * 10**9, 2), (2**32 - 1, 2)])
def test_a_consumer_gets_behind_a_filler_of_any_size(first: int, size: int, steps: int):
    """The second answer was the first part again, of which a consumer needs nothing: it asked without an end."""
    filler = build_filler(first, first + size - 1, leader_epoch=4, max_timestamp=9_000)
    kept, at, taken = ConvertedBatches(), first, 0
    while at < first + size:
        ((header, batch),) = for_reader(filler, at).batches
        decoded = DefaultRecordBatch(kept.get("id", 0, header, batch))
        assert decoded.validate_crc()
        assert list(decoded) == []
        assert decoded.base_offset <= at < decoded.next_offset
        at, taken = decoded.next_offset, taken + 1
    assert (at, taken) == (first + size, steps)


def test_batches_below_the_offset_are_left_out():
    assert sent(batch_at(0) + batch_at(2) + batch_at(4), 3) == [2, 4]
    assert sent(b"", 3) == []


def test_records_of_aborted_transactions_are_left_out():
    """Its marker may be gone: a reader that knows of the transaction would drop the committed batch, too."""
    aborted = (AbortedTransaction(producer_id=PRODUCER, first_offset=0, last_offset=4),)
    within = batch_at(0, producer=PRODUCER, transactional=True) + batch_at(2, producer=PRODUCER, transactional=True)
    after = batch_at(5, producer=PRODUCER, transactional=True) + marker_at(7, committed=True)
    found = for_reader(within + build_filler(4, 4, leader_epoch=4, max_timestamp=0) + after, 0, aborted)
    assert [header.base_offset for header, _ in found.batches] == [5, 7]
    assert found.aborted == ()


def test_a_reader_of_nothing_but_aborted_records_goes_on():
    earlier = AbortedTransaction(producer_id=PRODUCER, first_offset=0, last_offset=1)
    aborted = AbortedTransaction(producer_id=PRODUCER, first_offset=2, last_offset=9)
    within = batch_at(2, producer=PRODUCER, transactional=True) + batch_at(4, producer=PRODUCER, transactional=True)
    found = for_reader(within, 2, (earlier, aborted))
    assert [header.base_offset for header, _ in found.batches] == [4]
    assert found.aborted == (aborted,)
