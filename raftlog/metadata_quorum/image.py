"""The metadata image: the whole cluster's state at one offset of the metadata log. Immutable; replay makes the next.

Replay is total and deterministic: every controller and broker that has replayed the same entries has the same image.
It never raises; what it cannot read, or what comes too late, changes nothing but the offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from raftlog.metadata_quorum import records as r
from raftlog.model import (
    BrokerId,
    BrokerRegistration,
    ControllerEpoch,
    ControllerId,
    Offset,
    PartitionAssignment,
    PartitionState,
    ProducerId,
    TopicId,
)
from raftlog.schema import from_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """One topic; `configs` holds its own settings only."""

    topic: str
    topic_id: TopicId
    configs: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    partitions: Mapping[int, PartitionState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """Everything that the metadata quorum has decided."""

    offset: Offset = -1
    controller_id: ControllerId = -1
    controller_epoch: ControllerEpoch = -1
    last_sequence: int = -1
    """Of the commands of this controller epoch: the last one that took effect."""
    brokers: Mapping[BrokerId, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[TopicId, TopicImage] = field(default_factory=dict)
    names: Mapping[str, TopicId] = field(default_factory=dict)
    next_producer_id: ProducerId = 0

    def topic(self, name: str) -> TopicImage | None:
        """Return the topic of that name, if there is one now."""
        topic_id = self.names.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: TopicId, partition: int) -> PartitionState | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def partitions(self) -> Iterable[tuple[TopicImage, int, PartitionState]]:
        """Walk over every partition, in a fixed order."""
        for topic in self.topics.values():
            for partition, state in topic.partitions.items():
                yield topic, partition, state

    def assignments_for(self, broker_id: BrokerId) -> list[PartitionAssignment]:
        """Return every partition that has a replica on one broker."""
        return [
            PartitionAssignment(
                topic=topic.topic, topic_id=topic.topic_id, partition=partition, state=state, configs=topic.configs
            )
            for topic, partition, state in self.partitions()
            if broker_id in state.replicas
        ]


def replay_command(image: MetadataImage, offset: Offset, payload: bytes) -> tuple[MetadataImage, tuple[r.Record, ...]]:
    """Apply one committed entry; return the new image and the records that took effect (none, if it came too late)."""
    try:
        command = r.decode_command(payload)
    except (r.UnreadableRecordError, ValueError, TypeError):
        return replace(image, offset=offset), ()
    begins = any(isinstance(record, r.BeginEpoch) for record in command.records)
    if not begins and (command.controller_epoch != image.controller_epoch or command.sequence <= image.last_sequence):
        return replace(image, offset=offset), ()
    applied = replay(image, offset, command.records)
    return replace(applied, last_sequence=-1 if begins else command.sequence), command.records


def replay(image: MetadataImage, offset: Offset, records: Iterable[r.Record]) -> MetadataImage:
    """Apply the records of one entry that took effect."""
    for record in records:
        image = _replay_one(image, offset, record)
    return replace(image, offset=offset)


def _replay_one(image: MetadataImage, offset: Offset, record: r.Record) -> MetadataImage:
    match record:
        case r.BeginEpoch():
            return replace(image, controller_id=record.controller_id, controller_epoch=offset)
        case r.RegisterBroker():
            registration = BrokerRegistration(broker_epoch=offset, fenced=True, **_fields(record))
            return replace(image, brokers={**image.brokers, record.broker_id: registration})
        case r.FenceBroker():
            return _change_broker(image, record, fenced=True)
        case r.UnfenceBroker():
            return _change_broker(image, record, fenced=False)
        case r.BeginControlledShutdown():
            return _change_broker(image, record, in_controlled_shutdown=True)
        case r.AllocateProducerIds():
            return replace(image, next_producer_id=max(image.next_producer_id, record.next_producer_id))
        case _:
            return _replay_topic(image, record)


def _replay_topic(image: MetadataImage, record: r.CreateTopic | r.ChangePartition | r.DeleteTopic) -> MetadataImage:
    if isinstance(record, r.CreateTopic):
        created = TopicImage(topic=record.topic, topic_id=record.topic_id, configs=record.configs)
        topics = {**image.topics, record.topic_id: created}
        return replace(image, topics=topics, names={**image.names, record.topic: record.topic_id})
    topic = image.topics.get(record.topic_id)
    if topic is None:
        return image
    if isinstance(record, r.DeleteTopic):
        topics = {topic_id: other for topic_id, other in image.topics.items() if topic_id != record.topic_id}
        names = {name: topic_id for name, topic_id in image.names.items() if topic_id != record.topic_id}
        return replace(image, topics=topics, names=names)
    state = PartitionState(
        replicas=record.replicas,
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
    )
    changed = replace(topic, partitions={**topic.partitions, record.partition: state})
    return replace(image, topics={**image.topics, topic.topic_id: changed})


def _change_broker(
    image: MetadataImage, record: r.FenceBroker | r.UnfenceBroker | r.BeginControlledShutdown, **change: bool
) -> MetadataImage:
    broker = image.brokers.get(record.broker_id)
    if broker is None or broker.broker_epoch != record.broker_epoch:
        return image
    return replace(image, brokers={**image.brokers, record.broker_id: replace(broker, **change)})  # type: ignore[arg-type]


def _fields(record: r.RegisterBroker) -> dict[str, Any]:
    return {name: getattr(record, name) for name in r.RegisterBroker.__slots__}


def image_to_plain(image: MetadataImage) -> dict[str, Any]:
    """Return the image as plain data: what snapshots and brokers get."""
    plain = {name: getattr(image, name) for name in _SCALARS}
    plain["brokers"] = [asdict(broker) for broker in image.brokers.values()]
    plain["topics"] = [
        {
            "topic": topic.topic,
            "topic_id": topic.topic_id,
            "configs": dict(topic.configs),
            "partitions": [{"partition": number, **asdict(state)} for number, state in topic.partitions.items()],
        }
        for topic in image.topics.values()
    ]
    return plain


def image_from_plain(plain: Mapping[str, Any]) -> MetadataImage:
    """Rebuild an image.

    Raises:
        UnreadableRecordError: the data does not fit.
    """

    def build(cls: type[Any], data: Mapping[str, Any]) -> Any:
        return from_plain(cls, data, error=r.UnreadableRecordError, ignore_unknown=True)

    try:
        brokers = [build(BrokerRegistration, broker) for broker in plain["brokers"]]
        topics = [
            TopicImage(
                topic=topic["topic"],
                topic_id=topic["topic_id"],
                configs=topic["configs"],
                partitions={part["partition"]: build(PartitionState, part) for part in topic["partitions"]},
            )
            for topic in plain["topics"]
        ]
        scalars = {name: int(plain[name]) for name in _SCALARS}
    except (KeyError, TypeError, ValueError) as error:
        raise r.UnreadableRecordError(f"not a metadata image: {error!r}") from None
    return MetadataImage(
        brokers={broker.broker_id: broker for broker in brokers},
        topics={topic.topic_id: topic for topic in topics},
        names={topic.topic: topic.topic_id for topic in topics},
        **scalars,
    )


_SCALARS = ("offset", "controller_id", "controller_epoch", "last_sequence", "next_producer_id")
