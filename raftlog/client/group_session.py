"""A consumer's session in a group: reconciles its partitions with the assignment, and commits offsets."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from raftlog.client.connection import Connection
from raftlog.client.coordinator_link import CoordinatorLink
from raftlog.client.core.membership import FENCED, GroupMetadata, Membership
from raftlog.client.group_member import GroupMember
from raftlog.client.metrics import GroupCounters
from raftlog.client.offsets import OffsetAndMetadata, on_the_wire, with_epochs
from raftlog.client.reader import PartitionReader
from raftlog.client.start_offsets import Start
from raftlog.errors import (
    ErrorCode,
    FencedError,
    OffsetOutOfRangeError,
    OverloadedError,
    RaftlogError,
    RetriableError,
    UnknownOutcomeError,
)
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from raftlog.runtime import Tasks, close_all
from raftlog.wire import paths
from raftlog.wire.groups import (
    CommittedOffset,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetResults,
    by_topic,
)

_log = logging.getLogger(__name__)
T = TypeVar("T")
OnRebalance = Callable[[list[TopicPartition]], Awaitable[None] | None]
EPOCH_WAIT_S = 1.0
"""How long a commit waits for the heartbeat that brings the epoch it lacks, before it asks again."""
RETRY_S = 0.1
TAKE_S = 3.0
"""How much longer than its own timeout a call may take to find the start offsets of new partitions."""
TAKE_AGAIN_S = 0.5
MAX_WAITING = 1_000
"""The most commits in the background."""
LAST_COMMITS_S = 5.0
"""How long `close` waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """How a consumer behaves in its group; see `Consumer`."""

    reset: Start | None
    """Where to begin without a committed offset; None raises."""
    auto_commit_interval_ms: int | None
    """None: the application commits."""
    timeout_ms: int
    on_assigned: OnRebalance | None = None
    on_revoked: OnRebalance | None = None
    on_lost: OnRebalance | None = None


