"""The record batch: a 64-byte header and an Arrow payload. No IO.

Names that need pyarrow are loaded on first use, because importing Arrow takes far longer than importing the client. To
use them lazily, write `from raftlog import record`, and `record.build_batch` at the call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from raftlog.record.model import Compression, NewRecord, Record, RecordColumns

if TYPE_CHECKING:
    from raftlog.record.arrow import READ_SCHEMA, SCHEMA, build_batch, build_batch_from_arrow
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
    from raftlog.record.reading import read_records, to_arrow, to_arrow_with_offsets, to_records, to_table
    from raftlog.record.tables import TABLE_SCHEMA, NamedTables
    from raftlog.record.validate import validate_batch

_EXPORTS = {
    "arrow": (
        "READ_SCHEMA",
        "SCHEMA",
        "build_batch",
        "build_batch_from_arrow",
    ),
    "reading": (
        "read_records",
        "to_arrow",
        "to_arrow_with_offsets",
        "to_table",
        "to_records",
    ),
    "batch": (
        "HEADER_BYTES",
        "BatchHeader",
        "iter_batches",
        "parse_header",
        "stamp",
        "verify_payload_crc",
    ),
    "control": (
        "NOTHING_ABORTED",
        "AbortedBatches",
        "Marker",
        "build_marker",
        "parse_marker",
        "readable_batches",
    ),
    "tables": ("TABLE_SCHEMA", "NamedTables"),
    "validate": ("validate_batch",),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "HEADER_BYTES",
    "NOTHING_ABORTED",
    "READ_SCHEMA",
    "SCHEMA",
    "TABLE_SCHEMA",
    "AbortedBatches",
    "BatchHeader",
    "Compression",
    "Marker",
    "NamedTables",
    "NewRecord",
    "Record",
    "RecordColumns",
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
    "to_records",
    "to_table",
    "validate_batch",
    "verify_payload_crc",
]

if not TYPE_CHECKING:  # Type checkers know the names, and find those that do not exist.

    def __getattr__(name: str) -> Any:
        """Load a name with its module, once."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'raftlog.record' has no attribute {name!r}")
        found = getattr(import_module(f"raftlog.record.{_MODULE_OF[name]}"), name)
        globals()[name] = found
        return found
