"""Renders the records of one read by `Accept`: raw batches, an Arrow stream, JSON or NDJSON."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pyarrow as pa

from raftlog.broker.json_records import record_to_json
from raftlog.model import Offset
from raftlog.partition.readable_replica import ReadResult, in_memory
from raftlog.record import (
    READ_SCHEMA,
    AbortedBatches,
    iter_batches,
    readable_batches,
    to_arrow_with_offsets,
    to_records,
    verify_payload_crc,
)
from raftlog.wire import media
from raftlog.wire.codec import encode_json
from raftlog.wire.negotiation import negotiate

_FORMATS = (media.JSON, media.NDJSON, media.ARROW_STREAM, media.BATCHES)
_ROWS_AT_ONCE = 1_000
"""Records rendered at once: a record takes ten times its final memory while it is rendered."""
_WILDCARDS = dict.fromkeys(("", "*/*", "application/*", "text/html"), media.JSON)


def form_of(accept: str) -> str:
    """Return the media type for an `Accept` header; JSON if the client accepts any.

    Raises:
        InvalidRequestError: no accepted type is offered; the message lists the offered ones.
    """
    return negotiate(accept, _FORMATS, _WILDCARDS)


def next_offset(data: bytes, offset: Offset) -> Offset:
    """Return the offset at which a reader of `data` from `offset` continues."""
    end = offset
    for header, _ in iter_batches(data):
        end = header.next_offset
    return end


def render(form: str, read: ReadResult, *, topic: str, partition: int, offset: Offset, more: bool = False) -> bytes:
    """Encode whole batches. Except in raw form, records below `offset` are skipped.

    Aborted batches that the read lists are skipped in every form.

    Args:
        more: whether further records are available now.
    """
    data, aborted = in_memory(read.data), AbortedBatches(read.aborted)
    if form == media.BATCHES:
        if not read.aborted:
            return data
        return b"".join(batch for header, batch in iter_batches(data) if header not in aborted)
    if form == media.ARROW_STREAM:
        return _arrow_stream(data, offset, aborted)
    if form == media.NDJSON:
        return b"".join(b"\n".join((*some, b"")) for some in _rendered(data, aborted, topic, partition, offset))
    marks = encode_json(
        {
            "next_offset": next_offset(data, offset),
            "more": more,
            "high_watermark": read.high_watermark,
            "last_stable_offset": read.last_stable_offset,
            "log_start_offset": read.log_start_offset,
        }
    )
    records = b",".join(b",".join(some) for some in _rendered(data, aborted, topic, partition, offset))
    return b"".join((b'{"records":[', records, b"],", marks[1:]))


def _rendered(
    data: bytes, aborted: AbortedBatches, topic: str, partition: int, offset: Offset
) -> Iterator[list[bytes]]:
    """Encode some records at a time: encoding all at once would hold the GIL too long."""
    for header, batch in readable_batches(iter_batches(data), aborted, from_offset=offset):
        verify_payload_crc(header, batch)
        rows = to_arrow_with_offsets(header, batch, from_offset=offset)
        for first in range(0, rows.num_rows, _ROWS_AT_ONCE):
            records = to_records(rows.slice(first, _ROWS_AT_ONCE), topic, partition)
            yield [orjson.dumps(record_to_json(record)) for record in records]


def _arrow_stream(data: bytes, offset: Offset, aborted: AbortedBatches) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, READ_SCHEMA) as writer:
        for header, batch in readable_batches(iter_batches(data), aborted, from_offset=offset):
            verify_payload_crc(header, batch)
            writer.write_batch(to_arrow_with_offsets(header, batch, from_offset=offset))
    return bytes(memoryview(sink.getvalue()))
