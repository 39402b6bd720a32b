"""Requests of brokers to controllers: registration, heartbeats, AlterPartition, the metadata watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from raftlog.model import (
    Address,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionState,
    ProducerId,
    TopicId,
)
from raftlog.wire.errors import WireError


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRequest:
    """Registration of a broker process (incarnation)."""

    cluster_id: str
    broker_id: BrokerId
    incarnation_id: str
    public: Address
    internal: Address
    rack: str = ""
    version: str = ""
    storage_id: str = ""
    """Random id of the data folder, created with it."""
    unclean: bool = False
    """The machine went down without a clean shutdown: unsynced writes may be lost."""
    previous_incarnations: tuple[str, ...] | None = None
    """Incarnations of this data folder that may have registered last; None: unknown. Any other had another folder."""
    min_feature_level: int = 1
    max_feature_level: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerResponse:
    """The broker's epoch; it stays fenced until a heartbeat shows that it has read `metadata_offset`."""

    broker_epoch: BrokerEpoch
    metadata_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineReplica:
    """A replica whose log the broker cannot open, or whose log is damaged."""

    topic_id: TopicId
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """Sent each `broker_heartbeat_interval_ms`."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    metadata_offset: Offset
    want_shutdown: bool = False
    offline: tuple[OfflineReplica, ...] = ()
    """Replicas that must neither lead nor be in the ISR: see docs/adr/0009."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """The broker's state at the controller."""

    fenced: bool
    should_shut_down: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrMember:
    """A replica with the broker epoch that fetched from the leader (KIP-903)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartition:
    """A leader proposes a new ISR for one partition."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    """The leader's partition epoch, for compare-and-swap."""
    new_isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionsRequest:
    """Several partitions of one leader."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[AlterPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResult:
    """The state in force, or the error."""

    topic_id: TopicId
    partition: int
    state: PartitionState | None = None
    error: WireError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionsResponse:
    """Results in the order of the request."""

    partitions: tuple[AlterPartitionResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedReplica:
    """A replica with damage that cannot be repaired."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    """The broker's leader epoch: a late report does not affect a replica that was fetched again since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedReplicasRequest:
    """Report of a broker's unrepairable replicas. The response is an `AlterPartitionsResponse`."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[DamagedReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlockRequest:
    """Request of a block of producer ids that a broker hands out."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """`count` producer ids with numbers from `first` on, allocated to one broker only."""

    first: ProducerId
    count: int
    key: str = ""
    """Key (hex) that permutes the numbers; empty in clusters with feature level 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataEntry:
    """One committed decision: its offset in the metadata log (the Raft index) and its records as plain data."""

    offset: Offset
    records: Any = ()
    """A list of objects, each with its `kind`."""
    packed: tuple[str, ...] = ()
    """Instead, if the reader asks for it: lists of some of the records, as JSON. 10,000 records at once take 40 ms."""
    previous_offset: Offset = -1
    """Offset of the previous decision: a reader with an older image has missed an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataUpdate:
    """Answer of `GET paths.METADATA_WATCH?after_offset=N&max_wait_ms=M&broker_id=B&packed=1`.

    `snapshot` (a whole image as plain data, at `snapshot_offset`) comes when `after_offset` is -1 or too old;
    entries after it follow in order. `end_offset` is how far the reader is once it has applied everything: it may
    exceed the last entry's offset.
    """

    end_offset: Offset
    entries: tuple[MetadataEntry, ...] = ()
    snapshot: Any = None
    snapshot_offset: Offset = -1
    controller_id: int = -1
    controller_epoch: ControllerEpoch = -1
