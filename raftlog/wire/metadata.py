"""Cluster metadata as clients see it, and topic administration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from raftlog.model import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId

ConfigValue = str | int | float | bool

SHORT_BATCHES = 5
"""From this feature level on all nodes read short batches: earlier ones refuse them."""
COMMITS_BY_TOPIC_ID = 6
"""From this feature level on all brokers read the topic ids of offsets to commit: earlier ones refuse the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerInfo:
    """One broker. URLs are `http://host:port` of its listeners."""

    broker_id: BrokerId
    """The broker's id."""
    url: str
    """The URL of the listener for clients."""
    internal_url: str = ""
    """The URL of the listener for other nodes."""
    rack: str = ""
    """The broker's rack; empty: none is configured."""
    version: str = ""
    """The version of raftlog that the broker runs."""
    broker_epoch: BrokerEpoch = -1
    """The epoch of the broker's registration."""
    fenced: bool = False
    """Whether the broker has no live session, and so leads nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInfo:
    """One partition; `leader` is -1 while it has none."""

    partition: int
    """The partition's number."""
    leader: BrokerId
    """The broker that leads; -1: none."""
    leader_epoch: LeaderEpoch
    """The leader epoch, which grows with each change of leader."""
    partition_epoch: PartitionEpoch = 0
    """The partition epoch, which grows with each change of the partition's state."""
    replicas: tuple[BrokerId, ...]
    """The brokers that have a replica, the preferred leader first."""
    isr: tuple[BrokerId, ...]
    """The brokers whose replicas are in sync."""
    elr: tuple[BrokerId, ...] = ()
    """Eligible leader replicas: not in sync, but with every acknowledged record; they may lead if the ISR is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """One topic; `configs` holds its own settings, not the defaults."""

    topic: str
    """The topic's name."""
    topic_id: TopicId
    """The topic's id; a recreated topic gets another one."""
    partitions: tuple[PartitionInfo, ...]
    """The partitions, by number."""
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    """The topic's own settings, without the defaults."""
    internal: bool = False
    """Coordinators keep their state here: it can be read, not written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsResponse:
    """Answer of `GET paths.TOPICS`, sorted by name. The response for a single topic is a plain `TopicInfo`."""

    topics: tuple[TopicInfo, ...]
    """The topics of the page."""
    matching: int = 0
    """How many topics fit, on all pages."""
    next: str = ""
    """The `after` of the next page; empty: this is the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokersResponse:
    """Answer of `GET paths.BROKERS`, sorted by id."""

    brokers: tuple[BrokerInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerInfo:
    """Answer of `GET paths.CONTROLLER`: the active controller as this node has it."""

    controller_id: int = -1
    """The active controller's id; -1: unknown."""
    controller_epoch: int = -1
    """The active controller's epoch; -1: unknown."""
    url: str = ""
    """The active controller's URL; empty: unknown."""
    metadata_offset: int = -1
    """The metadata offset that this node has applied."""
    voters: tuple[int, ...] = ()
    """The ids of the quorum's voters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterInfo:
    """Answer of `GET paths.CLUSTER`."""

    cluster_id: str
    """The cluster's id."""
    controller: ControllerInfo
    """The active controller."""
    brokers: tuple[BrokerInfo, ...]
    """The registered brokers, by id."""
    metadata_offset: int = -1
    """The metadata offset that the responding node has applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetadata:
    """Answer of `GET paths.METADATA?topic=a&topic=b` (all topics without one): all a client needs for routing.

    A topic that does not exist is absent from `topics`.
    """

    cluster_id: str
    metadata_offset: int
    brokers: tuple[BrokerInfo, ...]
    topics: tuple[TopicInfo, ...]
    feature_level: int = 1
    """The feature level in force: from `SHORT_BATCHES` on, producers may write short batches; from
    `COMMITS_BY_TOPIC_ID` on, commits of offsets may name topics by their ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopicRequest:
    """JSON sent to `POST paths.TOPICS`; brokers pass it on to the active controller (`paths.CREATE_TOPIC`)."""

    topic: str
    partitions: int | None = None
    replication_factor: int | None = None
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)
    if_not_exists: bool = False
    """Return the existing topic instead of TOPIC_ALREADY_EXISTS."""
    validate_only: bool = False
    """Create nothing: return the topic that would be created, with an empty topic id, or the error."""
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None
    """The replicas of each partition, preferred leader first, in place of both numbers; None: brokers are chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicRequest:
    """JSON that brokers send to `paths.DELETE_TOPIC` for `DELETE paths.TOPIC`."""

    topic: str
    topic_id: TopicId = ""
    """The id that the topic must have; "": any."""