class GroupSession:
    """One consumer's membership, partitions and commits."""

    def __init__(
        self,
        connection: Connection,
        reader: PartitionReader,
        membership: Membership,
        *,
        group_id: str,
        max_poll_interval_ms: int,
        options: GroupOptions,
    ) -> None:
        self.group_id = group_id
        self.membership = membership
        self._reader = reader
        self._options = options
        self._link = CoordinatorLink(connection, "group", group_id)
        self.member = GroupMember(
            self._link, membership, max_poll_interval_ms=max_poll_interval_ms, on_change=reader.fetcher.interrupt
        )
        self.counters = GroupCounters()
        self._committed: dict[TopicPartition, Offset] = {}
        self._committing = asyncio.Lock()
        self._commit_due_s = 0.0
        self._take_again_s = 0.0
        self._take_failed = False
        """Whether new partitions wait for a start offset, and a warning was logged."""
        self._automatic: asyncio.Task[None] | None = None
        """The last automatic commit."""
        self._soon: set[asyncio.Task[None]] = set()
        """Commits of the application that run in the background."""
        self._tasks = Tasks("group commits")

    async def start(self) -> None:
        """Join the group."""
        self._note_commit()
        await self.member.start(timeout_ms=self._options.timeout_ms)

    async def close(self, *, commit: bool) -> None:
        """Commit if commits are automatic, and leave the group. Without an answer, the session times out."""
        try:
            automatic = commit and self._options.auto_commit_interval_ms is not None
            if automatic and self.membership.phase == "member":
                await self._commit_quietly(self.positions(self.membership.owned))
            if self.membership.phase == "member" and self.membership.owned:
                await _call(self._options.on_revoked, self.membership.owned)
            if self._soon:
                await asyncio.wait(self._soon, timeout=LAST_COMMITS_S)
        finally:
            await close_all(self._tasks.close, self.member.close)

    @contextmanager
    def polling(self) -> Iterator[None]:
        """Mark a call for records, for the poll interval."""
        self.member.begin_poll()
        try:
            yield
        finally:
            self.member.end_poll()

    @property
    def metadata(self) -> GroupMetadata:
        """Return this member's id, epoch and read epochs."""
        read = self._reader.epochs_read.copy()
        return GroupMetadata(self.group_id, self.membership.member_id, self.membership.epoch, read)

    @property
    def must_rebalance(self) -> bool:
        """Whether partitions must be revoked or taken, or an error must be reported."""
        if self.membership.phase in ("lost", "failed"):
            return True
        return self.membership.reconciling and not self.waits_to_take

    @property
    def waits_to_take(self) -> bool:
        """Whether new partitions wait because their start offsets could not be found a moment ago."""
        return self._now_s() < self._take_again_s and self.membership.owned <= self.membership.target

    @property
    def has_due_work(self) -> bool:
        """Whether `run_due_work` must run before the next record is returned."""
        if self.must_rebalance:
            return True
        return self._options.auto_commit_interval_ms is not None and self._now_s() >= self._commit_due_s

    async def run_due_work(self) -> None:
        """Do what is due between two records: drop lost partitions, revoke, take new ones, commit.

        Raises:
            RaftlogError: the membership has failed for good, or no starting offset can be found.
        """
        self.member.raise_failure()
        if self.membership.phase == "lost":
            await self._lose()
        while self.membership.reconciling and not self.waits_to_take:
            if revoked := self.membership.owned - self.membership.target:
                await self._give_up(revoked)
            else:
                await self._take(self.membership.target - self.membership.owned)
        if self.has_due_work and self.membership.phase == "member":
            self._note_commit()
            self._commit_automatically()

    def _commit_automatically(self) -> None:
        """Commit in the background, unless a commit is under way: the next commit covers more."""
        under_way = self._automatic is not None and not self._automatic.done()
        if not under_way and (offsets := self.positions(self.membership.owned)):
            self._automatic = self._tasks.spawn(self._commit_quietly(offsets), name="commit")

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions of partitions that are not committed yet."""
        known = self._reader.positions
        return {
            partition: OffsetAndMetadata(
                offset=known[partition], leader_epoch=self._reader.epochs.get(partition, NO_LEADER_EPOCH)
            )
            for partition in partitions
            if partition in known and self._committed.get(partition) != known[partition]
        }

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets, one commit after another; see `Consumer.commit`."""
        if not offsets:
            return
        offsets = with_epochs(offsets, self._reader.epochs_read)
        self.counters.commits += 1
        try:
            await self._commit_in_turn(offsets)
        except RaftlogError:
            self.counters.commits_failed += 1
            raise

    async def _commit_in_turn(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        doubts: list[RaftlogError] = []
        async with self._committing:
            for partition in offsets:
                self._committed.pop(partition, None)  # Unknown until the commit is answered.
            try:
                answer = await self._commit(offsets, doubts.append)
            except FencedError as error:
                raise _refused(error, doubts) from error
            for result in answer.offsets:
                if result.error is None:
                    partition = TopicPartition(result.topic, result.partition)
                    self._committed[partition] = offsets[partition].offset
        for result in answer.offsets:
            if result.error is not None:
                raise _refused(result.error.to_error(), doubts)

    def commit_soon(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> asyncio.Task[None]:
        """Commit in the background, after earlier commits.

        Raises:
            OverloadedError: `MAX_WAITING` commits are under way.
        """
        if len(self._soon) >= MAX_WAITING:
            raise OverloadedError(f"{len(self._soon)} commits are under way; await some of them")
        task = self._tasks.spawn(self.commit(offsets), name="commit", awaited=True)
        self._soon.add(task)
        task.add_done_callback(self._soon.discard)
        return task

    async def committed(self, partitions: Iterable[TopicPartition]) -> list[CommittedOffset]:
        """Return the group's committed offsets, once no open transaction has pending offsets for them."""
        wanted = by_topic(partitions)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.timeout_ms / 1000
        while True:
            answer = await self._persist(
                OffsetFetchResponse,
                paths.GROUP_OFFSETS_FETCH,
                lambda: OffsetFetchRequest(
                    partitions=wanted,
                    member_id=self.membership.member_id,
                    member_epoch=self.membership.epoch,
                    require_stable=True,
                ),
            )
            unstable = [item.error.to_error() for item in answer.offsets if item.error is not None]
            if not unstable:
                return list(answer.offsets)
            if not unstable[0].retriable or loop.time() >= deadline:
                raise unstable[0]
            await asyncio.sleep(RETRY_S)

    async def _commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], on_doubt: Callable[[RaftlogError], None]
    ) -> OffsetResults:
        if self.membership.phase != "member":
            raise self.membership.error or FencedError("not a member yet", code=ErrorCode.UNKNOWN_MEMBER_ID)
        entries = on_the_wire(offsets)
        return await self._persist(
            OffsetResults,
            paths.GROUP_OFFSETS,
            lambda: OffsetCommitRequest(
                offsets=entries, member_id=self.membership.member_id, member_epoch=self.membership.epoch
            ),
            on_doubt,
        )

    async def _persist(
        self,
        cls: type[T],
        path: str,
        message: Callable[[], object],
        on_doubt: Callable[[RaftlogError], None] = lambda _: None,
    ) -> T:
        """Send a request as a member; retry with a newer member epoch if the coordinator is ahead."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.timeout_ms / 1000
        while True:
            left_ms = max(1, int((deadline - loop.time()) * 1000))
            try:
                return await self._link.persist(
                    cls, "POST", path, timeout_ms=left_ms, message=message, on_doubt=on_doubt
                )
            except FencedError as error:
                # The coordinator bumped the epoch; the response to that heartbeat has not arrived yet.
                if error.code is not ErrorCode.STALE_MEMBER_EPOCH or loop.time() >= deadline:
                    raise
                if error.details.get("member_epoch") != self.membership.epoch:
                    await self._until_changed()

    async def _until_changed(self) -> None:
        self.member.heartbeat_now()
        with suppress(TimeoutError):
            async with asyncio.timeout(EPOCH_WAIT_S):
                await self.member.changed()
        if self.membership.phase != "member":
            raise self.membership.error or FencedError("not a member any more", code=ErrorCode.UNKNOWN_MEMBER_ID)

    async def _lose(self) -> None:
        """Drop the partitions, call `on_lost`, and join again: other members may read them already."""
        lost = self.membership.owned
        self.counters.rebalances += 1
        self._forget(lost)
        if lost:
            await _call(self._options.on_lost or self._options.on_revoked, lost)
        self.membership.rejoin()
        self.member.heartbeat_now()

    async def _give_up(self, revoked: frozenset[TopicPartition]) -> None:
        """Revoke partitions: commit, call `on_revoked`, and only then report it to the coordinator."""
        if self._options.auto_commit_interval_ms is not None:
            await self._commit_quietly(self.positions(revoked))
        self.counters.rebalances += 1
        await _call(self._options.on_revoked, revoked)
        self._forget(revoked)
        self.membership.released(revoked)
        self.member.heartbeat_now()

    async def _take(self, added: frozenset[TopicPartition]) -> None:
        """Start reading new partitions at the group's committed offsets."""
        try:
            async with asyncio.timeout(TAKE_S):
                offsets, epochs = await self.starting_offsets(added)
        except FencedError as error:
            if error.code not in FENCED:
                raise
            self.membership.lose(error)  # The next heartbeat would be fenced, too.
            return
        except (RetriableError, TimeoutError) as error:
            self._take_later(added, error)
            return
        self._take_again_s, self._take_failed = 0.0, False
        still = {partition: offset for partition, offset in offsets.items() if partition in self.membership.target}
        self._reader.begin(still, epochs)
        self.membership.acquired(still)
        if still:
            self.counters.rebalances += 1
            await _call(self._options.on_assigned, still)
            self.member.heartbeat_now()

    def _take_later(self, added: Iterable[TopicPartition], error: Exception) -> None:
        """Retry new partitions later; the consumer keeps reading its other partitions."""
        if not self._take_failed:
            why = str(error) or f"no answer within {TAKE_S:g} s"
            listed = ", ".join(map(str, sorted(added)))
            _log.warning("group %s: cannot start reading %s yet, retrying: %s", self.group_id, listed, why)
        self._take_again_s, self._take_failed = self._now_s() + TAKE_AGAIN_S, True

    async def rewind(self, partitions: frozenset[TopicPartition]) -> None:
        """Continue at the committed offsets; a consumer that is not a member does so after it joined again."""
        self.member.raise_failure()
        if self.membership.phase != "member":
            return
        try:
            self._reader.begin(*await self.starting_offsets(partitions))
        except FencedError as error:
            if error.code not in FENCED:
                raise
            self.membership.lose(error)

    async def starting_offsets(
        self, partitions: frozenset[TopicPartition]
    ) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, LeaderEpoch]]:
        """Return start offsets: the committed ones, otherwise by `auto_offset_reset`.

        The second item has the leader epochs of the records before, where they were committed.
        """
        offsets, epochs = {}, {}
        for item in await self.committed(sorted(partitions)):  # Sets have another order in each process.
            if item.offset >= 0:
                partition = TopicPartition(item.topic, item.partition)
                offsets[partition], epochs[partition] = item.offset, item.leader_epoch
        self._committed |= offsets
        missing = partitions - offsets.keys()
        if not missing:
            return offsets, epochs
        if self._options.reset is None:
            raise OffsetOutOfRangeError(
                f"group {self.group_id!r} has committed no offset of {', '.join(map(str, sorted(missing)))}, and "
                "auto_offset_reset is none: commit one, or choose where to begin"
            )
        return offsets | await self._reader.offsets(missing, self._options.reset), epochs

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        listed = list(partitions)
        self._reader.end(listed)
        for partition in listed:
            self._committed.pop(partition, None)

    async def _commit_quietly(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            await self.commit(offsets)
        except RaftlogError as error:
            # No record is lost: the next commit covers it, or the partition's next member reads it again.
            level = logging.INFO if isinstance(error, RetriableError) else logging.WARNING
            _log.log(level, "group %s: not committed: %s: %s", self.group_id, error.code, error.message)

    def _note_commit(self) -> None:
        self._commit_due_s = self._now_s() + (self._options.auto_commit_interval_ms or 0) / 1000

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()


def _refused(error: RaftlogError, doubts: Sequence[RaftlogError]) -> RaftlogError:
    """Return UnknownOutcomeError for a fenced commit if an earlier attempt may have taken effect."""
    if not doubts or not isinstance(error, FencedError):
        return error
    return UnknownOutcomeError(
        f"the commit may count or not: it is refused now ({error.code}: {error.message}), and an earlier attempt had "
        f"no known outcome: {doubts[-1].message}"
    )


async def _call(callback: OnRebalance | None, partitions: Iterable[TopicPartition]) -> None:
    if callback is not None and inspect.isawaitable(result := callback(sorted(partitions))):
        await result
