"""Clients under chaos: each logs its answers, and nothing else.

Values are unique: increasing integers for each key. About ten keys are hot at a time, and others replace them.
Producers send a few records at once, with every kind of `client_kinds`. Clients crash now and then, in the middle of a
request, and start again as another process (in the history's sense). `readers` tail every partition throughout.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, TypeAlias

import orjson

import raftlog
from chaos.acknowledgements import Acknowledgements
from chaos.client_kinds import KINDS, ClientKind, Keys
from chaos.history import History, Outcome, Send, with_code
from chaos.kafka_clients import KafkaProducer, send_with_kcat, tail_with_kafka
from chaos.readers import Readers, until_read_to_the_end
from chaos.sessions import open_session
from raftlog.client.addresses import address_of
from raftlog.errors import RaftlogError, UnknownOutcomeError, UnreachableError
from raftlog.model import Address
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.codec import Buffer, encode_json

MAX_BURST = 4
MEAN_LIFE_S = 30.0
REQUEST_TIMEOUT_MS = 2_000
DELIVERY_TIMEOUT_MS = 15_000
CRASHED = "the client crashed"

Deliver: TypeAlias = Callable[[int, str, bytes], Awaitable[tuple[int, Outcome, str]]]
"""Send a partition's value with its key; return its offset, the outcome, and why."""


