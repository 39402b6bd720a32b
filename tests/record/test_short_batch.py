"""The short form: one record without Arrow's metadata, which readers see as they see any other batch."""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftlog.errors import CorruptBatchError, InvalidRequestError
from raftlog.record import (
    NewRecord,
    RecordColumns,
    build_batch,
    iter_batches,
    parse_header,
    read_records,
    stamp,
    validate_batch,
)
from raftlog.record.arrow import COMPACTED_SCHEMA
from raftlog.record.batch import ATTRIBUTE_COMPACTED, ATTRIBUTE_CONTROL, ATTRIBUTE_SHORT, HEADER_BYTES, write_header
from raftlog.record.compacted import keep_header, keep_rows
from raftlog.record.kafka.convert import to_kafka
from raftlog.record.reading import to_arrow, to_table
from raftlog.record.short import encode_short, read_short
from raftlog.record.small import LARGEST_BYTES
from raftlog.record.unpacking import first_that_unpack_to, unpacked_bytes

GOLDEN = Path(__file__).parent / "golden" / "short.batch"
PART = st.none() | st.binary(max_size=40) | st.integers(0, 3_000).map(bytes)
TIMESTAMP = st.integers(-(1 << 63), (1 << 63) - 1)
LIMIT = 1 << 20
FIELDS = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 9, "transactional": True}


def short(record: NewRecord, **fields: object) -> bytearray:
    return build_batch([record], short=True, **fields)  # type: ignore[arg-type]


def rebuilt(payload: bytes, *, attributes: int = ATTRIBUTE_SHORT, count: int = 1) -> bytes:
    """Return a batch with valid checksums around a payload."""
    batch = bytearray(HEADER_BYTES) + payload
    write_header(batch, record_count=count, max_timestamp=7, attributes=attributes, last_offset_delta=max(0, count - 1))
    return bytes(batch)


@given(key=PART, value=PART, timestamp=TIMESTAMP)
@example(key=None, value=None, timestamp=0)
@example(key=b"", value=b"", timestamp=-1)
@example(key=b"k", value=bytes(LARGEST_BYTES), timestamp=1)
@settings(deadline=None, max_examples=300)
def test_readers_get_what_they_get_without_the_short_form(key: bytes | None, value: bytes | None, timestamp: int):
    record = NewRecord(value, key=key, timestamp=timestamp)
    batch, other = short(record, **FIELDS), build_batch([record], **FIELDS)  # type: ignore[arg-type]
    for one in (batch, other):
        stamp(one, base_offset=3, leader_epoch=1)
        assert validate_batch(one, max_message_bytes=LIMIT) == parse_header(one)
    header, full = parse_header(batch), parse_header(other)
    assert header.is_short
    assert len(batch) < len(other)
    assert to_arrow(header, batch).equals(to_arrow(full, other))
    assert read_records(batch, topic="t", partition=0) == read_records(other, topic="t", partition=0)
    assert to_kafka(header, batch) == to_kafka(full, other)
    assert unpacked_bytes(header, batch) == len(other)
    same = header._replace(batch_length=0, attributes=0, header_crc=0, payload_crc32c=0)
    assert same == full._replace(batch_length=0, attributes=0, header_crc=0, payload_crc32c=0)


def test_the_bytes_are_golden():
    batch = short(NewRecord(b"value", key=b"key", timestamp=1_700_000_000_000_000))
    stamp(batch, base_offset=42, leader_epoch=7)
    assert bytes(batch) == GOLDEN.read_bytes()
    (record,) = read_records(GOLDEN.read_bytes(), topic="t", partition=0)
    assert (record.offset, record.key, record.value, record.timestamp) == (42, b"key", b"value", 1_700_000_000_000_000)


def test_a_record_of_100_bytes_takes_176():
    assert len(short(NewRecord(bytes(100), timestamp=1))) == 176
    assert len(build_batch([NewRecord(bytes(100), timestamp=1)])) == 712


@pytest.mark.parametrize(
    "records",
    [
        [NewRecord(b"v", timestamp=1)] * 2,
        [NewRecord(b"v", headers=(("a", b"b"),), timestamp=1)],
        [NewRecord(bytes(LARGEST_BYTES + 1), timestamp=1)],
        RecordColumns([b"v"], None, [1], [(("a", b"b"),)]),
    ],
)
def test_other_records_keep_arrows_form(records: list[NewRecord] | RecordColumns):
    assert build_batch(records, short=True) == build_batch(records)


def test_a_compressed_record_keeps_arrows_form():
    record = [NewRecord(b"v" * 1_000, timestamp=1)]
    assert build_batch(record, short=True, compression="zstd") == build_batch(record, compression="zstd")


