"""The commits of a group's member: one after another, in the foreground or the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from raftlog import transport
from raftlog.client.group_member import GroupMember
from raftlog.client.metrics import GroupCounters
from raftlog.client.offsets import OffsetAndMetadata, as_read, on_the_wire
from raftlog.client.reader import PartitionReader
from raftlog.client.recreated_topics import final_errors
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
    commit_message,
)

_log = logging.getLogger(__name__)
T = TypeVar("T")
EPOCH_WAIT_S = 1.0
"""How long a commit waits for the heartbeat that brings the epoch it lacks, before it asks again."""
RETRY_S = 0.1
MAX_OFFSETS = 10_000
"""The most partitions of one request: coordinators refuse more."""
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
    joins: int
    """`Membership.joins` when it was asked for."""


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
                offset=known[partition],
                leader_epoch=self._reader.epochs.get(partition, NO_LEADER_EPOCH),
                topic_id=self._reader.fetcher.topic_id(partition),
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
        entries = as_read(offsets, self._reader.epochs_read)
        return _Commit(entries, self._turns.take(), deadline, self._membership.joins)

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
        left, doubts = dict(commit.offsets), list[RaftlogError]()
        while True:
            failed = dict[TopicPartition, RaftlogError]()
            for listed in _shares(left):
                part = {partition: left[partition] for partition in listed}
                failed |= await self._attempt(replace(commit, offsets=part), doubts)
            final = await final_errors(self._reader.connection, left, failed) if failed else {}
            for partition, error in final.items():
                if error.code is ErrorCode.UNKNOWN_TOPIC_ID:
                    self._reader.drop_recreated(partition)
            for error in final.values() or (failed.values() if self._is_late(commit) else ()):
                raise _refused(error, doubts)
            if not failed:
                return
            left = {partition: left[partition] for partition in failed}
            await asyncio.sleep(RETRY_S)

    @staticmethod
    def _is_late(commit: _Commit) -> bool:
        return asyncio.get_running_loop().time() >= commit.deadline

    async def _attempt(self, commit: _Commit, doubts: list[RaftlogError]) -> dict[TopicPartition, RaftlogError]:
        """Send a commit; return the errors of the partitions that were refused."""
        offsets = commit.offsets
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
        return {partition: failure.to_error() for partition, failure in results.items() if failure is not None}

    async def committed(self, partitions: Iterable[TopicPartition]) -> list[CommittedOffset]:
        """Return the group's committed offsets, once no open transaction has pending offsets for them."""
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        shares = _shares(partitions) or [[]]
        return [offset for share in shares for offset in await self._committed_of(share, deadline)]

    async def _committed_of(self, partitions: Iterable[TopicPartition], deadline: float) -> list[CommittedOffset]:
        wanted = by_topic(partitions)
        loop = asyncio.get_running_loop()
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

        def message() -> object:
            if commit.joins != self._membership.joins:  # Other members may have read on and committed meanwhile.
                raise FencedError(
                    "the commit is not sent: it was asked for before the member lost its membership and joined again",
                    code=ErrorCode.UNKNOWN_MEMBER_ID,
                )
            request = OffsetCommitRequest(
                offsets=entries, member_id=self._membership.member_id, member_epoch=self._membership.epoch
            )
            return commit_message(request, self._reader.connection.feature_level)

        return await self._persist(
            OffsetResults,
            paths.GROUP_OFFSETS,
            message,
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


def _shares(partitions: Iterable[TopicPartition]) -> list[list[TopicPartition]]:
    """Return partitions in lists that fit into one request each."""
    listed = list(partitions)
    return [listed[at : at + MAX_OFFSETS] for at in range(0, len(listed), MAX_OFFSETS)]


def _refused(error: RaftlogError, doubts: Sequence[RaftlogError]) -> RaftlogError:
    """Return UnknownOutcomeError for a fenced commit if an earlier attempt may have taken effect."""
    if not doubts or not isinstance(error, FencedError):
        return error
    return UnknownOutcomeError(
        f"the commit may count or not: it is refused now ({error.code}: {error.message}), and an earlier attempt had "
        f"no known outcome: {doubts[-1].message}"
    )
