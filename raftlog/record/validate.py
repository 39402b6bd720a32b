"""Full validation of one batch from an untrusted producer: every reader can read a batch that passes."""

from __future__ import annotations

from raftlog.errors import CorruptBatchError, ErrorCode, InvalidRequestError
from raftlog.model import NO_PRODUCER_ID
from raftlog.record.arrow import rows_of, to_arrow
from raftlog.record.batch import (
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    parse_header,
    verify_payload_crc,
)
from raftlog.record.compute import pc
from raftlog.record.structure import check_structure


def validate_batch(buffer: Buffer, *, max_message_bytes: int) -> BatchHeader:
    """Check that `buffer` is exactly one sound batch, stored and unpacked within `max_message_bytes`.

    Raises:
        InvalidRequestError: MESSAGE_TOO_LARGE.
        CorruptBatchError: the message says which part is wrong.
    """
    header = parse_header(buffer)
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
    _require_size(HEADER_BYTES + check_structure(header, buffer), max_message_bytes, "the unpacked batch")
    rows = rows_of(header, buffer)
    if (newest := pc.max(rows.column(0)).value) != header.max_timestamp:
        raise CorruptBatchError(f"max_timestamp is {header.max_timestamp}, the newest record has {newest}")
    return header


def require_keys(header: BatchHeader, batch: Buffer) -> None:
    """Check that every record has a key, as compaction requires. `batch` was validated.

    Raises:
        InvalidRequestError: INVALID_RECORD.
    """
    keys = to_arrow(header, batch).column(1)
    if keys.null_count:
        first = pc.index(keys.is_null(), True).as_py()
        raise InvalidRequestError(
            f"the topic is compacted, so every record needs a key: record {first} of the batch's {len(keys)} has none; "
            "nothing was appended",
            code=ErrorCode.INVALID_RECORD,
            details={"record": first, "without_key": keys.null_count},
        )


def _require_size(size: int, limit: int, what: str) -> None:
    if size > limit:
        raise InvalidRequestError(
            f"{what} has {size} bytes, the topic's max_message_bytes is {limit}: send smaller batches",
            code=ErrorCode.MESSAGE_TOO_LARGE,
            details={"max_message_bytes": limit, "received": size},
        )
