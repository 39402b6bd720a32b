"""Reading a replica, as leader or follower: offsets that are visible, verified batches, and damage found by reads."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from raftlog.config import TopicConfig
from raftlog.errors import (
    CorruptBatchError,
    DamagedDataError,
    ErrorCode,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    StorageError,
)
from raftlog.model import (
    NO_LEADER,
    AbortedTransaction,
    Isolation,
    LeaderEpoch,
    Offset,
    PartitionAssignment,
    PartitionState,
)
from raftlog.partition.core.leader import LeaderCore
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.damage import Damage
from raftlog.partition.environment import ReplicaEnvironment
from raftlog.partition.storage.files import is_unreadable
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.verified_reads import FileRange, VerifiedBatches
from raftlog.runtime import on_this_loop

_log = logging.getLogger(__name__)
_MAX_SUSPECTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    """Whole batches, and the replica's offsets when they were read."""

    data: bytes | FileRange
    high_watermark: Offset
    log_start_offset: Offset
    leader_epoch: LeaderEpoch
    last_stable_offset: Offset = -1
    end_offset: Offset = -1
    """After the last record; -1 without batches."""
    aborted: tuple[AbortedTransaction, ...] = ()
    """With read_committed: aborted transactions whose records the consumer must skip."""
    batches: int = 0
    """The number of batches."""
    has_more: bool = False
    """Whether consumers may read records after these: a limit, or the end of a segment, ended the read."""


