"""The consumer's fetcher: one long-polled fetch to each leader, at most one response ahead of the reader."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from raftlog import record, tracing, transport
from raftlog.client.completed_fetch import CompletedFetch, batches_from
from raftlog.client.connection import METADATA_MAX_AGE_S, PATIENCE_S, Connection
from raftlog.client.fetch_position import REPLICA_AVOIDED_S, FetchPosition
from raftlog.client.fetch_spans import note_failure, note_fetch
from raftlog.client.metrics import FetchCounters
from raftlog.client.unexpected import explained
from raftlog.client.unreadable_answers import UnreadableAnswers
from raftlog.errors import CorruptBatchError, InvalidRequestError, RaftlogError, with_request_of
from raftlog.model import NO_LEADER_EPOCH, Address, Isolation, LeaderEpoch, Offset, TopicId, TopicPartition
from raftlog.runtime import Tasks
from raftlog.wire import paths
from raftlog.wire.codec import split_parts
from raftlog.wire.data import MAX_REQUEST_PARTITIONS, FetchRequest, FetchResponse, FetchResult

_log = logging.getLogger(__name__)
ANSWER_MARGIN_MS = 5_000
RETRY_REST_S = 0.05
"""Pause before the next fetch from a leader whose response had no usable part."""
REFRESH_REST_S = 0.2
"""Pause after a metadata request failed."""


@dataclass(slots=True)
class Failure:
    """An error of a partition's fetch that the consumer must handle."""

    partition: TopicPartition
    error: RaftlogError


