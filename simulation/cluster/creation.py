"""How a world's topics are created: by a client that retries until it gets an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import raftlog
from raftlog.errors import RaftlogError
from simulation.cluster.loop import Process

if TYPE_CHECKING:
    from simulation.cluster.world import World


TOPIC_S = 60.0
Configs = Mapping[str, str | int | float]


def admin() -> Process:
    """Return the process of an operator's clients."""
    return Process("admin", "10.0.3.1")


async def create_topic(
    world: World,
    topic: str,
    partitions: int,
    configs: Configs = MappingProxyType({}),
    *,
    replicas: int | None = None,
) -> None:
    """Create a topic with the world's replication settings, unless its own settings override them."""
    settings = world.settings
    promised = {"min_insync_replicas": settings.min_insync_replicas, "flush": settings.flush, **configs}

    async def create() -> None:
        async with raftlog.Admin(world.bootstrap) as client, asyncio.timeout(TOPIC_S):
            while True:
                try:
                    await client.create_topic(
                        topic,
                        partitions=partitions,
                        replication_factor=replicas or settings.replicas,
                        configs=promised,
                        if_not_exists=True,
                    )
                except RaftlogError:
                    await asyncio.sleep(0.1)
                else:
                    return

    await world.loop.create_task(create(), context=admin().context)
