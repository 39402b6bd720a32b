"""The batch's bytes: golden files, both checksums, and hostile payloads that must not reach pyarrow."""

from __future__ import annotations

import os
import struct
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.checksum import crc32c
from raftlog.errors import CorruptBatchError, ErrorCode, InvalidRequestError, RaftlogError
from raftlog.record import (
    HEADER_BYTES,
    SCHEMA,
    NewRecord,
    RecordColumns,
    build_batch,
    build_batch_from_arrow,
    iter_batches,
    layouts,
    parse_header,
    read_records,
    stamp,
    structure,
    to_arrow_with_offsets,
    validate_batch,
    verify_payload_crc,
)

GOLDEN = Path(__file__).parent / "golden"
LIMIT = 1 << 20
RECORDS = [
    NewRecord(b"value-0", b"key-0", 1_700_000_000_000_000, (("source", b"golden"), ("empty", None))),
    NewRecord(None, b"tombstone", 1_700_000_000_000_001),
    NewRecord(b"\xff\x00not text", None, 1_700_000_000_000_002, (("source", b"again"), ("source", b"twice"))),
]


def golden(name: str) -> bytes:
    compression = {"lz4": "lz4", "zstd": "zstd"}.get(name)
    batch = build_batch(
        [NewRecord(b"hello", None, 1)] if name == "slim" else RECORDS,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        compression=compression,  # type: ignore[arg-type]
    )
    stamp(batch, base_offset=1234, leader_epoch=5)
    return bytes(batch)


@pytest.mark.parametrize("name", ["plain", "lz4", "zstd", "single", "slim"])
def test_stored_batches_are_read_for_ever(name: str):
    path = GOLDEN / f"{name}.batch"
    if os.environ.get("REWRITE") and name != "single":  # With zeros that nothing points into: not written any more.
        path.write_bytes(golden(name))

    stored = path.read_bytes()

    ((header, batch),) = iter_batches(stored)
    verify_payload_crc(header, batch)
    assert (header.base_offset, header.leader_epoch, header.batch_length) == (1234, 5, len(stored))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    records = read_records(stored, topic="t", partition=2)
    expected = [NewRecord(b"hello", None, 1)] if name in ("single", "slim") else RECORDS
    assert [(r.offset, r.value, r.key, r.timestamp, r.headers) for r in records] == [
        (1234 + i, *expected_record) for i, expected_record in enumerate(expected)
    ]


def test_uncompressed_batches_are_written_as_they_were():
    assert golden("plain") == (GOLDEN / "plain.batch").read_bytes()
    assert golden("slim") == (GOLDEN / "slim.batch").read_bytes()


def test_what_no_record_has_takes_no_more_bytes_than_arrow_asks_for():
    count = 8_000
    bare = [NewRecord(b"x" * 10, None, 1) for _ in range(count)]
    asked = (
        count * (8 + 3 * 4 + 10) + 2 * count // 8
    )  # Times, three columns' ends, values; which keys and headers are not.
    stamps = pa.array([1] * count, pa.int64()).view(SCHEMA.field(0).type)
    values = pa.array([record.value for record in bare])
    by_hand = [stamps, pa.nulls(count, pa.binary()), values, pa.nulls(count, SCHEMA.field(3).type)]

    batch = build_batch(bare)

    assert len(batch) - asked < 1_000
    assert batch == build_batch_from_arrow(pa.record_batch(by_hand, schema=SCHEMA))
    tombstones = build_batch([NewRecord(None, b"key", 1)] * count)
    assert len(tombstones) - count * (8 + 3 * 4 + 3) - 2 * count // 8 < 1_000


