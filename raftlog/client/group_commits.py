"""The commits of a group's member: one after another, in the foreground or the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from raftlog import transport
from raftlog.client.group_member import GroupMember
from raftlog.client.metrics import GroupCounters
from raftlog.client.offsets import OffsetAndMetadata, on_the_wire, with_epochs
from raftlog.client.reader import PartitionReader
from raftlog.client.turns import Turn, Turns
from raftlog.client.unexpected import explained
from raftlog.errors import ErrorCode, FencedError, OverloadedError, RaftlogError, RetriableError, UnknownOutcomeError
from raftlog.model import NO_LEADER_EPOCH, Offset, TopicPartition
from raftlog.runtime import Tasks
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
EPOCH_WAIT_S = 1.0
"""How long a commit waits for the heartbeat that brings the epoch it lacks, before it asks again."""
RETRY_S = 0.1
MAX_WAITING = 1_000
"""The most commits in the background."""
LAST_COMMITS_S = 5.0
"""How long `finish` waits for them."""


@dataclass(frozen=True, slots=True)
class _Commit:
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    turn: Turn
    deadline: float
    """Loop time."""


class GroupCommits:
    """Commits a member's offsets, and reads what the group has committed.

    Args:
        timeout_ms: how long one call may take, attempts included.
        tasks: run the commits in the background.
    """

    def __init__(
        self, member: GroupMember, reader: PartitionReader, counters: GroupCounters, *, timeout_ms: int, tasks: Tasks
    ) -> None:
        self._member = member
        self._membership = member.membership
        self._link = member.link
        self._reader = reader
        self._counters = counters
        self._timeout_s = timeout_ms / 1000
        self._tasks = tasks
        self._committed: dict[TopicPartition, Offset] = {}
        """What the group has committed, as far as is known."""
        self._turns = Turns()
        self._automatic: asyncio.Task[None] | None = None
        """The last automatic commit."""
        self._soon: set[asyncio.Task[None]] = set()
        """Commits of the application that run in the background."""
        self._soon_failed = False
        """Whether the last one failed; a warning was logged."""

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

    def note_committed(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Note offsets that the group has committed."""
        self._committed |= offsets

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget what was committed in partitions that other members may read."""
        for partition in partitions:
            self._committed.pop(partition, None)

    def commit_automatically(self) -> None:
        """Commit in the background, unless a commit is under way: the next commit covers more."""
        under_way = self._automatic is not None and not self._automatic.done()
        if not under_way and (offsets := self.positions(self._membership.owned)):
            self._automatic = self._spawn(self._quietly, offsets)

    async def finish(self) -> None:
        """Wait for the commits in the background, `LAST_COMMITS_S` at the longest."""
        automatic = set() if self._automatic is None else {self._automatic}
        if waiting := self._soon | automatic:
            await asyncio.wait(waiting, timeout=LAST_COMMITS_S)

    async def commit_quietly(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets; log an error rather than raise it."""
        await self._quietly(self._queue(offsets))

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit offsets, after every commit that was asked for before; see `Consumer.commit`."""
        await self._commit_in_turn(self._queue(offsets))

    def commit_soon(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> asyncio.Task[None]:
        """Commit in the background, after every commit that was asked for before.

        Raises:
            OverloadedError: `MAX_WAITING` commits are under way.
        """
        if len(self._soon) >= MAX_WAITING:
            raise OverloadedError(f"{len(self._soon)} commits are under way; await some of them")
        task = self._spawn(self._loudly, offsets, awaited=True)
        self._soon.add(task)
        task.add_done_callback(self._soon.discard)
        return task

    def _spawn(
        self,
        work: Callable[[_Commit], Coroutine[Any, Any, None]],
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        *,
        awaited: bool = False,
    ) -> asyncio.Task[None]:
        commit = self._queue(offsets)
        try:
            task = self._tasks.spawn(work(commit), name="commit", awaited=awaited)
        except BaseException:
            self._turns.end(commit.turn)
            raise
        task.add_done_callback(lambda _: self._turns.end(commit.turn))  # It may be cancelled before it begins.
        return task

    def _queue(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> _Commit:
        """Take the next turn for a commit; its deadline counts from now."""
        for partition in offsets:
            self._committed.pop(partition, None)  # Unknown until the commit is answered.
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        return _Commit(with_epochs(offsets, self._reader.epochs_read), self._turns.take(), deadline)

    async def _quietly(self, commit: _Commit) -> None:
        try:
            await self._commit_in_turn(commit)
        except Exception as raised:  # noqa: BLE001  (also what is not raftlog's own)
            error = explained(raised, f"group {self._link.key}: a commit")
            # No record is lost: the next commit covers it, or the partition's next member reads it again.
            level = logging.INFO if isinstance(error, RetriableError) else logging.WARNING
            _log.log(level, "group %s: not committed: %s: %s", self._link.key, error.code, error.message)

    async def _loudly(self, commit: _Commit) -> None:
        """Commit for a caller that may not look at the outcome: the first error after a success is logged."""
        try:
            await self._commit_in_turn(commit)
        except RaftlogError as error:
            if not self._soon_failed:
                _log.warning("group %s: commit_nowait failed: %s: %s", self._link.key, error.code, error.message)
            self._soon_failed = True
            raise
        self._soon_failed = False

    async def _commit_in_turn(self, commit: _Commit) -> None:
        try:
            if commit.offsets:
                self._counters.commits += 1
                await self._come(commit)
                await self._commit(commit)
        except RaftlogError:
            self._counters.commits_failed += 1
            raise
        finally:
            self._turns.end(commit.turn)

    async def _come(self, commit: _Commit) -> None:
        try:
            async with asyncio.timeout_at(commit.deadline):
                await commit.turn
        except TimeoutError:
            raise RetriableError(
                f"group {self._link.key}: not committed within {self._timeout_s:g} s: earlier commits are under way",
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ) from None

    async def _commit(self, commit: _Commit) -> None:
        offsets, doubts = commit.offsets, list[RaftlogError]()
        try:
            answer = await self._ask(commit, doubts.append)
        except FencedError as error:
            raise _refused(error, doubts) from error
        results = {TopicPartition(result.topic, result.partition): result.error for result in answer.offsets}
        if results.keys() != offsets.keys():
            raise transport.PeerAnswerError(
                f"group {self._link.key}: a commit of {len(offsets)} offsets was answered for other partitions; it "
                "may count or not"
            )
        if self._turns.is_last(commit.turn):  # A later commit may move the offset back.
            self._committed |= {partition: offsets[partition].offset for partition in results if not results[partition]}
        for failure in results.values():
            if failure is not None:
                raise _refused(failure.to_error(), doubts)

    async def committed(self, partitions: Iterable[TopicPartition]) -> list[CommittedOffset]:
        """Return the group's committed offsets, once no open transaction has pending offsets for them."""
        wanted = by_topic(partitions)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_s
        while True:
            answer = await self._persist(
                OffsetFetchResponse,
                paths.GROUP_OFFSETS_FETCH,
                lambda: OffsetFetchRequest(
                    partitions=wanted,
                    member_id=self._membership.member_id,
                    member_epoch=self._membership.epoch,
                    require_stable=True,
                ),
                loop.time() + self._timeout_s,
            )
            unstable = [item.error.to_error() for item in answer.offsets if item.error is not None]
            if not unstable:
                return list(answer.offsets)
            if not unstable[0].retriable or loop.time() >= deadline:
                raise unstable[0]
            await asyncio.sleep(RETRY_S)

    async def _ask(self, commit: _Commit, on_doubt: Callable[[RaftlogError], None]) -> OffsetResults:
        if self._membership.phase != "member":
            raise self._membership.error or FencedError("not a member yet", code=ErrorCode.UNKNOWN_MEMBER_ID)
        entries = on_the_wire(commit.offsets)
        return await self._persist(
            OffsetResults,
            paths.GROUP_OFFSETS,
            lambda: OffsetCommitRequest(
                offsets=entries, member_id=self._membership.member_id, member_epoch=self._membership.epoch
            ),
            commit.deadline,
            on_doubt,
        )

    async def _persist(
        self,
        cls: type[T],
        path: str,
        message: Callable[[], object],
        deadline: float,
        on_doubt: Callable[[RaftlogError], None] = lambda _: None,
    ) -> T:
        """Send a request as a member; retry with a newer member epoch if the coordinator is ahead."""
        loop = asyncio.get_running_loop()
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
                if error.details.get("member_epoch") != self._membership.epoch:
                    await self._until_changed()

    async def _until_changed(self) -> None:
        self._member.heartbeat_now()
        with suppress(TimeoutError):
            async with asyncio.timeout(EPOCH_WAIT_S):
                await self._member.changed()
        if self._membership.phase != "member":
            raise self._membership.error or FencedError("not a member any more", code=ErrorCode.UNKNOWN_MEMBER_ID)


def _refused(error: RaftlogError, doubts: Sequence[RaftlogError]) -> RaftlogError:
    """Return UnknownOutcomeError for a fenced commit if an earlier attempt may have taken effect."""
    if not doubts or not isinstance(error, FencedError):
        return error
    return UnknownOutcomeError(
        f"the commit may count or not: it is refused now ({error.code}: {error.message}), and an earlier attempt had "
        f"no known outcome: {doubts[-1].message}"
    )