class ReadableReplica:
    """A log, its assignment, and how far consumers may read. Base class of `FollowerReplica` and `Replica`.

    Args:
        producers: rebuilt from the log when it was opened.
    """

    def __init__(
        self,
        *,
        assignment: PartitionAssignment,
        log: PartitionLog,
        producers: ProducerStates,
        environment: ReplicaEnvironment,
    ) -> None:
        self.broker_id = environment.broker_id
        self.assignment = assignment
        self.log = log
        self.producers = producers
        self.core: LeaderCore | None = None
        """The leader's state; None while this replica follows."""
        self.damage: Damage | None = None
        """The first damage found; None once all damage is repaired."""
        self.suspects: dict[Offset, bool] = {}
        """Offsets at or after which damage was found. True: no replica has the batch intact, as far as is known."""
        self._observer = environment.observer
        self._follower_high_watermark = min(log.high_watermark_checkpoint, log.log_end_offset)

    @property
    def state(self) -> PartitionState:
        return self.assignment.state

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    @property
    def high_watermark(self) -> Offset:
        return self.core.high_watermark if self.core else self._follower_high_watermark

    @property
    def persisted_end_offset(self) -> Offset:
        """Every record below it is persisted here, as the topic's `flush` requires: synced, or in the page cache."""
        return self.log.durable_end_offset if self.config.flush == "batch" else self.log.log_end_offset

    @property
    def last_stable_offset(self) -> Offset:
        """The offset at which read_committed consumers stop."""
        stable = self.producers.transactions.last_stable_offset(self.high_watermark)
        return max(stable, self.log.log_start_offset)

    def visible_end_offset(self, isolation: Isolation) -> Offset:
        """Return the offset at which consumers of this isolation level stop."""
        return self.last_stable_offset if isolation == "read_committed" else self.high_watermark

    def end_offset(self, isolation: Isolation = "read_uncommitted") -> Offset:
        """Return the end offset for ListOffsets: it never decreases across leader changes (KIP-207).

        Raises:
            RetriableError: OFFSET_NOT_AVAILABLE: a new leader's high watermark has not reached the start of its epoch
                yet.
        """
        core = self.core
        if core is not None and core.high_watermark < core.epoch_start_offset:
            raise RetriableError(
                f"{self.assignment.topic_partition}: the new leader's high watermark {core.high_watermark} is below "
                f"offset {core.epoch_start_offset}, at which its epoch {core.state.leader_epoch} began: "
                "send the request again once enough replicas are in sync",
                code=ErrorCode.OFFSET_NOT_AVAILABLE,
                details={"high_watermark": core.high_watermark, "isr": list(core.state.isr)},
            )
        return self.visible_end_offset(isolation)

    def require_leader(self) -> LeaderCore:
        """Return the leader's core.

        Raises:
            StaleRouteError: this replica does not lead; `details` names the leader.
        """
        if self.core is None:
            leader, epoch = self.state.leader, self.state.leader_epoch
            raise StaleRouteError(
                f"broker {self.broker_id} does not lead {self.assignment.topic_partition}: "
                + (f"broker {leader} does, in epoch {epoch}" if leader >= 0 else "it has no leader now"),
                code=ErrorCode.NOT_LEADER_OR_FOLLOWER if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                details={"leader": leader, "leader_epoch": epoch},
            )
        return self.core

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        any_replica: bool = False,
        isolation: Isolation = "read_uncommitted",
        check_crcs: bool = True,
    ) -> ReadResult:
        """Return batches below the high watermark, or below the last stable offset, for a consumer.

        Args:
            max_bytes: of batches, but at least one batch; 0: none, only the offsets.
            any_replica: a follower may answer too, up to its high watermark.
            check_crcs: see `find_verified`.

        Raises:
            RetriableError: OFFSET_NOT_AVAILABLE: `offset` is above this follower's high watermark.
            StaleRouteError: this replica does not lead, or is about to lose its leadership because it is damaged.
            OffsetOutOfRangeError: `offset` is outside the log.
            StorageError: the batch at `offset` is damaged, and no other replica has it intact.
        """
        if self.core is None and any_replica and self.state.leader != NO_LEADER:
            self._require_known_visible(offset)
        else:
            self.require_leader()
        end = self.visible_end_offset(isolation) if max_bytes > 0 else offset
        found = self.find_verified(offset, max_bytes, limit_offset=end, check_crcs=check_crcs)
        return ReadResult(
            data=found.data,
            high_watermark=self.high_watermark,
            log_start_offset=self.log.log_start_offset,
            leader_epoch=self.state.leader_epoch,
            last_stable_offset=self.last_stable_offset,
            end_offset=found.end_offset,
            aborted=self._aborted_in(found, offset) if isolation == "read_committed" else (),
            batches=found.count,
            has_more=0 <= found.end_offset < end,
        )

    def _aborted_in(self, found: VerifiedBatches, offset: Offset) -> tuple[AbortedTransaction, ...]:
        if not found.data or not self.log.has_aborted:
            return ()
        try:
            return tuple(self.log.aborted_transactions(offset, found.end_offset))
        except DamagedDataError as error:
            self.note_damage(offset, error.message)
            raise self._damaged(offset, error.message) from error
        except StorageError as error:
            raise _unreadable(f"{self.assignment.topic_partition}: {error.message}") from error

    def _require_known_visible(self, offset: Offset) -> None:
        if offset > self._follower_high_watermark:
            raise RetriableError(
                f"{self.assignment.topic_partition}: broker {self.broker_id} is a follower with high watermark "
                f"{self._follower_high_watermark}, received offset {offset}: read from the leader, or retry later",
                code=ErrorCode.OFFSET_NOT_AVAILABLE,
                details={"high_watermark": self._follower_high_watermark, "leader": self.state.leader},
            )

    def read_sound(self, offset: Offset, max_bytes: int, *, limit_offset: Offset) -> bytes:
        """Return the bytes of what `find_verified` finds."""
        return in_memory(self.find_verified(offset, max_bytes, limit_offset=limit_offset).data)

    def find_verified(
        self, offset: Offset, max_bytes: int, *, limit_offset: Offset, check_crcs: bool = True
    ) -> VerifiedBatches:
        """Return whole batches with valid checksums, up to the first damaged one.

        Args:
            check_crcs: False leaves the payloads of large batches unverified while no damage is known: the reader
                verifies them, and reads again with True if one is damaged.

        Raises:
            OffsetOutOfRangeError: `offset` is outside the log.
            StaleRouteError: the batch that holds `offset` is damaged, and is being repaired; or the log cannot be read.
            StorageError: the batch is damaged, and no replica has it intact.
        """
        check_crcs = check_crcs or self.damage is not None
        try:
            found = self.log.find_verified(offset, max_bytes, limit_offset=limit_offset, check_crcs=check_crcs)
        except StorageError as error:  # No damage: no file descriptor is free, or the log was closed meanwhile.
            raise _unreadable(f"{self.assignment.topic_partition}: {error.message}") from error
        if found.problem:
            self.note_damage(offset, found.problem)
        if isinstance(found.data, FileRange):
            found.data.on_damage = on_this_loop(partial(self._note_unreadable, offset, found.data))
        if found.problem and not found.data:
            raise self._damaged(offset, found.problem)
        return found

    @contextmanager
    def recording_damage(self) -> Iterator[None]:
        """Record damage when a change of the log fails because a batch is corrupt.

        EIO of a write or a sync is no damage, and shuts the broker down. A block that the disk cannot read is a
        `CorruptBatchError` by now: see `Segment.read`.
        """
        try:
            yield
        except StorageError as error:
            if isinstance(error, DamagedDataError):
                self.note_damage(self.log.log_start_offset, error.message)
            raise

    def note_damage(self, offset: Offset, problem: str) -> None:
        """Record that a batch at `offset` or later is damaged on disk."""
        if len(self.suspects) < _MAX_SUSPECTS:
            self.suspects.setdefault(offset, False)
        if self.damage is None:
            _log.error("%s: damaged at offset %d or later: %s", self.assignment.topic_partition, offset, problem)
            damage = Damage(offset, self.state.leader_epoch, problem)
            self._observer.on_damage(self.assignment.key, damage)
            self.damage = damage

    def _note_unreadable(self, offset: Offset, found: FileRange, problem: str) -> None:
        if found.is_there:  # A worker thread read it, and the log may have been truncated or closed since.
            self.note_damage(offset, problem)

    def note_repair_attempt(self, suspects: Iterable[Offset], *, lost: bool) -> None:
        """Record that all replicas were asked to repair these offsets; `lost`: none has the batches intact."""
        self.suspects |= dict.fromkeys(suspects, lost)

    def repaired(self, suspects: Iterable[Offset]) -> bool:
        """Record that the damage at these offsets is repaired; return whether no damage is left."""
        self.suspects = {offset: lost for offset, lost in self.suspects.items() if offset not in set(suspects)}
        self.damage = None if not self.suspects else self.damage
        return self.damage is None

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Record damage that a search by time meets.

        Raises:
            StaleRouteError: a batch is damaged, and is being repaired; or the log cannot be read.
            StorageError: a batch is damaged, and no replica has it intact.
        """
        try:
            yield
        except (CorruptBatchError, OSError) as error:
            if not is_damage(error):
                raise _unreadable(f"{self.assignment.topic_partition} cannot be searched: {error}") from error
            self.note_damage(self.log.log_start_offset, str(error))
            raise self._damaged(self.log.log_start_offset, str(error)) from error

    def _damaged(self, offset: Offset, problem: str) -> RaftlogError:
        message = f"{self.assignment.topic_partition}: offset {offset} is damaged on broker {self.broker_id}: {problem}"
        details = {"offset": offset, "isr": list(self.state.isr)}
        if self.suspects.get(offset):
            return StorageError(f"{message}; no replica has it intact", details=details)
        return StaleRouteError(
            f"{message}; it is being repaired from another replica: send the request again",
            code=ErrorCode.LEADER_NOT_AVAILABLE,
            details=details,
        )


def is_damage(error: BaseException | None) -> bool:
    """Return whether an error means damage: a wrong checksum, or bytes that the disk cannot read."""
    return isinstance(error, CorruptBatchError) or is_unreadable(error)


def in_memory(data: bytes | FileRange) -> bytes:
    """Return the bytes of a read.

    Raises:
        StaleRouteError: the log was truncated or closed meanwhile, or the read failed.
    """
    if isinstance(data, bytes):
        return data
    try:
        return data.read()
    except OSError as error:
        raise _unreadable(f"the batches cannot be read any more: {error}") from error


def _unreadable(message: str) -> StaleRouteError:
    """Return the error of a read that may succeed later, or on another broker."""
    return StaleRouteError(f"{message}; send the request again", code=ErrorCode.LEADER_NOT_AVAILABLE)
