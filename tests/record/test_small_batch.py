"""A batch of few records: the template writes what pyarrow writes, and replaces full validation only where it may."""

from __future__ import annotations

from typing import Any
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
    small,
    stamp,
    validate,
    validate_batch,
)
from raftlog.record.batch import HEADER_BYTES, write_header
from raftlog.record.small import (
    LARGEST_BYTES,
    MOST_RECORDS,
    encode,
    encode_one,
    few_records,
    newest_of_few,
    one_record,
)

PART = st.none() | st.binary(max_size=40) | st.integers(0, 3_000).map(bytes)
TIMESTAMP = st.integers(-(1 << 63), (1 << 63) - 1)
LIMIT = 1 << 20


def encode_few(records: object) -> tuple[bytes, int] | None:
    if (one := one_record(records)) is not None:
        few = few_records(records)
        assert few is None or encode(*few) == encode_one(*one)
        return encode_one(*one), one[0]
    few = few_records(records)
    return None if few is None else (encode(*few), max(few.timestamps))


def by_pyarrow(*records: NewRecord) -> bytes:
    return bytes(arrow.encode_rows(arrow.rows_to_write(records), None))


def in_columns(*records: NewRecord) -> RecordColumns:
    columns = RecordColumns()
    for record in records:
        columns.append(record)
    return columns


@given(key=PART, value=PART, timestamp=TIMESTAMP)
@example(key=None, value=None, timestamp=0)
@example(key=b"", value=b"", timestamp=-1)
@example(key=b"k", value=bytes(LARGEST_BYTES), timestamp=1)
@settings(deadline=None, max_examples=300)
def test_the_bytes_of_one_record_are_pyarrows(key: bytes | None, value: bytes | None, timestamp: int) -> None:
    record = NewRecord(value, key=key, timestamp=timestamp)
    expected = (by_pyarrow(record), timestamp)
    assert encode_few([record]) == encode_few((record,)) == encode_few(in_columns(record)) == expected
    if len(expected[0]) <= LARGEST_BYTES:
        assert newest_of_few(expected[0], 1) == timestamp


ALL_NULL_OR_NONE = st.sampled_from((None, st.binary(max_size=40)))


@given(data=st.data(), count=st.integers(1, MOST_RECORDS))
@settings(deadline=None, max_examples=300)
def test_the_bytes_of_few_records_are_pyarrows(data: st.DataObject, count: int) -> None:
    keys, values = (
        [None] * count if (part := data.draw(ALL_NULL_OR_NONE)) is None else data.draw(lists_of(part, count))
        for _ in range(2)
    )
    timestamps = data.draw(lists_of(TIMESTAMP, count))
    records = [NewRecord(*fields) for fields in zip(values, keys, timestamps, strict=True)]
    assert encode_few(in_columns(*records)) == (by_pyarrow(*records), max(timestamps))
    assert newest_of_few(by_pyarrow(*records), count) == max(timestamps)
    assert newest_of_few(by_pyarrow(*records), count % MOST_RECORDS + 1) is None


def lists_of(items: st.SearchStrategy[Any], count: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, min_size=count, max_size=count)


@pytest.mark.parametrize("length", range(20))
def test_every_padding_is_pyarrows(length: int) -> None:
    for key, value in ((None, bytes(length)), (b"\xff" * length, None), (b"\xff" * length, b"\xff" * (19 - length))):
        record = NewRecord(value, key=key, timestamp=7)
        assert encode_few([record]) == (by_pyarrow(record), 7)


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
        RecordColumns([b"v"] * (MOST_RECORDS + 1), None, range(MOST_RECORDS + 1)),
        RecordColumns([b"v", None], None, [1, 2]),
        RecordColumns([b"v", b"w"], [None, b"k"], [1, 2]),
        RecordColumns([b"v", bytes(LARGEST_BYTES)], None, [1, 2]),
        RecordColumns([b"v", bytearray(b"w")], None, [1, 2]),
        RecordColumns([b"v", b"w"], None, [1, 2], [(), (("a", b"b"),)]),
        RecordColumns(),
    ],
)
def test_anything_else_goes_through_arrow(records: object) -> None:
    assert encode_few(records) is None


def test_a_compressed_record_goes_through_arrow() -> None:
    batch = build_batch([NewRecord(b"v" * 1_000, timestamp=5)], compression="zstd")
    assert validate_batch(batch, max_message_bytes=LIMIT).max_timestamp == 5
    assert len(batch) < 1_000


@pytest.mark.parametrize("count", [1, 2, MOST_RECORDS])
def test_a_batch_of_few_is_the_same_in_every_field(count: int) -> None:
    records = in_columns(*[NewRecord(b"value", key=b"key", timestamp=12_345 - number) for number in range(count)])
    fields = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 9, "transactional": True}
    with mock.patch.object(arrow, "_small_payload", return_value=None):
        expected = build_batch(records, **fields)  # type: ignore[arg-type]
    assert build_batch(records, **fields) == expected  # type: ignore[arg-type]
    stamp(expected, base_offset=3, leader_epoch=1)
    read = read_records(expected, topic="t", partition=0)
    assert [(each.key, each.value, each.timestamp) for each in read] == [
        (b"key", b"value", 12_345 - number) for number in range(count)
    ]


