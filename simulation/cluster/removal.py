"""Deletions of the workload topic's records, and a reader slow enough to meet them: requests and answers."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from typing import TYPE_CHECKING

import raftlog
from chaos.readers import seen
from raftlog.errors import ErrorCode, OffsetOutOfRangeError, RaftlogError
from raftlog.model import LeaderEpoch, Offset
from simulation.cluster.loop import Process
from simulation.cluster.workload import TOPIC

if TYPE_CHECKING:
    from simulation.cluster.ports import World

REST_S = (0.2, 3.0)
"""The pause between two deletions."""
NAP_S = 2.0
"""The longest pause of the slow reader, which fetches a few records at a time."""
PAUSE_S = 0.2


class Remover:
    """A world's deletions and its slow reader. Does nothing, and draws nothing, in a world that removes nothing."""

    def __init__(self, world: World) -> None:
        self.asked: dict[int, Offset] = defaultdict(int)
        """By partition, the offset below which a client has requested deletion: records there may be deleted."""
        self.promised: dict[int, list[tuple[LeaderEpoch, Offset]]] = defaultdict(list)
        """By partition, (leader epoch, offset): no leader of a later epoch stores a record below the offset."""
        self.stopping = False
        self._world = world
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, once the topic exists."""
        world, rules = self._world, self._world.settings.removal
        if rules is None:
            return
        self._dice = random.Random(world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
        self._spawn(Process("laggard", "10.0.9.1"), self._lag_behind())
        if rules.delete_records:
            self._spawn(Process("remover", "10.0.9.2"), self._delete())

    async def stop(self) -> None:
        self.stopping = True
        await asyncio.gather(*self._tasks)

    def forget(self) -> None:
        """Drop all references."""
        self._tasks.clear()

    def _spawn(self, process: Process, work: object) -> None:
        self._tasks.append(self._world.loop.create_task(work, context=process.context))  # type: ignore[arg-type]

    async def _delete(self) -> None:
        while not self.stopping:
            await asyncio.sleep(self._dice.uniform(*REST_S))
            partition = self._dice.randrange(self._world.settings.partitions)
            if (offset := self._somewhere(partition)) is not None:
                await self.delete_below(partition, offset)

    def _somewhere(self, partition: int) -> Offset | None:
        """Return an acknowledged offset; often the newest; sometimes one above the end of the log."""
        sends = self._world.history.sends
        known = [send.offset for send in sends if send.outcome == "ok" and send.partition == partition]
        if not known:
            return None
        pick = self._dice.random()
        return self._dice.choice(known) if pick < 0.6 else max(known) + (1 if pick < 0.95 else self._dice.randint(2, 9))

    async def delete_below(self, partition: int, offset: Offset) -> None:
        """Request the deletion, and record the promise in the answer."""
        world = self._world
        self.asked[partition] = max(offset, self.asked[partition])
        try:
            async with raftlog.Admin(world.bootstrap) as admin:
                start = await admin.delete_records(TOPIC, partition, before=offset)
        except RaftlogError as error:
            world.note(f"{partition} is not known to start at {offset}: {error.code.value}")
            return
        world.note(f"{partition} starts at {start}, requested {offset}")
        if start < offset:
            world.watch.fail(f"{TOPIC}-{partition} starts at {start}, and everything below {offset} was deleted")
        state = world.newest_image().topic(TOPIC).partitions[partition]  # type: ignore[union-attr]
        self.promised[partition].append((state.leader_epoch, offset))

    async def _lag_behind(self) -> None:
        """Read slowly. When the position is out of range, begin again with a new consumer."""
        life = 0
        while not self.stopping:
            life += 1
            consumer = raftlog.Consumer(self._world.bootstrap, TOPIC, start="earliest")
            try:
                async with consumer:
                    await self._read_slowly(consumer, f"laggard/{life}")
            except OffsetOutOfRangeError as error:
                self._must_have_fallen_off(consumer, error)
            except RaftlogError:
                await asyncio.sleep(PAUSE_S)  # No answer at its start; later ones it retries.

    async def _read_slowly(self, consumer: raftlog.Consumer, name: str) -> None:
        while not self.stopping:
            records = await consumer.fetch(max_records=5)
            self._world.history.reads.extend(seen(name, record) for record in records)
            await asyncio.sleep(self._dice.uniform(0, NAP_S))

    def _must_have_fallen_off(self, consumer: raftlog.Consumer, error: OffsetOutOfRangeError) -> None:
        """Fail unless the reader's position is below the log's start: only then may it be out of range."""
        world = self._world
        start = error.details.get("log_start_offset", -1)
        positions = [consumer.position(TOPIC, number) for number in range(world.settings.partitions)]
        world.note(f"the slow reader at {positions} is out of range, below {start}")
        if error.code is not ErrorCode.OFFSET_OUT_OF_RANGE or all(position >= start for position in positions):
            world.watch.fail(f"the slow reader at {positions} got: {error}")
