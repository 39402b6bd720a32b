"""All shards of one kind of coordinator on this broker; each exists while the broker leads its partition."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, Protocol, TypeVar

from raftlog.coordinator.runtime.core import Coordinator, Decision, Now
from raftlog.coordinator.runtime.shard import Shard, not_coordinator_error, without_controllers
from raftlog.errors import ErrorCode, StaleRouteError
from raftlog.model import LeaderEpoch
from raftlog.partition.replica import Replica
from raftlog.record.partitioner import partition_for_key
from raftlog.runtime import Clock, Tasks

_log = logging.getLogger(__name__)
S = TypeVar("S")
R = TypeVar("R")
TICK_MS = 200
SOON_MS = 20
"""The pause before the next tick when a coordinator is behind."""
RELOAD_MS = 2_000
"""The pause between a failed load and the next attempt."""


class LocalReplicas(Protocol):
    """Finds this broker's replicas: the replica manager."""

    def find(self, topic: str, partition: int) -> Replica | None: ...


class CoordinatorRuntime(Generic[S]):
    """Runs one kind of coordinator.

    Args:
        topic: the internal compacted topic of its records.
        shard_key: returns the part of a key that decides its partition.
        partitions: returns the topic's number of partitions; 0 while it does not exist. It never changes after that.
        on_active: called with a partition whose shard has become active, to resume pending work.
    """

    def __init__(
        self,
        coordinator: Coordinator[S],
        *,
        topic: str,
        partitions: Callable[[], int],
        replicas: LocalReplicas,
        clock: Clock,
        shard_key: Callable[[str], str] = str,
        on_active: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.topic = topic
        self._shard_key = shard_key
        self._coordinator = coordinator
        self._partitions = partitions
        self._replicas = replicas
        self._clock = clock
        self._on_active = on_active
        self.writes_short = False
        """Whether all nodes read short batches: then records may be written as such."""
        self.catch_up: Callable[[], Awaitable[None]] = without_controllers
        """Applies all metadata that was committed before the call. Below min ISR, the controllers know the leader."""
        self._shards: dict[int, Shard[S]] = {}
        self._tasks = Tasks(f"coordinator of {topic}")

    async def start(self) -> None:
        """Start the ticks of the shards."""
        self._tasks.keep(self._tick, name="ticks")

    async def close(self) -> None:
        await self._tasks.close()
        self._shards.clear()

    @property
    def active(self) -> Mapping[int, S]:
        """The state of every active shard, by partition. Read only."""
        return {number: shard.state for number, shard in self._shards.items() if shard.phase == "active"}

    @property
    def loading(self) -> bool:
        """Whether a shard of this broker is not active yet."""
        return any(shard.phase != "active" for shard in self._shards.values())

    def partition_of(self, key: str) -> int:
        """Return the partition whose leader coordinates `key`, by Kafka's partitioner.

        Raises:
            StaleRouteError: COORDINATOR_NOT_AVAILABLE: the topic does not exist yet.
        """
        count = self._partitions()
        if count == 0:
            raise StaleRouteError(f"{self.topic} does not exist yet", code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_for_key(self._shard_key(key).encode(), count)

    def update_shards(self) -> None:
        """Start and drop shards to match this broker's leaderships. Call it when they may have changed."""
        for number in range(self._partitions()):
            replica = self._replicas.find(self.topic, number)
            shard = self._shards.get(number)
            if shard is not None and (shard.replica is not replica or not shard.leads):
                _log.info("%s: no longer coordinated here", shard)
                del self._shards[number]
                shard = None
            leads = replica is not None and replica.core is not None
            if leads and (shard is None or shard.failed_for_ms >= RELOAD_MS):
                assert replica is not None
                self._start_shard(number, replica)

    async def decide(self, key: str, decide: Callable[[S, Now], Decision[R]], *, timeout_ms: int) -> R:
        """Decide in the shard of `key`; see `Shard.decide`."""
        return await self.decide_at(self.partition_of(key), decide, timeout_ms=timeout_ms)

    async def decide_at(self, partition: int, decide: Callable[[S, Now], Decision[R]], *, timeout_ms: int) -> R:
        """Decide in the shard of one partition; see `Shard.decide`."""
        return await self._shard(partition).decide(decide, timeout_ms=timeout_ms)

    def state_of(self, key: str) -> S | None:
        """Return the state of the shard of `key`, to read; None: it is not active here."""
        count = self._partitions()
        shard = self._shards.get(self.partition_of(key)) if count else None
        return shard.state if shard is not None and shard.phase == "active" else None

    def epoch_of(self, key: str) -> LeaderEpoch:
        """Return the leader epoch in which this broker coordinates `key`.

        Raises:
            StaleRouteError: NOT_COORDINATOR.
        """
        return self._shard(self.partition_of(key)).epoch

    def _shard(self, partition: int) -> Shard[S]:
        shard = self._shards.get(partition)
        if shard is None or not shard.leads:
            self.update_shards()  # Roles can change without new metadata, too.
            shard = self._shards.get(partition)
        if shard is not None:
            return shard
        if (replica := self._replicas.find(self.topic, partition)) is not None:
            raise not_coordinator_error(replica)
        raise StaleRouteError(
            f"this broker does not coordinate {self.topic}-{partition}", code=ErrorCode.NOT_COORDINATOR
        )

    def _start_shard(self, number: int, replica: Replica) -> None:
        shard = self._shards[number] = Shard(
            self._coordinator,
            replica,
            self._clock,
            catch_up=self.catch_up,
            writes_short=lambda: self.writes_short,
        )
        self._tasks.spawn(self._load(number, shard), name=f"load {shard}")

    async def _load(self, number: int, shard: Shard[S]) -> None:
        if await shard.load() and self._shards.get(number) is shard:
            self._on_active(number)

    async def _tick(self) -> None:
        is_behind = False
        while True:
            await asyncio.sleep((SOON_MS if is_behind else TICK_MS) / 1000)
            is_behind = False
            self.update_shards()
            for shard in list(self._shards.values()):
                try:
                    is_behind |= shard.tick()
                except Exception:  # noqa: BLE001  (a bug in one shard must not stop the others)
                    _log.exception("%s: a tick failed", shard)
                await asyncio.sleep(0)
