"""A stream's position in Spark's checkpoint. Pure, no IO.

It has the form of Kafka's source, `{"topic": {"0": 23}}`, with the next offset to read. Beside the topics are their
ids, and inside of these the leader epochs of what was read, where versions that do not know them pass over them. Spark
compares positions as JSON text, so equal positions must encode equally.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from pyspark_raftlog.offsets import Epochs, EpochStarts, LogEnds, Positions
from raftlog.errors import ConfigError
from raftlog.model import NO_LEADER_EPOCH, Offset, TopicPartition
from raftlog.wire.data import EpochStart

JsonPositions: TypeAlias = dict[str, dict[str, Any]]
TopicIds: TypeAlias = dict[str, str]
"""By topic name. A topic that was deleted and recreated has another id."""
TOPIC_IDS = "@topicIds"
"""The key of the topic ids in a position, beside the topics' names; it is not a valid topic name."""
EPOCHS = "@epochs"
"""The key of the leader epochs among the topic ids."""
EPOCH_STARTS = "@epochStarts"
"""The key of the latest leader epochs before each offset, with their first offsets, among the topic ids."""
BEGIN = "@begin"
"""The key of the position where a batch begins, in the position where it ends, if that is not where the batch before
ended. So it is for the first batch, and for one that goes back because a log was truncated."""


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """Where a stream goes on: the next offset of each partition."""

    offsets: Positions
    topic_ids: TopicIds = field(default_factory=dict)
    epochs: Epochs = field(default_factory=dict)
    read: dict[TopicPartition, EpochStarts] = field(default_factory=dict)
    """The latest leader epochs before each offset, where known."""

    def moved_to(
        self, offsets: Positions, ends: Mapping[TopicPartition, LogEnds], topic_ids: TopicIds
    ) -> StreamPosition:
        """Return the position at later offsets; where none was read, what was known of the last record stays."""
        epochs = {
            key: self.epochs.get(key, NO_LEADER_EPOCH)
            if offset == self.offsets.get(key)
            else ends[key].epoch_before(offset)
            for key, offset in offsets.items()
        }
        read = {
            key: self.read.get(key, ()) if offset == self.offsets.get(key) else ends[key].epochs_before(offset)
            for key, offset in offsets.items()
        }
        return StreamPosition(offsets, topic_ids, epochs, read)

    def agreed(self, key: TopicPartition, ends: LogEnds) -> Offset:
        """Return where the stream goes on in a truncated log."""
        return ends.agreed(self.offsets[key], self.epochs.get(key, NO_LEADER_EPOCH), self.read.get(key, ()))

    def encode(self) -> JsonPositions:
        """Return the checkpoint's form, always in the same order."""
        encoded: JsonPositions = encode_positions(self.offsets)
        ids: dict[str, Any] = {topic: self.topic_ids[topic] for topic in encoded if self.topic_ids.get(topic)}
        known = {key: epoch for key in self.offsets if (epoch := self.epochs.get(key, NO_LEADER_EPOCH)) >= 0}
        if known:
            ids[EPOCHS] = encode_positions(known)
        if read := {key: starts for key in known if (starts := self.read.get(key))}:
            ids[EPOCH_STARTS] = _encode_starts(read)
        return encoded | {TOPIC_IDS: ids} if ids else encoded

    @classmethod
    def decode(cls, encoded: Mapping[str, Mapping[str, Any]]) -> Self:
        """Read a position back; checkpoints of older versions have no epochs, or no topic ids either.

        Raises:
            ConfigError: this is not a position of this source.
        """
        ids = dict(encoded.get(TOPIC_IDS, {}))
        epochs, read = decode_positions(ids.pop(EPOCHS, {})), _decode_starts(ids.pop(EPOCH_STARTS, {}))
        return cls(decode_positions(encoded), {topic: str(topic_id) for topic, topic_id in ids.items()}, epochs, read)


def _encode_starts(read: Mapping[TopicPartition, EpochStarts]) -> JsonPositions:
    """Return `{"topic": {"0": [[leader epoch, first offset], ...]}}`, always in the same order."""
    encoded: JsonPositions = {}
    for key in sorted(read):
        starts = [[each.leader_epoch, each.start_offset] for each in read[key]]
        encoded.setdefault(key.topic, {})[str(key.partition)] = starts
    return encoded


def _decode_starts(encoded: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, EpochStarts]:
    """Read leader epochs back from a checkpoint.

    Raises:
        ConfigError: this is not a position of this source.
    """
    try:
        return {
            TopicPartition(topic, int(partition)): tuple(
                EpochStart(leader_epoch=int(epoch), start_offset=int(start)) for epoch, start in starts
            )
            for topic, by_partition in encoded.items()
            for partition, starts in by_partition.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(f"the checkpoint holds no raftlog epochs: {encoded!r:.200}") from None


def encode_positions(positions: Mapping[TopicPartition, Offset]) -> JsonPositions:
    """Return offsets by topic and partition, always in the same order."""
    encoded: JsonPositions = {}
    for topic, partition in sorted(positions):
        encoded.setdefault(topic, {})[str(partition)] = positions[TopicPartition(topic, partition)]
    return encoded


def decode_positions(encoded: Mapping[str, Mapping[str, Any]]) -> Positions:
    """Read offsets back from a checkpoint.

    Raises:
        ConfigError: this is not a position of this source.
    """
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, by_partition in encoded.items()
            if topic not in (TOPIC_IDS, BEGIN)
            for partition, offset in by_partition.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ConfigError(f"the checkpoint holds no raftlog offsets: {encoded!r:.200}") from None


def recreated_topics(before: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    """Return the topics whose id has changed."""
    return {topic for topic, topic_id in before.items() if now.get(topic, topic_id) != topic_id}


def without_recreated(positions: Positions, recreated: Iterable[str]) -> Positions:
    """Return positions for a query that continues with the recreated topics, from their beginning."""
    begun_anew = set(recreated)
    return {key: 0 if key.topic in begun_anew else offset for key, offset in positions.items()}
