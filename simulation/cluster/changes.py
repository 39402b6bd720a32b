"""Transactions that write keys of a compacted topic: one producer in several lives, some of which end by a crash."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import raftlog
from chaos.history import Outcome, Send
from raftlog.errors import RaftlogError, UnknownOutcomeError
from raftlog.model import Offset
from simulation.cluster.loop import Process

if TYPE_CHECKING:
    from simulation.cluster.ports import World

TOPIC = "keys"
LIFE_S = (0.5, 6.0)
CRASHES = 0.5
"""The share of lives that end by a crash; the next life aborts what that left open."""
ABORTS = 0.25
LONGEST = 5
"""Records of a transaction, at most."""
PAUSE_S = 0.08


class Writer(Protocol):
    """Draws what is written, and keeps what was sent."""

    sends: list[Send]
    stopping: bool

    def next_write(self) -> tuple[str, str | None]:
        """Return a key and its next value; None: a tombstone."""
        ...


class Changes:
    """Writes one transaction after another, until the writer stops."""

    def __init__(self, world: World, writer: Writer) -> None:
        self._world = world
        self._writer = writer
        self._written: list[Send] = []
        """What was sent in the transaction under way."""
        self._lives: list[asyncio.Task[None]] = []

    def forget(self) -> None:
        """Drop all references."""
        self._lives.clear()

    async def run(self, dice: random.Random) -> None:
        """Run one life after another."""
        self._dice = dice
        while not self._writer.stopping:
            process = Process(f"keeper/{len(self._lives)}", f"10.0.16.{len(self._lives) + 1}")
            ends_at = self._world.loop.time() + dice.uniform(*LIFE_S)
            life = self._world.loop.create_task(self._one_life(ends_at), context=process.context)
            self._lives.append(life)
            if dice.random() < CRASHES and await self._still_runs_at(ends_at - LIFE_S[0] / 2, life):
                self._crash(process)
            else:
                await life

    async def _still_runs_at(self, when: float, life: asyncio.Task[None]) -> bool:
        while not self._writer.stopping and self._world.loop.time() < when:
            await asyncio.sleep(0.05)
        return not self._writer.stopping and not life.done()

    def _crash(self, process: Process) -> None:
        self._world.note(f"crash of {process.name}")
        process.alive = False
        self._world.loop.bury(process)
        self._world.net.process_died(process)
        self._ended("info")

    async def _one_life(self, ends_at: float) -> None:
        async with raftlog.Producer(
            self._world.bootstrap,
            transactional_id="keeper",
            transaction_timeout_ms=3_000,
            linger_ms=0,
            delivery_timeout_ms=8_000,
            request_timeout_ms=2_000,
        ) as producer:
            while not self._writer.stopping and self._world.loop.time() < ends_at:
                await self._transact(producer)
                await asyncio.sleep(self._dice.uniform(0, 2 * PAUSE_S))

    async def _transact(self, producer: raftlog.Producer) -> None:
        """Run one transaction, and note its outcome."""
        give_up = self._dice.random() < ABORTS
        try:
            async with producer.transaction():
                for _ in range(self._dice.randint(1, LONGEST)):
                    await self._send(producer, *self._writer.next_write())
                    await asyncio.sleep(self._dice.uniform(0, PAUSE_S))
                if give_up:
                    raise _GivenUpError
        except _GivenUpError:
            self._ended("fail")
        except UnknownOutcomeError:
            self._ended("info")
        except RaftlogError:
            self._ended("fail")
        else:
            self._ended("ok")

    async def _send(self, producer: raftlog.Producer, key: str, value: str | None) -> None:
        self._written.append(sent_of(key, value, time.monotonic_ns(), -1, "info"))
        sent = await producer.send(TOPIC, None if value is None else value.encode(), key=key.encode(), partition=0)
        self._written[-1] = replace(self._written[-1], offset=sent.offset)

    def _ended(self, outcome: Outcome) -> None:
        now_ns = time.monotonic_ns()
        self._writer.sends += [replace(one, outcome=outcome, completed_ns=now_ns) for one in self._written]
        self._written.clear()


class _GivenUpError(Exception):
    """The producer aborts on purpose."""


def sent_of(key: str, value: str | None, invoked_ns: int, offset: Offset, outcome: Outcome) -> Send:
    """Return a record that was offered to the log until now."""
    return Send(
        process=key,
        partition=0,
        value=text_of(value),
        invoked_ns=invoked_ns,
        completed_ns=time.monotonic_ns(),
        outcome=outcome,
        offset=offset,
    )


def text_of(value: str | None) -> str:
    """Return a value as histories have it."""
    return "a tombstone" if value is None else value
