"""A consumer's session in a group: reconciles its partitions with the assignment, and commits offsets."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from raftlog.client.connection import Connection
from raftlog.client.coordinator_link import CoordinatorLink
from raftlog.client.core.membership import FENCED, GroupMetadata, Membership
from raftlog.client.group_commits import GroupCommits
from raftlog.client.group_member import GroupMember
from raftlog.client.metrics import GroupCounters
from raftlog.client.offsets import OffsetAndMetadata
from raftlog.client.reader import PartitionReader
from raftlog.client.recreated_topics import require_present
from raftlog.client.start_offsets import Start
from raftlog.errors import (
    FencedError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    RetriableError,
)
from raftlog.model import LeaderEpoch, Offset, TopicId, TopicPartition
from raftlog.runtime import Tasks, close_all

_log = logging.getLogger(__name__)
T = TypeVar("T")
OnRebalance = Callable[[list[TopicPartition]], Awaitable[None] | None]
TAKE_S = 3.0
"""How much longer than its own timeout a call may take to find the start offsets of new partitions."""
TAKE_AGAIN_S = 0.5


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
        self.member = GroupMember(
            CoordinatorLink(connection, "group", group_id),
            membership,
            max_poll_interval_ms=max_poll_interval_ms,
            on_change=reader.fetcher.interrupt,
        )
        self.counters = GroupCounters()
        self._commit_due_s = 0.0
        self._take_again_s = 0.0
        self._take_failed = False
        """Whether new partitions wait for a start offset, and a warning was logged."""
        self._step: asyncio.Future[None] | None = None
        """The change of partitions that has not ended: a call for records that is cancelled leaves it running."""
        self._assigning = False
        """Whether that step takes new partitions."""
        self._tasks = Tasks("group commits")
        self.commits = GroupCommits(
            self.member, reader, self.counters, timeout_ms=options.timeout_ms, tasks=self._tasks
        )

    async def start(self) -> None:
        """Join the group."""
        self._note_commit()
        await self.member.start(timeout_ms=self._options.timeout_ms)

    async def close(self, *, commit: bool) -> None:
        """Commit if commits are automatic, and leave the group. Without an answer, the session times out."""
        try:
            if self._step is not None and self._step is not asyncio.current_task():
                if self._assigning:
                    self._step.cancel()
                    await asyncio.wait([self._step])
                else:
                    await self._finish_step()
            automatic = commit and self._options.auto_commit_interval_ms is not None
            if automatic and self.membership.phase == "member":
                await self.commits.commit_quietly(self.positions(self.membership.owned))
            if self.membership.phase == "member" and self.membership.owned:
                await _call(self._options.on_revoked, self.membership.owned)
            await self.commits.finish()
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
        return self._now_s() < self._take_again_s and not self.membership.to_revoke

    @property
    def has_due_work(self) -> bool:
        """Whether `run_due_work` must run before the next record is returned."""
        if self.must_rebalance or self._step is not None:
            return True
        return self._options.auto_commit_interval_ms is not None and self._now_s() >= self._commit_due_s

    async def run_due_work(self) -> None:
        """Do what is due between two records: drop lost partitions, revoke, take new ones, commit.

        Raises:
            RaftlogError: the membership has failed for good, or no starting offset can be found.
        """
        self.member.raise_failure()
        await self._finish_step()
        if self.membership.phase == "lost":
            await self._uncancelled(self._lose())
        while self.membership.reconciling and not self.waits_to_take:
            if revoked := self.membership.to_revoke:
                await self._uncancelled(self._give_up(revoked))
            else:
                await self._uncancelled(self._take(self.membership.to_take), assigning=True)
        if self.has_due_work and self.membership.phase == "member":
            self._note_commit()
            self.commits.commit_automatically()

    def positions(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions of partitions that are not committed yet."""
        return self.commits.positions(partitions)

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
            await self.commits.commit_quietly(self.positions(revoked))
        self.counters.rebalances += 1
        await _call(self._options.on_revoked, revoked)
        self._forget(revoked)
        self.membership.released(revoked)
        self.member.heartbeat_now()

    async def _uncancelled(self, step: Awaitable[None], *, assigning: bool = False) -> None:
        """Finish a step, even if the call for records is cancelled meanwhile.

        The next call waits for it. Otherwise a callback or a lookup that takes longer than the calls would begin again
        each time.
        """
        self._step, self._assigning = asyncio.ensure_future(step), assigning
        await self._finish_step()

    async def _finish_step(self) -> None:
        if (step := self._step) is not None:
            await asyncio.wait([step])
            self._step = None
            if step.cancelled():
                raise InvalidRequestError("this consumer was closed while it took new partitions")
            step.result()

    async def _take(self, added: frozenset[TopicPartition]) -> None:
        """Start reading new partitions at the group's committed offsets; those without an answer wait for later."""
        deadline = self._now_s() + TAKE_S
        try:
            async with asyncio.timeout_at(deadline):
                offsets, epochs, topic_ids, missing = await self._committed_starts(added)
        except FencedError as error:
            if error.code not in FENCED:
                raise
            self.membership.lose(error)  # The next heartbeat would be fenced, too.
            return
        except (RetriableError, TimeoutError) as error:
            self._take_later(added, error)
            return
        found, late = await self._reader.offsets_in_time(missing, self._options.reset, deadline)
        if late is not None:
            self._take_later(missing - found.keys(), late)
        else:
            self._take_again_s, self._take_failed = 0.0, False
        offsets |= found
        still = {partition: offset for partition, offset in offsets.items() if partition in self.membership.target}
        self._reader.begin(still, epochs, topic_ids, is_chosen=False)
        self.membership.acquired(still)
        if still:
            self.counters.rebalances += 1
            await _call(self._options.on_assigned, still)  # No record is returned before it ends.
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
            self._reader.move(*await self.starting_offsets(partitions))
        except FencedError as error:
            if error.code not in FENCED:
                raise
            self.membership.lose(error)

    async def starting_offsets(
        self, partitions: frozenset[TopicPartition]
    ) -> tuple[dict[TopicPartition, Offset], dict[TopicPartition, LeaderEpoch], dict[TopicPartition, TopicId]]:
        """Return start offsets: the committed ones, otherwise by `auto_offset_reset`.

        The other items have the leader epochs of the records before, and the topics' ids, where they were committed.
        """
        offsets, epochs, topic_ids, missing = await self._committed_starts(partitions)
        if missing and self._options.reset is not None:
            offsets |= await self._reader.offsets(missing, self._options.reset)
        return offsets, epochs, topic_ids

    async def _committed_starts(
        self, partitions: frozenset[TopicPartition]
    ) -> tuple[
        dict[TopicPartition, Offset],
        dict[TopicPartition, LeaderEpoch],
        dict[TopicPartition, TopicId],
        frozenset[TopicPartition],
    ]:
        """Return the committed offsets, their leader epochs, their topics' ids, and the partitions without one.

        Raises:
            OffsetOutOfRangeError: one has none, and `auto_offset_reset` is none.
            StaleRouteError: UNKNOWN_TOPIC_ID, one is of a topic that the metadata does not have so.
        """
        offsets: dict[TopicPartition, Offset] = {}
        epochs: dict[TopicPartition, LeaderEpoch] = {}
        topic_ids: dict[TopicPartition, TopicId] = {}
        for item in await self.commits.committed(sorted(partitions)):  # Sets have another order in each process.
            if item.offset >= 0 and (partition := TopicPartition(item.topic, item.partition)) in partitions:
                offsets[partition], epochs[partition] = item.offset, item.leader_epoch
                topic_ids[partition] = item.topic_id
        if named := {partition.topic: topic_id for partition, topic_id in topic_ids.items() if topic_id}:
            await require_present(self._reader.connection, named)
        self.commits.note_committed(offsets)
        missing = partitions - offsets.keys()
        if missing and self._options.reset is None:
            raise OffsetOutOfRangeError(
                f"group {self.group_id!r} has committed no offset of {', '.join(map(str, sorted(missing)))}, and "
                "auto_offset_reset is none: commit one, or choose where to begin"
            )
        return offsets, epochs, topic_ids, missing

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        listed = list(partitions)
        self._reader.end(listed)
        self.commits.forget(listed)

    def _note_commit(self) -> None:
        self._commit_due_s = self._now_s() + (self._options.auto_commit_interval_ms or 0) / 1000

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()


async def _call(callback: OnRebalance | None, partitions: Iterable[TopicPartition]) -> None:
    if callback is not None and inspect.isawaitable(result := callback(sorted(partitions))):
        await result
