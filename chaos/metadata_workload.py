"""Clients that create, alter, delete and read the same topics under chaos. Each logs its answers, and nothing else.

A client sends its requests to one broker after another, and each request once: the answer is about that request alone.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from chaos.history import Outcome
from chaos.metadata_history import Action, Listing, MetadataHistory, TopicOperation, TopicSeen
from chaos.sessions import open_session
from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    OverloadedError,
    RaftlogError,
    RetriableError,
    UnknownOutcomeError,
)
from raftlog.model import Address
from raftlog.wire import paths
from raftlog.wire.admin import AlterTopicBody
from raftlog.wire.metadata import ClientMetadata, ConfigValue, CreateTopicRequest, TopicInfo, TopicsResponse

CHANGE_TIMEOUT_MS = 4_000
READ_TIMEOUT_MS = 2_000
NAMES = 5
"""Fewer names than clients, so that clients meet."""
MAX_UNKNOWN_PER_NAME = 4
"""Then a new name replaces it: each unknown change doubles what the checker must consider."""
MAX_PARTITIONS = 8
FIRST_VALUE = 1_000_000_000
"""Of retention_ms: more than a week, so that retention never deletes anything."""


@dataclass(slots=True)
class Names:
    """The names that all clients work on, and the values that they write: all different."""

    values: itertools.count[int] = field(default_factory=lambda: itertools.count(FIRST_VALUE))
    used: int = NAMES
    current: list[str] = field(default_factory=lambda: [f"topic-{number}" for number in range(NAMES)])
    last_seen: dict[str, TopicSeen | None] = field(default_factory=dict)
    """The last answer of any client: only a hint for the next request."""
    unknown: Counter[str] = field(default_factory=Counter)

    def learn(self, operation: TopicOperation) -> None:
        """Keep what an operation shows of its name."""
        if operation.outcome == "ok":
            self.last_seen[operation.topic] = operation.seen
        if operation.outcome != "info" or operation.action == "read":
            return
        self.unknown[operation.topic] += 1
        if self.unknown[operation.topic] == MAX_UNKNOWN_PER_NAME:
            self.current[self.current.index(operation.topic)] = f"topic-{self.used}"
            self.used += 1


class MetadataClient:
    """One process of the history.

    Args:
        brokers: by name, the public listener.
        dial: the proxy for each listener.
    """

    def __init__(
        self, name: str, *, brokers: Mapping[str, Address], dial: Mapping[str, str], history: MetadataHistory, seed: int
    ) -> None:
        self.name = name
        self.random = random.Random(f"{seed} {name}")
        self._brokers, self._history = brokers, history
        self._session = open_session(dial)

    async def close(self) -> None:
        await self._session.close()

    async def create(self, topic: str, *, partitions: int, value: int, replication_factor: int) -> TopicOperation:
        request = CreateTopicRequest(
            topic=topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs={"retention_ms": value},
        )
        return await self._ask("create", topic, "POST", paths.TOPICS, request, partitions=partitions, value=value)

    async def alter(self, topic: str, *, partitions: int | None, value: int | None) -> TopicOperation:
        body = AlterTopicBody(configs={} if value is None else {"retention_ms": value}, partitions=partitions)
        path = paths.fill(paths.TOPIC, topic=topic)
        return await self._ask("alter", topic, "PATCH", path, body, partitions=partitions, value=value)

    async def delete(self, topic: str) -> TopicOperation:
        return await self._ask("delete", topic, "DELETE", paths.fill(paths.TOPIC, topic=topic))

    async def read(self, topic: str) -> TopicOperation:
        return await self._ask("read", topic, "GET", paths.fill(paths.TOPIC, topic=topic))

    async def list_topics(self, *, local: bool, broker: str = "", final: bool = False) -> Listing | None:
        """Request all topics from a broker (any); None if it does not answer."""
        broker = broker or self._broker()
        invoked, address = time.monotonic_ns(), self._brokers[broker]
        answer: TopicsResponse | ClientMetadata
        try:
            if local:
                answer = await self._session.call(
                    ClientMetadata, "GET", address, paths.METADATA, timeout_ms=READ_TIMEOUT_MS
                )
            else:
                answer = await self._session.call(
                    TopicsResponse, "GET", address, paths.TOPICS, timeout_ms=READ_TIMEOUT_MS
                )
        except RaftlogError:
            return None
        listing = Listing(
            process=self.name,
            broker=broker,
            invoked_ns=invoked,
            completed_ns=time.monotonic_ns(),
            topics={info.topic: seen(info) for info in answer.topics},
            metadata_offset=answer.metadata_offset if isinstance(answer, ClientMetadata) else None,
            final=final,
        )
        self._history.listings.append(listing)
        return listing

    async def _ask(
        self, action: Action, topic: str, method: str, path: str, message: object = None, **asked: int | None
    ) -> TopicOperation:
        broker, invoked = self._broker(), time.monotonic_ns()
        outcome: Outcome = "ok"
        found, code, reason = None, "", ""
        cls: type[Any] = dict[str, Any] if action == "delete" else TopicInfo
        timeout_ms = READ_TIMEOUT_MS if action == "read" else CHANGE_TIMEOUT_MS
        try:
            answer = await self._session.call(
                cls, method, self._brokers[broker], path, timeout_ms=timeout_ms, message=message
            )
            found = seen(answer) if isinstance(answer, TopicInfo) else None
        except RaftlogError as error:
            outcome, code, reason = outcome_of(action, error), error.code.value, error.message
        operation = TopicOperation(
            process=self.name,
            broker=broker,
            action=action,
            topic=topic,
            invoked_ns=invoked,
            completed_ns=time.monotonic_ns(),
            outcome=outcome,
            seen=found,
            code=code,
            error=reason,
            **asked,
        )
        self._history.operations.append(operation)
        return operation

    def _broker(self) -> str:
        return self.random.choice(list(self._brokers))


class MetadataLoad:
    """Several clients at work. Use as an async context manager; leaving it stops them."""

    def __init__(self, clients: Sequence[MetadataClient], *, pause_s: float = 0.05) -> None:
        self._clients, self._pause_s = clients, pause_s
        self._names = Names()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._work(client), name=client.name) for client in self._clients]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    async def _work(self, client: MetadataClient) -> None:
        while not self._stopping.is_set():
            await self._step(client)
            await asyncio.sleep(2 * self._pause_s * client.random.random())

    async def _step(self, client: MetadataClient) -> None:
        draw, names = client.random, self._names
        if draw.random() < 0.06:
            await client.list_topics(local=draw.random() < 0.5)
            return
        topic = draw.choice(names.current)
        known = names.last_seen.get(topic)
        # Mostly requests that fit the last answer; sometimes others, for a refusal is evidence too.
        usual: tuple[Action, ...] = ("create",) if known is None else ("alter", "alter", "delete")
        action = draw.choice(("read", *usual) if draw.random() < 0.9 else ("create", "alter", "delete"))
        names.learn(await self._do(client, action, topic, known.partitions if known else 1))

    async def _do(self, client: MetadataClient, action: Action, topic: str, partitions: int) -> TopicOperation:
        draw, values = client.random, self._names.values
        match action:
            case "read":
                return await client.read(topic)
            case "create":
                factor = draw.choice((1, 1, 3))
                return await client.create(
                    topic, partitions=draw.randint(1, 3), value=next(values), replication_factor=factor
                )
            case "alter":
                number = min(MAX_PARTITIONS, max(1, partitions + draw.choice((-1, 1, 1))))
                what = draw.choice(("value", "value", "partitions", "both"))
                return await client.alter(
                    topic,
                    partitions=None if what == "value" else number,
                    value=None if what == "partitions" else next(values),
                )
            case "delete":
                return await client.delete(topic)


def outcome_of(action: Action, error: RaftlogError) -> Outcome:
    """Return the outcome that a client may conclude from an error: `fail` only where raftlog's own client would."""
    if action == "read" and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return "ok"  # The topic does not exist.
    if isinstance(error, UnknownOutcomeError):
        return "info"
    return "fail" if isinstance(error, InvalidRequestError | OverloadedError | RetriableError) else "info"


def seen(info: TopicInfo) -> TopicSeen:
    """Return the topic in an answer."""
    return TopicSeen(
        topic_id=info.topic_id, partitions=len(info.partitions), value=_retention(info.configs.get("retention_ms"))
    )


def _retention(value: ConfigValue | None) -> int | None:
    return value if isinstance(value, int) else None
