"""Offsets of many partitions in one request: where logs begin and end, and what a time stands for."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.model import Offset
from raftlog.wire.errors import WireError
from raftlog.wire.groups import TopicPartitions


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsBody:
    """JSON sent to `POST paths.MANY_OFFSETS`."""

    partitions: tuple[TopicPartitions, ...]
    """The partitions, each once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOffsets:
    """The offsets of one partition, or why they are not known."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number."""
    offset: Offset = -1
    """The offset found."""
    log_start_offset: Offset = -1
    """The first offset of the log."""
    high_watermark: Offset = -1
    """The offset after the last one that consumers read."""
    last_stable_offset: Offset = -1
    """The offset after the last one that `read_committed` consumers read."""
    error: WireError | None = None
    """Why the offsets are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsResponse:
    """Answer of `POST paths.MANY_OFFSETS`, in the order of the request."""

    offsets: tuple[PartitionOffsets, ...]
    """One entry for each partition."""
