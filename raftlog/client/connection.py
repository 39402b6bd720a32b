"""A client's connection to the cluster: bootstrap URLs, cached metadata, and requests to any broker or a leader."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from raftlog import transport
from raftlog.client.addresses import address_of, parse_bootstrap
from raftlog.client.core.backoff import backoff_ms
from raftlog.client.core.metadata_history import MetadataHistory
from raftlog.client.core.metadata_requests import of_one_request
from raftlog.client.loop_affinity import LoopAffinity
from raftlog.client.options import client_id_of
from raftlog.client.outage import Outage
from raftlog.client.security import Security
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
from raftlog.model import DEFAULT_PORT, Address, TopicPartition
from raftlog.runtime import Tasks, close_all
from raftlog.wire import paths
from raftlog.wire.metadata import ClientMetadata, PartitionInfo, TopicInfo

T = TypeVar("T")
METADATA_MAX_AGE_S = 30.0
UNKNOWN_TOPIC_GRACE_S = 0.5
ATTEMPT_TIMEOUT_MS = 3_000
"""How long one attempt of a request that any broker can answer may take."""
AVOIDED_S = 10.0
"""For this long, a broker that did not answer is tried last."""
PATIENCE_S = 1.0
"""After a leader has not answered for this long, other brokers are asked whether it still leads."""
LOOK_EVERY_S = 0.5


class Connection:
    """One client's session and metadata.

    Args:
        dial: addresses to dial in place of others (see docs/adr/0003).
        waits: the client waits through an outage and logs it; other clients raise an error.
        security: TLS files and credentials; None: those of `Security.from_environment`.
        client_id: the application's name; "": the variable `RAFTLOG_CLIENT_ID`.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        timeout_ms: int,
        dial: Mapping[str, str] | None = None,
        waits: bool = False,
        security: Security | None = None,
        client_id: str = "",
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        if security is not None and not isinstance(security, Security):
            raise ConfigError(f"security: expected a Security, received {type(security).__name__}")
        security = security or Security.from_environment()
        self.session = transport.HttpSession(
            dial=dial,
            tls=security.tls_context(),
            credentials=security.credentials(),
            client_id=client_id_of(client_id),
        )
        self.timeout_ms = timeout_ms
        self._loop = LoopAffinity("client")
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._history = MetadataHistory()
        self.feature_level = 1
        """The cluster's feature level, as far as is known."""
        self._refreshing: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._refreshed_at: dict[str, float] = {}
        self._avoided_until: dict[Address, float] = {}
        self.outage = Outage(is_logged=waits)
        self._tasks = Tasks("client")
        self._turn = random.randrange(1 << 16)  # noqa: S311  (spreads clients over brokers, hides nothing)

    async def close(self) -> None:
        await close_all(self._tasks.close, self.session.close)

    def cached_topic(self, topic: str) -> TopicInfo | None:
        """Return a topic's cached metadata, of any age."""
        return self._topics.get(topic)

    def leader(self, topic: str, partition: int) -> Address | None:
        """Return the cached address of a partition's leader."""
        info = self._partition(topic, partition)
        return self._brokers.get(info.leader) if info else None

    def broker(self, broker_id: int) -> Address | None:
        """Return a broker's cached address."""
        return self._brokers.get(broker_id)

    @property
    def known_brokers(self) -> list[Address]:
        """Return the addresses of every cached broker and of the bootstrap URLs."""
        return list(dict.fromkeys([*self._brokers.values(), *self._bootstrap]))

    def forget_leader_of(self, topics: Iterable[str]) -> None:
        """Mark the metadata of some topics as wrong: it is refreshed before the next use."""
        for topic in topics:
            self._refreshed_at.pop(topic, None)

    def must_refresh(self, topic: str) -> bool:
        """Return whether a topic's metadata may not be used before a refresh: it is wrong, or was never asked for."""
        return topic not in self._refreshed_at

    def is_stale(self, topic: str, *, max_age_s: float = METADATA_MAX_AGE_S) -> bool:
        """Return whether a topic's metadata is to be refreshed: it is old, or `must_refresh`."""
        age = asyncio.get_running_loop().time() - self._refreshed_at.get(topic, float("-inf"))
        return age > max_age_s

    async def topic(self, topic: str, *, partition: int = 0) -> TopicInfo:
        """Return a topic's metadata; refresh it if it is missing or stale.

        Args:
            partition: if the metadata lacks it, the controllers are asked: it may be new. If they do not answer, the
                metadata is returned as it is, since other records wait for this call.

        Raises:
            NotFoundError: the topic does not exist.
        """
        deadline = asyncio.get_running_loop().time() + UNKNOWN_TOPIC_GRACE_S
        await self.refresh([topic])
        while (info := self._topics.get(topic)) is None and asyncio.get_running_loop().time() < deadline:
            # The topic may be new: the broker may not have replayed its creation yet.
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
        """Refresh the metadata of some topics, one request at a time for each; drop topics that do not exist."""
        async with AsyncExitStack() as locks:
            for topic in sorted(set(topics)):
                await locks.enter_async_context(self._refreshing[topic])
            wanted = [topic for topic in topics if self.is_stale(topic, max_age_s=max_age_s)]
            if not wanted:
                return
            for some in of_one_request(wanted):
                path = f"{paths.METADATA}?{'&'.join(f'topic={name}' for name in some)}"
                self._remember(some, await self._newest_metadata(path))

    def _remember(self, topics: Sequence[str], metadata: ClientMetadata) -> None:
        """Keep the metadata of some topics, and the brokers."""
        self._brokers = {broker.broker_id: address_of(broker.url) for broker in metadata.brokers}
        self.feature_level = metadata.feature_level
        found = {info.topic: info for info in metadata.topics}
        for topic in topics:
            self._refreshed_at[topic] = asyncio.get_running_loop().time()
            if topic in found:
                self._topics[topic] = _grown(found[topic], self._topics.get(topic))
            else:
                self._topics.pop(topic, None)

    async def _newest_metadata(self, path: str) -> ClientMetadata:
        """Return metadata that is not older than what was seen: a partitioned broker returns old leaders.

        Raises:
            ConfigError, RetriableError: see `MetadataHistory.best_of`.
        """
        refused, count = list[ClientMetadata](), len(self.known_brokers)
        for attempt in range(2 * count):
            if attempt >= count:  # Each of them was asked, unless some did not answer.
                await asyncio.sleep(backoff_ms(attempt - count + 1, jitter=random.random()) / 1000)  # noqa: S311
            metadata = await self._metadata(path)
            if self._history.takes(metadata):
                return metadata
            refused.append(metadata)
        return self._history.best_of(refused, asyncio.get_running_loop().time())

    async def _metadata(self, path: str) -> ClientMetadata:
        """Request metadata from any broker.

        Raises:
            ConfigError: another server answered at the bootstrap URLs. A 404 does not mean that the topic is missing.
        """
        try:
            return await self.ask_any(ClientMetadata, "GET", path)
        except (NotFoundError, transport.PeerAnswerError) as error:
            if self._brokers:
                raise
            where = ", ".join(address.url for address in self._bootstrap)
            raise ConfigError(
                f"bootstrap: the server at {where} is not a broker's public listener (is it a controller, or another "
                f"server?); it answered: {' '.join(error.message.split()):.200}. Pass URLs of brokers, such as "
                f"http://127.0.0.1:{DEFAULT_PORT}"
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
        """Send a request to one broker after another until one answers or the timeout passes.

        Args:
            repeatable: the request may be sent again after an attempt with an unknown outcome.
            timeout_ms: how long all attempts may take; None: the client's `timeout_ms`.
        """
        self._loop.require()
        left_ms = countdown(self.timeout_ms if timeout_ms is None else timeout_ms)
        attempt, earlier, strangers = 0, "", set[Address]()
        while True:
            limit_ms = min(left_ms(), ATTEMPT_TIMEOUT_MS) if repeatable else left_ms()
            address = self._next_address()
            try:
                answer = await self.session.call(cls, method, address, path, timeout_ms=max(1, limit_ms), **request)
            except transport.PeerAnswerError:
                self._avoid(address)
                strangers.add(address)  # Another server has its address.
                if not repeatable or strangers.issuperset(self.known_brokers):
                    raise
                continue
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
                raise self._explained(_after(failure, earlier), reads=method == "GET") from failure.__cause__
            earlier = failure.message
            await asyncio.sleep(wait_ms / 1000)

    async def at_leader(self, cls: type[T], method: str, topic: str, partition: int, path: str, **request: Any) -> T:
        """Send a request to a partition's leader; follow a new leader until the timeout passes."""
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
        """Abort the block when a leader does not answer and other brokers lead all of the partitions.

        A hung broker keeps its connections open: only other brokers report that it lost its leaderships.

        Args:
            partitions: the partitions that it leads by the cached metadata. If empty, the block is never aborted.
            patience_s: how long an answer may take before other brokers are asked.

        Raises:
            UnknownOutcomeError: the block was aborted.
        """
        watches: list[asyncio.Task[None]] = []

        def watch() -> None:
            if partitions and not self._tasks.closed:
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
                f"{address} did not answer, and no longer leads any of the requested partitions"
            ) from error

    async def _watch(self, address: Address, partitions: Sequence[TopicPartition], limit: asyncio.Timeout) -> None:
        """Expire `limit` once other brokers lead all of the partitions."""
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
        """Return the address of a partition's leader.

        Raises:
            NotFoundError: the topic or the partition does not exist.
            StaleRouteError: LEADER_NOT_AVAILABLE.
        """
        await self.topic(topic, partition=partition)
        return self.cached_leader(topic, partition)

    def cached_leader(self, topic: str, partition: int) -> Address:
        """Return a leader's address by the cached metadata alone; see `require_leader`."""
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
        return min(known, key=self._avoided_until.__getitem__)  # The one that failed first.

    def _explained(self, failure: RetriableError, *, reads: bool) -> RetriableError:
        """Return the error with the bootstrap URLs, if no broker has ever answered this client.

        Args:
            reads: the request changes nothing, so that an attempt that timed out has no outcome to know.
        """
        silent = (UnreachableError, UnknownOutcomeError) if reads else UnreachableError
        if self._brokers or not isinstance(failure, silent):
            return failure
        where = ", ".join(address.url for address in self._bootstrap)
        return UnreachableError(
            f"no broker answered within {self.timeout_ms} ms at {where} (bootstrap): is the cluster running there? "
            f"The last error: {failure.message}",
            code=failure.code,
        )

    def _avoid(self, address: Address) -> None:
        self._avoided_until[address] = asyncio.get_running_loop().time() + AVOIDED_S


def _grown(found: TopicInfo, cached: TopicInfo | None) -> TopicInfo:
    """Return a broker's metadata of a topic, plus cached partitions that it lacks: a topic never shrinks."""
    if cached is None or cached.topic_id != found.topic_id:
        return found
    return replace(found, partitions=found.partitions + cached.partitions[len(found.partitions) :])


def countdown(timeout_ms: int) -> Callable[[], int]:
    """Start a timeout; return a function that returns the milliseconds left."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    return lambda: int((deadline - loop.time()) * 1000)


def _after(failure: RetriableError, earlier: str) -> RetriableError:
    """Return the last error with the message of the attempt before, if the last one only timed out."""
    if not earlier or not isinstance(failure, UnknownOutcomeError):
        return failure
    return UnknownOutcomeError(f"{failure.message}; before that: {earlier}", code=failure.code, details=failure.details)
