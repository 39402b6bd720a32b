"""How a client finds its way: bootstrap URLs, cluster metadata, and calls that any broker can answer."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from raftlog import transport
from raftlog.client.core.backoff import backoff_ms
from raftlog.client.outage import Outage
from raftlog.errors import (
    ConfigError,
    ErrorCode,
    NotFoundError,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
    UnreachableError,
)
from raftlog.model import Address, TopicPartition
from raftlog.runtime import Tasks, close_all
from raftlog.wire import paths
from raftlog.wire.metadata import ClientMetadata, PartitionInfo, TopicInfo

T = TypeVar("T")
DEFAULT_PORT = 9400
METADATA_MAX_AGE_S = 30.0
UNKNOWN_TOPIC_GRACE_S = 0.5
ATTEMPT_TIMEOUT_MS = 3_000
"""A broker that does not answer a question any broker can answer is passed over after this long."""
AVOIDED_S = 10.0
"""A broker that did not answer is asked last for this long."""
PATIENCE_S = 1.0
"""After a leader has been silent for this long, others are asked whether it leads still."""
LOOK_EVERY_S = 0.5


def parse_bootstrap(bootstrap: str | Sequence[str]) -> list[Address]:
    """Read `http://host:port` URLs, in a list or separated by commas.

    Raises:
        ConfigError: there is none, or one is no such URL.
    """
    texts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    addresses = [_parse_url(text.strip()) for text in texts if text.strip()]
    if not addresses:
        raise ConfigError(f"bootstrap: expected at least one URL such as http://127.0.0.1:9400, received {bootstrap!r}")
    return addresses


def _parse_url(text: str) -> Address:
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        port = -1
    if parts.scheme != "http" or not parts.hostname or port < 0 or parts.path not in ("", "/"):
        raise ConfigError(f"bootstrap: expected a URL such as http://127.0.0.1:9400, received {text!r}")
    return Address(parts.hostname, port)


class Connection:
    """One client's session and metadata.

    Args:
        dial: addresses to dial in place of others (see docs/adr/0003).
        waits: the client waits until brokers answer again, and the log says so; others raise an error.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        timeout_ms: int,
        dial: Mapping[str, str] | None = None,
        waits: bool = False,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self.session = transport.HttpSession(dial=dial)
        self.timeout_ms = timeout_ms
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._metadata_offset = -1
        self._refreshing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._refreshed_at: dict[str, float] = {}
        self._avoided_until: dict[Address, float] = {}
        self.outage = Outage(is_logged=waits)
        self._tasks = Tasks("client")
        self._closed = False
        self._turn = random.randrange(1 << 16)  # noqa: S311  (spreads clients over brokers, hides nothing)

    async def close(self) -> None:
        self._closed = True
        await close_all(self._tasks.close, self.session.close)

    def cached_topic(self, topic: str) -> TopicInfo | None:
        """Return what is known of a topic, however old."""
        return self._topics.get(topic)

    def leader(self, topic: str, partition: int) -> Address | None:
        """Return where a partition's leader is, as far as is known."""
        info = self._partition(topic, partition)
        return self._brokers.get(info.leader) if info else None

    def broker(self, broker_id: int) -> Address | None:
        """Return where a broker is, as far as is known."""
        return self._brokers.get(broker_id)

    @property
    def known_brokers(self) -> list[Address]:
        """Return every broker that is known, and those that were named at first."""
        return list(dict.fromkeys([*self._brokers.values(), *self._bootstrap]))

    def forget_leader_of(self, topics: Iterable[str]) -> None:
        """Note that a route was wrong: metadata of these topics is asked for again before it is used."""
        for topic in topics:
            self._refreshed_at.pop(topic, None)

    def is_stale(self, topic: str, *, max_age_s: float = METADATA_MAX_AGE_S) -> bool:
        age = asyncio.get_running_loop().time() - self._refreshed_at.get(topic, float("-inf"))
        return age > max_age_s

    async def topic(self, topic: str, *, partition: int = 0) -> TopicInfo:
        """Return a topic, asking for it if it is not known or what is known is old.

        Args:
            partition: if the topic does not have it, as far as is known, the controllers are asked: it may have been
                added a moment ago. Where they do not answer, what is known counts: others wait behind this question.

        Raises:
            NotFoundError: there is none of that name.
        """
        deadline = asyncio.get_running_loop().time() + UNKNOWN_TOPIC_GRACE_S
        await self.refresh([topic])
        while (info := self._topics.get(topic)) is None and asyncio.get_running_loop().time() < deadline:
            # It may have been created a moment ago: the broker that was asked has not heard of it yet.
            await asyncio.sleep(0.05)
            self.forget_leader_of([topic])
            await self.refresh([topic])
        if info is None:
            raise NotFoundError(
                f"there is no topic {topic!r}; create it with Admin.create_topic or raftlog topics create"
            )
        if partition >= len(info.partitions):
            with suppress(RetriableError):
                path = paths.fill(paths.TOPIC, topic=topic)
                info = await self.ask_any(TopicInfo, "GET", path, timeout_ms=min(self.timeout_ms, ATTEMPT_TIMEOUT_MS))
                self._topics[topic] = info
        return info

    async def refresh(self, topics: Sequence[str], *, max_age_s: float = METADATA_MAX_AGE_S) -> None:
        """Ask for metadata of some topics, of each once at a time; those that do not exist become unknown."""
        async with AsyncExitStack() as locks:
            for topic in sorted(set(topics)):
                await locks.enter_async_context(self._refreshing[topic])
            wanted = [topic for topic in topics if self.is_stale(topic, max_age_s=max_age_s)]
            if not wanted:
                return
            metadata = await self._newest_metadata(f"{paths.METADATA}?{'&'.join(f'topic={name}' for name in wanted)}")
            self._brokers = {broker.broker_id: _parse_url(broker.url) for broker in metadata.brokers}
            found = {info.topic: info for info in metadata.topics}
            for topic in wanted:
                self._refreshed_at[topic] = asyncio.get_running_loop().time()
                if topic in found:
                    self._topics[topic] = _grown(found[topic], self._topics.get(topic))
                else:
                    self._topics.pop(topic, None)

    async def _newest_metadata(self, path: str) -> ClientMetadata:
        """Ask until a broker's metadata is not older than what was seen: one that is cut off knows old leaders."""
        for _ in range(2 * (len(self._brokers) + len(self._bootstrap))):
            metadata = await self._metadata(path)
            if metadata.metadata_offset >= self._metadata_offset:
                self._metadata_offset = metadata.metadata_offset
                return metadata
        raise RetriableError("every broker that answers has older metadata than was seen before")

    async def _metadata(self, path: str) -> ClientMetadata:
        """Ask any broker; each knows the path.

        Raises:
            ConfigError: somebody else is where a broker should be. No `NotFoundError`: it says nothing of the topic.
        """
        try:
            return await self.ask_any(ClientMetadata, "GET", path)
        except (NotFoundError, transport.PeerAnswerError) as error:
            if self._brokers:
                raise
            where = ", ".join(f"http://{address}" for address in self._bootstrap)
            raise ConfigError(
                f"bootstrap: no broker's public listener is at {where}: is it a controller, or another server? Name "
                f"brokers, such as http://127.0.0.1:{DEFAULT_PORT}. It answered: {' '.join(error.message.split()):.200}"
            ) from None

    async def ask_any(
        self,
        cls: type[T],
        method: str,
        path: str,
        *,
        repeatable: bool = True,
        timeout_ms: int | None = None,
        **request: Any,
    ) -> T:
        """Ask one broker after another until one answers or time is up.

        Args:
            repeatable: the request may be sent again although an earlier one may have taken effect.
            timeout_ms: how long all attempts may take; None: the client's own limit.
        """
        left_ms = countdown(self.timeout_ms if timeout_ms is None else timeout_ms)
        attempt, earlier = 0, ""
        while True:
            limit_ms = min(left_ms(), ATTEMPT_TIMEOUT_MS) if repeatable else left_ms()
            address = self._next_address()
            try:
                answer = await self.session.call(cls, method, address, path, timeout_ms=max(1, limit_ms), **request)
            except RetriableError as error:
                failure, may_repeat = error, repeatable or not isinstance(error, UnknownOutcomeError)
                if isinstance(error, UnreachableError | UnknownOutcomeError):
                    self._avoid(address)
                    if self._brokers:
                        self.outage.on_silence(address, self.known_brokers, error)
            else:
                self._avoided_until.pop(address, None)
                self.outage.on_answer()
                return answer
            attempt += 1
            wait_ms = backoff_ms(attempt, jitter=random.random())  # noqa: S311
            if not may_repeat or left_ms() <= wait_ms:
                raise self._explained(_after(failure, earlier)) from failure.__cause__
            earlier = failure.message
            await asyncio.sleep(wait_ms / 1000)

    async def at_leader(self, cls: type[T], method: str, topic: str, partition: int, path: str, **request: Any) -> T:
        """Ask a partition's leader, following it when it moves, until time is up."""
        left_ms, attempt = countdown(self.timeout_ms), 0
        while True:
            try:
                address = await self.require_leader(topic, partition)
                async with self.while_leading(address, [TopicPartition(topic, partition)]):
                    return await self.session.call(cls, method, address, path, timeout_ms=max(1, left_ms()), **request)
            except RetriableError as error:
                self.forget_leader_of([topic])
                attempt += 1
                wait_ms = backoff_ms(attempt, jitter=random.random())  # noqa: S311
                if left_ms() <= wait_ms:
                    raise error from None
                await asyncio.sleep(wait_ms / 1000)

    @asynccontextmanager
    async def while_leading(
        self, address: Address, partitions: Sequence[TopicPartition], *, patience_s: float = PATIENCE_S
    ) -> AsyncIterator[None]:
        """Give up what is asked of a leader once it is silent, and others lead all of the partitions.

        A broker that hangs keeps its connections: only others know that it leads no more.

        Args:
            partitions: which it leads, as far as is known. Without any, nothing is given up.
            patience_s: how long an answer may well take.

        Raises:
            UnknownOutcomeError: it was given up.
        """
        watches: list[asyncio.Task[None]] = []

        def watch() -> None:
            if partitions and not self._closed:
                watches.append(self._tasks.spawn(self._watch(address, partitions, limit), name=f"watch {address}"))

        timer = asyncio.get_running_loop().call_later(patience_s, watch)
        try:
            async with asyncio.timeout(None) as limit:
                try:
                    yield
                finally:
                    timer.cancel()
                    for begun in watches:
                        begun.cancel()
        except TimeoutError as error:
            raise UnknownOutcomeError(
                f"{address} did not answer, and leads none of the partitions any more that it was asked for"
            ) from error

    async def _watch(self, address: Address, partitions: Sequence[TopicPartition], limit: asyncio.Timeout) -> None:
        """End `limit` once others lead."""
        topics = sorted({partition.topic for partition in partitions})
        while True:
            self._avoid(address)
            with suppress(RaftlogError):
                await self.refresh(topics, max_age_s=LOOK_EVERY_S / 2)
            if all(self.leader(*partition) not in (None, address) for partition in partitions):
                limit.reschedule(asyncio.get_running_loop().time())
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def require_leader(self, topic: str, partition: int) -> Address:
        """Return where a partition's leader is.

        Raises:
            NotFoundError: there is no such topic or partition.
            StaleRouteError: LEADER_NOT_AVAILABLE.
        """
        await self.topic(topic, partition=partition)
        return self.cached_leader(topic, partition)

    def cached_leader(self, topic: str, partition: int) -> Address:
        """Return where a partition's leader is, as far as is known; see `require_leader`."""
        info = self._topics.get(topic)
        if info is None:
            raise NotFoundError(f"there is no topic {topic!r}")
        if not 0 <= partition < len(info.partitions):
            raise NotFoundError(f"topic {topic!r} has partitions 0 to {len(info.partitions) - 1}, received {partition}")
        address = self.leader(topic, partition)
        if address is None:
            raise StaleRouteError(f"{topic}-{partition} has no leader now", code=ErrorCode.LEADER_NOT_AVAILABLE)
        return address

    def _partition(self, topic: str, partition: int) -> PartitionInfo | None:
        info = self._topics.get(topic)
        return info.partitions[partition] if info and 0 <= partition < len(info.partitions) else None

    def _next_address(self) -> Address:
        known, now = self.known_brokers, asyncio.get_running_loop().time()
        self._turn += 1
        if answering := [address for address in known if self._avoided_until.get(address, now) <= now]:
            return answering[self._turn % len(answering)]
        return min(known, key=self._avoided_until.__getitem__)  # It has had the longest time to recover.

    def _explained(self, failure: RetriableError) -> RetriableError:
        """Say of a client that never had an answer where it has looked for one."""
        if self._brokers or not isinstance(failure, UnreachableError):
            return failure
        where = ", ".join(f"http://{address}" for address in self._bootstrap)
        return UnreachableError(
            f"no broker has answered within {self.timeout_ms} ms at {where} (bootstrap): is the cluster running there? "
            f"The last error: {failure.message}",
            code=failure.code,
        )

    def _avoid(self, address: Address) -> None:
        self._avoided_until[address] = asyncio.get_running_loop().time() + AVOIDED_S


def _grown(found: TopicInfo, known: TopicInfo | None) -> TopicInfo:
    """Return what a broker has answered, with partitions that it has not heard of yet: no topic ever has fewer."""
    if known is None or known.topic_id != found.topic_id:
        return found
    return replace(found, partitions=found.partitions + known.partitions[len(found.partitions) :])


def countdown(timeout_ms: int) -> Callable[[], int]:
    """Begin a time limit; return what tells how many milliseconds of it are left."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    return lambda: int((deadline - loop.time()) * 1000)


def _after(failure: RetriableError, earlier: str) -> RetriableError:
    """Add why the attempt before failed: of the last one nobody may know more than that time was up."""
    if not earlier or not isinstance(failure, UnknownOutcomeError):
        return failure
    return UnknownOutcomeError(f"{failure.message}; before that: {earlier}", code=failure.code, details=failure.details)