def outcome(batch: bytes) -> str:
    try:
        return str(validate_batch(batch, max_message_bytes=LIMIT))
    except (CorruptBatchError, InvalidRequestError) as error:
        return error.message


RECORDS = (
    (NewRecord(b"v" * 13, timestamp=3),),
    (NewRecord(b"v", key=b"key", timestamp=3),),
    (NewRecord(None, key=b"key", timestamp=3),),
    (NewRecord(None, timestamp=3),),
    (NewRecord(b"v" * 13, timestamp=3), NewRecord(b"", timestamp=1), NewRecord(b"more", timestamp=2)),
    tuple(NewRecord(b"v", key=b"key" * (number % 2), timestamp=3 - number) for number in range(9)),
    tuple(NewRecord(None, key=b"key", timestamp=3) for number in range(9)),
)


@given(records=st.sampled_from(RECORDS), data=st.data())
@settings(deadline=None, max_examples=1_000)
def test_changed_bytes_are_refused_as_full_validation_refuses_them(
    records: tuple[NewRecord, ...], data: st.DataObject
) -> None:
    batch = bytearray(build_batch(in_columns(*records)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
        batch[at] = data.draw(st.sampled_from((0, 1, 2, 0x7F, 0x80, 0xFF)))
    write_header(batch, record_count=len(records), max_timestamp=3)  # The checksums are right.
    found = outcome(bytes(batch))
    with mock.patch.object(validate, "newest_of_few", return_value=None):
        assert outcome(bytes(batch)) == found


@pytest.mark.parametrize("records", RECORDS)
def test_every_byte_of_the_payload_counts(records: tuple[NewRecord, ...]) -> None:
    """A changed byte is found, or makes other records: then their encoding is the changed bytes."""
    payload = bytearray(by_pyarrow(*records))
    assert newest_of_few(payload, len(records)) == 3
    body = 8 + int.from_bytes(payload[4:8], "little")
    accepted = 0
    for at in range(len(payload)):
        payload[at] ^= 0xFF
        if newest_of_few(payload, len(records)) is not None:
            accepted += 1
            assert at >= body
            batch = bytearray(HEADER_BYTES) + payload
            write_header(batch, record_count=len(records), max_timestamp=0)
            stamp(batch, base_offset=0, leader_epoch=0)
            others = [each[3:6] for each in read_records(batch, topic="t", partition=0)]
            assert by_pyarrow(*(NewRecord(value, key, timestamp) for timestamp, key, value in others)) == payload
        payload[at] ^= 0xFF
    contents = sum(8 + len(record.key or b"") + len(record.value or b"") for record in records)
    assert accepted == contents  # No other byte may differ.


@given(st.binary(max_size=700), st.integers(-1, MOST_RECORDS + 1))
@settings(deadline=None)
def test_any_bytes_are_read_without_an_error(payload: bytes, count: int) -> None:
    assert newest_of_few(payload, count) is None


@given(records=st.sampled_from(RECORDS), data=st.data())
@settings(deadline=None, max_examples=1_000)
def test_any_numbers_are_refused_as_full_validation_refuses_them(
    records: tuple[NewRecord, ...], data: st.DataObject
) -> None:
    """The metadata's numbers and the offsets may say anything: what they say is no place to read at."""
    batch = bytearray(build_batch(in_columns(*records)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(HEADER_BYTES // 4, len(batch) // 4 - 1)) * 4
        batch[at : at + 4] = data.draw(st.integers(-(1 << 31), (1 << 31) - 1)).to_bytes(4, "little", signed=True)
    write_header(batch, record_count=len(records), max_timestamp=3)
    found = outcome(bytes(batch))
    with mock.patch.object(validate, "newest_of_few", return_value=None):
        assert outcome(bytes(batch)) == found
    assert small._shape_of.cache_info().currsize <= 256


@pytest.mark.parametrize("records", RECORDS)
def test_a_payload_that_was_cut_is_another_one(records: tuple[NewRecord, ...]) -> None:
    payload = by_pyarrow(*records)
    for length in range(len(payload)):
        assert newest_of_few(payload[:length], len(records)) is None
    assert newest_of_few(payload + bytes(8), len(records)) is None


def test_a_wrong_maximum_timestamp_is_refused() -> None:
    batch = build_batch([NewRecord(b"v", timestamp=3)])
    write_header(batch, record_count=1, max_timestamp=4)
    with pytest.raises(CorruptBatchError, match="max_timestamp is 4, the newest record has 3"):
        validate_batch(batch, max_message_bytes=LIMIT)


def test_many_lengths_keep_a_bounded_number_of_shapes() -> None:
    for length in range(600):
        encode_few([NewRecord(bytes(length), timestamp=1)])
    assert small._shape_of.cache_info().currsize <= 256
    assert parse_header(build_batch([NewRecord(b"v", timestamp=1)])).record_count == 1
