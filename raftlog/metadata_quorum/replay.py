"""Replay: makes the next image from an image and the records of an entry.

- Total and deterministic: controllers and brokers that have replayed the same entries have equal images.
- It never raises. An unreadable entry, or one of an earlier epoch, changes only the offset.
- A decision copies each table that it changes once, however many records it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from raftlog.metadata_quorum import records as r
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import BrokerRegistration, Offset, PartitionState, Quota, TopicId

Records = tuple[r.Record, ...]


def replay_command(image: MetadataImage, offset: Offset, payload: bytes) -> tuple[MetadataImage, Records]:
    """Apply one committed entry; return the new image and the records that took effect.

    An entry of an earlier controller epoch, or a repeated one, has none.
    """
    try:
        command = r.decode_command(payload)
    except (r.UnreadableRecordError, ValueError, TypeError):
        return replace(image, offset=offset), ()
    if any(isinstance(record, r.BeginEpoch) for record in command.records):
        # An unfinished decision of the previous controller is void.
        begun = replace(replay(image, offset, command.records), last_sequence=-1, pending=())
        return begun, command.records
    if command.controller_epoch != image.controller_epoch or command.sequence <= image.last_sequence:
        return replace(image, offset=offset), ()
    taken = (*image.pending, *command.records)
    if command.more:
        return replace(image, offset=offset, last_sequence=command.sequence, pending=taken), ()
    decided = replace(replay(image, offset, taken), last_sequence=command.sequence, pending=())
    return decided, taken


def replay(image: MetadataImage, offset: Offset, records: Iterable[r.Record]) -> MetadataImage:
    """Return the image after these records, at `offset`."""
    delta = Delta(image, offset)
    for record in records:
        delta.apply(record)
    return delta.image()


class Delta:
    """The changes of one decision to an image: copies of the tables that changed."""

    def __init__(self, image: MetadataImage, offset: Offset) -> None:
        self._before = image
        self._offset = offset
        self._tables: dict[str, dict[Any, Any]] = {}
        self._partitions: dict[TopicId, dict[int, PartitionState]] = {}
        self._scalars: dict[str, Any] = {}

    def apply(self, record: r.Record) -> None:
        """Apply one record."""
        self._EFFECTS[type(record)](self, record)

    def image(self) -> MetadataImage:
        """Return the image with all changes."""
        for topic_id, partitions in self._partitions.items():
            if (topic := self._read("topics").get(topic_id)) is not None:
                self._write("topics")[topic_id] = replace(topic, partitions=partitions)
        changes: dict[str, Any] = {**self._scalars, **self._tables}
        return replace(self._before, offset=self._offset, **changes)

    def _read(self, table: str) -> Mapping[Any, Any]:
        return self._tables[table] if table in self._tables else getattr(self._before, table)

    def _write(self, table: str) -> dict[Any, Any]:
        if table not in self._tables:
            self._tables[table] = dict(getattr(self._before, table))
        return self._tables[table]

    def _begin_epoch(self, record: r.BeginEpoch) -> None:
        self._scalars |= {"controller_id": record.controller_id, "controller_epoch": self._offset}

    def _identify_cluster(self, record: r.IdentifyCluster) -> None:
        self._scalars["cluster_id"] = record.cluster_id

    def _set_feature_level(self, record: r.SetFeatureLevel) -> None:
        self._scalars["feature_level"] = record.level

    def _allocate_producer_ids(self, record: r.AllocateProducerIds) -> None:
        known = self._scalars.get("next_producer_id", self._before.next_producer_id)
        self._scalars["next_producer_id"] = max(known, record.next_producer_id)
        if record.key and not self._scalars.get("producer_id_key", self._before.producer_id_key):
            self._scalars |= {"producer_id_key": record.key, "plain_producer_ids": known}

    def _register_broker(self, record: r.RegisterBroker) -> None:
        fields = {name: getattr(record, name) for name in r.RegisterBroker.__slots__ if name != "broker_epoch"}
        if record.broker_epoch < 0:
            self._write("brokers")[record.broker_id] = BrokerRegistration(broker_epoch=self._offset, **fields)
        else:
            self._change_broker(record, **fields)

    def _unregister_broker(self, record: r.UnregisterBroker) -> None:
        if self._is_current(record):
            del self._write("brokers")[record.broker_id]
            self._write("broker_configs").pop(record.broker_id, None)

    def _fence_broker(self, record: r.FenceBroker) -> None:
        self._change_broker(record, fenced=True)

    def _unfence_broker(self, record: r.UnfenceBroker) -> None:
        self._change_broker(record, fenced=False)

    def _begin_controlled_shutdown(self, record: r.BeginControlledShutdown) -> None:
        self._change_broker(record, in_controlled_shutdown=True)

    def _is_current(self, record: Any) -> bool:
        broker = self._read("brokers").get(record.broker_id)
        return broker is not None and broker.broker_epoch == record.broker_epoch

    def _change_broker(self, record: Any, **change: Any) -> None:
        if self._is_current(record):
            brokers = self._write("brokers")
            brokers[record.broker_id] = replace(brokers[record.broker_id], **change)

    def _create_topic(self, record: r.CreateTopic) -> None:
        created = TopicImage(topic=record.topic, topic_id=record.topic_id, configs=record.configs)
        if (before := self._read("topics").get(record.topic_id)) is not None:
            self._forget_name(before)
        self._write("topics")[record.topic_id] = created
        self._partitions.pop(record.topic_id, None)
        self._write("names")[record.topic] = record.topic_id

    def _forget_name(self, topic: TopicImage) -> None:
        """Remove a topic's name, unless it is that of another one by now."""
        if self._read("names").get(topic.topic) == topic.topic_id:
            del self._write("names")[topic.topic]

    def _change_partition(self, record: r.ChangePartition) -> None:
        partitions = self._partitions.get(record.topic_id)
        if partitions is None:
            topic = self._read("topics").get(record.topic_id)
            if topic is None:
                return
            partitions = self._partitions[record.topic_id] = dict(topic.partitions)
        partitions[record.partition] = record.state

    def _change_topic_configs(self, record: r.ChangeTopicConfigs) -> None:
        if (topic := self._read("topics").get(record.topic_id)) is not None:
            changed = replace(topic, configs=_changed(topic.configs, record.configs))
            self._write("topics")[record.topic_id] = changed

    def _delete_topic(self, record: r.DeleteTopic) -> None:
        if record.topic_id in self._read("topics"):
            self._partitions.pop(record.topic_id, None)
            self._forget_name(self._write("topics").pop(record.topic_id))

    def _change_broker_configs(self, record: r.ChangeBrokerConfigs) -> None:
        configs = self._write("broker_configs")
        configs[record.broker_id] = _changed(configs.get(record.broker_id, {}), record.configs)
        if not configs[record.broker_id]:
            del configs[record.broker_id]

    def _put_user(self, record: r.PutUser) -> None:
        self._write("users")[record.credential.user] = record.credential

    def _delete_user(self, record: r.DeleteUser) -> None:
        self._write("users").pop(record.user, None)

    def _put_acl(self, record: r.PutAcl) -> None:
        self._write("acls")[record.acl] = None

    def _delete_acl(self, record: r.DeleteAcl) -> None:
        self._write("acls").pop(record.acl, None)

    def _change_quota(self, record: r.ChangeQuota) -> None:
        quotas, key = self._write("quotas"), (record.user, record.client_id)
        limits = _changed(quotas[key].limits if key in quotas else {}, record.limits)
        if limits:
            quotas[key] = Quota(user=record.user, client_id=record.client_id, limits=limits)
        else:
            quotas.pop(key, None)

    _EFFECTS: ClassVar[dict[type, Callable[[Delta, Any], None]]] = {
        r.BeginEpoch: _begin_epoch,
        r.IdentifyCluster: _identify_cluster,
        r.SetFeatureLevel: _set_feature_level,
        r.AllocateProducerIds: _allocate_producer_ids,
        r.RegisterBroker: _register_broker,
        r.UnregisterBroker: _unregister_broker,
        r.FenceBroker: _fence_broker,
        r.UnfenceBroker: _unfence_broker,
        r.BeginControlledShutdown: _begin_controlled_shutdown,
        r.CreateTopic: _create_topic,
        r.ChangePartition: _change_partition,
        r.ChangeTopicConfigs: _change_topic_configs,
        r.DeleteTopic: _delete_topic,
        r.ChangeBrokerConfigs: _change_broker_configs,
        r.PutUser: _put_user,
        r.DeleteUser: _delete_user,
        r.PutAcl: _put_acl,
        r.DeleteAcl: _delete_acl,
        r.ChangeQuota: _change_quota,
    }


def _changed(before: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**before, **change}.items() if value is not None}
