"""As many offsets as a request, a transaction or a group may have: many small decisions, others in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest

from raftlog.broker.groups import GroupService
from raftlog.config import GroupConfig
from raftlog.coordinator.group.offsets import MAX_OFFSETS, OFFSETS_AT_ONCE
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.runtime import Decision, Now
from raftlog.errors import InvalidRequestError, NotFoundError
from raftlog.model import TopicPartition
from raftlog.runtime import SystemClock
from raftlog.wire.groups import (
    CommitOffset,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    TopicPartitions,
)
from raftlog.wire.transactions import TransactionMarker, TransactionOffsetsBody
from tests.coordinator.group_support import GROUP, FakeTopics, Shard

R = TypeVar("R")
ALL = tuple(range(MAX_OFFSETS))
COMMIT = OffsetCommitRequest(
    offsets=tuple(CommitOffset(topic="large", partition=number, offset=number) for number in ALL)
)
EVERYTHING = TopicPartitions(topic="large", partitions=ALL)


class Runtime:
    """One shard without a log; another task has its turn after each decision."""

    def __init__(self) -> None:
        self.shard = Shard(FakeTopics(large=MAX_OFFSETS))
        self.records: list[int] = []
        """Of each decision."""
        self.timeouts: list[int] = []

    def epoch_of(self, key: str) -> int:
        return 1

    async def decide(self, key: str, decide: Callable[[GroupsState, Now], Decision[R]], *, timeout_ms: int) -> R:
        decision = decide(self.shard.state, self.shard.now)
        self.records.append(len(decision.records))
        self.timeouts.append(timeout_ms)
        self.shard.write(decision.records)
        await asyncio.sleep(0)
        return decision.response


class Joins:
    async def join_at_coordinator(self, request: Any, *, deadline_ms: int) -> object:
        return None


@pytest.fixture
def runtime() -> Runtime:
    return Runtime()


@pytest.fixture
def groups(runtime: Runtime) -> GroupService:
    found = GroupService(
        broker_id=1,
        config=GroupConfig(),
        replicas=cast("Any", None),
        clock=SystemClock(),
        max_parked=1,
        max_parked_members=1,
    )
    found.runtime, found._topics = cast("Any", runtime), cast("Any", runtime.shard.topics)
    return found


def require_small(runtime: Runtime) -> None:
    assert max(runtime.records) <= 2 * OFFSETS_AT_ONCE
    assert all(0 < timeout <= 5_000 for timeout in runtime.timeouts), "the decisions have one time-out together"


async def pend(
    groups: GroupService, group_id: str, epoch: int = 0, producer: int = 7, offsets: tuple[CommitOffset, ...] = ()
) -> None:
    body = TransactionOffsetsBody(
        producer_id=producer, producer_epoch=epoch, group_id=group_id, offsets=offsets or COMMIT.offsets
    )
    await groups.commit_in_transaction("t", body, transactions=Joins(), timeout_ms=5_000)


def marker(*, committed: bool, epoch: int = 1) -> TransactionMarker:
    return TransactionMarker(producer_id=7, producer_epoch=epoch, coordinator_epoch=1, committed=committed)


async def test_a_commit(groups: GroupService, runtime: Runtime):
    done = await groups.commit(GROUP, COMMIT, timeout_ms=5_000)
    assert [one.partition for one in done.offsets] == list(ALL)
    assert set(runtime.shard.committed().values()) == set(ALL)
    require_small(runtime)


@pytest.mark.parametrize("committed", [True, False])
async def test_the_end_of_a_transaction_of_several_groups(groups: GroupService, runtime: Runtime, *, committed: bool):
    await pend(groups, GROUP)
    await pend(groups, "another")
    await groups.end_transaction(GROUP, marker(committed=committed), 5_000)
    assert not any(runtime.shard.state.pending.values())
    runtime.shard.require_consistent()
    assert len(runtime.shard.committed()) == (MAX_OFFSETS if committed else 0)
    assert len(runtime.shard.state.offsets.get("another", ())) == (MAX_OFFSETS if committed else 0)
    require_small(runtime)


@pytest.mark.parametrize("by", ["a commit", "a transaction"])
async def test_a_commit_replaces_the_offsets_of_many_open_transactions(by: str, groups: GroupService, runtime: Runtime):
    """None of them moves the group's offsets back later. Several decisions are small enough, and none is left out."""
    some, older = COMMIT.offsets[:1_500], (1, 2, 3, 4, 5)
    for producer in older:
        await pend(groups, GROUP, producer=producer, offsets=some)
    runtime.records.clear()
    if by == "a commit":
        done = await groups.commit(GROUP, OffsetCommitRequest(offsets=some), timeout_ms=5_000)
        assert [one.partition for one in done.offsets] == [one.partition for one in some]
    else:
        await pend(groups, GROUP, offsets=some)
        await groups.end_transaction(GROUP, marker(committed=True), 5_000)
    assert not any(runtime.shard.state.pending.values())
    assert sorted(runtime.shard.committed().values()) == [one.offset for one in some]
    assert max(runtime.records) <= (2 if by == "a commit" else 3) * OFFSETS_AT_ONCE
    runtime.shard.require_consistent()


