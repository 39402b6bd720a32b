"""The commits of a member reach the coordinator in the order in which they were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from raftlog.client.core.epochs_read import EpochsRead
from raftlog.client.core.membership import MemberOptions, Membership
from raftlog.client.group_commits import GroupCommits
from raftlog.client.metrics import GroupCounters
from raftlog.client.offsets import OffsetAndMetadata
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, RetriableError, UnknownOutcomeError
from raftlog.model import TopicPartition
from raftlog.runtime import Tasks
from raftlog.wire.groups import GroupHeartbeatResponse, OffsetResult, OffsetResults
from raftlog.wire.metadata import COMMITS_BY_TOPIC_ID

P = TopicPartition("t", 0)


class Coordinator:
    """Answers commits once `go` is set; notes what it is asked."""

    key = "g"

    def __init__(self) -> None:
        self.committed: list[int] = []
        self.go = asyncio.Event()
        self.go.set()
        self.refusal: Exception | None = None
        self.is_lost: Callable[[], None] | None = None
        """Called when an attempt was not answered, and before the next one."""
        self.asked = 0

    async def persist(self, *_: Any, message: Any, timeout_ms: int, on_doubt: Any, **__: Any) -> OffsetResults:
        self.asked += 1
        offset = message().offsets[0].offset
        if self.is_lost is not None:
            on_doubt(UnknownOutcomeError("no answer"))
            self.is_lost()
            offset = message().offsets[0].offset
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self.go.wait()
        except TimeoutError:
            raise RetriableError("the coordinator is not there") from None
        if self.refusal is not None:
            raise self.refusal
        self.committed.append(offset)
        return OffsetResults(offsets=(OffsetResult(topic=P.topic, partition=P.partition),))


@pytest.fixture
async def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def membership() -> Membership:
    membership = Membership("m", MemberOptions(topics=("t",)))
    join(membership, 3)
    membership.acquired([P])
    return membership


def join(membership: Membership, epoch: int) -> None:
    membership.on_response(GroupHeartbeatResponse(member_id="m", member_epoch=epoch, heartbeat_interval_ms=1_000))


def join_again(membership: Membership) -> None:
    membership.lose(FencedError("removed", code=ErrorCode.UNKNOWN_MEMBER_ID))
    membership.rejoin()
    join(membership, 5)


@pytest.fixture
async def commits(coordinator: Coordinator, membership: Membership) -> GroupCommits:
    reader = SimpleNamespace(
        positions={P: 10},
        epochs={},
        epochs_read=EpochsRead(),
        fetcher=SimpleNamespace(topic_id=lambda _: ""),
        connection=SimpleNamespace(feature_level=COMMITS_BY_TOPIC_ID),
    )
    return GroupCommits(
        cast("Any", SimpleNamespace(membership=membership, link=coordinator)),
        cast("Any", reader),
        GroupCounters(),
        timeout_ms=200,
        tasks=Tasks("commits"),
    )


def at(offset: int) -> dict[TopicPartition, OffsetAndMetadata]:
    return {P: OffsetAndMetadata(offset=offset)}


async def test_a_commit_overtakes_none_in_the_background(coordinator: Coordinator, commits: GroupCommits):
    commits.commit_automatically()
    earlier = commits.commit_soon(at(5))
    await commits.commit(at(20))
    assert coordinator.committed == [10, 5, 20]
    await earlier


async def test_a_cancelled_commit_lets_the_next_one_begin(coordinator: Coordinator, commits: GroupCommits):
    coordinator.go.clear()
    under_way, waiting, unstarted = (commits.commit_soon(at(offset)) for offset in (1, 2, 3))
    while not coordinator.asked:
        await asyncio.sleep(0)
    commits.commit_soon(at(4)).cancel()
    waiting.cancel()
    unstarted.cancel()
    coordinator.go.set()
    await commits.commit(at(5))
    assert coordinator.committed == [1, 5]
    await under_way


async def test_what_an_earlier_commit_moves_back_is_committed_again(coordinator: Coordinator, commits: GroupCommits):
    await commits.commit(at(10))
    assert commits.positions([P]) == {}
    earlier = commits.commit_soon(at(5))
    assert commits.positions([P]) == at(10)
    await earlier


async def test_an_answer_does_not_count_while_a_later_commit_may_move_it_back(
    coordinator: Coordinator, commits: GroupCommits
):
    coordinator.go.clear()
    earlier, later = commits.commit_soon(at(10)), commits.commit_soon(at(5))
    while not coordinator.asked:
        await asyncio.sleep(0)
    coordinator.go.set()
    coordinator.go.clear()
    await earlier
    assert coordinator.committed == [10]
    assert commits.positions([P]) == at(10)
    coordinator.go.set()
    await later


async def test_a_close_waits_for_the_automatic_commit(coordinator: Coordinator, commits: GroupCommits):
    commits.commit_automatically()
    await commits.finish()
    assert coordinator.committed == [10]


async def test_the_time_of_a_commit_counts_from_the_call(coordinator: Coordinator, commits: GroupCommits):
    coordinator.go.clear()
    began = asyncio.get_running_loop().time()
    waiting = [commits.commit_soon(at(offset)) for offset in range(20)]
    await asyncio.sleep(0)
    with pytest.raises(RetriableError, match=r"earlier commits are under way|is not there"):
        await commits.commit(at(20))
    assert asyncio.get_running_loop().time() - began < 2
    assert all(isinstance(error, RetriableError) for error in await asyncio.gather(*waiting, return_exceptions=True))


async def test_errors_of_commits_that_nobody_awaits_are_logged_once(
    coordinator: Coordinator, commits: GroupCommits, caplog: pytest.LogCaptureFixture
):
    refusal = InvalidRequestError("too long", code=ErrorCode.OFFSET_METADATA_TOO_LARGE)
    logged = "group g: commit_nowait failed: OFFSET_METADATA_TOO_LARGE: too long"
    for times in (1, 2):
        coordinator.refusal = refusal
        for offset in range(3):
            commits.commit_soon(at(offset))
        await commits.finish()
        assert [record.getMessage() for record in caplog.records] == [logged] * times
        coordinator.refusal = None
        await commits.commit_soon(at(3))  # The next failure is another one.


async def test_a_commit_of_an_earlier_membership_is_refused_after_the_member_has_joined_again(
    coordinator: Coordinator, commits: GroupCommits, membership: Membership, caplog: pytest.LogCaptureFixture
):
    """Another member may have read on and committed meanwhile: the offset would go back."""
    coordinator.go.clear()
    under_way, queued = commits.commit_soon(at(1)), commits.commit_soon(at(5))
    while not coordinator.asked:
        await asyncio.sleep(0)
    join_again(membership)
    coordinator.go.set()
    with pytest.raises(FencedError, match="before the member lost its membership") as refused:
        await queued
    await commits.commit(at(20))
    assert (coordinator.committed, refused.value.code) == ([1, 20], ErrorCode.UNKNOWN_MEMBER_ID)
    assert "group g: commit_nowait failed: UNKNOWN_MEMBER_ID: " in caplog.text
    await under_way


async def test_a_commit_without_an_answer_is_not_sent_again_after_the_member_has_joined_again(
    coordinator: Coordinator, commits: GroupCommits, membership: Membership
):
    coordinator.is_lost = lambda: join_again(membership)
    with pytest.raises(UnknownOutcomeError, match="joined again"):
        await commits.commit(at(5))
    assert coordinator.committed == []
