"""What a metadata image assigns to one broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from raftlog.config import defaults_of
from raftlog.metadata_quorum.image import Configs, MetadataImage, TopicImage
from raftlog.model import BrokerId, PartitionAssignment, TopicId

MADE_AT_ONCE = 1_000
"""Assignments that are made in one turn of the event loop: a few milliseconds."""


class _Assigned(NamedTuple):
    topic: TopicImage
    partitions: Mapping[int, PartitionAssignment]


class Assignments:
    """Makes a broker's assignments from one image after another.

    Images share the topics and the partitions' states that did not change, and so do their assignments. To make 10,000
    takes 25 to 40 ms, and any change of an ISR brings an image.
    """

    def __init__(self, broker_id: BrokerId) -> None:
        self._broker_id = broker_id
        self._defaults: Configs = {}
        self._known: Mapping[TopicId, _Assigned] = {}

    async def of(self, image: MetadataImage) -> list[PartitionAssignment]:
        """Return every partition that has a replica on the broker, in a fixed order. One call at a time."""
        defaults = image.dynamic_configs(self._broker_id)
        earlier = self._known if defaults == self._defaults else {}
        known, made = dict[TopicId, _Assigned](), 0
        for topic_id, topic in image.topics.items():
            kept = earlier.get(topic_id)
            if kept is not None and kept.topic is topic:
                known[topic_id] = kept
                continue
            assigned = dict[int, PartitionAssignment]()
            for assignment in self._assigned(topic, defaults, kept):
                assigned[assignment.partition] = assignment
                made += 1
                if made % MADE_AT_ONCE == 0:
                    await asyncio.sleep(0)
            known[topic_id] = _Assigned(topic, assigned)
        self._defaults, self._known = defaults, known
        return [assignment for assigned in known.values() for assignment in assigned.partitions.values()]

    def _assigned(self, topic: TopicImage, defaults: Configs, kept: _Assigned | None) -> Iterator[PartitionAssignment]:
        configs = {**defaults_of(topic.topic, defaults), **topic.configs} if defaults else topic.configs
        earlier = kept.partitions if kept is not None and kept.topic.configs == topic.configs else {}
        for partition, state in topic.partitions.items():
            if self._broker_id in state.replicas:
                same = earlier.get(partition)
                yield (
                    same
                    if same is not None and same.state is state
                    else PartitionAssignment(
                        topic=topic.topic, topic_id=topic.topic_id, partition=partition, state=state, configs=configs
                    )
                )
