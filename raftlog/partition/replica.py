"""One local replica: a log, and the role (leader or follower) that metadata assigns.

A thin shell: `core` decides, this module stamps and appends, starts syncs, and wakes waiting requests. All methods run
on the event loop, and none awaits between a decision and its effect on the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from raftlog.config import topic_config
from raftlog.errors import (
    DiskFullError,
    ErrorCode,
    RetriableError,
    StaleRouteError,
    StorageError,
    UnknownOutcomeError,
)
from raftlog.model import (
    ACKS_ALL,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Acks,
    LeaderEpoch,
    Offset,
    PartitionAssignment,
    PartitionState,
    ProducerEpoch,
)
from raftlog.partition.admission import Admit, Admitted, require_admit, require_in_time, require_kind
from raftlog.partition.core.ages import outlived_retention_ms
from raftlog.partition.core.epochs import require_same_epoch
from raftlog.partition.core.leader import UNKNOWN_OFFSET, IsrLimits, LeaderCore, LogOffsets, SessionClock
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.environment import ReplicaEnvironment
from raftlog.partition.follower_replica import FollowerReplica
from raftlog.partition.group_commit import GroupCommit
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.producer_snapshots import plan_snapshot
from raftlog.partition.waiters import Notifier, OffsetWaiters
from raftlog.record import parse_header, stamp, validate_batch
from raftlog.record.batch import BatchHeader, Buffer
from raftlog.record.control import NO_OFFSET, Marker, build_marker, parse_marker
from raftlog.record.validate import require_keys
from raftlog.wire.transactions import TransactionMarker

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """Where a batch is in the log. `duplicate`: an earlier request had appended it."""

    base_offset: Offset
    last_offset: Offset
    leader_epoch: LeaderEpoch
    duplicate: bool = False
    outlived_retention_ms: int = -1
    """See `ProduceResult`."""


class Replica(FollowerReplica):
    """A replica of one partition on this broker.

    - It leads exactly while `core` is not None, and each `core` belongs to one leader epoch.
    - Metadata with an older partition epoch is ignored.
    - A request that waits when the leadership ends fails with an unknown outcome.

    Args:
        producers: rebuilt from the log when it was opened.
        environment: what it shares with the other replicas of its broker.
    """

    def __init__(
        self,
        *,
        assignment: PartitionAssignment,
        log: PartitionLog,
        producers: ProducerStates,
        environment: ReplicaEnvironment,
    ) -> None:
        super().__init__(assignment=assignment, log=log, producers=producers, environment=environment)
        replication = environment.replication
        self.data_notifier = Notifier()
        """Fires when followers must be answered: new records, a new log start offset, or the end of this role."""
        self.marks_notifier = Notifier()
        """Fires when followers need a higher high watermark or replicated offset, which may wait for records."""
        self.followers_notifier = Notifier()
        """Fires when a follower reports its position, or the ISR may have changed."""
        self._topic_defaults = environment.topic_defaults
        self._limits = IsrLimits(replication.replica_lag_time_max_ms, replication.replica_silence_max_ms)
        self._require_given = environment.require_given
        self._admitted = Admitted()
        self._metrics = environment.metrics
        self._replicated = OffsetWaiters()
        self._persisted = OffsetWaiters()
        self._applied: PartitionAssignment | None = None
        self._commit = GroupCommit(
            log,
            environment.tasks,
            on_durable=self._on_persisted,
            on_failure=self.on_storage_failure,
            times=environment.metrics.sync,
        )

    @property
    def waiting_appends(self) -> int:
        """The number of requests that wait for a sync or for replication."""
        return len(self._replicated) + len(self._persisted)

    def has_applied(self, assignment: PartitionAssignment) -> bool:
        """Return whether `apply` would change nothing. Identity suffices: images share unchanged states."""
        applied = self._applied
        return applied is not None and applied.state is assignment.state and applied.configs == assignment.configs

    def apply(self, assignment: PartitionAssignment) -> None:
        """Take the role and settings of newer metadata; older metadata is ignored."""
        before = self.assignment.state
        newer = assignment.state.partition_epoch > before.partition_epoch
        self.log.config = topic_config(assignment.topic, self._topic_defaults, assignment.configs)
        if newer or self.assignment.configs != assignment.configs:
            self.assignment = assignment if newer else replace(self.assignment, configs=assignment.configs)
        if self.state.leader != self.broker_id:
            self._follow()
        elif self.core is None or self.core.state.leader_epoch != self.state.leader_epoch:
            self._lead()
        else:
            now_ms, min_insync_replicas = self._clock.monotonic_ms(), self.config.min_insync_replicas
            self._moved(self.core.on_state(self.state, now_ms, min_insync_replicas=min_insync_replicas))
            self._on_persisted(self.persisted_end_offset)  # `flush` may have changed.
            self._refuse_if_under_min_isr()
            if self.config.compacts or set(self.state.replicas) != set(before.replicas):
                self.data_notifier.fire()  # The replicated offset may have changed.
        self.followers_notifier.fire()
        self._applied = assignment

    def apply_state(self, state: PartitionState) -> None:
        """Apply a state from a controller response, before the metadata log delivers it."""
        self.apply(replace(self.assignment, state=state))

    async def append(
        self,
        batch: Buffer,
        *,
        acks: Acks,
        timeout_ms: int,
        admit: Admit | None = None,
        transactional_id: str = "",
        since: ProducerEpoch = NO_PRODUCER_EPOCH,
        on_appended: Callable[[AppendResult], None] | None = None,
    ) -> AppendResult:
        """Append one batch, and return once it is persisted or replicated as `acks` requires.

        Args:
            batch: stamped in place, or copied if it is read-only.
            admit: awaited before a batch that begins a transaction here: the coordinator verifies the transaction and
                adds this partition to it (KIP-890). Also before one whose `transactional_id` it has not confirmed.
            transactional_id: that of the request, which its sender may use.
            since: see `ProducerStates.check`.
            on_appended: called once the batch is in the log, before any wait.

        Raises:
            StaleRouteError: this replica does not lead; nothing was appended.
            InvalidRequestError, FencedError, RetriableError, DiskFullError: nothing was appended.
            UnknownOutcomeError: appended, but not acknowledged in time.
        """
        header = parse_header(batch)
        await self._admit(header, acks, admit, transactional_id)
        core = self.require_leader()
        began = time.perf_counter()
        result = self.append_now(batch, header, acks=acks, of_client=True, since=since)
        appended = time.perf_counter()
        self._metrics.produce.append.observe(appended - began)
        if on_appended is not None:
            on_appended(result)
        if acks:
            await self._wait_for(result, core, acks, timeout_ms)
            self._note_waits(result.last_offset, acks, appended)
        return result

    def _note_waits(self, offset: Offset, acks: Acks, appended: float) -> None:
        """Time the wait for the sync, and the wait for replication after that, of a batch that is acknowledged."""
        synced = appended
        if self.config.flush == "batch":
            synced = max(appended, self._commit.ended_at(offset))
            self._metrics.produce.sync.observe(synced - appended)
        if acks == ACKS_ALL:
            self._metrics.produce.replication.observe(max(0.0, time.perf_counter() - synced))

    def append_now(
        self,
        batch: Buffer,
        header: BatchHeader | None = None,
        *,
        acks: Acks,
        of_client: bool = False,
        since: ProducerEpoch = NO_PRODUCER_EPOCH,
    ) -> AppendResult:
        """Append one batch without waiting for replication; see `append` and `until_replicated`.

        Args:
            header: the batch's, if the caller has read it.
            of_client: the batch's timestamps come from a client, so they are checked.
        """
        core, config = self.require_leader(), self.config
        header = validate_batch(batch, header, max_message_bytes=config.max_message_bytes)
        if config.compacts:
            require_keys(header, batch)
        if acks == ACKS_ALL:
            core.require_min_isr()
        now_us = self._clock.wall_us()
        epoch = self.state.leader_epoch
        if (earlier := self.producers.check(header, now_us // 1000, since=since)) is not None:
            result = AppendResult(
                base_offset=earlier.base_offset, last_offset=earlier.last_offset, leader_epoch=epoch, duplicate=True
            )
        else:
            if of_client:  # Not for a duplicate: its timestamps were valid when it was appended.
                require_in_time(header, batch, config, now_us)
            result = self._append_stamped(core, header, _writable(batch))
            if (outlived_ms := outlived_retention_ms(header.max_timestamp, now_us, config)) >= 0:
                result = replace(result, outlived_retention_ms=outlived_ms)
        return result

    async def until_replicated(self, end_offset: Offset, *, leader_epoch: LeaderEpoch, timeout_ms: int) -> None:
        """Wait until every record below `end_offset`, all appended here by `leader_epoch`, is replicated.

        Raises:
            StaleRouteError, FencedError: this replica does not lead in that epoch any more.
            UnknownOutcomeError: timed out, or the leadership ended meanwhile.
        """
        core = self.require_leader()
        require_same_epoch(self.state.leader_epoch, leader_epoch, self.assignment.topic_partition)
        if core.high_watermark < end_offset:
            await self._replicated.wait(end_offset - 1, timeout_ms=timeout_ms)

    async def append_marker(self, marker_request: TransactionMarker, *, timeout_ms: int) -> AppendResult:
        """Write a transaction marker, and return once it is replicated.

        Raises:
            StaleRouteError: this replica does not lead; nothing was appended.
            FencedError: a newer coordinator has written a marker, or the marker belongs to an earlier transaction.
            RetriableError, DiskFullError: nothing was appended.
            UnknownOutcomeError: appended, but not acknowledged in time.
        """
        core = self.require_leader()
        core.require_min_isr()
        producer, end = marker_request.producer_id, self.log.log_end_offset
        known_offset = self.producers.check_marker(
            producer, marker_request.producer_epoch, marker_request.coordinator_epoch
        )
        if known_offset is not None:
            epoch = self.state.leader_epoch
            result = AppendResult(
                base_offset=known_offset, last_offset=known_offset, leader_epoch=epoch, duplicate=True
            )
        else:
            began = self.producers.transactions.first_offset_of(producer)
            marker = Marker(
                committed=marker_request.committed,
                coordinator_epoch=marker_request.coordinator_epoch,
                first_offset=NO_OFFSET if began is None else began,
                stable_offset=self.producers.transactions.stable_offset_after(producer, end),
            )
            batch = build_marker(
                marker,
                producer_id=producer,
                producer_epoch=marker_request.producer_epoch,
                timestamp_us=self._clock.wall_us(),
            )
            header = parse_header(batch)
            parse_marker(header, batch)  # A marker that no reader accepts would make the log look damaged.
            result = self._append_stamped(core, header, batch, marker)
        await self._wait_for(result, core, ACKS_ALL, timeout_ms)
        return result

    async def _admit(self, header: BatchHeader, acks: Acks, admit: Admit | None, transactional_id: str) -> None:
        if header.producer_id == NO_PRODUCER_ID or header.is_control:
            return
        require_kind(header, acks)
        if self._require_given is not None and not self.producers.knows(header.producer_id):
            self.require_leader()
            await self._require_given(header.producer_id)
        if header.is_transactional:
            self.require_leader()
            ask = require_admit(admit)
            if self.producers.begins_transaction(header) or not self._admitted.has(header, transactional_id):
                await ask(header.producer_id, header.producer_epoch)
                self._admitted.add(header, transactional_id)

    def _append_stamped(
        self, core: LeaderCore, header: BatchHeader, batch: bytearray | memoryview, marker: Marker | None = None
    ) -> AppendResult:
        failed_before = self.log.failure
        try:
            self.finish_starting_over()  # The disk may have been full when this replica became the leader.
            base_offset, epoch = self.log.log_end_offset, self.state.leader_epoch
            stamp(batch, base_offset=base_offset, leader_epoch=epoch)
            header = header._replace(base_offset=base_offset, leader_epoch=epoch)
            self._append_to_log(batch, [header])
        except DiskFullError:
            raise
        except StorageError as error:
            raise self._not_appended(error, in_doubt=self.log.failure is not failed_before) from error
        self.producers.on_appended(header, self._clock.wall_us() // 1000, marker=marker)
        self._appended(core)
        return AppendResult(base_offset=base_offset, last_offset=header.last_offset, leader_epoch=epoch)

    def _not_appended(self, error: StorageError, *, in_doubt: bool) -> RetriableError:
        """Return what a client gets whose batch a failed disk refused: it goes to the next leader.

        Args:
            in_doubt: a partial write may be left.
        """
        if in_doubt:
            return _in_doubt(error)
        return StaleRouteError(
            f"{self.assignment.topic_partition}: the disk of broker {self.broker_id}, its leader, failed: "
            f"{error.message}; nothing was appended",
            code=ErrorCode.LEADER_NOT_AVAILABLE,
        )

    def sync_soon(self) -> None:
        """Sync appended batches in the background: with `flush = os` nothing else does."""
        if self.log.durable_end_offset < self.log.log_end_offset and self.log.failure is None:
            self._commit.request()

    def on_follower_fetch(
        self,
        follower: int,
        *,
        broker_epoch: int,
        fetch_offset: Offset,
        log_start_offset: Offset = UNKNOWN_OFFSET,
        session: SessionClock | None = None,
    ) -> None:
        """Record, as leader, a follower's position."""
        core = self.require_leader()
        replicated = core.replicated_offset
        moved = core.on_follower_fetch(
            follower,
            broker_epoch=broker_epoch,
            fetch_offset=fetch_offset,
            now_ms=self._clock.monotonic_ms(),
            log_start_offset=log_start_offset,
            session=session,
        )
        self._moved(moved)
        if self.config.compacts and core.replicated_offset != replicated:
            self.marks_notifier.fire()  # Followers need it to delete tombstones.
        self.followers_notifier.fire()
        if follower not in core.maximal_isr and fetch_offset >= core.high_watermark:
            self._observer.on_isr_hint()

    def plan_checkpoint(self, *, closing: bool = False) -> Callable[[], None] | None:
        """Return a function that writes the checkpoint, for a worker thread; None if there is nothing to write."""
        self.producers.expire(self._clock.wall_us() // 1000)
        self.producers.transactions.forget_decided(self.high_watermark)
        beside = None
        if closing or self.log.index_due:
            beside = plan_snapshot(
                self.log.folder, self.log.log_end_offset, self.producers, high_watermark=self.high_watermark
            )
        return self.log.plan_checkpoint(self.high_watermark, closing=closing, beside=beside)

    def resign(self) -> None:
        """End the role; waiting requests fail with an unknown outcome."""
        self._resign("the broker is stopping")

    def close(self) -> None:
        """End the role and close the log."""
        self.resign()
        self.log.close()
        self.visible_notifier.fire()  # Consumers may be waiting on a follower.

    def _lead(self) -> None:
        self._resign("it leads in a newer epoch")
        with suppress(StorageError):  # Until then appends are refused.
            self.finish_starting_over()
        self.core = LeaderCore(
            broker_id=self.broker_id,
            state=self.state,
            log=LogOffsets(
                start=self.log.log_start_offset,
                end=self.log.log_end_offset,
                own_end=self.persisted_end_offset,
                # Records are deleted only below the high watermark; a log that was reset may not have received it yet.
                high_watermark=max(self._follower_high_watermark, self.log.log_start_offset),
            ),
            min_insync_replicas=self.config.min_insync_replicas,
            limits=self._limits,
            now_ms=self._clock.monotonic_ms(),
        )
        self._metrics.leaderships += 1
        _log.info("%s: leading in epoch %d", self.assignment.topic_partition, self.state.leader_epoch)
        self._moved(self.core.on_local_end(self.persisted_end_offset))
        if self.log.durable_end_offset < self.log.log_end_offset:
            self._commit.request()

    def _follow(self) -> None:
        self._resign(f"broker {self.state.leader} leads it now, in epoch {self.state.leader_epoch}")

    def _resign(self, why: str) -> None:
        if self.core is None:
            return
        self._follower_high_watermark, self.core = self.core.high_watermark, None
        outcome = UnknownOutcomeError(
            f"{self.assignment.topic_partition}: {why}; the batch was appended, but may be truncated",
            code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
            details={"appended": True},
        )
        self._replicated.fail(outcome)
        self._persisted.fail(outcome)
        self.data_notifier.fire()
        self.visible_notifier.fire()
        self.followers_notifier.fire()

    def _appended(self, core: LeaderCore) -> None:
        core.on_local_append(self.log.log_end_offset)
        self.data_notifier.fire()
        if self.config.flush == "batch":
            self._commit.request()
        else:
            self._on_persisted(self.log.log_end_offset)

    async def _wait_for(self, result: AppendResult, core: LeaderCore, acks: Acks, timeout_ms: int) -> None:
        if acks == ACKS_ALL and core.high_watermark <= result.last_offset:
            await self._replicated.wait(result.last_offset, timeout_ms=timeout_ms)
        elif acks == 1 and self.persisted_end_offset <= result.last_offset:
            await self._persisted.wait(result.last_offset, timeout_ms=timeout_ms)

    def _on_persisted(self, end_offset: Offset) -> None:
        """Acknowledge what is persisted. A sync may end after `flush` has changed."""
        if self.core is not None:
            self._moved(self.core.on_local_end(end_offset))
        self._persisted.passed(end_offset)

    def on_storage_failure(self, error: StorageError) -> None:
        outcome = _in_doubt(error)
        self._replicated.fail(outcome)
        self._persisted.fail(outcome)
        super().on_storage_failure(error)

    def _moved(self, moved: bool) -> None:
        if moved and self.core is not None:
            self._replicated.passed(self.core.high_watermark)
            self.visible_notifier.fire()
            self.marks_notifier.fire()

    def _refuse_if_under_min_isr(self) -> None:
        if self.core is not None and self.core.under_min_isr:
            self._replicated.fail(
                UnknownOutcomeError(
                    f"{self.assignment.topic_partition}: appended, then replicas left the ISR: {len(self.state.isr)} "
                    f"are in sync, acks=all needs {self.core.min_isr}",
                    code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
                )
            )


def _in_doubt(error: StorageError) -> UnknownOutcomeError:
    message = f"the leader's disk failed, the batch may be lost: {error.message}"
    return UnknownOutcomeError(message, code=ErrorCode.REQUEST_TIMED_OUT)


def _writable(batch: Buffer) -> bytearray | memoryview:
    """Return a buffer that can be stamped in place: a copy if the batch is read-only."""
    if isinstance(batch, bytearray) or (isinstance(batch, memoryview) and not batch.readonly):
        return batch
    return bytearray(batch)
