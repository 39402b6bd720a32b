"""Markers reach partitions in spite of other transactions whose markers do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from transaction_support import Shard

from raftlog.coordinator.transaction import markers
from raftlog.coordinator.transaction.markers import MAX_AT_ONCE, MarkerWriter
from raftlog.errors import RetriableError
from raftlog.wire.transactions import WriteMarkersRequest

OFFLINE, ONLINE = 0, 1


class World:
    """Shards, and partitions that have a leader or none."""

    def __init__(self, *shards: Shard) -> None:
        self.shards = shards
        self.brokers = {1: object()}
        self.offline = {OFFLINE}
        self.refusing: Shard | None = None
        self.sent: list[tuple[int, int]] = []
        self.looks = 0
        self.changed = asyncio.Event()

    @property
    def active(self) -> dict[int, Any]:
        return {number: shard.state for number, shard in enumerate(self.shards)}

    def shard_of(self, name: str) -> Shard:
        return self.shards[int(name.partition("-")[0])]

    def epoch_of(self, _: str) -> int:
        return 1

    async def decide(self, name: str, decide: Callable[..., Any], *, timeout_ms: int) -> Any:
        assert timeout_ms > 0
        await asyncio.sleep(0)
        shard = self.shard_of(name)
        if shard is self.refusing:
            raise RetriableError("below min ISR")
        decision = decide(shard.state, shard.now)
        shard.write(decision.records)
        if decision.records:
            self.changed.set()
        return decision.response

    def partition(self, _: str, number: int) -> Any:
        self.looks += 1
        return SimpleNamespace(leader=-1 if number in self.offline else 1)

    async def send(self, _: int, request: WriteMarkersRequest) -> list[None]:
        self.sent += [(request.marker.producer_id, one.partition) for one in request.partitions]
        return [None] * len(request.partitions)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[MarkerWriter]:
        async def catch_up() -> None:
            return None

        writer = MarkerWriter(
            cast("Any", self),
            self.shards[0].coordinator,
            image=lambda: cast("Any", self),
            catch_up=catch_up,
            send=self.send,
        )
        await writer.start()
        try:
            yield writer
        finally:
            await writer.close()

    async def until(self, *names: str) -> None:
        """Return once these transactions are complete."""
        async with asyncio.timeout(20):
            while any(name in self.shard_of(name).state.ending for name in names):
                self.changed.clear()
                await self.changed.wait()


def end(shard: Shard, name: str, *partitions: int) -> str:
    who = shard.init(name)
    assert shard.join(who, *partitions, name=name) == "joined"
    shard.end(who, name=name)
    return name


async def test_any_number_of_transactions_without_a_leader_stop_no_other():
    shard = Shard()
    stuck = [end(shard, f"0-stuck{number}", OFFLINE, ONLINE) for number in range(2 * MAX_AT_ONCE)]
    healthy = end(shard, "0-healthy", ONLINE)
    world = World(shard)
    async with world.writing() as writer:
        await world.until(healthy)
        assert len(shard.state.ending) == len(stuck)
        later = end(shard, "0-later", ONLINE)
        writer.wake()
        await world.until(later)

        world.offline.clear()
        await world.until(*stuck)
    assert (shard.state.ending, len(world.sent)) == ({}, 2 * len(stuck) + 2)
    assert len(set(world.sent)) == len(world.sent), "a partition that has its marker got it again"


async def test_a_shard_that_decides_nothing_stops_no_other_shard():
    shards = Shard(), Shard(next_id=10_000)
    refused = [end(shards[0], f"0-{number}", ONLINE) for number in range(MAX_AT_ONCE)]
    healthy = end(shards[1], "1-healthy", ONLINE)
    world = World(*shards)
    world.refusing = shards[0]
    async with world.writing():
        await world.until(healthy)
        world.refusing = None
        await world.until(*refused)


async def test_attempts_become_rarer_the_more_transactions_wait(monkeypatch: pytest.MonkeyPatch):
    """Else their attempts alone would keep the event loop busy."""
    monkeypatch.setattr(markers, "RETRIES_PER_S", 10)
    shard = Shard()
    stuck = [end(shard, f"0-{number}", OFFLINE) for number in range(500)]
    world = World(shard)
    paused: list[float] = []
    real = asyncio.sleep

    async def sleep(pause_s: float) -> None:
        paused.append(pause_s)
        await real(0)
        if max(paused) > 10:
            world.changed.set()

    monkeypatch.setattr(markers.asyncio, "sleep", sleep)
    async with world.writing():
        async with asyncio.timeout(20):
            await world.changed.wait()
        world.offline.clear()
        await world.until(*stuck)
    assert max(paused) <= 50
