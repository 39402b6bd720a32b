"""What brokers say to controllers: registration, heartbeats, AlterPartition, the metadata watch."""

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
    """A broker process announces itself."""

    cluster_id: str
    broker_id: BrokerId
    incarnation_id: str
    public: Address
    internal: Address
    rack: str = ""
    version: str = ""
    storage_id: str = ""
    """Drawn when the data folder was made."""
    unclean: bool = False
    """The machine went down without a clean shutdown: what was not synced may be gone."""
    previous_incarnations: tuple[str, ...] | None = None
    """Of this folder, those that may have registered last; None: it does not know. Another one had another folder."""
    min_feature_level: int = 1
    max_feature_level: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerResponse:
    """The broker's epoch; it stays fenced until a heartbeat shows that it has read `metadata_offset`."""

    broker_epoch: BrokerEpoch
    metadata_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineReplica:
    """A replica whose log the broker cannot open, or cannot trust."""

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
    """They must not lead, nor be in sync: see docs/adr/0009."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """What the controller thinks of the broker."""

    fenced: bool
    should_shut_down: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrMember:
    """A replica and the incarnation that the leader means (KIP-903)."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartition:
    """A leader proposes a new ISR for one partition."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    """The epoch that the leader knows: compare-and-swap."""
    new_isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionsRequest:
    """Several partitions of one leader."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[AlterPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResult:
    """The state now in force, or why the proposal was refused."""

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
    """A replica whose disk no longer holds what it holds."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    """The epoch that the broker knows: a late report takes nothing from a replica that has healed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedReplicasRequest:
    """A broker says which of its replicas nobody may count on. The answer is an `AlterPartitionsResponse`."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    partitions: tuple[DamagedReplica, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlockRequest:
    """A broker asks for a block of producer ids to hand out."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """`count` producer ids with numbers from `first` on, never given to anyone else."""

    first: ProducerId
    count: int
    key: str = ""
    """In hex: what shuffles them; empty in clusters whose feature level is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataEntry:
    """One committed decision: its offset in the metadata log (the Raft index) and its records as plain data."""

    offset: Offset
    records: Any
    """A list of objects, each with its `kind`."""
    previous_offset: Offset = -1
    """Of the decision before it: a reader whose image is older has missed something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataUpdate:
    """Answer of `GET paths.METADATA_WATCH?after_offset=N&max_wait_ms=M&broker_id=B`.

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