async def test_a_marker_leaves_the_next_transaction_alone(groups: GroupService, runtime: Runtime):
    await pend(groups, GROUP, epoch=4)
    await groups.end_transaction(GROUP, marker(committed=True, epoch=4), 5_000)
    assert len(runtime.shard.state.pending[7]) == MAX_OFFSETS
    assert runtime.records[-1] == 0


async def test_offsets_that_have_not_ended_yet_are_unstable(groups: GroupService, runtime: Runtime):
    await pend(groups, GROUP)
    end = asyncio.ensure_future(groups.end_transaction(GROUP, marker(committed=True), 5_000))
    before = len(runtime.records)
    while len(runtime.records) < before + 3:
        await asyncio.sleep(0)
    shown = await groups.fetch_offsets(
        GROUP, OffsetFetchRequest(partitions=(EVERYTHING,), require_stable=True), timeout_ms=5_000
    )
    unstable = [one.partition for one in shown.offsets if one.error is not None]
    assert 0 < len(unstable) < MAX_OFFSETS
    assert all(one.offset == one.partition for one in shown.offsets if one.error is None), "no offset from before"
    await end


async def test_a_coordinator_that_fails_in_between_goes_on_when_the_marker_is_repeated(
    groups: GroupService, runtime: Runtime
):
    await pend(groups, GROUP)
    end = asyncio.ensure_future(groups.end_transaction(GROUP, marker(committed=True), 5_000))
    before = len(runtime.records)
    while len(runtime.records) < before + 3:
        await asyncio.sleep(0)
    end.cancel()
    runtime.shard.fail_over(compacted=True)
    assert 0 < len(runtime.shard.state.pending[7]) < MAX_OFFSETS
    runtime.shard.require_consistent()
    await groups.end_transaction(GROUP, marker(committed=True), 5_000)
    assert sorted(runtime.shard.committed().values()) == list(ALL)


async def test_the_deletion_of_offsets(groups: GroupService, runtime: Runtime):
    await groups.commit(GROUP, COMMIT, timeout_ms=5_000)
    done = await groups.delete_offsets(GROUP, OffsetDeleteRequest(partitions=(EVERYTHING,)), timeout_ms=5_000)
    assert [(one.partition, one.error) for one in done.offsets] == [(number, None) for number in ALL]
    assert not runtime.shard.committed()
    require_small(runtime)


async def test_the_deletion_of_no_offsets_of_an_unknown_group(groups: GroupService):
    with pytest.raises(NotFoundError):
        await groups.delete_offsets(GROUP, OffsetDeleteRequest(partitions=()), timeout_ms=5_000)


async def test_too_many_offsets(groups: GroupService, runtime: Runtime):
    more = OffsetDeleteRequest(partitions=(EVERYTHING, TopicPartitions(topic="other", partitions=(0,))))
    with pytest.raises(InvalidRequestError, match="at most 10000"):
        await groups.delete_offsets(GROUP, more, timeout_ms=5_000)
    with pytest.raises(InvalidRequestError, match="at most 10000"):
        await groups.commit(GROUP, OffsetCommitRequest(offsets=COMMIT.offsets * 2), timeout_ms=5_000)
    assert runtime.records == []


async def test_the_deletion_of_a_group(groups: GroupService, runtime: Runtime):
    await groups.commit(GROUP, COMMIT, timeout_ms=5_000)
    runtime.shard.heartbeat("m", 0, topics=("large",))
    runtime.shard.heartbeat("m", -1)
    await groups.delete(GROUP, timeout_ms=5_000)
    assert TopicPartition("large", 0) not in runtime.shard.state.offsets.get(GROUP, {})
    assert GROUP not in runtime.shard.state.groups
    require_small(runtime)
    runtime.shard.fail_over(compacted=True)
    assert (runtime.shard.state.groups, runtime.shard.state.offsets) == ({}, {})
