"""The metadata image: the whole cluster's state at one offset of the metadata log. Immutable.

`replay` makes the next image from records; `image_codec` converts images to and from plain data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from raftlog.metadata_quorum.records import ALL_BROKERS, ConfigValue, Record
from raftlog.model import (
    Acl,
    BrokerId,
    BrokerRegistration,
    ControllerEpoch,
    ControllerId,
    Offset,
    PartitionState,
    ProducerId,
    Quota,
    TopicId,
    UserCredential,
)

Configs = Mapping[str, ConfigValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic; `configs` holds its own settings only."""

    topic: str
    topic_id: TopicId
    configs: Configs = field(default_factory=dict)
    partitions: Mapping[int, PartitionState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """Everything that the metadata quorum has decided."""

    offset: Offset = -1
    cluster_id: str = ""
    feature_level: int = 0
    controller_id: ControllerId = -1
    controller_epoch: ControllerEpoch = -1
    last_sequence: int = -1
    """The sequence of the last command replayed in this controller epoch."""
    pending: tuple[Record, ...] = ()
    """Records of a decision whose last command has not been replayed yet; none of them has taken effect."""
    brokers: Mapping[BrokerId, BrokerRegistration] = field(default_factory=dict)
    broker_configs: Mapping[BrokerId, Configs] = field(default_factory=dict)
    """Dynamic settings of brokers, and those of `ALL_BROKERS`."""
    topics: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    names: Mapping[str, TopicId] = field(default_factory=dict)
    users: Mapping[str, UserCredential] = field(default_factory=dict)
    acls: Mapping[Acl, None] = field(default_factory=dict)
    quotas: Mapping[tuple[str, str], Quota] = field(default_factory=dict)
    """By user and client id."""
    next_producer_id: ProducerId = 0
    """The number of the next id to allocate; see `raftlog/wire/producer_ids.py`."""
    producer_id_key: str = ""
    plain_producer_ids: ProducerId = 0
    """Ids below it were allocated before there was a key, and equal their numbers."""

    def topic(self, name: str) -> TopicImage | None:
        """Return the topic of that name, or None."""
        topic_id = self.names.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: TopicId, partition: int) -> PartitionState | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def partitions(self) -> Iterable[tuple[TopicImage, int, PartitionState]]:
        """Iterate over every partition, in a fixed order."""
        for topic in self.topics.values():
            for partition, state in topic.partitions.items():
                yield topic, partition, state

    def dynamic_configs(self, broker_id: BrokerId) -> dict[str, ConfigValue]:
        """Return a broker's dynamic settings: its own over those of all brokers."""
        return {**self.broker_configs.get(ALL_BROKERS, {}), **self.broker_configs.get(broker_id, {})}
