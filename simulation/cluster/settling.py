"""The end of a world's life: writers stop, readers read everything, and every transaction ends."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from chaos.readers import read_everything
from raftlog.errors import RaftlogError
from simulation.cluster.creation import admin
from simulation.cluster.workload import TOPIC
from simulation.cluster.world import World

IN_SYNC_S = 90.0
Until = Callable[[Callable[[], bool], float, str], Coroutine[Any, Any, None]]
"""Waits for a condition, for some seconds at most; the text names what is waited for."""


class Settling:
    """What happens in a world after it has healed. `until` waits, and starts nodes that exited."""

    def __init__(self, world: World, until: Until) -> None:
        self._world = world
        self._wait = until

    async def run(self) -> None:
        """Stop all clients, each once it has read everything; then read the topics from their starts."""
        world, clients = self._world, self._world.clients
        for writers in (world.plain, world.pipelined, world.remover):
            await writers.stop()
        await clients.stop_writing()
        await self._until(self._tails_are_at_the_end, "the tails to have read everything")
        with self._no_reader_may_end():
            await clients.stop()
        if world.settings.removal is not None:
            await self._until(world.watch.all_start_alike, "the same log start everywhere")
        await self._settle_unclean()
        await self._settle_keeper()
        await self._settle_group()
        await self._settle_relays()
        await self._settle_payments()
        reading = read_everything(
            world.history, bootstrap=world.bootstrap, topic=TOPIC, on_out_of_range=clients.on_out_of_range
        )
        await world.loop.create_task(reading, context=admin().context)

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        await self._wait(holds, IN_SYNC_S, what)

    @contextmanager
    def _no_reader_may_end(self) -> Iterator[None]:
        try:
            yield
        except RaftlogError as error:
            self._world.watch.fail(f"a client ended by itself: {error!r}")

    def _tails_are_at_the_end(self) -> bool:
        ends = {partition: leader.high_watermark for partition, leader in self._world.leaders_of(TOPIC).items()}
        return len(ends) == self._world.settings.partitions and self._world.clients.have_read_to(ends)

    async def _settle_unclean(self) -> None:
        unclean = self._world.unclean
        if unclean.exist:
            await unclean.stop_writing()
            await self._until(unclean.has_read_everything, "the tail of a topic with unclean elections to have read it")
            await unclean.stop()

    async def _settle_keeper(self) -> None:
        keeper = self._world.keeper
        if keeper.exist:
            await keeper.stop_writing()
            await self._until(keeper.has_read_everything, "the tails of a compacted topic to have read it")
            await keeper.stop()

    async def _settle_group(self) -> None:
        group = self._world.group
        if group.exist:
            await group.stop_writing()
            await self._until(group.has_committed_everything, "a group to have committed everything")
            await group.stop()

    async def _settle_relays(self) -> None:
        relays = self._world.relays
        if relays.exist:
            await relays.stop_writing()
            await self._until(relays.has_relayed_everything, "relays to have relayed everything")
            await relays.stop()
            await self._until(relays.all_decided, "the end of every relay's transaction")
            await relays.read_everything()

    async def _settle_payments(self) -> None:
        payments = self._world.payments
        if payments.exist:
            await payments.stop_writing()
            await self._until(payments.all_decided, "the end of every transaction")
            await self._until(payments.has_read_everything, "a tail to have read all that is committed")
            with self._no_reader_may_end():
                await payments.stop()
            await payments.read_everything()
