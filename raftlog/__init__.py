"""raftlog: a Raft-based replicated log without ZooKeeper, for Python and Spark."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raftlog.blocking.tables import read_arrow, read_pandas, scan_polars
    from raftlog.client import (
        Admin,
        Consumer,
        ConsumerMetrics,
        Delivery,
        OffsetAndMetadata,
        Partitioner,
        Producer,
        ProducerMetrics,
        Profile,
        RecordMetadata,
        Security,
    )
    from raftlog.errors import (
        AuthenticationError,
        AuthorizationError,
        ConfigError,
        CorruptBatchError,
        ErrorCode,
        FencedError,
        InvalidRequestError,
        NotFoundError,
        OffsetOutOfRangeError,
        OverloadedError,
        RaftlogError,
        RetriableError,
        TransactionAbortedError,
        TransactionInDoubtError,
        UnknownOutcomeError,
    )
    from raftlog.model import TopicPartition
    from raftlog.record import Record

_EXPORTS = {
    "raftlog.blocking.tables": ("read_arrow", "read_pandas", "scan_polars"),
    "raftlog.client": (
        "Admin",
        "Consumer",
        "ConsumerMetrics",
        "Delivery",
        "OffsetAndMetadata",
        "Partitioner",
        "Producer",
        "ProducerMetrics",
        "Profile",
        "RecordMetadata",
        "Security",
    ),
    "raftlog.errors": (
        "AuthenticationError",
        "AuthorizationError",
        "ConfigError",
        "CorruptBatchError",
        "ErrorCode",
        "FencedError",
        "InvalidRequestError",
        "NotFoundError",
        "OffsetOutOfRangeError",
        "OverloadedError",
        "RaftlogError",
        "RetriableError",
        "TransactionAbortedError",
        "TransactionInDoubtError",
        "UnknownOutcomeError",
    ),
    "raftlog.model": ("TopicPartition",),
    "raftlog.record": ("Record",),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = [
    "Admin",
    "AuthenticationError",
    "AuthorizationError",
    "ConfigError",
    "Consumer",
    "ConsumerMetrics",
    "CorruptBatchError",
    "Delivery",
    "ErrorCode",
    "FencedError",
    "InvalidRequestError",
    "NotFoundError",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "OverloadedError",
    "Partitioner",
    "Producer",
    "ProducerMetrics",
    "Profile",
    "RaftlogError",
    "Record",
    "RecordMetadata",
    "RetriableError",
    "Security",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionInDoubtError",
    "UnknownOutcomeError",
    "read_arrow",
    "read_pandas",
    "scan_polars",
]

if not TYPE_CHECKING:  # Hidden from type checkers, so that they report names that do not exist.

    def __getattr__(name: str) -> Any:
        """Load a public name at its first use, so that `import raftlog` is fast."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'raftlog' has no attribute {name!r}")
        return getattr(import_module(_MODULE_OF[name]), name)
