"""Clients under chaos: each notes what it was told, and nothing else.

Every value is unique. A producer sends one record at a time to one partition, so that the order it observed is known;
readers tail every partition throughout.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import raftlog
from chaos.history import History, Outcome, Read, Send
from raftlog.errors import InvalidRequestError, OverloadedError, RaftlogError


@dataclass(slots=True, kw_only=True)
class Workload:
    """Producers and readers of one topic. Use as an async context manager; leaving it stops them."""

    bootstrap: list[str]
    dial: Mapping[str, str]
    topic: str
    partitions: int
    history: History
    producers_per_partition: int = 2
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _stopping: bool = False
    _acknowledged: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        for partition in range(self.partitions):
            for number in range(self.producers_per_partition):
                name = f"producer-{partition}-{number}"
                self._tasks.append(asyncio.create_task(self._produce(name, partition), name=name))
        self._tasks.append(asyncio.create_task(self._tail("tail-1"), name="tail-1"))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping = True
        *producers, tail = self._tasks
        await asyncio.gather(*producers)
        tail.cancel()
        await asyncio.gather(tail, return_exceptions=True)

    @property
    def acknowledged(self) -> int:
        return sum(send.outcome == "ok" for send in self.history.sends)

    async def more_acknowledged(self, count: int, *, within_s: float) -> float:
        """Wait until `count` more sends were acknowledged; return how many seconds that took.

        Raises:
            TimeoutError: they were not, within the time.
        """
        started, goal = time.monotonic(), self.acknowledged + count
        async with asyncio.timeout(within_s):
            while self.acknowledged < goal:
                self._acknowledged.clear()
                await self._acknowledged.wait()
        return time.monotonic() - started

    async def acknowledged_everywhere(self, *, within_s: float) -> float:
        """Wait until every partition acknowledged a send invoked from now on; return the seconds."""
        started = time.monotonic_ns()
        async with asyncio.timeout(within_s):
            while len(self._partitions_since(started)) < self.partitions:
                self._acknowledged.clear()
                await self._acknowledged.wait()
        return (time.monotonic_ns() - started) / 1e9

    def _partitions_since(self, started_ns: int) -> set[int]:
        sends = self.history.sends
        return {send.partition for send in sends if send.outcome == "ok" and send.invoked_ns >= started_ns}

    async def _produce(self, name: str, partition: int) -> None:
        number = 0
        async with raftlog.Producer(
            self.bootstrap, dial=self.dial, linger_ms=0, delivery_timeout_ms=15_000, request_timeout_ms=2_000
        ) as producer:
            while not self._stopping:
                value, invoked = f"{name}-{number}", time.monotonic_ns()
                offset, outcome, reason = await send(producer, self.topic, partition, value)
                self.history.sends.append(
                    Send(
                        process=name,
                        partition=partition,
                        value=value,
                        invoked_ns=invoked,
                        completed_ns=time.monotonic_ns(),
                        outcome=outcome,
                        offset=offset,
                        error=reason,
                    )
                )
                self._acknowledged.set()
                number += 1

    async def _tail(self, name: str) -> None:
        async with raftlog.Consumer(self.bootstrap, self.topic, start="earliest", dial=self.dial) as consumer:
            async for record in consumer:
                self.history.reads.append(seen(name, record))


async def send(producer: raftlog.Producer, topic: str, partition: int, value: str) -> tuple[int, Outcome, str]:
    """Send one value; return its offset, the outcome, and why."""
    try:
        metadata = await producer.send(topic, value=value.encode(), partition=partition)
    except (InvalidRequestError, OverloadedError) as error:
        return -1, "fail", str(error)
    except RaftlogError as error:
        return -1, "info", str(error)
    return metadata.offset, "ok", ""


async def read_everything(history: History, *, bootstrap: list[str], topic: str) -> None:
    """Read the topic from offset 0 to its end with a fresh client, straight to the brokers."""
    async with raftlog.Consumer(bootstrap, topic, start="earliest") as consumer:
        ends = await consumer.end_offsets()
        while any(consumer.position(*partition) < end for partition, end in ends.items()):
            history.final_reads.extend(seen("final", record) for record in await consumer.fetch())


def seen(process: str, record: raftlog.Record) -> Read:
    """Note what a reader saw."""
    return Read(
        process=process,
        partition=record.partition,
        offset=record.offset,
        value=(record.value or b"").decode(),
        completed_ns=time.monotonic_ns(),
    )