def test_columns_that_begin_empty_have_nothing_for_the_records_before():
    columns = RecordColumns()
    columns.append_value(b"0", 10)
    columns.extend([b"1", b"2"], None, 11)
    columns.append(NewRecord(b"3", b"key", 12))
    columns.extend([b"4"], b"other", 13)
    columns.append(NewRecord(None, None, 14, (("name", b"x"),)))
    columns.append_value(b"6", 15)

    rows = [
        NewRecord(b"0", None, 10),
        NewRecord(b"1", None, 11),
        NewRecord(b"2", None, 11),
        NewRecord(b"3", b"key", 12),
        NewRecord(b"4", b"other", 13),
        NewRecord(None, None, 14, (("name", b"x"),)),
        NewRecord(b"6", None, 15),
    ]
    assert list(columns.rows()) == rows
    assert list(columns.part(2, 6).rows()) == rows[2:6]
    assert (columns.part(0, 2).keys, list(RecordColumns([b"0"], timestamps=[10]).rows())) == ([None, None], rows[:1])
    with pytest.raises(OverflowError):
        columns.append(NewRecord(b"7", b"key", 1 << 63))
    assert list(columns.rows()) == rows
    batch = build_batch(columns)
    stamp(batch, base_offset=0, leader_epoch=0)
    read = read_records(batch, topic="t", partition=0)
    assert [NewRecord(r.value, r.key, r.timestamp, r.headers) for r in read] == rows


def test_the_header_is_where_the_document_says():
    batch = golden("plain")

    assert struct.unpack_from("<qIi", batch, 0) == (1234, len(batch), 5)
    assert batch[20] == 1
    assert struct.unpack_from("<I", batch, 16)[0] == crc32c(batch[:16] + batch[20:64])
    assert struct.unpack_from("<I", batch, 24)[0] == crc32c(batch[64:])
    assert struct.unpack_from("<IqihHqII", batch, 28) == (3, 7, 11, 3, 0, 1_700_000_000_000_002, 2, 0)
    assert len(batch) % 8 == 0


def test_the_leader_stamps_without_touching_the_payload():
    before = build_batch(RECORDS)
    after = bytearray(before)

    stamp(after, base_offset=99, leader_epoch=4)

    changed = {i for i in range(len(before)) if before[i] != after[i]}
    assert changed <= {*range(8), *range(12, 20)}
    assert validate_batch(after, max_message_bytes=LIMIT).last_offset == 101


@pytest.mark.parametrize("byte", [*range(HEADER_BYTES), 64, 100, 400, -1])
def test_a_flipped_bit_anywhere_is_caught(byte: int):
    batch = bytearray(golden("plain"))
    batch[byte] ^= 0x10

    with pytest.raises(CorruptBatchError):
        read_records(batch, topic="t", partition=0)
    with pytest.raises(CorruptBatchError):
        validate_batch(batch, max_message_bytes=LIMIT)


def test_reading_from_the_middle_of_a_batch():
    ((header, batch),) = iter_batches(golden("plain"))

    assert to_arrow_with_offsets(header, batch, from_offset=1236).column("offset").to_pylist() == [1236]
    assert [r.offset for r in read_records(batch, topic="t", partition=0, from_offset=1235)] == [1235, 1236]
    assert read_records(batch, topic="t", partition=0, from_offset=1237) == []


