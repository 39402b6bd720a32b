"""The follower's pull loop: one for each leader broker, for all partitions that this broker follows there.

A fetch offset is a promise: the follower holds, as firmly as the topic's `flush` asks, every record below it. So what
was fetched is synced before the next fetch goes out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from raftlog.config import ReplicationConfig
from raftlog.errors import ErrorCode, RaftlogError, StorageError
from raftlog.model import BrokerEpoch, BrokerId, BrokerRegistration, LeaderEpoch, TopicIdPartition
from raftlog.partition.core.epochs import truncation_offset
from raftlog.partition.replica import Replica
from raftlog.partition.storage.log import LogClosedError
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.codec import split_parts
from raftlog.wire.replication import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)

_log = logging.getLogger(__name__)
_ANSWER_MARGIN_MS = 2_000
"""How much longer than the leader's parking time an answer may take."""


class LeaderFetcher:
    """Pulls from one leader until it is cancelled.

    Args:
        broker_epoch: this broker's epoch, asked for at each fetch.
    """

    def __init__(
        self,
        leader: BrokerRegistration,
        *,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
        session: HttpSession,
        config: ReplicationConfig,
        on_disk_failure: Callable[[StorageError], None],
    ) -> None:
        self.leader = leader
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._session = session
        self._config = config
        self._on_disk_failure = on_disk_failure
        self._replicas: dict[TopicIdPartition, Replica] = {}
        self._epochs: dict[TopicIdPartition, LeaderEpoch] = {}
        self._offline: set[TopicIdPartition] = set()
        self._resting: dict[TopicIdPartition, float] = {}
        """Partitions that failed, and until when (the loop's clock) they rest: others must not wait for them."""
        self._changed = asyncio.Event()
        self._reachable = True
        self._loop = asyncio.get_running_loop()

    def follow(self, replicas: Sequence[Replica]) -> None:
        """Follow exactly these replicas from now on; a parked fetch is given up so that new ones start at once."""
        self._replicas = {replica.assignment.key: replica for replica in replicas}
        epochs = {key: replica.state.leader_epoch for key, replica in self._replicas.items()}
        if epochs != self._epochs:
            self._epochs = epochs
            self._offline.clear()
            self._resting.clear()
            self._changed.set()

    async def run(self) -> None:
        """Pull for ever."""
        while True:
            self._changed.clear()
            try:
                await self._pull()
            except RaftlogError as error:
                self._note_unreachable(error)
                await self._backoff()
            except Exception:  # noqa: BLE001  (our own bug: losing the loop would stop every partition for good)
                _log.exception("pulling from broker %d failed", self.leader.broker_id)
                await self._backoff()

    async def _pull(self) -> None:
        # What is not synced yet must not be promised: a leader that has resigned leaves such a tail.
        unsynced = [r for r in self._replicas.values() if r.held_end_offset < r.log.log_end_offset]
        if unsynced:
            await asyncio.to_thread(self._sync, unsynced)
        request = self._request()
        if not request.partitions:
            await self._backoff() if self._resting else await self._changed.wait()
            return
        answered = await self._fetch(request)
        if answered is not None:
            await self._take(request, *answered)

    def _request(self) -> ReplicaFetchRequest:
        now = asyncio.get_running_loop().time()
        self._resting = {key: until for key, until in self._resting.items() if until > now}
        return ReplicaFetchRequest(
            replica_id=self._broker_id,
            broker_epoch=self._broker_epoch(),
            max_wait_ms=self._config.replica_fetch_wait_max_ms,
            max_bytes=self._config.replica_fetch_response_max_bytes,
            partition_max_bytes=self._config.replica_fetch_max_bytes,
            partitions=tuple(
                ReplicaFetchPartition(
                    topic_id=key.topic_id,
                    partition=key.partition,
                    leader_epoch=replica.state.leader_epoch,
                    fetch_offset=replica.log.log_end_offset,  # Synced: see `_pull`.
                    last_fetched_epoch=replica.log.last_epoch,
                    log_start_offset=replica.log.log_start_offset,
                )
                for key, replica in self._replicas.items()
                if key not in self._offline and self._resting.get(key, 0) <= now
            ),
        )

    async def _fetch(self, request: ReplicaFetchRequest) -> tuple[ReplicaFetchResponse, memoryview] | None:
        """Ask the leader; None when the partitions to follow changed meanwhile."""
        call = asyncio.ensure_future(
            self._session.call_frame(
                ReplicaFetchResponse,
                "POST",
                self.leader.internal,
                paths.REPLICA_FETCH,
                timeout_ms=request.max_wait_ms + _ANSWER_MARGIN_MS,
                message=request,
            )
        )
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((call, changed), return_when=asyncio.FIRST_COMPLETED)
            return await call if call.done() else None
        finally:
            for future in (call, changed):
                future.cancel()
            await asyncio.gather(call, changed, return_exceptions=True)

    async def _take(self, request: ReplicaFetchRequest, response: ReplicaFetchResponse, body: memoryview) -> None:
        if not self._reachable:
            self._reachable = True
            _log.info("fetching from broker %d at %s again", self.leader.broker_id, self.leader.internal)
        parts = split_parts(body, [result.length for result in response.partitions], error=RaftlogError)
        unsynced = []
        for asked, result, part in zip(request.partitions, response.partitions, parts, strict=True):
            key = TopicIdPartition(asked.topic_id, asked.partition)
            replica = self._replicas.get(key)
            if replica is None or replica.core is not None or replica.state.leader_epoch != asked.leader_epoch:
                continue  # The role has changed while the answer travelled.
            try:
                well = self._apply(replica, result, bytes(part))
            except RaftlogError as error:
                self._give_up(replica, error)
                well = False
            if not well:
                self._resting[key] = asyncio.get_running_loop().time() + self._config.replica_fetch_backoff_ms / 1000
            if part and replica.config.flush == "batch":
                unsynced.append(replica)
        if unsynced:
            await asyncio.to_thread(self._sync, unsynced)

    def _apply(self, replica: Replica, result: ReplicaFetchResult, batches: bytes) -> bool:
        if result.error is not None:
            return self._on_error(replica, result.error.to_error())
        if result.diverging is not None:
            offset = truncation_offset(
                replica.log.epochs,
                log_end_offset=replica.log.log_end_offset,
                leader_epoch=result.diverging.epoch,
                leader_end_offset=result.diverging.end_offset,
            )
            replica.truncate_to(offset)
            return True
        if batches:
            replica.append_fetched(batches)
        replica.learn_marks(
            result.high_watermark,
            log_start_offset=result.log_start_offset,
            replicated_offset=result.replicated_offset,
        )
        return True

    def _on_error(self, replica: Replica, error: RaftlogError) -> bool:
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            start, end = error.details.get("log_start_offset"), error.details.get("log_end_offset")
            if isinstance(start, int) and start > replica.log.log_end_offset:
                replica.start_over_at(start)
                return True
            if isinstance(end, int) and end < replica.log.log_end_offset:
                replica.truncate_to(end)
                return True
        _log.debug("%s: %s", replica.assignment.topic_partition, error.message)
        return False  # Mostly a change of leader that one side has not heard of yet.

    def _sync(self, replicas: Sequence[Replica]) -> None:
        for replica in replicas:
            try:
                replica.log.fsync()
            except LogClosedError:
                continue
            except StorageError as error:
                self._give_up(replica, error)
                self._loop.call_soon_threadsafe(self._on_disk_failure, error)

    def _give_up(self, replica: Replica, error: RaftlogError) -> None:
        """Stop following, if the disk has failed: the replica leaves the ISR by its silence."""
        if replica.log.failure is None:
            _log.warning("%s: %s", replica.assignment.topic_partition, error.message)
            return  # A full disk, or bytes that were damaged on the way: a later fetch tries again.
        _log.error("%s goes offline: %s", replica.assignment.topic_partition, error.message)
        self._offline.add(replica.assignment.key)

    def _note_unreachable(self, error: RaftlogError) -> None:
        if self._reachable:
            self._reachable = False
            _log.warning("cannot fetch from broker %d: %s", self.leader.broker_id, error.message)

    async def _backoff(self) -> None:
        """Wait a little, or until the partitions to follow change."""
        try:
            async with asyncio.timeout(self._config.replica_fetch_backoff_ms / 1000):
                await self._changed.wait()
        except TimeoutError:
            return
