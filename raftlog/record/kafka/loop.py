"""Records one by one: faster than columns for a batch of few records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.record.arrow import SCHEMA, rows_to_write
from raftlog.record.batch import Buffer
from raftlog.record.headers import HeaderColumn
from raftlog.record.kafka.header import KafkaHeader, invalid
from raftlog.record.model import Headers, RecordColumns

MAX_TIMESTAMP_MS = 2**62 // 1000
"""The furthest time from 1970 that is stored, in milliseconds: microseconds have 64 bits."""
_LAST = 0x80
"""A byte of a varint below this is its last one."""
_INT_BITS, _LONG_BITS = 35, 70
_NULL = -1
_HEADERS = 3
"""The column."""
FEW_HEADERS, HEADER_BYTES = 100_000, 8
"""A batch may have so many headers in any case, and more if each takes as many bytes on average."""


class _Reader:
    """Reads one record after another. A position beyond the end is found by the record's own bounds."""

    def __init__(self, records: Buffer) -> None:
        self.data = bytes(records)
        self.at = 0

    def number(self, bits: int = _INT_BITS) -> int:
        """Return a signed varint of at most `bits` / 7 bytes."""
        data, at, value, shift = self.data, self.at, 0, 0
        while shift < bits:
            if at >= len(data):
                raise invalid("the records end inside a number")
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < _LAST:
                self.at = at
                return (value >> 1) ^ -(value & 1)
            shift += 7
        raise invalid("a record has a number of too many bytes")

    def piece(self, end: int) -> bytes | None:
        """Return bytes with their length before them, which end at `end` or earlier; None: null."""
        size = self.number()
        if size < 0:
            if size == _NULL:
                return None
            raise invalid(f"a record has a part with the length {size}")
        at = self.at
        if at + size > end:
            raise invalid(f"a part of {size} bytes does not fit into its record")
        self.at = at + size
        return self.data[at : at + size]


def decode_records(header: KafkaHeader, records: Buffer) -> RecordColumns | pa.RecordBatch:
    """Return the unpacked records of a batch: as rows of `SCHEMA` if any of them has headers.

    Raises:
        InvalidRequestError: INVALID_RECORD, INVALID_TIMESTAMP.
    """
    reader, columns = _Reader(records), RecordColumns()
    headers_left = most_headers(len(records))
    keys, headers = list[bytes | None](), HeaderColumn()
    for number in range(header.record_count):
        size = reader.number()
        end = reader.at + size
        if size < 1 or end > len(reader.data):
            raise invalid(f"record {number} has {size} bytes, {len(reader.data) - reader.at} are left")
        reader.at += 1  # Attributes: none is defined.
        columns.timestamps.append(_microseconds(header.base_timestamp, reader.number(_LONG_BITS)))
        if (delta := reader.number()) != number:
            raise invalid(f"record {number} has the offset delta {delta}")
        keys.append(reader.piece(end))
        columns.values.append(reader.piece(end))
        headers_left -= headers.append(_headers(reader, end, headers_left))
        if reader.at != end:
            raise invalid(f"record {number} has another length than its parts")
    if reader.at != len(reader.data):
        raise invalid(f"{len(reader.data) - reader.at} bytes follow the last of {header.record_count} records")
    columns.keys = keys if any(key is not None for key in keys) else None
    if not headers:
        return columns
    return rows_to_write(columns).set_column(_HEADERS, SCHEMA.field(_HEADERS), headers.to_array())


def _microseconds(base_ms: int, delta_ms: int) -> int:
    milliseconds = base_ms + delta_ms
    if not -MAX_TIMESTAMP_MS <= milliseconds <= MAX_TIMESTAMP_MS:
        raise timestamp_refused()
    return milliseconds * 1000


def timestamp_refused() -> InvalidRequestError:
    """Return the error for a time that cannot be stored."""
    return InvalidRequestError(
        f"a record's timestamp is further than {MAX_TIMESTAMP_MS} ms from 1970; nothing was appended",
        code=ErrorCode.INVALID_TIMESTAMP,
    )


def most_headers(size: int) -> int:
    """Return how many headers the records of a batch may have in all: in memory, each takes some 300 bytes.

    Args:
        size: the bytes of the unpacked records.
    """
    return max(FEW_HEADERS, size // HEADER_BYTES)


def too_many_headers(count: int, most: int) -> InvalidRequestError:
    """Return the error for a batch with more headers than `most_headers`."""
    return invalid(
        f"a batch has at most {FEW_HEADERS:,} headers, or one for every {HEADER_BYTES} bytes; {count:,} were stated, "
        f"{most:,} were left"
    )


def _headers(reader: _Reader, end: int, most: int) -> Iterator[tuple[str, bytes | None]]:
    count = reader.number()
    if not 0 <= count <= end - reader.at:
        raise invalid(f"a record states {count} headers in {end - reader.at} bytes")
    if count > most:
        raise too_many_headers(count, most)
    for _ in range(count):
        yield _header(reader, end)


def _header(reader: _Reader, end: int) -> tuple[str, bytes | None]:
    name = reader.piece(end)
    if name is None:
        raise invalid("a header has no key")
    try:
        text = name.decode()
    except UnicodeDecodeError:
        raise header_key_refused() from None
    return text, reader.piece(end)


def header_key_refused() -> InvalidRequestError:
    """Return the error for a header key that cannot be stored."""
    return invalid("the key of a header is not UTF-8, as Kafka requires")


def put_number(out: bytearray, value: int) -> None:
    """Append a signed varint."""
    rest = (value << 1) ^ (value >> 63)
    while rest >= _LAST:
        out.append(rest & 0x7F | _LAST)
        rest >>= 7
    out.append(rest)


def _put_piece(out: bytearray, piece: bytes | None) -> None:
    if piece is None:
        out.append(1)  # The varint of -1.
        return
    put_number(out, len(piece))
    out += piece


def put_record(
    out: bytearray, *, timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Headers
) -> None:
    """Append one record."""
    record = bytearray(1)
    put_number(record, timestamp_delta)
    put_number(record, offset_delta)
    _put_piece(record, key)
    _put_piece(record, value)
    put_number(record, len(headers))
    for name, content in headers:
        _put_piece(record, name.encode())
        _put_piece(record, content)
    put_number(out, len(record))
    out += record


def encode_records(rows: pa.RecordBatch, deltas: Iterable[int]) -> tuple[int, int, bytearray]:
    """Return the first and the newest timestamp (ms since 1970), and the records.

    Args:
        rows: rows of `record.arrow.SCHEMA`; further columns are ignored.
        deltas: the offset of each record minus the batch's base offset.
    """
    times = [time // 1000 for time in rows.column(0).view(pa.int64()).to_pylist()]
    columns = (rows.column(number).to_pylist() for number in (1, 2, 3))
    out = bytearray()
    for time, delta, key, value, entries in zip(times, deltas, *columns, strict=True):
        headers = tuple((entry["key"], entry["value"]) for entry in entries or ())
        put_record(out, timestamp_delta=time - times[0], offset_delta=delta, key=key, value=value, headers=headers)
    return times[0], max(times), out
