"""The async client: Producer, Consumer, Admin. Never imports server code."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raftlog.client.admin import Admin
    from raftlog.client.consumer import Consumer
    from raftlog.client.delivery import Delivery
    from raftlog.client.metrics import ConsumerMetrics, ProducerMetrics
    from raftlog.client.offsets import OffsetAndMetadata
    from raftlog.client.partitioning import Partitioner
    from raftlog.client.producer import Producer
    from raftlog.client.profiles import Profile
    from raftlog.client.record_outcomes import RecordMetadata
    from raftlog.client.security import Security

_MODULE_OF = {
    "Admin": "admin",
    "Consumer": "consumer",
    "ConsumerMetrics": "metrics",
    "Delivery": "delivery",
    "OffsetAndMetadata": "offsets",
    "Partitioner": "partitioning",
    "Producer": "producer",
    "ProducerMetrics": "metrics",
    "Profile": "profiles",
    "RecordMetadata": "record_outcomes",
    "Security": "security",
}

__all__ = [
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
]

if not TYPE_CHECKING:  # Type checkers know the names, and find those that do not exist.

    def __getattr__(name: str) -> Any:
        """Load a class when it is first used, so that a program that only uses Admin does not import pyarrow."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'raftlog.client' has no attribute {name!r}")
        return getattr(import_module(f"raftlog.client.{_MODULE_OF[name]}"), name)
