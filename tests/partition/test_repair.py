"""Damaged batches are repaired from whoever has them whole; a replica stays what it is (docs/adr/0017)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from replication_support import World

from raftlog.errors import StaleRouteError, StorageError
from raftlog.partition.storage.segment import segment_path

VALUES = [str(number) * 20 for number in range(9)]


def log_file(world: World, broker: int) -> Path:
    return segment_path(world.folder / str(broker) / "partitions" / f"t-0-{world.topic_id}", 0)


async def filled(world: World) -> int:
    """Have all replicas hold one batch for each value; return how long a batch is."""
    for value in VALUES:
        await world.produce(value)
    await world.until(lambda: all(b.replica.log.log_end_offset == len(VALUES) for b in world.brokers.values()))
    return log_file(world, 1).stat().st_size // len(VALUES)


def flip(world: World, broker: int, *places: int) -> None:
    path = log_file(world, broker)
    content = bytearray(path.read_bytes())
    for place in places:
        content[place] ^= 1
    path.write_bytes(content)


async def read_all(world: World, broker: int) -> None:
    """Read a whole replica as clients do: an answer that can be retried is asked for again."""
    replica, offset = world.brokers[broker].replica, 0
    async with asyncio.timeout(10):
        while offset < len(VALUES):
            try:
                offset = replica.find_sound(offset, 1, limit_offset=len(VALUES)).end_offset
            except StaleRouteError:  # Any other error fails the test.
                await asyncio.sleep(0.01)


async def test_three_replicas_that_are_damaged_in_three_places_end_whole(tmp_path: Path):
    async with World(tmp_path) as world:
        size = await filled(world)
        whole = log_file(world, 1).read_bytes()
        for broker in (1, 2, 3):
            # A payload, a header, and one batch after another, elsewhere on each.
            flip(world, broker, (broker - 1) * size + 100, (broker + 2) * size + 8, (broker + 5) * size + 20)
        for broker in (1, 2, 3):
            await read_all(world, broker)
            await world.until(lambda: world.brokers[broker].replica.damage is None)  # noqa: B023
        assert [log_file(world, broker).read_bytes() for broker in (1, 2, 3)] == [whole] * 3
        assert (world.damage_reports, world.state.isr, world.state.leader) == ([], (1, 2, 3), 1)
        assert sum(world.brokers[broker].manager.quarantined for broker in (1, 2, 3)) == 0


async def test_what_nobody_has_whole_is_said_and_the_rest_is_served(tmp_path: Path):
    async with World(tmp_path) as world:
        size = await filled(world)
        for broker in (1, 2, 3):
            flip(world, broker, 3 * size + 100, (3 + broker) * size + 100)
        replica, manager = world.brokers[1].replica, world.brokers[1].manager
        with pytest.raises(StaleRouteError, match="is being repaired") as caught:
            replica.find_sound(3, 1, limit_offset=len(VALUES))
        assert caught.value.http_status == 503
        await world.until(lambda: replica.suspects.get(3, False))
        with pytest.raises(StorageError, match="no replica has it whole"):
            replica.find_sound(3, 1, limit_offset=len(VALUES))
        assert manager.repairs.lost(replica.assignment.key) == (3,)
        assert len(replica.find_sound(4, 1 << 20, limit_offset=len(VALUES)).data) == 5 * size
        assert (world.damage_reports, manager.quarantined) == ([], 0)
