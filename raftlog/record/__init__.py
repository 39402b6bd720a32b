"""The record batch: a 64-byte header and an Arrow payload. No IO."""

from raftlog.record.arrow import (
    READ_SCHEMA,
    SCHEMA,
    build_batch,
    build_batch_from_arrow,
    read_records,
    to_arrow,
    to_arrow_with_offsets,
)
from raftlog.record.batch import (
    HEADER_BYTES,
    BatchHeader,
    iter_batches,
    parse_header,
    stamp,
    verify_payload_crc,
)
from raftlog.record.control import (
    NOTHING_ABORTED,
    AbortedBatches,
    Marker,
    build_marker,
    parse_marker,
    readable_batches,
)
from raftlog.record.model import NewRecord, Record
from raftlog.record.validate import validate_batch

__all__ = [
    "HEADER_BYTES",
    "NOTHING_ABORTED",
    "READ_SCHEMA",
    "SCHEMA",
    "AbortedBatches",
    "BatchHeader",
    "Marker",
    "NewRecord",
    "Record",
    "build_batch",
    "build_batch_from_arrow",
    "build_marker",
    "iter_batches",
    "parse_header",
    "parse_marker",
    "read_records",
    "readable_batches",
    "stamp",
    "to_arrow",
    "to_arrow_with_offsets",
    "validate_batch",
    "verify_payload_crc",
]