@pytest.mark.parametrize(
    "payload",
    [
        struct.pack("<ii", -2, 0),
        struct.pack("<ii", 0, -2),
        struct.pack("<ii", 1, 0),
        struct.pack("<ii", 0, 9) + bytes(8),
        struct.pack("<ii", 0, 1) + bytes(16),
        struct.pack("<ii", 0, 1) + b"v" + b"\0\0\0\0\0\0\1",
        struct.pack("<ii", 2**31 - 1, 2**31 - 1) + bytes(8),
        struct.pack("<ii", -(2**31), -(2**31)),
    ],
)
def test_a_payload_that_no_writer_makes_is_refused(payload: bytes):
    batch = rebuilt(payload)
    header = parse_header(batch)
    for read in (
        lambda: validate_batch(batch, max_message_bytes=LIMIT),
        lambda: to_arrow(header, batch),
        lambda: unpacked_bytes(header, batch),
        lambda: read_records(batch, topic="t", partition=0),
    ):
        with pytest.raises(CorruptBatchError, match="a short batch with a key of"):
            read()


@given(payload=st.binary(min_size=8, max_size=80).map(lambda data: data + bytes(-len(data) % 8)))
@settings(deadline=None, max_examples=300)
def test_a_payload_has_one_reading_or_none(payload: bytes):
    batch = rebuilt(payload)
    try:
        key, value = read_short(parse_header(batch), batch)
    except CorruptBatchError:
        return
    assert encode_short(key, value) == payload


@pytest.mark.parametrize("attributes", [1, 2, ATTRIBUTE_CONTROL, ATTRIBUTE_COMPACTED])
def test_a_short_batch_is_not_compressed_compacted_or_a_marker(attributes: int):
    batch = rebuilt(encode_short(None, b"v"), attributes=ATTRIBUTE_SHORT | attributes)
    with pytest.raises(CorruptBatchError, match="a short batch is one record"):
        parse_header(batch)


@pytest.mark.parametrize("count", [0, 2])
def test_a_short_batch_has_one_record(count: int):
    with pytest.raises(CorruptBatchError):
        parse_header(rebuilt(encode_short(None, b"v"), count=count))


def test_what_a_short_batch_unpacks_to_is_limited():
    batch = short(NewRecord(bytes(100), timestamp=1))
    assert validate_batch(batch, max_message_bytes=712).record_count == 1
    with pytest.raises(InvalidRequestError, match="the unpacked batch has 712 bytes"):
        validate_batch(batch, max_message_bytes=711)
    many = bytes(batch) * 10
    assert len(first_that_unpack_to(5 * 712, many)) == 5 * len(batch)


def test_batches_of_all_forms_follow_each_other():
    log, at = bytearray(), 0
    for number in range(30):
        records = [NewRecord(b"%d" % (at + n), timestamp=at + n) for n in range(1 + number % 3)]
        batch = build_batch(records, short=number % 2 == 0)
        stamp(batch, base_offset=at, leader_epoch=1)
        log += batch
        at += len(records)
    assert [record.value for record in read_records(log, topic="t", partition=0)] == [b"%d" % n for n in range(at)]
    table = to_table(iter_batches(log), from_offset=7)
    assert table.column("offset").to_pylist() == list(range(7, at))
    assert table.column("value").to_pylist() == [b"%d" % n for n in range(7, at)]


@given(parts=st.lists(st.tuples(PART, PART, st.booleans()), min_size=1, max_size=40), start=st.integers(0, 45))
@settings(deadline=None, max_examples=200)
def test_runs_of_short_batches_are_the_same_table(parts: list[tuple[bytes | None, bytes | None, bool]], start: int):
    def log_of(forms: list[bool]) -> bytearray:
        log = bytearray()
        for at, ((key, value, _), form) in enumerate(zip(parts, forms, strict=True)):
            batch = build_batch([NewRecord(value, key=key, timestamp=at)], short=form)
            stamp(batch, base_offset=at, leader_epoch=1)
            log += batch
        return log

    forms = [is_short for _, _, is_short in parts]
    table = to_table(iter_batches(log_of(forms)), from_offset=start)
    expected = to_table(iter_batches(log_of([False] * len(parts))), from_offset=start)
    table.validate(full=True)
    assert table.equals(expected)


def test_a_run_of_short_batches_is_one_piece_of_a_table():
    log = bytearray()
    for at in range(1_000):
        batch = short(NewRecord(b"%d" % at, timestamp=at))
        stamp(batch, base_offset=at, leader_epoch=1)
        log += batch
    assert to_table(iter_batches(log), from_offset=0).column("value").num_chunks == 1


def test_compaction_writes_a_kept_record_without_the_short_form():
    batch = short(NewRecord(None, key=b"k", timestamp=9), producer_id=5, producer_epoch=2, base_sequence=9)
    stamp(batch, base_offset=3, leader_epoch=1)
    header = parse_header(batch)
    rows = pa.record_batch([*to_arrow(header, batch).columns, pa.array([0], pa.int32())], schema=COMPACTED_SCHEMA)
    kept = keep_rows(header, rows, cleaned_at_s=100)
    assert not parse_header(kept).is_short
    (record,) = read_records(kept, topic="t", partition=0)
    assert (record.offset, record.key, record.value, record.timestamp) == (3, b"k", None, 9)
    emptied = parse_header(keep_header(header))
    assert (emptied.is_short, emptied.is_empty, emptied.base_sequence) == (False, True, 9)