@dataclass(slots=True, kw_only=True)
class Workload:
    """Producers and readers of one topic. Use as an async context manager; leaving it stops them.

    Args:
        pace_s: how long a producer waits between two bursts, on average.
        crashes: whether clients crash by themselves.
    """

    bootstrap: list[str]
    dial: Mapping[str, str]
    topic: str
    partitions: int
    history: History
    seed: int = 0
    kinds: Sequence[ClientKind] = KINDS
    pace_s: float = 0.02
    crashes: bool = True
    acknowledged: Acknowledgements = field(init=False)
    _keys: Keys = field(init=False)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _lives: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _stopping: bool = False
    """Producers stop after their burst."""
    _over: bool = False
    """Nothing begins another life."""
    _going: asyncio.Event = field(default_factory=asyncio.Event)
    _busy: int = 0
    """How many sends are in flight."""

    def __post_init__(self) -> None:
        self._keys = Keys(random.Random(self.seed))
        self.acknowledged = Acknowledgements(kinds=self.kinds, partitions=self.partitions)
        self._going.set()

    async def __aenter__(self) -> Self:
        for number, kind in enumerate(self.kinds):
            self._spawn(f"producer-{number}", self._producer(kind))
        readers = Readers(self.bootstrap, self.dial, self.topic, self.partitions, self.history)
        self._spawn("tail-1", readers.tail)
        self._spawn("ends", readers.watch_ends)
        if any(kind.library != "raftlog" for kind in self.kinds):
            tail = partial(tail_with_kafka, self.history, self.bootstrap, self.topic, self.partitions)
            self._spawn("tail-kafka", tail)
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Stop.

        Raises:
            TimeoutError: nothing else failed, and a reader that tails has not read everything.
        """
        self._stopping = True
        self._going.set()
        producers = [task for task in self._tasks if task.get_name().startswith("producer")]
        tails = {task.get_name(): task for task in self._tasks if task.get_name().startswith("tail")}
        try:
            await asyncio.gather(*producers)
            if kind is None:
                await until_read_to_the_end(self.history, self.bootstrap, self.topic, tails)
        finally:
            self._over = True
            for task in self._tasks:
                task.cancel()
            for result in await asyncio.gather(*self._tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result

    def crash(self) -> None:
        """Crash every producer in the middle of a request; each starts again."""
        for name, life in self._lives.items():
            if name.startswith("producer"):
                _crash(life)

    async def pause(self) -> None:
        """Let producers finish their requests and wait, until `go_on`."""
        self._going.clear()
        while self._busy:
            await asyncio.sleep(0.01)

    def go_on(self) -> None:
        self._going.set()

    def _spawn(self, name: str, life: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        self._tasks.append(asyncio.create_task(self._live(name, life), name=name))

    async def _live(self, name: str, life: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Live one life after another, until the workload stops; cancelling this task ends the life too."""
        dice, number = random.Random(f"{self.seed} {name}"), 0
        while not (self._over or (self._stopping and name.startswith("producer"))):
            one = asyncio.create_task(life(f"{name}/{number}"))
            self._lives[name] = one
            number += 1
            mean = MEAN_LIFE_S if self.crashes and name.startswith("producer") else 1e6
            try:
                await asyncio.wait([one], timeout=dice.expovariate(1 / mean))
            except asyncio.CancelledError:
                _crash(one)
                await asyncio.wait([one])
                raise
            if not self._stopping:
                _crash(one)
            with suppress(asyncio.CancelledError):
                await one

    def _producer(self, kind: ClientKind) -> Callable[[str], Coroutine[Any, Any, None]]:
        async def produce(process: str) -> None:
            if kind.library == "kcat":
                await self._send_with_kcat(process, kind)
            elif kind.library == "confluent":
                kafka = KafkaProducer(self.bootstrap, acks=kind.acks, idempotent=kind.idempotent)
                async with aclosing(kafka):
                    await self._send_bursts(process, kind, partial(kafka.send, self.topic))
            elif kind.idempotent:
                await self._send_with_client(process, kind)
            else:
                await self._send_plainly(process, kind)

        return produce

    async def _send_with_client(self, process: str, kind: ClientKind) -> None:
        producer = raftlog.Producer(
            self.bootstrap,
            acks=kind.acks,
            dial=self.dial,
            linger_ms=0,
            delivery_timeout_ms=DELIVERY_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        try:
            await self._send_bursts(process, kind, partial(send, producer, self.topic))
        finally:
            await producer.close(flush=False)

    async def _send_bursts(self, process: str, kind: ClientKind, deliver: Deliver) -> None:
        dice = random.Random(f"{self.seed} {process}")
        while not self._stopping:
            await asyncio.gather(*[self._send_one(process, kind, deliver) for _ in range(dice.randint(1, MAX_BURST))])
            await asyncio.sleep(dice.uniform(0, 2 * self.pace_s))
            await self._going.wait()

    async def _send_one(self, process: str, kind: ClientKind, deliver: Deliver) -> None:
        key, value = self._keys.draw()
        partition, invoked = key % self.partitions, self._begin(kind, value)
        outcome: Outcome = "info"
        offset, why = -1, CRASHED
        try:
            offset, outcome, why = await deliver(partition, value, str(key).encode())
        finally:
            self._busy -= 1
            self._note(process, kind, partition, value, invoked, outcome, offset, why)

    async def _send_with_kcat(self, process: str, kind: ClientKind) -> None:
        """Run kcat again and again; each run sends a burst to one partition."""
        dice, run = random.Random(f"{self.seed} {process}"), 0
        while not self._stopping:
            records = [self._keys.draw() for _ in range(dice.randint(1, MAX_BURST))]
            partition, invoked = dice.randrange(self.partitions), time.monotonic_ns()
            outcome: Outcome = "info"
            why, run = CRASHED, run + 1
            self._busy += 1
            try:
                outcome, why = await send_with_kcat(self.bootstrap, self.topic, partition, records)
            finally:
                self._busy -= 1
                for _, value in records:
                    self._note(f"{process}.{run}", kind, partition, value, invoked, outcome, -1, why)
            await asyncio.sleep(dice.uniform(0, 2 * self.pace_s))
            await self._going.wait()

    async def _send_plainly(self, process: str, kind: ClientKind) -> None:
        dice = random.Random(f"{self.seed} {process}")
        addresses = [address_of(url) for url in self.bootstrap]
        async with open_session(self.dial) as session:
            while not self._stopping:
                await self._post(process, kind, session, dice.choice(addresses))
                await asyncio.sleep(dice.uniform(0, 2 * self.pace_s))
                await self._going.wait()

    async def _post(self, process: str, kind: ClientKind, session: HttpSession, broker: Address) -> None:
        key, value = self._keys.draw()
        partition, invoked = key % self.partitions, self._begin(kind, value)
        body = encode_json({"records": [{"partition": partition, "key": str(key), "value": value}]})
        outcome: Outcome = "info"
        offset, why = -1, CRASHED
        try:
            answer = await session.request(
                "POST",
                broker,
                paths.fill(paths.TOPIC_RECORDS, topic=self.topic),
                query={"acks": kind.acks, "timeout_ms": REQUEST_TIMEOUT_MS},
                body=body,
                timeout_ms=2 * REQUEST_TIMEOUT_MS,
            )
            offset, outcome, why = offset_of(answer.body), "ok", ""
        except UnreachableError as error:
            outcome, why = "fail", with_code(error)
        except RaftlogError as error:
            why = with_code(error)
        finally:
            self._busy -= 1
            self._note(process, kind, partition, value, invoked, outcome, offset, why)

    def _begin(self, kind: ClientKind, value: str) -> int:
        self._busy += 1
        return self.acknowledged.begin(kind, value)

    def _note(
        self,
        process: str,
        kind: ClientKind,
        partition: int,
        value: str,
        invoked_ns: int,
        outcome: Outcome,
        offset: int,
        why: str,
    ) -> None:
        if outcome == "ok" and kind.acks == "0":
            outcome = "info"  # There is no answer.
        done = Send(
            process=process,
            partition=partition,
            value=value,
            invoked_ns=invoked_ns,
            completed_ns=time.monotonic_ns(),
            outcome=outcome,
            offset=offset,
            error=why,
            acks=kind.acks,
            idempotent=kind.idempotent,
        )
        self.history.sends.append(done)
        self.acknowledged.end(kind, done)


def _crash(life: asyncio.Task[None]) -> None:
    """Cancel a life in the middle of a request; only once, for it then closes its connections."""
    if not life.cancelling():
        life.cancel()


async def send(
    producer: raftlog.Producer, topic: str, partition: int, value: str, key: bytes | None = None, **more: Any
) -> tuple[int, Outcome, str]:
    """Send one value; return its offset, the outcome, and why.

    The client is certain of an outcome other than `info`.

    Args:
        more: of `raftlog.Producer.send`.
    """
    try:
        metadata = await producer.send(topic, value=value.encode(), key=key, partition=partition, **more)
    except UnknownOutcomeError as error:
        return -1, "info", with_code(error)
    except RaftlogError as error:
        return -1, "fail", with_code(error)
    return metadata.offset, "ok", ""


def offset_of(answer: Buffer) -> int:
    """Return the offset in the answer to one JSON record."""
    return int(orjson.loads(answer)["offsets"][0]["offset"])