@dataclass(slots=True)
class Fetcher:
    """Keeps completed fetches ready for the reader.

    It follows a moved leader by itself. `failures` holds the errors that the consumer must handle.
    """

    connection: Connection
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partition_max_bytes: int
    rack: str = ""
    isolation: Isolation = "read_uncommitted"
    completed: deque[CompletedFetch] = field(init=False, default_factory=deque)
    failures: deque[Failure] = field(init=False, default_factory=deque)
    positions: dict[TopicPartition, FetchPosition] = field(init=False, default_factory=dict)
    counters: FetchCounters = field(init=False, default_factory=FetchCounters)
    paused: set[TopicPartition] = field(init=False, default_factory=set)
    """Partitions that keep their positions but are not fetched."""
    _interrupted: bool = field(init=False, default=False)
    _refreshing: asyncio.Task[None] | None = field(init=False, default=None)
    _leaderless: set[str] = field(init=False, default_factory=set)
    """Topics with a partition that has no leader by the cached metadata. Their other partitions are fetched."""
    _refused: RaftlogError | None = field(init=False, default=None)
    """A metadata error that a retry does not fix; `wait` raises it."""
    _in_flight: dict[Address, asyncio.Task[None]] = field(init=False, default_factory=dict)
    _unreadable: UnreadableAnswers = field(init=False, default_factory=UnreadableAnswers)
    _arrived: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _tasks: Tasks = field(init=False, default_factory=lambda: Tasks("consumer"))

    async def close(self) -> None:
        await self._tasks.close()
        self._arrived.set()

    def seek(
        self,
        partition: TopicPartition,
        offset: Offset,
        last_epoch: LeaderEpoch = NO_LEADER_EPOCH,
        *,
        topic_id: TopicId = "",
        check_crcs: bool = False,
    ) -> None:
        """Fetch from another offset; batches fetched ahead are dropped.

        Args:
            last_epoch: the leader epoch of the record before `offset`, to detect its truncation (KIP-320).
            topic_id: the id of the topic that the offset is of; empty: of the topic as the metadata has it now.
            check_crcs: the broker must verify each batch before it sends it.
        """
        before = self.positions.get(partition)
        for address in {self.connection.leader(*partition), before and before.replica}:
            if address in self._in_flight:
                # It may long-poll at the old offset. A task that is cancelled before it starts runs no `finally`.
                self._in_flight.pop(address).cancel()
                self._arrived.set()
        self._move(partition, offset, last_epoch, topic_id, check_crcs=check_crcs)

    def pause(self, partition: TopicPartition, offset: Offset, last_epoch: LeaderEpoch) -> None:
        """Fetch a partition no more, and after the pause from `offset`; a fetch in flight goes on for the others."""
        self.paused.add(partition)
        self._move(partition, offset, last_epoch, self.topic_id(partition))

    def topic_id(self, partition: TopicPartition) -> TopicId:
        """Return the id of the topic that a position is of; empty: it is not known yet."""
        position = self.positions.get(partition)
        return "" if position is None else position.topic_id

    def _move(
        self,
        partition: TopicPartition,
        offset: Offset,
        last_epoch: LeaderEpoch,
        topic_id: TopicId,
        *,
        check_crcs: bool = False,
    ) -> None:
        """Set a position. What a fetch in flight brings for an earlier one is dropped, and what was fetched ahead."""
        self.drop_ahead(partition)
        topic_id = topic_id or self._topic_id(partition)
        self.positions[partition] = FetchPosition(offset, last_epoch, topic_id, check_crcs=check_crcs)

    def forget(self, partition: TopicPartition) -> None:
        """Stop fetching a partition; batches fetched ahead or in flight are dropped."""
        self.drop_ahead(partition)
        self.positions.pop(partition, None)
        self.paused.discard(partition)

    def drop_ahead(self, partition: TopicPartition) -> None:
        """Drop what was fetched ahead of a partition."""
        self.completed = deque(fetch for fetch in self.completed if fetch.partition != partition)
        self.failures = deque(failure for failure in self.failures if failure.partition != partition)

    def interrupt(self) -> None:
        """End a `wait`: the waiting task has other work first."""
        self._interrupted = True
        self._arrived.set()

    async def wait(self, max_wait_ms: int) -> None:
        """Start fetches, and wait for a completed fetch, a failure, an `interrupt` or the timeout."""
        deadline = asyncio.get_running_loop().time() + max_wait_ms / 1000
        self._interrupted = False
        while not self.completed and not self.failures and not self._interrupted:
            if self._tasks.closed:
                raise InvalidRequestError("this consumer was closed while a call for records waited")
            self._arrived.clear()
            if self._refused is not None:
                refused, self._refused = self._refused, None
                raise refused
            self._refresh()
            self._start_fetches()
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                await asyncio.sleep(0)  # Lets fetch tasks run while an application polls with a timeout of 0.
                return
            try:
                # At most 0.2 s at once: a leader may be elected meanwhile.
                async with asyncio.timeout(min(left, 0.2)):
                    await self._arrived.wait()
            except TimeoutError:
                continue

    async def read_ahead(self, count: int) -> None:
        """Start the next fetches while the application reads the first `count` completed ones.

        A leader gets its next fetch once the reader has begun the last part of its response. So one response is in
        flight or ready beside the one that is read, and each fetch covers as many partitions as without read-ahead.
        """
        ending = [fetch for fetch in islice(self.completed, count) if fetch.ends_answer]
        if not ending:
            return
        for fetch in ending:
            fetch.ends_answer = False
        if any(self.connection.must_refresh(topic) for topic in self._topics()):
            return  # A metadata refresh may take long, and must not delay the batches that are ready.
        self._refresh()
        self._start_fetches(count)
        await asyncio.sleep(0)  # Sends the requests even if the application never awaits.

    def next_failure(self) -> Failure | None:
        """Remove and return a failure of a partition whose completed fetches were all read."""
        unread = {fetch.partition for fetch in self.completed} if self.failures else ()
        for failure in self.failures:
            if failure.partition not in unread:
                self.failures.remove(failure)
                return failure
        return None

    def _topics(self) -> list[str]:
        return sorted({partition.topic for partition in self.positions})

    def _refresh(self) -> None:
        """Refresh stale metadata in the background, so that a wait for records does not take longer."""
        if self._refreshing is not None and not self._refreshing.done():
            return
        if any(self.connection.is_stale(topic) for topic in self._topics()):
            self._refreshing = self._tasks.spawn(self._ask_metadata(), name="refresh")
        elif self._leaderless:
            self._refreshing = self._tasks.spawn(self._ask_leaders(sorted(self._leaderless)), name="ask leaders")

    async def _ask_leaders(self, topics: list[str]) -> None:
        """Ask for new leaders after a rest; meanwhile the partitions that have leaders are fetched."""
        await asyncio.sleep(REFRESH_REST_S)
        await self._ask_metadata(topics, max_age_s=REFRESH_REST_S / 2)

    async def _ask_metadata(self, topics: list[str] | None = None, *, max_age_s: float = METADATA_MAX_AGE_S) -> None:
        """Refresh once; `wait` starts the next attempt."""
        try:
            await self.connection.refresh(self._topics() if topics is None else topics, max_age_s=max_age_s)
        except Exception as raised:  # noqa: BLE001  (the callers that wait get it)
            error = explained(raised, "a request for metadata", RaftlogError)
            if not error.retriable:
                self._refused = error
            await asyncio.sleep(REFRESH_REST_S)
        finally:
            self._arrived.set()

    def _start_fetches(self, begun: int = 0) -> None:
        """Fetch from each leader without a fetch in flight and without unread batches.

        Args:
            begun: how many completed fetches the reader has begun; they do not count as unread.
        """
        ready = {fetch.partition for fetch in islice(self.completed, begun, None)}
        failed = {failure.partition for failure in self.failures}
        unread, leaderless = set[Address](), set[str]()
        wanted: dict[Address, dict[TopicPartition, FetchPosition]] = defaultdict(dict)
        for partition, position in self.positions.items():
            if partition in failed or self.connection.must_refresh(partition.topic):
                continue  # A refresh of its metadata is under way. One that is only old is used meanwhile.
            if self._was_recreated(partition, position):
                continue
            address = position.replica_now() or self.connection.leader(*partition)
            if address is None:
                leaderless.add(partition.topic)
            elif partition in ready:
                unread.add(address)
            elif partition not in self.paused and address not in self._in_flight:
                wanted[address][partition] = position
        self._leaderless = leaderless
        for address, requested in wanted.items():
            if address in unread or self.connection.session.throttles.left_s(address) > 0:
                continue
            asking = self._ask(address, self._first_of(requested))
            self._in_flight[address] = self._tasks.spawn(asking, name=f"fetch from {address}")

    def _first_of(self, requested: dict[TopicPartition, FetchPosition]) -> dict[TopicPartition, FetchPosition]:
        """Return as many as one request may have. They take turns with the others, also if they have no records."""
        if len(requested) <= MAX_REQUEST_PARTITIONS:
            return requested
        first = dict(islice(requested.items(), MAX_REQUEST_PARTITIONS))
        for partition in first:
            self.positions[partition] = self.positions.pop(partition)
        return first

    async def _ask(self, address: Address, requested: Mapping[TopicPartition, FetchPosition]) -> None:
        """Fetch from one broker. Any of the partitions may be forgotten meanwhile, even before this starts."""
        started, taken_s = asyncio.get_running_loop().time(), 0.0
        self.counters.fetches += 1
        try:
            async with self.connection.while_leading(
                address,
                [partition for partition in requested if self.connection.leader(*partition) == address],
                patience_s=self.max_wait_ms / 1000 + PATIENCE_S,
            ):
                response, body = await self.connection.session.call_frame(
                    FetchResponse,
                    "POST",
                    address,
                    paths.FETCH,
                    timeout_ms=self.max_wait_ms + ANSWER_MARGIN_MS,
                    message=self._request(requested),
                )
            parts = split_parts(
                body, [result.length for result in response.partitions], error=transport.PeerAnswerError
            )
            self.counters.bytes += sum(len(part) for part in parts)
            before = len(self.completed)
            is_whole = self._take_all(requested, response, parts)
            self._unreadable.on_answer(address)
            taken_s = asyncio.get_running_loop().time() - started
            if len(self.completed) > before and tracing.tracer() is not None:
                note_fetch(address, taken_s, islice(self.completed, before, None))
            throttle_s = self.connection.session.throttles.left_s(address)
            if (rest_s := max(throttle_s, self._rest_after(is_whole, taken_s))) > 0:
                self._arrived.set()
                await asyncio.sleep(rest_s)
        except Exception as raised:  # noqa: BLE001  (the callers that wait get it)
            error = explained(raised, f"the fetch from {address}", RaftlogError)
            taken_s = asyncio.get_running_loop().time() - started
            note_failure(address, taken_s, requested, error)
            await asyncio.sleep(self._after_failure(address, requested, error, taken_s))
        finally:
            self.counters.latency_ms.append(1000 * (taken_s or asyncio.get_running_loop().time() - started))
            if self._in_flight.get(address) is asyncio.current_task():
                del self._in_flight[address]  # After a seek, another task may be registered.
            self._arrived.set()

    def _after_failure(
        self, address: Address, requested: Mapping[TopicPartition, FetchPosition], error: RaftlogError, taken_s: float
    ) -> float:
        """Have the application handle the error of a fetch, or the next fetch follow; return the pause in seconds."""
        self.counters.failed += 1
        rest_s = max(RETRY_REST_S, self.connection.session.throttles.left_s(address))
        led = [partition for partition, position in requested.items() if not position.leave_replica()]
        is_unreadable = isinstance(error, transport.PeerAnswerError)  # Perhaps a proxy's page.
        if is_unreadable:
            limit_ms = self.connection.timeout_ms
            is_fatal = self._unreadable.on_error(address, error, took_s=taken_s + rest_s, limit_ms=limit_ms)
        else:
            is_fatal = not error.retriable
        if is_fatal:
            named = _with_option_name(error)
            self.failures.extend(Failure(partition, named) for partition in led if partition in self.positions)
            self._arrived.set()
            if not is_unreadable:
                return 0.0
        self.connection.forget_leader_of(dict.fromkeys(partition.topic for partition in led))
        return rest_s

    def _request(self, requested: Mapping[TopicPartition, FetchPosition]) -> FetchRequest:
        return FetchRequest(
            partitions=tuple(
                position.to_request(partition, max_bytes=self.partition_max_bytes, rack=self.rack)
                for partition, position in requested.items()
            ),
            max_wait_ms=self.max_wait_ms,
            min_bytes=self.min_bytes,
            max_bytes=self.max_bytes,
            isolation=self.isolation,
        )

    def _rest_after(self, is_whole: bool, taken_s: float) -> float:
        """Return the pause before the next fetch from the leader, in seconds.

        A leader without records holds a fetch. The pause bounds the requests to one that answers at once.
        """
        if not is_whole:
            return RETRY_REST_S
        if self.completed or self.failures:
            return 0
        return min(RETRY_REST_S, self.max_wait_ms / 1000) - taken_s

    def _take_all(
        self, requested: Mapping[TopicPartition, FetchPosition], response: FetchResponse, parts: Sequence[memoryview]
    ) -> bool:
        """Process a fetch response. False: some part was unusable, and the next fetch must pause first."""
        before, is_whole = len(self.completed), True
        for result, part in zip(response.partitions, parts, strict=True):
            partition = TopicPartition(result.topic, result.partition)
            if partition in requested and self.positions.get(partition) is requested[partition]:
                is_whole = self._take(partition, result, part) and is_whole
        if len(self.completed) > before:
            self.completed[-1].ends_answer = True
        return is_whole

    def _take(self, partition: TopicPartition, result: FetchResult, part: memoryview) -> bool:
        """Process one partition's result. False: it was unusable."""
        if result.error is not None:
            self._on_error(partition, result.error.to_error())
            return False
        position = self.positions[partition]
        if result.preferred_read_replica >= 0:
            was_decided = position.is_decided
            self._prefer(position, result.preferred_read_replica)
            return not was_decided
        if result.diverging is not None:
            self.failures.append(Failure(partition, position.truncated(partition, result.diverging)))
            return False
        position.high_watermark = max(position.high_watermark, result.high_watermark)
        if not part:
            return True
        try:
            batches = batches_from(position.offset, part)
        except CorruptBatchError as error:
            if position.check_crcs:
                self.failures.append(Failure(partition, error))
            else:
                position.check_crcs = True
                _log.warning("%s: %s; asking again", partition, error.message)
            return False
        aborted = record.AbortedBatches(result.aborted)
        last = batches[-1][0]
        self.completed.append(
            CompletedFetch(partition, batches, position.offset, aborted, was_checked=position.check_crcs)
        )
        position.offset, position.last_epoch = last.next_offset, last.leader_epoch
        # Partitions take turns: an answer may have no room for all of them.
        self.positions[partition] = self.positions.pop(partition)
        return True

    def _prefer(self, position: FetchPosition, broker_id: int) -> None:
        """Set the preferred read replica; without an address for it, the leader is read for `REPLICA_AVOIDED_S`."""
        replica = self.connection.broker(broker_id)
        position.prefer(replica, METADATA_MAX_AGE_S if replica is not None else REPLICA_AVOIDED_S)

    def _on_error(self, partition: TopicPartition, error: RaftlogError) -> None:
        if self.positions[partition].leave_replica():
            return  # The leader's answer decides.
        if error.retriable:
            self.connection.forget_leader_of([partition.topic])
        else:
            self.failures.append(Failure(partition, error))

    def _was_recreated(self, partition: TopicPartition, position: FetchPosition) -> bool:
        """Return whether the topic was recreated, and then add an out-of-range failure."""
        topic_id = self._topic_id(partition)
        position.topic_id = position.topic_id or topic_id
        if topic_id in ("", position.topic_id):
            return False
        self.failures.append(Failure(partition, position.recreated(partition.topic, topic_id)))
        return True

    def _topic_id(self, partition: TopicPartition) -> str:
        info = self.connection.cached_topic(partition.topic)
        return info.topic_id if info else ""


def _with_option_name(error: RaftlogError) -> RaftlogError:
    """Return a broker's refusal of a limit with the name of the consumer's option."""
    if error.message.partition(":")[0] not in ("max_wait_ms", "min_bytes", "max_bytes"):
        return error
    named = InvalidRequestError(f"fetch_{error.message}", code=error.code, details=error.details)
    return with_request_of(named, error)
