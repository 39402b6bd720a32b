"""Compacted batches: fewer records than offsets, read alike by every reader, golden files for ever."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pyarrow as pa
import pytest

from raftlog.broker.render import next_offset, render
from raftlog.checksum import crc32c
from raftlog.errors import CorruptBatchError, ErrorCode, InvalidRequestError
from raftlog.partition.readable_replica import ReadResult
from raftlog.record import (
    NewRecord,
    build_batch,
    iter_batches,
    parse_header,
    read_records,
    reading,
    stamp,
    to_arrow,
    to_arrow_with_offsets,
    to_table,
    validate_batch,
    verify_payload_crc,
)
from raftlog.record.arrow import COMPACTED_SCHEMA, READ_SCHEMA
from raftlog.record.batch import HEADER_BYTES
from raftlog.record.compacted import begin_at, build_filler, is_filler, keep_header, keep_rows
from raftlog.record.validate import require_keys
from raftlog.wire import media

GOLDEN = Path(__file__).parent / "golden"
RECORDS = [
    NewRecord(f"v{n}".encode() if n != 4 else None, f"k{n}".encode(), 1_700_000_000_000_000 + n) for n in range(6)
]
KEPT = [1, 4]
PLAIN = ((5, 3), (8, 2), (20, 4), (1300, 5))
"""Offset and count of batches that are not compacted: the second follows the first, the others leave gaps."""
CLEANED_AT_S = 1_800_000_000


def compacted(compression: str | None = None, kept: list[int] = KEPT) -> bytes:
    batch = build_batch(RECORDS, producer_id=7, producer_epoch=3, base_sequence=11, compression=compression)  # type: ignore[arg-type]
    stamp(batch, base_offset=1234, leader_epoch=5)
    rows = to_arrow(header := parse_header(batch), batch).take(pa.array(kept, pa.int32()))
    own = pa.record_batch([*rows.columns, pa.array(kept, pa.int32())], schema=COMPACTED_SCHEMA)
    return keep_rows(header, own, cleaned_at_s=CLEANED_AT_S)


@pytest.mark.parametrize("count", [1, 5, 7, 1_000])
def test_a_batch_of_the_largest_size_is_readable_after_compaction(monkeypatch: pytest.MonkeyPatch, count: int):
    """Its column of offsets makes it larger: refused for that, no replica could read the rest of it any more."""
    batch = build_batch([NewRecord(b"v" * (n % 3), b"k") for n in range(count + 1)])
    stamp(batch, base_offset=0, leader_epoch=0)
    header = parse_header(batch)
    unpacked, _ = reading.check_structure(header, batch)
    rows = to_arrow(header, batch).slice(0, count)
    own = pa.record_batch([*rows.columns, pa.array(range(count), pa.int32())], schema=COMPACTED_SCHEMA)
    fewer = keep_rows(header, own, cleaned_at_s=0)

    monkeypatch.setattr(reading, "MAX_UNPACKED_BYTES", unpacked)
    assert to_arrow(header, batch).num_rows == count + 1
    assert to_arrow(parse_header(fewer), fewer).num_rows == count
    monkeypatch.setattr(reading, "MAX_UNPACKED_BYTES", unpacked - 1)
    with pytest.raises(CorruptBatchError, match="no batch has more"):
        to_arrow(header, batch)


def golden(name: str) -> bytes:
    if name == "filler":
        return build_filler(100, 5_000_000_000 // 2, leader_epoch=9, max_timestamp=1_700_000_000_000_000)
    if name == "emptied":
        return compacted(kept=[])
    return compacted({"compacted-lz4": "lz4"}.get(name))


@pytest.mark.parametrize("name", ["compacted", "compacted-lz4", "emptied", "filler"])
def test_compacted_batches_are_read_for_ever(name: str):
    path = GOLDEN / f"{name}.batch"
    if os.environ.get("REWRITE"):
        path.write_bytes(golden(name))

    stored = path.read_bytes()

    ((header, batch),) = iter_batches(stored)
    verify_payload_crc(header, batch)
    records = [(r.offset, r.key, r.value, r.timestamp) for r in read_records(stored, topic="t", partition=0)]
    if name == "filler":
        assert (header.base_offset, header.last_offset, header.leader_epoch) == (100, 2_500_000_000, 9)
        assert (is_filler(header), len(stored), records) == (True, HEADER_BYTES, [])
        return
    assert (header.base_offset, header.last_offset, header.leader_epoch) == (1234, 1239, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (7, 3, 11, 16)
    if name == "emptied":
        assert (is_filler(header), header.record_count, records) == (False, 0, [])
    else:
        assert (header.cleaned_at_s, header.max_timestamp) == (CLEANED_AT_S, 1_700_000_000_000_004)
        assert records == [(1234 + n, RECORDS[n].key, RECORDS[n].value, RECORDS[n].timestamp) for n in KEPT]


def test_uncompressed_compacted_batches_are_written_as_they_were():
    for name in ("compacted", "emptied", "filler"):
        assert golden(name) == (GOLDEN / f"{name}.batch").read_bytes()


@pytest.mark.parametrize(("start", "expected"), [(0, [1235, 1238]), (1235, [1235, 1238]), (1236, [1238]), (1239, [])])
def test_every_form_gives_the_offsets_that_the_records_always_had(start: int, expected: list[int]):
    data = compacted() + build_filler(1240, 1299, leader_epoch=5, max_timestamp=0)
    read = ReadResult(data=data, high_watermark=1300, log_start_offset=0, leader_epoch=5)

    def rendered(form: str) -> bytes:
        return render(form, read, topic="t", partition=0, offset=start)

    with pa.ipc.open_stream(rendered(media.ARROW_STREAM)) as stream:
        assert stream.read_all().column("offset").to_pylist() == expected
    assert rendered(media.NDJSON).count(b'"offset"') == len(expected)
    assert [r.offset for r in read_records(data, topic="t", partition=0, from_offset=start)] == expected
    ((header, batch), (gap, empty)) = iter_batches(data)
    assert to_arrow_with_offsets(header, batch, from_offset=start).column("offset").to_pylist() == expected
    assert to_arrow_with_offsets(gap, empty).num_rows == 0
    assert next_offset(data, start) == 1300
    assert rendered(media.BATCHES) == data


def test_a_filler_can_begin_later():
    header = parse_header(build_filler(10, 99, leader_epoch=2, max_timestamp=5))

    later = parse_header(begin_at(header, 40))

    assert (later.base_offset, later.last_offset, later.leader_epoch, later.max_timestamp) == (40, 99, 2, 5)


def test_compacted_batches_cannot_be_produced():
    for batch in (compacted(), keep_header(parse_header(compacted()))):
        with pytest.raises(CorruptBatchError, match=r"last_offset_delta must be|compacted batches cannot be produced"):
            validate_batch(batch, max_message_bytes=1 << 20)
    whole = compacted(kept=list(range(6)))
    with pytest.raises(CorruptBatchError, match="compacted batches cannot be produced"):
        validate_batch(whole, max_message_bytes=1 << 20)


@pytest.mark.parametrize(("layout", "at", "value"), [("<B", 21, 0), ("<I", 8, 72), ("<I", 28, 1)])
def test_an_empty_batch_that_lies_is_refused(layout: str, at: int, value: int):
    batch = bytearray(build_filler(0, 9, leader_epoch=0, max_timestamp=0) + bytes(8))
    struct.pack_into(layout, batch, at, value)
    struct.pack_into("<I", batch, 16, crc32c(bytes(batch[:16]) + bytes(batch[20:HEADER_BYTES])))

    with pytest.raises(CorruptBatchError):
        parse_header(batch)


def test_records_without_a_key_are_refused_where_keys_are_needed():
    batch = build_batch([NewRecord(b"a", b"k"), NewRecord(b"b"), NewRecord(b"c")])

    with pytest.raises(InvalidRequestError, match="record 1 of the batch's 3 has none") as caught:
        require_keys(parse_header(batch), batch)
    assert (caught.value.code, caught.value.http_status) == (ErrorCode.INVALID_RECORD, 422)
    require_keys(parse_header(keyed := build_batch(RECORDS)), keyed)


@pytest.mark.parametrize("start", [0, 7, 9, 1236, 1238, 1303])
def test_a_table_has_the_rows_of_its_batches_in_order(start: int):
    plain = {offset: build_batch([NewRecord(b"%d" % n, timestamp=n) for n in range(count)]) for offset, count in PLAIN}
    for offset, built in plain.items():
        stamp(built, base_offset=offset, leader_epoch=5)
    first, second, third, last = plain.values()
    data = b"".join(
        (first, second, third, compacted(), build_filler(1240, 1299, leader_epoch=5, max_timestamp=0), last)
    )
    found = [pair for pair in iter_batches(data) if pair[0].next_offset > start]
    each = [to_arrow_with_offsets(header, batch, from_offset=start) for header, batch in found]

    table = to_table(found, from_offset=start)

    assert table.equals(pa.Table.from_batches(each, READ_SCHEMA))
    assert table.schema == READ_SCHEMA
    assert to_table(found[1:], from_offset=start, before=each[0]).equals(table)
    assert to_table([]).num_rows == 0
