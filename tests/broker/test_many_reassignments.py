"""A listing of thousands of reassignments is made in slices: 10,000 held the event loop for 70 ms."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace

from raftlog.broker.reassignments import moving
from raftlog.errors import StaleRouteError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import ChangePartition, CreateTopic
from raftlog.metadata_quorum.replay import replay
from raftlog.model import PartitionState

MANY = 2_000


def moved() -> MetadataImage:
    state = PartitionState(
        replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=0, partition_epoch=0, adding=(3,), removing=(2,)
    )
    partitions = [ChangePartition(topic_id="a" * 32, partition=number, state=state) for number in range(MANY)]
    return replay(MetadataImage(), 1, [CreateTopic(topic="t", topic_id="a" * 32), *partitions])


async def test_a_listing_of_thousands_of_moves_takes_several_turns():
    turn, looks = 0, list[int]()

    def leader(topic: str, partition: int) -> None:
        looks.append(turn)
        raise StaleRouteError(f"another broker leads {topic}-{partition}")

    context = SimpleNamespace(replicas=SimpleNamespace(leader=leader))
    listing = asyncio.ensure_future(moving(context, moved(), ask_leaders=True))  # type: ignore[arg-type]
    while not listing.done():
        turn += 1
        await asyncio.sleep(0)

    moves = listing.result()
    assert [(move.topic, move.partition) for move in moves] == [("t", number) for number in range(MANY)]
    assert len(looks) == MANY
    assert max(Counter(looks).values()) <= 512
