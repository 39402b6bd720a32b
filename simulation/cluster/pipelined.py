"""Producers with many records in flight, as most applications have: they linger, and do not wait for answers."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import raftlog
from chaos.history import History, Outcome, Send, extra_of, with_code
from raftlog.errors import RaftlogError, UnknownOutcomeError
from simulation.cluster.loop import Process
from simulation.cluster.workload import TOPIC, more_of

if TYPE_CHECKING:
    from simulation.cluster.ports import World

PIPELINES = 1 / 6
"""The share of worlds that have such a producer."""
NAME = "pipeline"
MOST_AT_ONCE = 12
LONGEST_REST_S = 0.4
LONGEST_PAUSE_S = 3.0
"""Sometimes: the leader may have changed since the last record."""


@dataclass(frozen=True)
class Pipeline:
    """How such a producer sends."""

    linger_ms: int
    batch_bytes: int
    """A few records: several batches of one partition are in flight at once."""
    max_in_flight: int

    @classmethod
    def drawn(cls, seed: int) -> Pipeline | None:
        """Draw whether a world has one, and which, by dice of its own: other worlds do not change."""
        apart = random.Random(f"pipelines {seed}")  # noqa: S311  (a schedule, not a secret)
        if apart.random() >= PIPELINES:
            return None
        return cls(
            linger_ms=apart.choice((1, 5, 50)),
            batch_bytes=apart.choice((64, 150, 1_000)),
            max_in_flight=apart.choice((2, 5, 5)),
        )


class Pipelined:
    """A world's producer of that kind. Does nothing, and draws nothing, in a world without one."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stopping = False
        self._number = 0
        self._invoked_ns = 0
        self._work: asyncio.Task[None] | None = None

    @property
    def exist(self) -> bool:
        return self._world.settings.pipeline is not None

    def start(self) -> None:
        """Begin, once the topic exists."""
        pipeline = self._world.settings.pipeline
        if pipeline is None:
            return
        self._dice = random.Random(self._world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
        client = Process(NAME, "10.0.13.1")
        self._work = self._world.loop.create_task(self._produce(pipeline), context=client.context)

    def acknowledged_since(self, when_ns: int) -> bool:
        """Return whether a record that was sent since then was acknowledged, or whether there is no such producer."""
        sends = reversed(self._world.history.sends)
        return not self.exist or any(s.process == NAME and s.outcome == "ok" for s in sends if s.invoked_ns >= when_ns)

    async def stop(self) -> None:
        """Wait until it ends, and until every record has an outcome."""
        self._stopping = True
        if self._work is not None:
            await self._work

    def forget(self) -> None:
        """Drop all references."""
        self._work = None

    async def _produce(self, pipeline: Pipeline) -> None:
        notes = list[asyncio.Task[None]]()
        async with raftlog.Producer(
            self._world.bootstrap,
            linger_ms=pipeline.linger_ms,
            batch_bytes=pipeline.batch_bytes,
            max_in_flight=pipeline.max_in_flight,
            delivery_timeout_ms=8_000,
            request_timeout_ms=2_000,
        ) as producer:
            while not self._stopping:
                notes = [note for note in notes if not note.done()]
                notes += [
                    asyncio.ensure_future(self._send(producer)) for _ in range(self._dice.randint(1, MOST_AT_ONCE))
                ]
                longest_s = LONGEST_PAUSE_S if self._dice.random() < 0.1 else LONGEST_REST_S
                await asyncio.sleep(self._dice.uniform(0, longest_s))
        await asyncio.gather(*notes)

    async def _send(self, producer: raftlog.Producer) -> None:
        """Queue one record, at once, and record its outcome."""
        value, partition = f"{NAME}-{self._number}", self._dice.randrange(self._world.settings.partitions)
        more = more_of(NAME, self._number)
        self._number += 1
        self._invoked_ns = max(self._invoked_ns + 1, time.monotonic_ns())  # Many begin at one time, in this order.
        invoked_ns = self._invoked_ns
        outcome, offset, reason = await _outcome(producer, partition, value, more)
        self._world.history.sends.append(
            Send(
                process=NAME,
                partition=partition,
                value=value,
                invoked_ns=invoked_ns,
                completed_ns=max(invoked_ns, time.monotonic_ns()),
                outcome=outcome,
                offset=offset,
                error=reason,
                extra=extra_of(more["key"], more["timestamp"], more["headers"]),
            )
        )


async def _outcome(
    producer: raftlog.Producer, partition: int, value: str, more: dict[str, Any]
) -> tuple[Outcome, int, str]:
    try:
        delivery = producer.send_nowait(TOPIC, value.encode(), partition=partition, **more)
        return "ok", (await delivery).offset, ""
    except UnknownOutcomeError as error:
        return "info", -1, with_code(error)
    except RaftlogError as error:
        return "fail", -1, with_code(error)


def out_of_order(history: History, producers: Collection[str]) -> Iterator[str]:
    """Find records whose order in the log differs from the order of their sends, whatever their outcomes.

    Their values end in their numbers.
    """
    numbers = defaultdict[tuple[str, int], list[int]](list)
    for read in sorted(history.final_reads, key=lambda read: read.offset):
        process, _, number = read.value.rpartition("-")
        if process in producers:
            numbers[process, read.partition].append(int(number))
    for (process, partition), found in numbers.items():
        for before, after in pairwise(found):
            if after <= before:
                yield f"partition {partition}: of {process}'s records, {after} comes after {before}"
