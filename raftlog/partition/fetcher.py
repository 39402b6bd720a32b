"""The follower's pull loop: one for each leader broker, for all partitions that this broker follows there.

A fetch offset is an acknowledgement: the follower has persisted every record below it, as the topic's `flush` requires.
So fetched records are synced before the next fetch is sent.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from raftlog.config import ReplicationConfig
from raftlog.errors import CorruptBatchError, DiskFullError, ErrorCode, RaftlogError, StorageError
from raftlog.model import (
    NO_LEADER_EPOCH,
    BrokerRegistration,
    LeaderEpoch,
    Offset,
    TopicIdPartition,
)
from raftlog.partition.core.epochs import truncation_offset
from raftlog.partition.core.follower_session import FollowerSession
from raftlog.partition.core.throttle import Throttle
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.replica import Replica
from raftlog.partition.storage.log_files import LogClosedError
from raftlog.runtime import in_slices
from raftlog.transport import HttpSession
from raftlog.wire import media, paths
from raftlog.wire.codec import split_parts
from raftlog.wire.data import DivergingEpoch
from raftlog.wire.packed_fetch import decode_response, pack_request
from raftlog.wire.replication import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)

_log = logging.getLogger(__name__)
_ANSWER_MARGIN_MS = 2_000
"""How long a response may take beyond the time for which the leader may park the request, in ms."""

_TAKEN_AT_ONCE = 64
"""Partitions of a response that are taken in one turn of the event loop: each may write to its log."""
_MAX_DELAY_MS = 1_000
"""Longest delay of a throttled partition, in ms: the limit may have been raised meanwhile."""


class LeaderFetcher:
    """Pulls from one leader until cancelled.

    - A partition is fetched from its log end offset, which was synced before the request is built.
    - A response counts only if the replica still follows in the leader epoch of the request.
    - A partition that failed or is throttled is delayed alone; the others go on.

    Args:
        broker_epoch: returns this broker's epoch; called for each fetch.
        throttle: shared by all fetchers of this broker, for replicas that a reassignment adds.
    """

    def __init__(
        self,
        leader: BrokerRegistration,
        *,
        local: LocalBroker,
        session: HttpSession,
        config: ReplicationConfig,
        throttle: Throttle | None = None,
        metrics: PartitionMetrics | None = None,
    ) -> None:
        self.leader = leader
        self._local = local
        self._session = session
        self._config = config
        self._throttle = throttle or Throttle()
        self._metrics = metrics or PartitionMetrics()
        self._replicas: dict[TopicIdPartition, Replica] = {}
        self._epochs: dict[TopicIdPartition, LeaderEpoch] = {}
        self._positions = FollowerSession()
        self._sent_log_starts: dict[TopicIdPartition, Offset] = {}
        """Log start offset of each partition in the last request that contained it."""
        self._unsynced: dict[TopicIdPartition, None] = {}
        """Partitions whose log may end above its synced end; they are synced before the next request."""
        self._delayed: dict[TopicIdPartition, float] = {}
        """Partitions that failed or are throttled, and the loop time (s) until which they are left out of requests."""
        self._recheck_crcs: set[TopicIdPartition] = set()
        """Partitions of which a damaged batch arrived: the leader must verify checksums, its disk may be the cause."""
        self._changed = asyncio.Event()
        self._in_flight: asyncio.Timeout | None = None
        """The scope of the request that waits for its response: its deadline is the moment when it is abandoned."""
        self._reachable = True

    def follow(self, replicas: Sequence[Replica]) -> None:
        """Replace the set of followed replicas; a parked fetch is abandoned so that new ones start at once."""
        self._replicas = {replica.assignment.key: replica for replica in replicas}
        epochs = {key: replica.state.leader_epoch for key, replica in self._replicas.items()}
        self._find_unsynced()
        if epochs == self._epochs:
            return
        moved = [key for key, epoch in epochs.items() if self._epochs.get(key) != epoch]
        self._epochs = epochs
        self._sent_log_starts = {key: start for key, start in self._sent_log_starts.items() if key in epochs}
        self._positions.follow(epochs)
        for key in moved:
            self._positions.name(key)
        self._delayed = {key: 0.0 for key in self._delayed if key in epochs}  # Metadata changed: retry all.
        self._recheck_crcs &= epochs.keys()
        self._changed.set()
        if self._in_flight is not None and not self._in_flight.expired():
            self._in_flight.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """Pull until cancelled."""
        while True:
            self._changed.clear()
            try:
                await self._pull()
            except RaftlogError as error:
                self._find_unsynced()
                if not self._positions.on_failure(error.code):
                    self._note_unreachable(error)
                    await self._backoff()
            except Exception:  # noqa: BLE001  (our own bug: losing the loop would stop every partition for good)
                _log.exception("pulling from broker %d failed", self.leader.broker_id)
                self._find_unsynced()
                self._positions.reset()
                await self._backoff()

    def _find_unsynced(self) -> None:
        """Find logs with an unsynced tail, such as that of a leader that resigned."""
        self._unsynced = {
            key: None for key, r in self._replicas.items() if r.persisted_end_offset < r.log.log_end_offset
        }

    async def _pull(self) -> None:
        await self._sync_all()
        self._end_delays()
        if self._positions.is_empty:
            await self._changed.wait()
            return
        self._changed.clear()  # The request is made now, so it has what changed during the sync.
        answered = await self._fetch(self._request())
        if answered is None:
            self._positions.on_abandoned()
        else:
            self._positions.on_answer(answered[0].session_id, packs=answered[0].packs)
            await self._take(*answered)

    def _request(self) -> ReplicaFetchRequest:
        part = self._positions.next_request(self._position)
        return ReplicaFetchRequest(
            replica_id=self._local.broker_id,
            broker_epoch=self._local.broker_epoch,
            max_wait_ms=self._wait_ms(),
            max_bytes=self._config.replica_fetch_response_max_bytes,
            partition_max_bytes=self._config.replica_fetch_max_bytes,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            answers_lost=part.answers_lost,
            forgotten=part.forgotten,
            partitions=part.partitions,
        )

    def _position(self, key: TopicIdPartition) -> ReplicaFetchPartition | None:
        """Return a replica's position; None if it has none, because a full disk keeps it from starting over."""
        replica = self._replicas[key]
        try:
            replica.finish_starting_over()
        except RaftlogError as error:
            self._give_up(replica, error)
            self._delay(key, self._config.replica_fetch_backoff_ms)
            return None
        self._sent_log_starts[key] = replica.log.log_start_offset
        return ReplicaFetchPartition(
            topic_id=key.topic_id,
            partition=key.partition,
            leader_epoch=replica.state.leader_epoch,
            fetch_offset=replica.log.log_end_offset,  # Synced: see `_pull`.
            last_fetched_epoch=replica.log.last_epoch,
            log_start_offset=replica.log.log_start_offset,
            check_crcs=key in self._recheck_crcs,
        )

    def _delay(self, key: TopicIdPartition, wait_ms: float) -> None:
        self._positions.hold_back(key)
        self._delayed[key] = asyncio.get_running_loop().time() + wait_ms / 1000

    def _end_delays(self) -> None:
        now = asyncio.get_running_loop().time()
        for key in [key for key, until in self._delayed.items() if until <= now]:
            del self._delayed[key]
            self._fetch_more(key)

    def _fetch_more(self, key: TopicIdPartition) -> None:
        """Fetch more of a partition: in the next request, or when the reassignment throttle allows it."""
        wait_ms = self._throttle.wait_ms(_now_ms()) if self._is_throttled(key) else 0.0
        if wait_ms > 0:
            self._delay(key, min(wait_ms, _MAX_DELAY_MS))
        else:
            self._positions.name(key)

    def _is_throttled(self, key: TopicIdPartition) -> bool:
        """Return whether a replica is throttled: one being added, unless in sync (acks=all waits for it)."""
        state = self._replicas[key].state if key in self._replicas else None
        return state is not None and self._local.broker_id in state.adding and self._local.broker_id not in state.isr

    def _wait_ms(self) -> int:
        """Return how long the leader may park the request, in ms: no longer than any partition is delayed."""
        longest = self._config.replica_fetch_wait_max_ms
        if not self._delayed:
            return longest
        left_s = min(self._delayed.values()) - asyncio.get_running_loop().time()
        return max(1, min(longest, int(left_s * 1000) + 1))

    async def _fetch(self, request: ReplicaFetchRequest) -> tuple[ReplicaFetchResponse, memoryview] | None:
        """Send a fetch to the leader; return None if the followed partitions changed meanwhile."""
        packed = pack_request(request) if self._positions.packs else None
        form: dict[str, Any] = {"message": request} if packed is None else {"body": packed, "content_type": media.PLAIN}
        try:
            async with asyncio.timeout(None) as self._in_flight:
                return await self._session.call_frame(
                    ReplicaFetchResponse,
                    "POST",
                    self.leader.internal,
                    paths.REPLICA_FETCH,
                    timeout_ms=request.max_wait_ms + _ANSWER_MARGIN_MS,
                    decode=decode_response,
                    **form,
                )
        except TimeoutError:
            if not self._changed.is_set():
                raise
            return None
        finally:
            self._in_flight = None

    async def _take(self, response: ReplicaFetchResponse, body: memoryview) -> None:
        if not self._reachable:
            self._reachable = True
            _log.info("fetching from broker %d at %s again", self.leader.broker_id, self.leader.internal)
        parts = split_parts(body, [result.length for result in response.partitions], error=RaftlogError)
        taken = list[tuple[Replica, LeaderEpoch, ReplicaFetchResult]]()
        async for result, part in in_slices(zip(response.partitions, parts, strict=True), _TAKEN_AT_ONCE):
            replica = self._replicas.get(result.key)
            epoch = self._positions.sent_epoch(result.key)
            if replica is None or replica.core is not None or replica.state.leader_epoch != epoch:
                continue  # The role changed while the response was on its way.
            if self._take_one(replica, result, part):
                taken.append((replica, epoch, result))
            elif result.diverging is not None or result.error is not None:
                await asyncio.sleep(0)  # A truncated log, or one that starts over, takes several syncs.
        await self._sync_all()
        async for replica, epoch, result in in_slices(taken, _TAKEN_AT_ONCE):
            if replica.core is None and replica.state.leader_epoch == epoch and replica.log.failure is None:
                start = replica.log.log_start_offset
                self._take_marks(replica, result)
                if replica.log.log_start_offset != start:
                    await asyncio.sleep(0)  # Records were deleted, durably: that takes several syncs.

    def _take_marks(self, replica: Replica, result: ReplicaFetchResult) -> None:
        """Take over the leader's marks. Only after the sync: a high watermark covers what this replica persisted."""
        try:
            replica.update_marks(
                result.high_watermark,
                log_start_offset=result.log_start_offset,
                replicated_offset=result.replicated_offset,
            )
        except RaftlogError as error:
            self._give_up(replica, error)
            self._delay(replica.assignment.key, self._config.replica_fetch_backoff_ms)
            return
        if self._log_start_differs(replica):
            self._fetch_more(replica.assignment.key)

    def _take_one(self, replica: Replica, result: ReplicaFetchResult, batches: memoryview) -> bool:
        """Append; return whether the leader's marks apply."""
        key = replica.assignment.key
        try:
            succeeded = self._apply(replica, result, batches)
        except RaftlogError as error:
            self._give_up(replica, error)
            succeeded = False
        if batches and succeeded:
            self._metrics.replicated_in += len(batches)
        if batches and self._is_throttled(key):
            self._throttle.spend(len(batches), _now_ms())
        if not succeeded:
            self._delay(key, self._config.replica_fetch_backoff_ms)
        elif batches or result.error is not None or result.diverging is not None:
            self._fetch_more(key)
        if batches and replica.config.flush == "batch":
            self._unsynced[key] = None
        return succeeded and result.error is None and result.diverging is None

    def _log_start_differs(self, replica: Replica) -> bool:
        """Return whether the leader has an outdated log start offset; DeleteRecords waits for the new one."""
        return replica.log.log_start_offset != self._sent_log_starts.get(replica.assignment.key)

    def _apply(self, replica: Replica, result: ReplicaFetchResult, batches: memoryview) -> bool:
        if result.error is not None:
            return self._on_error(replica, result.error.to_error(), batches)
        if result.diverging is not None:
            _truncate(replica, result.diverging, batches)
            return True
        if batches:
            self._append(replica, batches)
        return True

    def _append(self, replica: Replica, batches: memoryview) -> None:
        key = replica.assignment.key
        try:
            replica.append_fetched(batches)
        except CorruptBatchError:
            self._recheck_crcs.add(key)
            raise
        self._recheck_crcs.discard(key)

    def _on_error(self, replica: Replica, error: RaftlogError, producers: memoryview) -> bool:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            start, end = error.details.get("log_start_offset"), error.details.get("log_end_offset")
            if isinstance(start, int) and start > replica.log.log_end_offset:
                replica.start_over_as_told(start, producers)
                return True
            if isinstance(end, int) and end < replica.log.log_end_offset:
                replica.truncate_to(end)
                return True
        _log.debug("%s: %s", replica.assignment.topic_partition, error.message)
        return False  # Mostly a leader change that has not reached one of the two sides yet.

    async def _sync_all(self) -> None:
        """Sync every log with an unsynced tail; stop following replicas whose sync failed."""
        while replicas := [self._replicas[key] for key in self._unsynced if key in self._replicas]:
            self._unsynced.clear()  # Before the sync: `follow` may add others, or the same ones again, meanwhile.
            failures, times = await asyncio.to_thread(_sync, replicas)
            for seconds in times:
                self._metrics.sync.observe(seconds)
            for replica, error in failures:
                if isinstance(error, DiskFullError):
                    if replica.log.failure is None:
                        self._unsynced[replica.assignment.key] = None  # No descriptor was free: nothing is lost.
                    continue  # A log that could not start over has nothing to sync; the next fetch tries it again.
                self._positions.leave(replica.assignment.key)  # Its next position would acknowledge unsynced records.
                if not isinstance(error, LogClosedError):
                    replica.on_storage_failure(error)
            if self._unsynced and failures:
                await asyncio.sleep(self._config.replica_fetch_backoff_ms / 1000)

    def _give_up(self, replica: Replica, error: RaftlogError) -> None:
        """Stop following a replica whose log has failed; the leader then removes it from the ISR."""
        if isinstance(error, LogClosedError):
            return  # Its partition has been moved or deleted meanwhile.
        if replica.log.failure is None or isinstance(replica.log.failure, DiskFullError):
            _log.warning("%s: %s", replica.assignment.topic_partition, error.message)
            return  # Nothing was appended: the disk is full, or bytes were damaged in transit. A later fetch retries.
        _log.error("%s goes offline: %s", replica.assignment.topic_partition, error.message)
        self._positions.leave(replica.assignment.key)

    def _note_unreachable(self, error: RaftlogError) -> None:
        if self._reachable:
            self._reachable = False
            _log.warning("cannot fetch from broker %d: %s", self.leader.broker_id, error.message)

    async def _backoff(self) -> None:
        """Wait for `replica_fetch_backoff_ms`, or until the followed partitions change."""
        try:
            async with asyncio.timeout(self._config.replica_fetch_backoff_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            return


def _now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


def _truncate(replica: Replica, diverging: DivergingEpoch, producers: memoryview) -> None:
    """Truncate a log to where it may agree with the leader's, never below the leader's log start offset."""
    if diverging.epoch == NO_LEADER_EPOCH:
        # The leader has no epoch this old: retention deleted it, or it never existed. Offsets are not reused.
        replica.start_over_as_told(diverging.end_offset, producers)
        return
    offset = truncation_offset(
        replica.log.epochs,
        log_end_offset=replica.log.log_end_offset,
        leader_epoch=diverging.epoch,
        leader_end_offset=diverging.end_offset,
    )
    replica.truncate_to(offset)


def _sync(replicas: Sequence[Replica]) -> tuple[list[tuple[Replica, StorageError]], list[float]]:
    """Sync logs; return the failures, and how long each sync took, in seconds."""
    failures, times = [], []
    for replica in replicas:
        began = time.perf_counter()
        try:
            replica.log.fsync()
        except StorageError as error:
            failures.append((replica, error))
        else:
            times.append(time.perf_counter() - began)
    return failures, times
