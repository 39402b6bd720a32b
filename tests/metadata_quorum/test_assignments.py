"""A broker's assignments: those of each image, whatever came before, and the same objects where nothing changed."""

from __future__ import annotations

from dataclasses import replace

from raftlog.metadata_quorum.assignments import Assignments
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.records import ALL_BROKERS, ConfigValue
from raftlog.model import PartitionState


def state(*replicas: int, epoch: int = 0) -> PartitionState:
    return PartitionState(replicas=replicas, isr=replicas, leader=replicas[0], leader_epoch=0, partition_epoch=epoch)


def topic(name: str, *states: PartitionState, **configs: ConfigValue) -> TopicImage:
    return TopicImage(topic=name, topic_id=f"{name}-id", configs=configs, partitions=dict(enumerate(states)))


def image(*topics: TopicImage, **defaults: ConfigValue) -> MetadataImage:
    return MetadataImage(
        topics={one.topic_id: one for one in topics}, broker_configs={ALL_BROKERS: defaults} if defaults else {}
    )


async def test_what_did_not_change_stays_the_same_object():
    a, b = topic("a", state(1, 2), state(2, 3), state(3, 1)), topic("b", state(1))
    assignments = Assignments(1)
    first = await assignments.of(image(a, b))
    assert [(one.topic, one.partition) for one in first] == [("a", 0), ("a", 2), ("b", 0)]
    a = replace(a, partitions={**a.partitions, 2: state(3, 1, epoch=1)})
    second = await assignments.of(image(a, b))
    assert [one is other for one, other in zip(first, second, strict=True)] == [True, False, True]
    assert second[1].state.partition_epoch == 1


async def test_every_change_is_seen():
    """Each image after all others, and the same by an object that has seen no other."""
    a, b = topic("a", state(1, 2), state(2, 1)), topic("b", state(1))
    moved = replace(a, partitions={0: state(2, 3), 1: state(2, 1)})
    images = [
        image(a, b),
        image(moved, b),
        image(a, b),
        image(replace(a, configs={"retention_ms": 5}), b),
        image(a, b, segment_ms=7),
        image(replace(a, configs={"segment_ms": 1}), b, segment_ms=7),
        image(a, b, segment_ms=8),
        image(a, b),
        image(b),
        image(topic("a", state(1), state(1), state(1)), b),
        image(replace(a, topic_id="recreated"), b),
        image(),
        image(a, b),
    ]
    seen = Assignments(1)
    for one in images:
        assert await seen.of(one) == await Assignments(1).of(one)
    assert [found.configs for found in await Assignments(1).of(images[5])] == [{"segment_ms": 1}] * 2 + [
        {"segment_ms": 7}
    ]
    assert len(await Assignments(1).of(images[9])) == 4
