"""Produce, fetch, ListOffsets, DeleteRecords and producer ids: requests of clients to partition leaders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from raftlog.model import (
    AbortedTransaction,
    BrokerId,
    Isolation,
    LeaderEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    TopicId,
)
from raftlog.schema import limited
from raftlog.wire.errors import WireError
from raftlog.wire.producer_ids import require_identity

AcksText: TypeAlias = Literal["all", "0", "1"]
MAX_REQUEST_PARTITIONS = 10_000
"""Limit of partitions in one produce or fetch request: each costs the broker more than its few bytes."""
MAX_JSON_RECORDS = 20_000
"""The most records of one JSON request; raw batches have no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducePartition:
    """One batch of a produce frame: `length` bytes after the head."""

    topic: str
    partition: int
    length: int
    topic_id: TopicId = ""
    """Fences a topic that was deleted and recreated; empty when the producer does not know it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """Head of the frame sent to `paths.PRODUCE`: one record batch for each partition, in order."""

    acks: AcksText = "all"
    timeout_ms: int = field(default=30_000, metadata=limited(least=1))
    transactional_id: str = ""
    """The transactional id of transactional batches; empty: none."""
    partitions: tuple[ProducePartition, ...] = field(metadata=limited(most=MAX_REQUEST_PARTITIONS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResult:
    """What happened to one batch: `error`, or the offsets of its first and last record."""

    topic: str
    partition: int
    base_offset: Offset = -1
    """-1 when acks=0: nothing is known."""
    last_offset: Offset = -1
    duplicate: bool = False
    """The batch was appended by an earlier request, at these offsets."""
    leader_epoch: LeaderEpoch = -1
    outlived_retention_ms: int = -1
    """The topic's `retention_ms`, if even the newest record of the batch is older: it is deleted soon."""
    error: WireError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceResponse:
    """Results in the order of the request."""

    partitions: tuple[ProduceResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPartition:
    """Where to read one partition from."""

    topic: str
    partition: int
    offset: Offset
    max_bytes: int = field(default=1 << 20, metadata=limited(least=1))
    """A soft limit: the first batch is always sent whole."""
    topic_id: TopicId = ""
    rack: str = ""
    """The consumer's rack: the leader may return a preferred read replica in it (KIP-392)."""
    any_replica: bool = False
    """A follower may answer, too, up to its high watermark."""
    last_fetched_epoch: LeaderEpoch = -1
    """Leader epoch of the record before `offset` that the consumer has read; -1: unknown (KIP-320)."""
    check_crcs: bool = True
    """False: the reader verifies payload checksums, and fetches again with True if one is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """JSON sent to `paths.FETCH`. The answer is a frame: `FetchResponse`, then the batches."""

    partitions: tuple[FetchPartition, ...] = field(metadata=limited(most=MAX_REQUEST_PARTITIONS))
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 << 20
    isolation: Isolation = "read_uncommitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class DivergingEpoch:
    """The leader's largest epoch at or below the reader's, and its end offset (KIP-595, KIP-320).

    A follower truncates and fetches again; a consumer has read records that were truncated since.
    """

    epoch: LeaderEpoch
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """One partition of a fetch answer: `length` bytes of whole batches, or an error.

    The first batch may begin before the requested offset; readers drop records below it. read_committed readers drop
    batches of `aborted` transactions, and all readers drop control batches.
    """

    topic: str
    partition: int
    length: int = 0
    high_watermark: Offset = -1
    log_start_offset: Offset = -1
    leader_epoch: LeaderEpoch = -1
    last_stable_offset: Offset = -1
    """The outcome of every transaction below it is final."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """With `read_committed`: aborted transactions that may have records in the batches."""
    preferred_read_replica: BrokerId = -1
    """Read this broker instead, with `any_replica`; no records come with it."""
    diverging: DivergingEpoch | None = None
    """The log diverges from what the reader has read: it was truncated. No records come with it."""
    error: WireError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse:
    """Head of a fetch frame."""

    partitions: tuple[FetchResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochStart:
    """A leader epoch of a log. Its last offset is before the next epoch's first."""

    leader_epoch: LeaderEpoch
    """The leader epoch."""
    start_offset: Offset
    """The first offset that was written in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetResponse:
    """Answer of `paths.OFFSETS?at=earliest|latest|<ms since 1970>`.

    For a time: the first offset whose record is at or after it; the high watermark when there is none. With
    `isolation=read_committed`, the last stable offset replaces the high watermark.
    """

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number."""
    offset: Offset
    """The offset found."""
    leader_epoch: LeaderEpoch = -1
    """The partition's leader epoch; -1: unknown."""
    log_start_offset: Offset = -1
    """The first offset of the log."""
    high_watermark: Offset = -1
    """The offset after the last one that consumers read."""
    last_stable_offset: Offset = -1
    """The offset after the last one that `read_committed` consumers read."""
    epochs: tuple[EpochStart, ...] = ()
    """The log's latest leader epochs with records, in order; at most 100. Empty: older brokers do not say."""


HIGH_WATERMARK = "high_watermark"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsBody:
    """JSON sent to `paths.DELETE_RECORDS`."""

    before_offset: int | str
    """Records below it are deleted; `high_watermark`: all records below the high watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecordsResponse:
    """The partition's log start offset, which never moves back."""

    topic: str
    partition: int
    log_start_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdResponse:
    """Answer of `paths.PRODUCERS`: a fresh identity for an idempotent producer."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch = 0

    def __post_init__(self) -> None:
        require_identity(self.producer_id, self.producer_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonRecord:
    """One record in JSON. `headers` is an object, or a list of `{"key", "value"}` to repeat a key."""

    value: Any = None
    key: Any = None
    headers: Mapping[str, Any] | tuple[Any, ...] = field(default_factory=dict)
    partition: int | None = None
    timestamp: int | str | None = None
    """Milliseconds since 1970 or ISO 8601; now when missing."""
    key_encoding: Literal["utf-8", "base64"] = "utf-8"
    value_encoding: Literal["utf-8", "base64"] = "utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonProduceRequest:
    """JSON sent to `paths.TOPIC_RECORDS`. A value that is an object, list or number is stored as its JSON text."""

    records: tuple[JsonRecord, ...] = field(metadata=limited(least=1, most=MAX_JSON_RECORDS))
