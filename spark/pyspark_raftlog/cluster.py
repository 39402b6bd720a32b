"""Requests to the cluster: metadata, offsets, fetches, produce requests and coordinator requests.

Requests are repeatable: after a retriable failure (a moved leader, a broker that crashed, a lost response) they are
sent again with fresh metadata and growing pauses, until `timeout_ms` has passed without success.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias, TypeVar
from urllib.parse import urlencode

from pyspark_raftlog.offsets import LogEnds
from pyspark_raftlog.rack_replicas import RackReplicas
from pyspark_raftlog.wrong_server import NO_BROKERS_ANSWER, NoBrokerError, wrong_server_error
from raftlog.client.addresses import address_of
from raftlog.client.core.metadata_history import MetadataHistory
from raftlog.client.core.metadata_requests import of_one_request
from raftlog.errors import ConfigError, ErrorCode, NotFoundError, RaftlogError, RetriableError, StaleRouteError
from raftlog.model import Address, Isolation, Offset, TopicPartition
from raftlog.runtime import Clock, SystemClock
from raftlog.transport.session import HttpSession
from raftlog.wire import media, paths
from raftlog.wire.codec import Buffer, encode_frame
from raftlog.wire.coordinators import CoordinatorInfo
from raftlog.wire.data import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResult,
    OffsetResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProducerIdResponse,
)
from raftlog.wire.groups import CommitOffset, OffsetCommitRequest, OffsetResults
from raftlog.wire.metadata import ClientMetadata, TopicInfo
from raftlog.wire.transactions import TransactionInfo

T = TypeVar("T")
Fetched: TypeAlias = tuple[FetchResult, memoryview]
"""The result of one partition's fetch, and its batches."""

REQUEST_TIMEOUT_MS = 30_000
BEHIND_MS = 2_000
"""How long a broker's metadata may lack a topic or partition whose creation another broker has confirmed."""
_PARALLEL_REQUESTS = 32


