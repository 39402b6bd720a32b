"""Full validation of one batch from an untrusted producer: every reader can read a batch that passes."""

from __future__ import annotations

from raftlog.errors import CorruptBatchError, ErrorCode, InvalidRequestError
from raftlog.model import NO_PRODUCER_ID
from raftlog.record.batch import (
    ATTRIBUTE_COMPRESSION,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    parse_header,
    verify_payload_crc,
)
from raftlog.record.compute import pc
from raftlog.record.reading import rows_of, to_arrow
from raftlog.record.short import arrow_bytes
from raftlog.record.small import newest_of_few
from raftlog.record.structure import check_structure

MAX_NAMED = 1_000
"""Of the records because of which a batch is refused, so many are named."""


def validate_batch(buffer: Buffer, header: BatchHeader | None = None, *, max_message_bytes: int) -> BatchHeader:
    """Check that `buffer` is exactly one sound batch, stored and unpacked within `max_message_bytes`.

    Args:
        header: the buffer's, if the caller has read it with `parse_header`.

    Raises:
        InvalidRequestError: MESSAGE_TOO_LARGE.
        CorruptBatchError: the message says which part is wrong.
    """
    header = header or parse_header(buffer)
    _require_size(header.batch_length, max_message_bytes, "the batch")
    if header.batch_length != len(buffer):
        raise CorruptBatchError(f"the header announces a batch of {header.batch_length} bytes, received {len(buffer)}")
    if header.last_offset_delta != header.record_count - 1:
        raise CorruptBatchError(
            f"last_offset_delta must be record_count - 1: received {header.last_offset_delta}, {header.record_count}"
        )
    if header.is_control or header.is_compacted:
        raise CorruptBatchError("control and compacted batches cannot be produced by a client")
    if header.is_transactional and header.producer_id == NO_PRODUCER_ID:
        raise CorruptBatchError("a transactional batch names its producer, received none")
    verify_payload_crc(header, buffer)
    if header.is_short:
        _require_size(arrow_bytes(header, buffer), max_message_bytes, "the unpacked batch")
        return header
    newest = _newest_of_few(header, buffer)
    if newest is None:
        unpacked, columns = check_structure(header, buffer)
        _require_size(HEADER_BYTES + unpacked, max_message_bytes, "the unpacked batch")
        newest = pc.max(rows_of(header, buffer, columns).column(0)).value
    if newest != header.max_timestamp:
        raise CorruptBatchError(f"max_timestamp is {header.max_timestamp}, the newest record has {newest}")
    return header


def _newest_of_few(header: BatchHeader, buffer: Buffer) -> int | None:
    """Return the newest timestamp of the few records of a batch, if its bytes are the only encoding of them."""
    if header.attributes & ATTRIBUTE_COMPRESSION:
        return None
    return newest_of_few(memoryview(buffer)[HEADER_BYTES:], header.record_count)


def require_keys(header: BatchHeader, batch: Buffer) -> None:
    """Check that every record has a key, as compaction requires. `batch` was validated.

    Raises:
        InvalidRequestError: INVALID_RECORD; the details name the first `MAX_NAMED` records without a key.
    """
    keys = to_arrow(header, batch).column(1)
    if keys.null_count:
        records = pc.indices_nonzero(keys.is_null())[:MAX_NAMED].to_pylist()
        first = records[0]
        raise InvalidRequestError(
            f"the topic is compacted, so every record needs a key: record {first} of the batch's {len(keys)} has none; "
            "nothing was appended",
            code=ErrorCode.INVALID_RECORD,
            details={"record": first, "without_key": keys.null_count, "records": records},
        )


def _require_size(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise InvalidRequestError(
            f"{what} has {size} bytes, the topic's max_message_bytes is {limit}: send smaller batches",
            code=ErrorCode.MESSAGE_TOO_LARGE,
            details={"max_message_bytes": limit, "received": size},
        )