@given(
    st.lists(
        st.builds(
            NewRecord,
            value=st.none() | st.binary(max_size=50),
            key=st.none() | st.binary(max_size=10),
            timestamp=st.integers(0, 2**52),
            headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([None, "lz4", "zstd"]),
)
def test_whatever_is_built_is_valid_and_reads_back(records: list[NewRecord], compression: str | None):
    batch = build_batch(records, compression=compression)  # type: ignore[arg-type]

    validate_batch(batch, max_message_bytes=LIMIT)

    read = read_records(batch, topic="t", partition=0)
    assert [(r.value, r.key, r.timestamp, r.headers) for r in read] == [tuple(record) for record in records]


@given(data=st.data(), compression=st.sampled_from([None, "lz4", "zstd"]))
@settings(max_examples=400)
def test_hostile_payloads_are_refused_or_harmless(data: st.DataObject, compression: str | None):
    """Flip bits and redo both checksums, as an attacker would: what passes must read without harm."""
    batch = build_batch(RECORDS, compression=compression)  # type: ignore[arg-type]
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(HEADER_BYTES, len(batch) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    reseal(batch)

    try:
        validate_batch(batch, max_message_bytes=LIMIT)
    except RaftlogError:
        return
    assert len(read_records(batch, topic="t", partition=0)) == len(RECORDS)


@given(st.binary(max_size=200))
def test_any_bytes_raise_our_error_only(body: bytes):
    with pytest.raises(RaftlogError):
        validate_batch(body, max_message_bytes=LIMIT)


def reseal(batch: bytearray) -> None:
    struct.pack_into("<I", batch, 24, crc32c(memoryview(batch)[HEADER_BYTES:]))
    struct.pack_into("<I", batch, 16, crc32c(bytes(batch[:16]) + bytes(batch[20:HEADER_BYTES])))


@pytest.mark.parametrize(
    ("layout", "at", "value", "message"),
    [
        ("<I", 28, 4, "does not fit last_offset_delta"),
        ("<I", 28, 2, r"last_offset_delta must be record_count - 1"),
        ("<B", 20, 2, "expected magic 1, received 2"),
        ("<B", 21, 0x80, "reserved bits are set"),
        ("<B", 21, 0x08, "control and compacted batches cannot be produced"),
        ("<B", 21, 0x0C, "control and compacted batches cannot be produced"),
        ("<B", 21, 0x04, "a transactional batch names its producer"),
        ("<B", 21, 0x01, "the header says compression 1, the payload is not compressed"),
        ("<H", 22, 1, "reserved bits are set"),
        ("<I", 60, 1, "reserved bits are set"),
        ("<q", 48, 5, "max_timestamp is 5, the newest record has"),
        ("<I", 8, 72, "the header announces a batch of 72 bytes"),
        ("<I", 8, 63, "must exceed 64"),
    ],
)
def test_headers_that_lie(layout: str, at: int, value: int, message: str):
    batch = build_batch(RECORDS)
    struct.pack_into(layout, batch, at, value)
    reseal(batch)

    with pytest.raises(CorruptBatchError, match=message):
        validate_batch(batch, max_message_bytes=LIMIT)


def test_too_large_as_stored_and_as_unpacked():
    records = [NewRecord(b"\x00" * 100_000, timestamp=1)]

    for compression in (None, "zstd"):
        batch = build_batch(records, compression=compression)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequestError, match="max_message_bytes is 50000") as caught:
            validate_batch(batch, max_message_bytes=50_000)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert len(build_batch(records, compression="zstd")) < 50_000


def test_a_payload_of_another_schema_is_refused():
    other = pa.record_batch([pa.array([1, 2, 3])], names=["x"])
    batch = bytearray(build_batch(RECORDS)[:HEADER_BYTES]) + bytearray(memoryview(other.serialize()))
    struct.pack_into("<I", batch, 8, len(batch))
    reseal(batch)

    with pytest.raises(CorruptBatchError, match="does not fit the schema: expected 7 entries, found 1"):
        validate_batch(batch, max_message_bytes=LIMIT)


def test_null_timestamps_are_refused():
    columns = [pa.array([None], SCHEMA.field(0).type), *(pa.nulls(1, SCHEMA.field(i).type) for i in (1, 2, 3))]
    loose = pa.schema([field.with_nullable(True) for field in SCHEMA])
    batch = build_batch([NewRecord(b"", timestamp=0)])
    payload = bytearray(memoryview(pa.record_batch(columns, schema=loose).serialize()))
    hostile = bytearray(batch[:HEADER_BYTES]) + payload
    struct.pack_into("<I", hostile, 8, len(hostile))
    reseal(hostile)

    with pytest.raises(CorruptBatchError, match="a timestamp, a header or a header's key is null"):
        validate_batch(hostile, max_message_bytes=LIMIT)


def test_columns_without_rows_have_nothing_to_point_at():
    """Arrow's writer cuts a column's bytes at its first offset: what it makes of these, no reader can read."""
    batch = build_batch([NewRecord(b"hello", None, 1)])
    assert len(batch) == 616
    batch[368], batch[600] = 8, 16
    reseal(batch)

    with pytest.raises(CorruptBatchError, match="a column without rows has offsets"):
        validate_batch(batch, max_message_bytes=LIMIT)
    with pytest.raises(CorruptBatchError, match="a column without rows has offsets"):
        read_records(batch, topic="t", partition=0)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_readers_unpack_no_more_than_a_batch_may_hold(compression: str):
    batch = build_batch([NewRecord(b"\x00" * 10_000, timestamp=1)], compression=compression)  # type: ignore[arg-type]
    declared = struct.pack("<q", 10_000)
    at = batch.rindex(declared)
    batch[at : at + 8] = struct.pack("<q", 2 << 30)
    reseal(batch)

    with pytest.raises(CorruptBatchError, match="would unpack to 21474"):
        read_records(batch, topic="t", partition=0)


def test_layouts_that_are_remembered_are_read_as_those_that_are_not():
    """The fast way must refuse what the slow one refuses: each number of the metadata is wrong once."""
    sound = build_batch(RECORDS)
    (length,) = struct.unpack_from("<i", sound, HEADER_BYTES + 4)
    metadata = range(HEADER_BYTES + 8, HEADER_BYTES + 8 + length, 4)

    def refusals() -> list[str]:
        found = []
        for at in metadata:
            for value in (0xFFFFFFFF, 0x7FFFFFF8, 8):
                batch = bytearray(sound)
                struct.pack_into("<I", batch, at, value)
                if forget:
                    layouts._layouts.clear()
                try:
                    found.append(str(structure.check_structure(parse_header(batch), batch)[0]))
                except CorruptBatchError as error:
                    found.append(error.message)
        return found

    forget = True
    slow = refusals()
    forget = False
    layouts._layouts.clear()
    structure.check_structure(parse_header(sound), sound)
    assert layouts._layouts
    assert refusals() == slow
    assert len(set(slow)) > 10


def test_no_more_layouts_are_remembered_than_a_few():
    layouts._layouts.clear()
    for padding in range(200):
        batch = build_batch([NewRecord(b"x", timestamp=1)])
        (length,) = struct.unpack_from("<i", batch, HEADER_BYTES + 4)
        batch[HEADER_BYTES + 8 + length : HEADER_BYTES + 8 + length] = bytes(8 * padding)
        struct.pack_into("<i", batch, HEADER_BYTES + 4, length + 8 * padding)
        structure.check_structure(
            parse_header(build_batch([NewRecord(b"x", timestamp=1)]))._replace(batch_length=len(batch)), batch
        )

    assert sum(map(len, layouts._layouts.values())) <= layouts.MAX_LAYOUTS


def test_walking_over_torn_bytes():
    whole = golden("plain") + golden("slim")

    assert [header.record_count for header, _ in iter_batches(whole)] == [3, 1]
    with pytest.raises(CorruptBatchError, match=r"has \d+ bytes, \d+ are left"):
        list(iter_batches(whole[:-8]))
    with pytest.raises(CorruptBatchError, match="a batch header has 64 bytes, received 10"):
        parse_header(whole[:10])


def test_nothing_to_build():
    with pytest.raises(ValueError, match="at least one record"):
        build_batch([])
    with pytest.raises(ValueError, match="expected rows of"):
        build_batch_from_arrow(pa.record_batch([pa.array([1])], names=["x"]))


def test_columns_that_share_bytes_are_refused():
    """Each lies inside the body: a small message could name it many times, and unpack to a lot."""
    header = parse_header(build_batch([NewRecord(b"x", timestamp=1)]))
    for buffers, refused in (((0, 32, 32, 32), False), ((0, 40, 32, 32), True), ((0, 64, 0, 64), True)):
        numbers = layouts.Numbers(64, 1, (), buffers, None)
        with pytest.raises(CorruptBatchError, match="overlap") if refused else nullcontext():
            structure._check_buffers(numbers, memoryview(bytes(64)), header)
