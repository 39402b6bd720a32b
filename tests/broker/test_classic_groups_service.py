"""`ClassicGroups` on a real replica: answers after replication, failing appends, a lost leadership, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio

from raftlog.broker.classic_groups import ClassicGroups
from raftlog.broker.image_topics import ImageTopics
from raftlog.config import GroupConfig
from raftlog.coordinator.group.classic_requests import ClassicJoin, ClassicSync, JoinOutcome, Leaver
from raftlog.coordinator.group.coordinator import GroupCoordinator
from raftlog.coordinator.group.state import ClassicGroup, GroupsState
from raftlog.coordinator.runtime import CoordinatorRuntime
from raftlog.errors import ErrorCode, RaftlogError, RetriableError
from raftlog.metadata_quorum.image import MetadataImage
from tests.coordinator.coordinator_support import TOPIC, Broker
from tests.coordinator.group_support import FakeTopics

R = TypeVar("R")
JOIN = ClassicJoin(
    protocol_type="consumer", protocols=(("range", b"r"),), session_timeout_ms=10_000, rebalance_timeout_ms=10_000
)


class GroupBroker(Broker):
    """Broker 1, which coordinates groups; broker 2 follows on request."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        config, topics = GroupConfig(initial_rebalance_delay_ms=1), FakeTopics(t=4)
        self.groups_runtime: CoordinatorRuntime[GroupsState] = CoordinatorRuntime(
            GroupCoordinator(config, topics=lambda: topics, on_changed=self._changed),
            topic=TOPIC,
            partitions=lambda: 1,
            replicas=self,
            clock=self.clock,
        )
        self.groups = ClassicGroups(self.groups_runtime, config, topics=lambda: topics, max_parked=10)

    def _changed(self, group_id: str) -> None:
        self.groups.wake(group_id)

    async def load(self) -> None:
        self.groups_runtime.update_shards()
        while not self.groups_runtime.active:
            await asyncio.sleep(0)

    @property
    def group(self) -> ClassicGroup:
        (state,) = self.groups_runtime.active.values()
        return state.classic["g"]

    def pass_time(self, ms: int) -> None:
        self.clock.now_ms += ms
        for shard in self.groups_runtime._shards.values():
            shard.tick()

    async def replicated(self, work: Awaitable[R]) -> R:
        """Return the result of a request while the follower fetches and time passes."""
        task = asyncio.ensure_future(work)
        async with asyncio.timeout(10):
            while not task.done():
                self.replicate()
                await asyncio.sleep(0)
                self.pass_time(1)
        return await task

    def join(self, **more: Any) -> Awaitable[JoinOutcome]:
        return self.groups.join("g", replace(JOIN, **more), timeout_ms=5_000)


@pytest_asyncio.fixture
async def broker(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    broker = GroupBroker(tmp_path)
    await broker.load()
    yield broker
    await broker.groups_runtime.close()
    await broker.close()


async def stable(broker: GroupBroker) -> str:
    member = (await broker.replicated(broker.join())).member_id
    sync = ClassicSync(member_id=member, generation=1, assignments=((member, b"a"),))
    assert (await broker.replicated(broker.groups.sync("g", sync, timeout_ms=5_000))).assignment == b"a"
    return member


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def code_of(work: Awaitable[Any]) -> ErrorCode:
    with pytest.raises(RaftlogError) as raised:
        async with asyncio.timeout(10):
            await work
    return raised.value.code


async def test_nothing_is_answered_before_it_is_replicated(broker: GroupBroker):
    member = await stable(broker)
    task = asyncio.ensure_future(broker.join(member_id=member))  # The leader joins again: generation 2 at once.
    await turns()
    assert (broker.group.generation, broker.group.phase) == (2, "CompletingRebalance")
    assert not task.done()
    broker.replicate()
    outcome = await task
    assert outcome.answer is not None
    assert outcome.answer.generation == 2


async def test_an_append_that_fails_leaves_the_group_and_the_member_tries_again(broker: GroupBroker):
    member = await stable(broker)
    before = broker.group.copy()

    def full(*_: object, **__: object) -> None:
        raise RetriableError("the ISR is too small", code=ErrorCode.NOT_ENOUGH_REPLICAS)

    append = broker.replica.append_now
    broker.replica.append_now = full  # type: ignore[assignment]
    assert await code_of(broker.join(member_id=member)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.group == before
    broker.pass_time(20_000)  # Its session ends, and nothing can be written.
    assert broker.group == before
    broker.replica.append_now = append  # type: ignore[method-assign]
    broker.pass_time(1)
    assert broker.group.phase == "Empty"


async def test_a_request_that_waits_learns_that_another_broker_coordinates(broker: GroupBroker):
    await stable(broker)
    task = asyncio.ensure_future(broker.join())
    await turns()
    broker.replicate()
    await turns()
    assert broker.groups.parked == 1
    broker.elect(2)
    broker.groups.wake_all()
    assert await code_of(task) is ErrorCode.NOT_COORDINATOR
    assert (broker.groups.parked, broker.groups._waiting) == (0, {})


async def test_a_stable_group_is_loaded_as_stable_by_the_next_leader(broker: GroupBroker):
    member = await stable(broker)
    before = broker.group.copy()
    broker.elect(2)
    broker.groups_runtime.update_shards()
    broker.elect(1)
    await broker.load()
    assert broker.group == before
    await broker.replicated(broker.groups.heartbeat("g", member, 1, None, timeout_ms=5_000))


async def test_a_cancelled_request_leaves_nothing_behind_but_its_member(broker: GroupBroker):
    member = await stable(broker)
    task = asyncio.ensure_future(broker.join())
    await turns()
    broker.replicate()
    await turns()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert (broker.groups.parked, broker.groups._waiting) == (0, {})
    assert len(broker.group.members) == 2
    errors = await broker.replicated(
        broker.groups.leave("g", [Leaver(member_id=member), Leaver(member_id="x")], timeout_ms=5_000)
    )
    assert [None if error is None else error.code for error in errors] == [None, ErrorCode.UNKNOWN_MEMBER_ID]


async def test_a_sync_waits_for_the_leader(broker: GroupBroker):
    first, second = (asyncio.ensure_future(broker.join()) for _ in range(2))
    outcomes = await broker.replicated(asyncio.gather(first, second))
    leader = outcomes[0].answer.leader if outcomes[0].answer else ""
    (follower,) = {one.member_id for one in outcomes} - {leader}
    waits = asyncio.ensure_future(
        broker.groups.sync("g", ClassicSync(member_id=follower, generation=1), timeout_ms=5_000)
    )
    await turns()
    assert (waits.done(), broker.groups.parked) == (False, 1)
    sync = ClassicSync(member_id=leader, generation=1, assignments=((follower, b"f"),))
    answers = await broker.replicated(asyncio.gather(waits, broker.groups.sync("g", sync, timeout_ms=5_000)))
    assert [answer.assignment for answer in answers] == [b"f", b""]


@pytest.mark.parametrize(("level", "converts"), [(0, False), (3, False), (4, True)])
def test_groups_are_converted_when_every_broker_can_read_them(level: int, converts: bool):
    assert ImageTopics(MetadataImage(feature_level=level)).have_both_protocols is converts
