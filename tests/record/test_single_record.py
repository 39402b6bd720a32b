"""A batch of one record: the template writes what pyarrow writes, and stands for full validation only where it may."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from raftlog.errors import CorruptBatchError, InvalidRequestError
from raftlog.record import (
    NewRecord,
    RecordColumns,
    arrow,
    build_batch,
    parse_header,
    read_records,
    single,
    stamp,
    validate,
    validate_batch,
)
from raftlog.record.batch import HEADER_BYTES, write_header
from raftlog.record.single import LARGEST_BYTES, encode, single_record, timestamp_of_single

PART = st.none() | st.binary(max_size=40) | st.integers(0, 3_000).map(bytes)
TIMESTAMP = st.integers(-(1 << 63), (1 << 63) - 1)
LIMIT = 1 << 20


def encode_single(records: object) -> tuple[bytes, int] | None:
    single = single_record(records)
    return None if single is None else (encode(*single), single[0])


def by_pyarrow(record: NewRecord) -> bytes:
    return bytes(arrow.encode_rows(arrow.rows_to_write([record]), None))


@given(key=PART, value=PART, timestamp=TIMESTAMP)
@example(key=None, value=None, timestamp=0)
@example(key=b"", value=b"", timestamp=-1)
@example(key=b"k", value=bytes(LARGEST_BYTES), timestamp=1)
@settings(deadline=None, max_examples=300)
def test_the_bytes_are_pyarrows(key: bytes | None, value: bytes | None, timestamp: int) -> None:
    record = NewRecord(value, key=key, timestamp=timestamp)
    columns = RecordColumns()
    columns.append(record)
    expected = (by_pyarrow(record), timestamp)
    assert encode_single([record]) == encode_single((record,)) == encode_single(columns) == expected
    if len(expected[0]) <= LARGEST_BYTES:
        assert timestamp_of_single(expected[0]) == timestamp


@pytest.mark.parametrize("length", range(20))
def test_every_padding_is_pyarrows(length: int) -> None:
    for key, value in ((None, bytes(length)), (b"\xff" * length, None), (b"\xff" * length, b"\xff" * (19 - length))):
        record = NewRecord(value, key=key, timestamp=7)
        assert encode_single([record]) == (by_pyarrow(record), 7)


@pytest.mark.parametrize(
    "records",
    [
        [NewRecord(b"v", timestamp=1)] * 2,
        [NewRecord(b"v", headers=(("a", b"b"),), timestamp=1)],
        [NewRecord(bytearray(b"v"), timestamp=1)],  # type: ignore[arg-type]
        [NewRecord("text", timestamp=1)],  # type: ignore[arg-type]
        [NewRecord(bytes(LARGEST_BYTES + 1), timestamp=1)],
        [NewRecord(b"v", timestamp=1 << 63)],
        RecordColumns([b"v"], None, [1], [(("a", b"b"),)]),
        RecordColumns([b"v", b"w"], None, [1, 2]),
    ],
)
def test_anything_else_goes_through_arrow(records: object) -> None:
    assert encode_single(records) is None


def test_a_compressed_record_goes_through_arrow() -> None:
    batch = build_batch([NewRecord(b"v" * 1_000, timestamp=5)], compression="zstd")
    assert validate_batch(batch, max_message_bytes=LIMIT).max_timestamp == 5
    assert len(batch) < 1_000


def test_a_batch_of_one_is_the_same_in_every_field() -> None:
    record = NewRecord(b"value", key=b"key", timestamp=12_345)
    fields = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 9, "transactional": True}
    with mock.patch.object(arrow, "single_record", return_value=None):
        expected = build_batch([record], **fields)  # type: ignore[arg-type]
    assert build_batch([record], **fields) == expected  # type: ignore[arg-type]
    stamp(expected, base_offset=3, leader_epoch=1)
    (read,) = read_records(expected, topic="t", partition=0)
    assert (read.key, read.value, read.timestamp) == (b"key", b"value", 12_345)


def outcome(batch: bytes) -> str:
    try:
        return str(validate_batch(batch, max_message_bytes=LIMIT))
    except (CorruptBatchError, InvalidRequestError) as error:
        return error.message


RECORDS = (
    NewRecord(b"v" * 13, timestamp=3),
    NewRecord(b"v", key=b"key", timestamp=3),
    NewRecord(None, key=b"key", timestamp=3),
    NewRecord(None, timestamp=3),
)


@given(record=st.sampled_from(RECORDS), data=st.data())
@settings(deadline=None, max_examples=600)
def test_changed_bytes_are_refused_as_full_validation_refuses_them(record: NewRecord, data: st.DataObject) -> None:
    batch = bytearray(build_batch([record]))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.sampled_from((0, 1, 2, 0x7F, 0x80, 0xFF)))
    write_header(batch, record_count=1, max_timestamp=3)  # The checksums are right.
    found = outcome(bytes(batch))
    with mock.patch.object(validate, "timestamp_of_single", return_value=None):
        assert outcome(bytes(batch)) == found


@pytest.mark.parametrize("record", RECORDS)
def test_every_byte_of_the_payload_counts(record: NewRecord) -> None:
    payload = bytearray(by_pyarrow(record))
    assert timestamp_of_single(payload) == 3
    body = 8 + int.from_bytes(payload[4:8], "little")
    for at in range(len(payload)):
        payload[at] ^= 0xFF
        found = timestamp_of_single(payload)
        if found is not None:  # Another record: its timestamp, key or value.
            assert at >= body
            changed = bytes(payload)
            assert found != 3 or changed != by_pyarrow(record)
        payload[at] ^= 0xFF


@given(st.binary(max_size=700))
@settings(deadline=None)
def test_any_bytes_are_read_without_an_error(payload: bytes) -> None:
    assert timestamp_of_single(payload) is None


@pytest.mark.parametrize("record", RECORDS)
def test_a_payload_that_was_cut_is_no_single_record(record: NewRecord) -> None:
    payload = by_pyarrow(record)
    for length in range(len(payload)):
        assert timestamp_of_single(payload[:length]) is None
    assert timestamp_of_single(payload + bytes(8)) is None


def test_a_wrong_maximum_timestamp_is_refused() -> None:
    batch = build_batch([NewRecord(b"v", timestamp=3)])
    write_header(batch, record_count=1, max_timestamp=4)
    with pytest.raises(CorruptBatchError, match="max_timestamp is 4, the newest record has 3"):
        validate_batch(batch, max_message_bytes=LIMIT)


def test_many_lengths_keep_a_bounded_number_of_prefixes() -> None:
    for length in range(600):
        encode_single([NewRecord(bytes(length), timestamp=1)])
    assert single._prefix.cache_info().currsize <= 256
    assert parse_header(build_batch([NewRecord(b"v", timestamp=1)])).record_count == 1