class Cluster:
    """One process's connection to a cluster. Used in one event loop only."""

    def __init__(
        self, bootstrap: tuple[Address, ...], session: HttpSession, *, timeout_ms: int, clock: Clock | None = None
    ) -> None:
        self._bootstrap = bootstrap
        self._session = session
        self._timeout_ms = timeout_ms
        self._clock = clock or SystemClock()
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, TopicInfo] = {}
        self._answered: tuple[Address, ...] = ()
        """The broker that answered last; it is tried first, so that a dead bootstrap address costs one timeout."""
        self._doubted: tuple[Address, ...] = ()
        """A broker whose metadata may be old: it is tried last."""
        self._history = MetadataHistory()
        self._parallel = asyncio.Semaphore(_PARALLEL_REQUESTS)
        self._rack_replicas = RackReplicas(self._clock)

    async def topics(self, names: Collection[str], *, may_lack: bool = False) -> dict[str, TopicInfo]:
        """Describe topics by name.

        Args:
            may_lack: return only the topics that exist.

        Raises:
            NotFoundError: a topic does not exist.
        """

        async def attempt() -> dict[str, TopicInfo]:
            known = await self._metadata(names)
            if not may_lack and (missing := sorted(set(names) - set(known))):
                raise NotFoundError(
                    f"no such topic: {', '.join(missing)} (at {self._bootstrap_text()}); create it, or correct "
                    "its name in the options, or in the column topic"
                )
            return known

        return await self._retry(attempt)

    def doubt_metadata(self) -> None:
        """Ask another broker before the next request: the one that answered last may be cut off from the cluster."""
        self._topics.clear()
        self._doubted = self._answered

    async def all_topics(self) -> dict[str, TopicInfo]:
        """Describe every topic."""
        return await self._retry(lambda: self._metadata(()))

    async def log_ends(
        self, partitions: Iterable[TopicPartition], isolation: Isolation = "read_uncommitted"
    ) -> dict[TopicPartition, LogEnds]:
        """Return the start of each log and the end of its readable part."""

        async def ask(partition: TopicPartition) -> LogEnds:
            latest = await self._offset(partition, "latest", isolation)
            undecided = max(0, latest.high_watermark - latest.offset)
            return LogEnds(latest.log_start_offset, latest.offset, undecided, latest.epochs)

        return await self._each(partitions, ask)

    async def first_offsets_at(
        self, times: Mapping[TopicPartition, int], isolation: Isolation = "read_uncommitted"
    ) -> dict[TopicPartition, Offset | None]:
        """Return the first offset at or after each time (ms since 1970), None where every record is earlier."""

        async def ask(partition: TopicPartition) -> Offset | None:
            found = await self._offset(partition, str(times[partition]), isolation)
            end = found.high_watermark if isolation == "read_uncommitted" else found.last_stable_offset
            return found.offset if found.offset < end else None

        return await self._each(times, ask)

    async def fetch(
        self,
        partition: TopicPartition,
        offset: Offset,
        *,
        topic_id: str,
        max_bytes: int,
        max_wait_ms: int = 500,
        isolation: Isolation = "read_uncommitted",
        rack: str = "",
        check_crcs: bool = True,
    ) -> Fetched:
        """Fetch whole batches from `offset` on; none if no record arrives within `max_wait_ms`.

        Args:
            rack: the reader's rack: an in-sync replica in this rack is preferred to the leader.
            check_crcs: whether the broker verifies payloads. A caller with False verifies them, and fetches a damaged
                batch again with True.
        """
        entry = FetchPartition(
            topic=partition.topic,
            partition=partition.partition,
            offset=offset,
            max_bytes=max_bytes,
            topic_id=topic_id,
            check_crcs=check_crcs,
        )
        request = FetchRequest(partitions=(entry,), max_wait_ms=max_wait_ms, max_bytes=max_bytes, isolation=isolation)

        async def attempt() -> Fetched:
            leader = await self._leader(partition, topic_id)
            if rack and (fetched := await self._fetch_from_rack(partition, leader, request, rack)) is not None:
                return fetched
            return await self._fetch_from(leader, request)

        return await self._retry(attempt)

    async def _fetch_from_rack(
        self, partition: TopicPartition, leader: Address, request: FetchRequest, rack: str
    ) -> Fetched | None:
        """Fetch from the replica in the reader's rack, if the leader returns one; None: fetch from the leader."""
        (entry,) = request.partitions
        if self._rack_replicas.is_undecided(partition):
            fetched = await self._fetch_from(leader, replace(request, partitions=(replace(entry, rack=rack),)))
            preferred = fetched[0].preferred_read_replica
            self._rack_replicas.decide(partition, preferred if preferred in self._brokers else None)
            if preferred < 0:
                return fetched
        if (near := self._rack_replicas.of(partition)) is None:
            return None
        with suppress(RaftlogError):  # The leader's answer decides.
            any_replica = replace(request, partitions=(replace(entry, any_replica=True),))
            fetched = await self._fetch_from(self._brokers[near], any_replica)
            if fetched[1]:
                return fetched
        self._rack_replicas.leave(partition)
        return None

    async def _fetch_from(self, address: Address, request: FetchRequest) -> Fetched:
        head, data = await self._send_fetch(address, request)
        result = head.partitions[0]
        if result.error is not None:
            raise _stale_if_unknown(result.error.to_error())
        return result, data[: result.length]

    async def commit_offsets(
        self, group_id: str, positions: Mapping[TopicPartition, Offset], *, timeout_s: float
    ) -> None:
        """Commit positions as a group's offsets, without a member id.

        Raises:
            InvalidRequestError: refused, for example because the group has members.
            RetriableError: no success within `timeout_s`.
        """
        find = paths.fill(paths.COORDINATOR, kind="group", key=group_id)
        offsets = tuple(CommitOffset(topic=key.topic, partition=key.partition, offset=positions[key])
                        for key in sorted(positions))  # fmt: skip

        async def attempt() -> None:
            await self._metadata({key.topic for key in positions})  # Finds a broker that answers.
            timeout_ms = REQUEST_TIMEOUT_MS
            found = await self._session.call(CoordinatorInfo, "GET", self._answered[0], find, timeout_ms=timeout_ms)
            answer = await self._session.call(
                OffsetResults,
                "POST",
                address_of(found.url),
                paths.fill(paths.GROUP_OFFSETS, group=group_id),
                timeout_ms=timeout_ms,
                message=OffsetCommitRequest(offsets=offsets),
            )
            if refused := [result.error for result in answer.offsets if result.error is not None]:
                raise refused[0].to_error()

        try:
            async with asyncio.timeout(timeout_s):
                await self._retry(attempt)
        except TimeoutError:
            raise RetriableError(f"group {group_id!r}: no offsets committed within {timeout_s:g} s") from None

    async def producer_id(self) -> ProducerIdResponse:
        """Return a new producer id, under which a batch that is sent again is stored once."""

        async def attempt() -> ProducerIdResponse:
            await self._metadata(())
            path = paths.PRODUCERS
            return await self._session.call(
                ProducerIdResponse, "POST", self._answered[0], path, timeout_ms=REQUEST_TIMEOUT_MS
            )

        return await self._retry(attempt)

    async def ask_coordinator(
        self, cls: type[T], method: str, transactional_id: str, path: str, *, message: object = None
    ) -> T:
        """Send a repeatable request to the coordinator of a transactional id.

        Raises:
            RaftlogError: its refusal; RetriableError: no answer within `timeout_ms`.
        """
        return await self._retry(lambda: self._at_coordinator(cls, method, transactional_id, path, message))

    async def transaction(self, transactional_id: str) -> TransactionInfo | None:
        """Describe a transactional id; None: it was never used, or has expired. Errors as `ask_coordinator`."""
        path = paths.fill(paths.TRANSACTION, transactional_id=transactional_id)

        async def attempt() -> TransactionInfo | None:
            try:
                return await self._at_coordinator(TransactionInfo, "GET", transactional_id, path)
            except NotFoundError as error:
                if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                    raise
                return None

        return await self._retry(attempt)

    async def _at_coordinator(
        self, cls: type[T], method: str, transactional_id: str, path: str, message: object = None
    ) -> T:
        finding = paths.fill(paths.COORDINATOR, kind="transaction", key=transactional_id)
        given = {} if message is None else {"message": message}
        await self._metadata(())
        call, limit_ms = self._session.call, REQUEST_TIMEOUT_MS
        found = await call(CoordinatorInfo, "GET", self._answered[0], finding, timeout_ms=limit_ms)
        return await call(cls, method, address_of(found.url), path, timeout_ms=limit_ms, **given)

    async def produce(
        self,
        partition: TopicPartition,
        batch: Buffer,
        *,
        topic_id: str,
        transactional_id: str = "",
        traceparent: str = "",
    ) -> None:
        """Append one batch with acks=all. It must have a producer id and sequence, since it may be sent again.

        Args:
            traceparent: the span to which the request belongs; "": none.
        """
        entry = ProducePartition(
            topic=partition.topic, partition=partition.partition, length=len(batch), topic_id=topic_id
        )
        head = ProduceRequest(partitions=(entry,), timeout_ms=REQUEST_TIMEOUT_MS, transactional_id=transactional_id)
        body = encode_frame(head, [batch])

        async def attempt() -> None:
            answer = await self._session.call(
                ProduceResponse,
                "POST",
                await self._leader(partition, topic_id),
                paths.PRODUCE,
                timeout_ms=2 * REQUEST_TIMEOUT_MS,
                body=body,
                content_type=media.FRAME,
                fields={media.TRACEPARENT: traceparent} if traceparent else None,
            )
            if (error := answer.partitions[0].error) is not None:
                raise _stale_if_unknown(error.to_error())

        async with self._parallel:
            await self._retry(attempt)

    async def wait_for_records(
        self, positions: Mapping[TopicPartition, Offset], *, max_wait_ms: int, isolation: Isolation = "read_uncommitted"
    ) -> None:
        """Return when a record at or after one of `positions` can be read, or after `max_wait_ms`."""
        waits: list[asyncio.Task[object]] = [
            asyncio.create_task(
                self._send_fetch(
                    leader,
                    FetchRequest(partitions=entry, max_wait_ms=max_wait_ms, max_bytes=1, isolation=isolation),
                )
            )
            for leader, entry in (await self._by_leader(positions)).items()
        ] or [asyncio.create_task(asyncio.sleep(max_wait_ms / 1000))]
        try:
            await asyncio.wait(waits, timeout=max_wait_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            outcomes = await asyncio.gather(*waits, return_exceptions=True)
        if any(map(_failed, outcomes)):
            # The caller's next request meets and handles the same failure. This pause prevents a busy loop.
            await asyncio.sleep(0.1)

    async def _by_leader(self, positions: Mapping[TopicPartition, Offset]) -> dict[Address, tuple[FetchPartition, ...]]:
        requests: dict[Address, tuple[FetchPartition, ...]] = {}
        for partition, offset in positions.items():
            entry = FetchPartition(topic=partition.topic, partition=partition.partition, offset=offset, max_bytes=1)
            with suppress(RetriableError, NotFoundError):  # Nothing can come from a partition without a leader.
                leader = await self._leader(partition)
                requests[leader] = (*requests.get(leader, ()), entry)
        return requests

    async def _send_fetch(self, leader: Address, request: FetchRequest) -> tuple[FetchResponse, memoryview]:
        timeout_ms = REQUEST_TIMEOUT_MS + request.max_wait_ms
        return await self._session.call_frame(
            FetchResponse, "POST", leader, paths.FETCH, timeout_ms=timeout_ms, message=request
        )

    async def _offset(self, partition: TopicPartition, at: str, isolation: Isolation) -> OffsetResponse:
        path = paths.fill(paths.OFFSETS, topic=partition.topic, partition=partition.partition)
        query = {"at": at, "isolation": isolation}

        async def attempt() -> OffsetResponse:
            leader = await self._leader(partition)
            try:
                return await self._session.call(
                    OffsetResponse, "GET", leader, path, timeout_ms=REQUEST_TIMEOUT_MS, query=query
                )
            except NotFoundError as error:
                raise _stale_if_unknown(error) from error

        async with self._parallel:
            return await self._retry(attempt)

    async def _each(
        self, partitions: Iterable[TopicPartition], ask: Callable[[TopicPartition], Coroutine[None, None, T]]
    ) -> dict[TopicPartition, T]:
        listed = list(partitions)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(ask(partition)) for partition in listed]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return {partition: task.result() for partition, task in zip(listed, tasks, strict=True)}

    async def _leader(self, partition: TopicPartition, topic_id: str = "") -> Address:
        """Return the address of the leader, from cached or fresh metadata."""
        topic = self._topics.get(partition.topic) or (await self._metadata((partition.topic,))).get(partition.topic)
        if topic is None:
            raise NotFoundError(f"{partition}: the topic does not exist, or no longer")
        if topic_id and topic.topic_id != topic_id:
            raise NotFoundError(f"{partition}: the topic was deleted and recreated since this query was planned")
        info = next((info for info in topic.partitions if info.partition == partition.partition), None)
        if info is None:
            raise NotFoundError(f"{partition}: the topic has {len(topic.partitions)} partitions")
        if info.leader not in self._brokers:
            raise StaleRouteError(f"{partition} has no leader now (replicas {list(info.replicas)})")
        return self._brokers[info.leader]

    async def _metadata(self, names: Collection[str]) -> dict[str, TopicInfo]:
        """Return the metadata of some topics; none named: of all."""
        found: dict[str, TopicInfo] = {}
        for some in of_one_request(sorted(names)):
            query = urlencode([("topic", name) for name in some])
            found |= self._learn(await self._newest_metadata(f"{paths.METADATA}?{query}" if query else paths.METADATA))
        return found

    async def _newest_metadata(self, path: str) -> ClientMetadata:
        """Return the first broker's answer that is not older than what was seen."""
        failure: RaftlogError | None = None
        foreign: list[tuple[Address, RaftlogError]] = []
        older: dict[Address, ClientMetadata] = {}
        known = dict.fromkeys((*self._answered, *self._bootstrap, *self._brokers.values()))
        for address in sorted(known, key=lambda address: address in self._doubted):
            try:
                answer = await self._session.call(ClientMetadata, "GET", address, path, timeout_ms=REQUEST_TIMEOUT_MS)
            except RetriableError as error:
                failure = error
            except NO_BROKERS_ANSWER as error:
                foreign.append((address, error))
            else:
                if self._history.takes(answer):
                    self._answered = (address,)
                    return answer
                older[address] = answer
        if older:
            try:
                return self._history.best_of(list(older.values()), self._clock.monotonic_ms() / 1000)
            except ConfigError:
                return self._of_another_cluster(*next(iter(older.items())))
        if foreign and failure is None:
            raise await wrong_server_error(self._session, *foreign[0])
        raise failure or RetriableError(f"no broker to ask: {self._bootstrap_text()}")

    def _of_another_cluster(self, address: Address, answer: ClientMetadata) -> ClientMetadata:
        """Start afresh: the cluster was replaced, and this process lives on. Topic ids protect what was planned."""
        self._history = MetadataHistory()
        self._history.takes(answer)
        self._brokers.clear()
        self._topics.clear()
        self._answered, self._doubted = (address,), ()
        return answer

    def _learn(self, answer: ClientMetadata) -> dict[str, TopicInfo]:
        self._brokers |= {broker.broker_id: address_of(broker.url) for broker in answer.brokers}
        topics = {topic.topic: topic for topic in answer.topics}
        self._topics |= topics
        return topics

    async def _retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        begun, pause_ms = self._clock.monotonic_ms(), 50.0
        while True:
            try:
                return await attempt()
            except (NotFoundError, NoBrokerError):
                # The metadata may be old: another broker may have created the topic. And a broker may be starting.
                if self._clock.monotonic_ms() + pause_ms > begun + min(self._timeout_ms, BEHIND_MS):
                    raise
                self.doubt_metadata()
            except RetriableError as error:
                if self._clock.monotonic_ms() + pause_ms > begun + self._timeout_ms:
                    hint = (
                        "" if self._answered else f" (no broker has answered yet: is {self._bootstrap_text()} right?)"
                    )
                    raise RetriableError(
                        f"no success within {self._timeout_ms} ms; the last error: {error.message}{hint}"
                    ) from error
                self._topics.clear()
            await asyncio.sleep(pause_ms / 1000 * random.uniform(0.5, 1.0))  # noqa: S311 -- jitter, not a secret
            pause_ms = min(2 * pause_ms, 1_000.0)

    def _bootstrap_text(self) -> str:
        return ", ".join(address.url for address in self._bootstrap)


def _failed(outcome: object) -> bool:
    if isinstance(outcome, tuple):
        return any(result.error is not None for result in outcome[0].partitions)
    return isinstance(outcome, RaftlogError)


def _stale_if_unknown(error: RaftlogError) -> RaftlogError:
    """Return a leader's NotFoundError as StaleRouteError: only metadata decides that a topic does not exist."""
    return StaleRouteError(error.message) if isinstance(error, NotFoundError) else error
