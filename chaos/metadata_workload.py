"""Clients that create, delete, recreate and alter topics under chaos. Each notes what it was told, and nothing else.

A client talks to one broker after another, at its own links, and sends each request once: what it is told is then about
that request alone.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from chaos.history import Outcome
from chaos.metadata_history import Action, Listing, MetadataHistory, Source, TopicChange, TopicSeen
from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    OverloadedError,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
    UnreachableError,
)
from raftlog.model import Address
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.metadata import ClientMetadata, ConfigValue, CreateTopicRequest, TopicInfo, TopicsResponse

REQUEST_TIMEOUT_MS = 4_000
READ_TIMEOUT_MS = 2_000
TOPICS_PER_CLIENT = 4
FIRST_VALUE = 100_000_000
"""Of retention_ms: more than a day, so that nothing is ever deleted because of it."""
PROBE_PAUSE_S = 0.05


@dataclass(slots=True)
class _Topic:
    """What its only writer knows of a name."""

    name: str
    state: str = "absent"
    """absent, present, or unsure: the outcome of the last change is unknown."""
    value: int = FIRST_VALUE
    lives: int = 0


class MetadataClient:
    """One process of the history, with its own links."""

    def __init__(
        self, name: str, *, brokers: Mapping[str, Address], dial: Mapping[str, str], history: MetadataHistory, seed: int
    ) -> None:
        self.name = name
        self.random = random.Random(f"{seed} {name}")
        self._brokers, self._history = brokers, history
        self._session = HttpSession(dial=dial)

    async def close(self) -> None:
        await self._session.close()

    async def create(self, topic: str, *, partitions: int, value: int, replication_factor: int = 1) -> TopicChange:
        request = CreateTopicRequest(
            topic=topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs={"retention_ms": value},
        )
        return await self._change("create", topic, "POST", paths.TOPICS, request, partitions=partitions, value=value)

    async def delete(self, topic: str) -> TopicChange:
        return await self._change("delete", topic, "DELETE", paths.fill(paths.TOPIC, topic=topic))

    async def alter(self, topic: str, value: int) -> TopicChange:
        path, body = paths.fill(paths.TOPIC, topic=topic), {"configs": {"retention_ms": value}}
        return await self._change("alter", topic, "PATCH", path, body, value=value)

    async def list_topics(self, source: Source) -> Listing | None:
        """Ask a broker for all topics; None if it does not answer."""
        broker, invoked = self._broker(), time.monotonic_ns()
        address, offset = self._brokers[broker], None
        try:
            answer: TopicsResponse | ClientMetadata
            if source == "topics":
                answer = await self._session.call(
                    TopicsResponse, "GET", address, paths.TOPICS, timeout_ms=READ_TIMEOUT_MS
                )
            else:
                answer = await self._session.call(
                    ClientMetadata, "GET", address, paths.METADATA, timeout_ms=READ_TIMEOUT_MS
                )
                offset = answer.metadata_offset
        except RaftlogError:
            return None
        listing = Listing(
            process=self.name,
            broker=broker,
            source=source,
            invoked_ns=invoked,
            completed_ns=time.monotonic_ns(),
            topics={info.topic: seen(info) for info in answer.topics},
            metadata_offset=offset,
        )
        self._history.listings.append(listing)
        return listing

    async def _change(
        self, action: Action, topic: str, method: str, path: str, message: object = None, **asked: int
    ) -> TopicChange:
        broker, invoked = self._broker(), time.monotonic_ns()
        outcome: Outcome = "ok"
        found, code, reason = None, "", ""
        try:
            cls: type[Any] = dict[str, Any] if action == "delete" else TopicInfo
            answer = await self._session.call(
                cls, method, self._brokers[broker], path, timeout_ms=REQUEST_TIMEOUT_MS, message=message
            )
            found = seen(answer) if isinstance(answer, TopicInfo) else None
        except RaftlogError as error:
            outcome, code, reason = outcome_of(error), error.code.value, error.message
        change = TopicChange(
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
        self._history.changes.append(change)
        return change

    def _broker(self) -> str:
        return self.random.choice(list(self._brokers))


class MetadataLoad:
    """Several clients at work. Use as an async context manager; leaving it stops them.

    Args:
        alter: they alter settings too.
    """

    def __init__(self, clients: Sequence[MetadataClient], *, alter: bool, pause_s: float = 0.05) -> None:
        self._clients, self._alter, self._pause_s = clients, alter, pause_s
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._work(client), name=client.name) for client in self._clients]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping.set()
        await asyncio.gather(*self._tasks)

    async def _work(self, client: MetadataClient) -> None:
        writer = _Writer(client, alter=self._alter)
        while not self._stopping.is_set():
            await writer.step()
            await asyncio.sleep(self._pause_s * client.random.random())


@dataclass(slots=True)
class _Writer:
    """Chooses what one client does next."""

    client: MetadataClient
    alter: bool
    topics: list[_Topic] = field(default_factory=list)
    named: int = 0

    async def step(self) -> None:
        draw = self.client.random
        if draw.random() < 0.35:
            await self.client.list_topics(draw.choice(("topics", "metadata")))
            return
        while len(self.topics) < TOPICS_PER_CLIENT:
            self.named += 1
            self.topics.append(_Topic(f"{self.client.name}-{self.named}"))
        topic = draw.choice(self.topics)
        await self._change(topic)

    async def _change(self, topic: _Topic) -> None:
        draw = self.client.random
        if topic.state == "absent" or (topic.state == "unsure" and draw.random() < 0.3):
            topic.value += 1
            change = await self.client.create(
                topic.name,
                partitions=draw.randint(1, 6),
                value=topic.value,
                replication_factor=draw.choice((1, 1, 3)),
            )
            topic.lives += 1
        elif topic.state == "present" and self.alter and draw.random() < 0.7:
            topic.value += 1
            change = await self.client.alter(topic.name, topic.value)
        elif topic.state == "present" and draw.random() < 0.5:
            return  # It lives on for a while.
        else:
            change = await self.client.delete(topic.name)
        self._learn(topic, change)

    def _learn(self, topic: _Topic, change: TopicChange) -> None:
        """Note what is known now. After an unknown outcome nothing is until a deletion has an answer."""
        deleted = change.action == "delete" and (
            change.outcome == "ok" or change.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.value
        )
        if change.outcome == "info":
            topic.state = "unsure"
        elif deleted:
            topic.state = "absent"
            if topic.lives >= 3:
                self.topics.remove(topic)
        elif change.outcome == "ok" and topic.state == "absent":
            topic.state = "present"


async def until_acknowledged(client: MetadataClient, *, name: str, within_s: float) -> float:
    """Create topics until a creation is acknowledged, delete that one, and return how many seconds it took.

    Raises:
        TimeoutError: none was, within the time.
    """
    started, attempt = time.monotonic(), 0
    while time.monotonic() - started < within_s:
        attempt += 1
        topic = f"{name}-{attempt}"
        change = await client.create(topic, partitions=1, value=FIRST_VALUE)
        if change.outcome == "ok":
            seconds = time.monotonic() - started
            await client.delete(topic)
            return seconds
        await asyncio.sleep(PROBE_PAUSE_S)
    raise TimeoutError(f"no creation was acknowledged within {within_s:g} s; the last said: {change.error}")


def outcome_of(error: RaftlogError) -> Outcome:
    """Return what a client may conclude from an error: `fail` only where raftlog's own client would send it again."""
    if isinstance(error, UnknownOutcomeError):
        return "info"
    certain = (InvalidRequestError, OverloadedError, StaleRouteError, UnreachableError, RetriableError)
    return "fail" if isinstance(error, certain) else "info"


def seen(info: TopicInfo) -> TopicSeen:
    """Return what an answer says of a topic."""
    return TopicSeen(
        topic_id=info.topic_id, partitions=len(info.partitions), value=_retention(info.configs.get("retention_ms"))
    )


def _retention(value: ConfigValue | None) -> int | None:
    return value if isinstance(value, int) else None
