"""Clients that need no library: they post JSON to any broker, which appends it at the leader.

They never retry, so each record is in the log once, or not at all.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from chaos.history import History, Outcome, Send, with_code
from raftlog.errors import RaftlogError, UnreachableError
from raftlog.model import Address
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.codec import encode_json
from simulation.cluster.loop import Process
from simulation.cluster.workload import TOPIC

if TYPE_CHECKING:
    from simulation.cluster.ports import World

JSON = (0, 0, 0, 0, 1, 2)
"""How many such clients a world has."""
MOST_RECORDS = 4
"""In one request; they may be for different partitions."""
TIMEOUT_MS = 2_000
PATIENCE_MS = 4_000
LONGEST_REST_S = 0.6
Told = tuple[Outcome, list[int], str]
"""A request's outcome, the offsets of its records if they were certainly appended, and the error."""


def drawn(seed: int) -> int:
    """Draw how many a world has, by dice of its own: other worlds do not change."""
    return random.Random(f"json {seed}").choice(JSON)  # noqa: S311  (a schedule, not a secret)


class PlainClients:
    """A world's clients of that kind. Does nothing, and draws nothing, in a world without them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin, once the topic exists."""
        world = self._world
        if world.settings.json_clients:
            world.note(f"{world.settings.json_clients} clients post JSON")
        for number in range(world.settings.json_clients):
            dice = random.Random(world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
            client = Process(f"curl-{number}", f"10.0.12.{number + 1}")
            self._tasks.append(world.loop.create_task(self._produce(client.name, dice), context=client.context))

    def acknowledged_since(self, when_ns: int) -> bool:
        """Return whether each of them got a success for a request that it sent since then."""
        told = {s.process for s in self._world.history.sends if s.outcome == "ok" and s.invoked_ns >= when_ns}
        return all(f"curl-{number}" in told for number in range(self._world.settings.json_clients))

    async def stop(self) -> None:
        """Wait until all of them end."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    def forget(self) -> None:
        """Drop all references."""
        self._tasks.clear()

    async def _produce(self, name: str, dice: random.Random) -> None:
        brokers = [Address.parse(url.removeprefix("http://")) for url in self._world.bootstrap]
        number, partitions = 0, range(self._world.settings.partitions)
        async with HttpSession() as session:
            while not self._stopping:
                records = [
                    (dice.choice(partitions), f"{name}-{number + i}") for i in range(dice.randint(1, MOST_RECORDS))
                ]
                number += len(records)
                invoked = time.monotonic_ns()
                told = await _post(session, dice.choice(brokers), records)
                _note(self._world.history, name, records, invoked, told)
                await asyncio.sleep(dice.uniform(0, LONGEST_REST_S))


async def _post(session: HttpSession, broker: Address, records: Sequence[tuple[int, str]]) -> Told:
    """Post records. Unless the answer says that all of them were appended, or none, the outcome is unknown."""
    body = encode_json({"records": [{"partition": partition, "value": value} for partition, value in records]})
    try:
        answer = await session.request(
            "POST",
            broker,
            paths.fill(paths.TOPIC_RECORDS, topic=TOPIC),
            query={"acks": "all", "timeout_ms": TIMEOUT_MS},
            body=body,
            timeout_ms=PATIENCE_MS,
        )
    except UnreachableError as error:
        return "fail", [], with_code(error)
    except RaftlogError as error:
        return "info", [], with_code(error)
    return "ok", [int(one["offset"]) for one in orjson.loads(answer.body)["offsets"]], ""


def _note(history: History, name: str, records: Sequence[tuple[int, str]], invoked_ns: int, told: Told) -> None:
    outcome, offsets, reason = told
    for at, (partition, value) in enumerate(records):
        history.sends.append(
            Send(
                process=name,
                partition=partition,
                value=value,
                invoked_ns=invoked_ns,
                completed_ns=time.monotonic_ns(),
                outcome=outcome,
                offset=offsets[at] if offsets else -1,
                error=reason,
            )
        )
