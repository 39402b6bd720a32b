"""Clients of the simulated cluster, with the real client library: their answers are the only evidence."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

import raftlog
from chaos.history import History, Send, extra_of
from chaos.readers import has_read_to, seen
from chaos.workload import send
from raftlog.client.consumer import OutOfRange
from raftlog.errors import CorruptBatchError
from raftlog.model import TopicPartition
from simulation.cluster.loop import Process, SimulatedLoop

TOPIC = "t"
LONGEST_BURST = 30
LONGEST_REST_S = 1.5
PADDED = 600
"""Digits of every other value. A record alone in its batch is short (docs/adr/0045): without them, runs end before
segments do."""


def padded(number: int) -> str:
    """Return a number, every other one with many zeros before it."""
    return f"{number:0{PADDED}d}" if number % 2 else f"{number}"


def more_of(name: str, number: int) -> Any:
    """Return what records have beside their values: not all of them a key, or headers."""
    return {
        "key": f"{name}/{number}".encode() if number % 3 else None,
        "timestamp": time.time_ns() // 1000 - number % 7,
        "headers": (("number", b"%d" % number), ("none", None)) if number % 2 else (),
    }


class Clients:
    """Producers that send one unique value after another to one partition, and readers that tail them all."""

    def __init__(self, loop: SimulatedLoop, dice: random.Random, bootstrap: Sequence[str], history: History) -> None:
        self.history = history
        self.stopping = False
        self._loop = loop
        self._dice = dice
        self._bootstrap = list(bootstrap)
        self._producers: list[asyncio.Task[None]] = []
        self._tails: list[asyncio.Task[None]] = []
        self._reading: list[raftlog.Consumer] = []
        self.producers: list[Process] = []
        self.on_out_of_range: OutOfRange = "error"
        """Where readers continue whose position is out of range."""
        self.hosts: list[str] = []
        """Machines that clients run on."""

    def produce(self, partition: int, pause_s: float) -> None:
        process = self._process("producer")
        self.producers.append(process)
        name = process.name
        self._producers.append(self._loop.create_task(self._produce(name, partition, pause_s), context=process.context))

    def tail(self, *, rack: str = "") -> None:
        process = self._process("tail")
        self._tails.append(self._loop.create_task(self._tail(process.name, rack), context=process.context))

    def _process(self, kind: str) -> Process:
        number = len(self.hosts) + 1
        self.hosts.append(f"10.0.2.{number}")
        return Process(f"{kind}-{number}", self.hosts[-1])

    async def stop_writing(self) -> None:
        """Wait until the producers end."""
        self.stopping = True
        await asyncio.gather(*self._producers)

    def have_read_to(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Return whether all tails have read to some partitions' ends, or one of them has ended."""
        if any(tail.done() for tail in self._tails):
            return True
        return len(self._reading) == len(self._tails) and all(has_read_to(one, ends) for one in self._reading)

    async def stop(self) -> None:
        """End the tails."""
        for tail in self._tails:
            if tail.done():
                tail.result()  # It reads without end, so it failed.
            tail.cancel()
        await asyncio.gather(*self._tails, return_exceptions=True)

    def forget(self) -> None:
        """Drop all references."""
        self._producers.clear()
        self._tails.clear()
        self._reading.clear()

    def acknowledged_since(self, when_ns: int) -> set[int]:
        """Return partitions that acknowledged a send of these producers invoked since then."""
        ours, sends = {process.name for process in self.producers}, self.history.sends
        return {s.partition for s in sends if s.outcome == "ok" and s.invoked_ns >= when_ns and s.process in ours}

    async def _produce(self, name: str, partition: int, pause_s: float) -> None:
        """Send in bursts: times without writes are worth testing too, and cost less."""
        number, left = 0, self._dice.randint(1, LONGEST_BURST)
        async with raftlog.Producer(
            self._bootstrap, linger_ms=0, delivery_timeout_ms=8_000, request_timeout_ms=2_000
        ) as producer:
            while not self.stopping:
                value, invoked = f"{name}-{padded(number)}", time.monotonic_ns()
                more = more_of(name, number)
                offset, outcome, reason = await send(producer, TOPIC, partition, value, **more)
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
                        extra=extra_of(more["key"], more["timestamp"], more["headers"]),
                    )
                )
                number += 1
                left -= 1
                await asyncio.sleep(self._dice.uniform(0, 2 * pause_s))
                if left <= 0:
                    left = self._dice.randint(1, LONGEST_BURST)
                    await asyncio.sleep(self._dice.uniform(0, LONGEST_REST_S))

    async def _tail(self, name: str, rack: str) -> None:
        async with raftlog.Consumer(
            self._bootstrap, TOPIC, start="earliest", on_out_of_range=self.on_out_of_range, client_rack=rack
        ) as consumer:
            self._reading.append(consumer)
            try:
                async for record in consumer:
                    self.history.reads.append(seen(name, record))
            except CorruptBatchError as error:
                self.history.corruptions.append(f"{name}: {error}")
