"""A group's session between two records: partitions without a leader, and callbacks that outlast a call for records."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.client import group_session
from raftlog.client.core.membership import MemberOptions, Membership
from raftlog.client.fetching import Failure, Fetcher
from raftlog.client.group_session import GroupOptions, GroupSession
from raftlog.client.reader import PartitionReader
from raftlog.errors import (
    ErrorCode,
    FencedError,
    InvalidRequestError,
    NotFoundError,
    OffsetOutOfRangeError,
    StaleRouteError,
)
from raftlog.model import Address, TopicPartition
from raftlog.wire.data import OffsetResponse
from raftlog.wire.groups import CommittedOffset

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
LEADER = Address("127.0.0.1", 1)


class Cluster:
    """Metadata in which some partitions have no leader; the leaders know where each log begins."""

    def __init__(self, *leaderless: TopicPartition) -> None:
        self.session: Any = SimpleNamespace()
        self.leaderless = {*leaderless}
        self.hung: set[TopicPartition] = set()
        self.refreshed = 0

    def leader(self, topic: str, partition: int) -> Address | None:
        return None if (topic, partition) in self.leaderless else LEADER

    async def require_leader(self, topic: str, partition: int) -> Address:
        if (address := self.leader(topic, partition)) is None:
            raise StaleRouteError(f"{topic}-{partition} has no leader now", code=ErrorCode.LEADER_NOT_AVAILABLE)
        return address

    async def refresh(self, topics: list[str], *, max_age_s: float) -> None:
        self.refreshed += 1

    async def at_leader(self, cls: type, method: str, topic: str, partition: int, *_: Any, **__: Any) -> OffsetResponse:
        if (topic, partition) in self.hung:
            await asyncio.Event().wait()
        return OffsetResponse(topic=topic, partition=partition, offset=7, log_start_offset=7)

    def cached_topic(self, topic: str) -> SimpleNamespace:
        return SimpleNamespace(topic_id="f" * 32)


def member(cluster: Cluster, *target: TopicPartition, **callbacks: Any) -> GroupSession:
    """Return the session of a member that is to read these partitions; the group has committed no offsets."""
    fetcher = Fetcher(cluster, max_wait_ms=1, min_bytes=1, max_bytes=1, partition_max_bytes=1)  # type: ignore[arg-type]
    reader = PartitionReader(cluster, fetcher, on_out_of_range=None)  # type: ignore[arg-type]
    membership = Membership("m", MemberOptions(topics=("t",)))
    membership.phase, membership.target = "member", frozenset(target)
    options = GroupOptions(reset="earliest", auto_commit_interval_ms=None, timeout_ms=1_000, **callbacks)
    session = GroupSession(
        cluster,  # type: ignore[arg-type]
        reader,
        membership,
        group_id="g",
        max_poll_interval_ms=60_000,
        options=options,
    )

    async def committed(_: object) -> list[object]:
        return []

    session.commits.committed = committed  # type: ignore[method-assign,assignment]
    return session


async def test_a_partition_without_a_leader_holds_up_no_other(caplog: pytest.LogCaptureFixture):
    cluster = Cluster(P0)
    session = member(cluster, P0, P1, P2)
    began = asyncio.get_running_loop().time()
    await session.run_due_work()
    assert asyncio.get_running_loop().time() - began < 1, "nothing waits for an election"
    assert session.membership.owned == {P1, P2}
    assert session._reader.positions == {P1: 7, P2: 7}
    assert session.waits_to_take
    assert "cannot start reading t-0 yet, retrying: t-0 has no leader now" in caplog.text

    cluster.leaderless.clear()
    session._take_again_s = 0.0
    await session.run_due_work()
    assert session.membership.owned == {P0, P1, P2}
    assert cluster.refreshed == 1, "it asks for the leader, rather than wait until the metadata is old"


async def test_a_leader_that_does_not_answer_holds_up_no_other(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(group_session, "TAKE_S", 0.1)
    cluster = Cluster()
    cluster.hung.add(P1)
    session = member(cluster, P0, P1)
    await session.run_due_work()
    assert session.membership.owned == {P0}


class Gated(Cluster):
    """Leaders that answer at the first lookup only once `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.lookups = 0

    async def at_leader(self, *arguments: Any, **options: Any) -> OffsetResponse:
        self.lookups += 1
        await self.go.wait()
        return await super().at_leader(*arguments, **options)


async def test_calls_that_are_cancelled_do_not_begin_the_lookups_again():
    cluster = Gated()
    called: list[list[TopicPartition]] = []
    session = member(cluster, P0, P1, on_assigned=called.append)
    await poll(session, 3)
    assert cluster.lookups == 2
    cluster.go.set()
    await session.run_due_work()
    assert (session.membership.owned, called) == ({P0, P1}, [[P0, P1]])


async def test_a_consumer_that_closes_does_not_wait_for_lookups():
    cluster = Gated()
    session = member(cluster, P0)
    session.member._send_leave = lambda **_: asyncio.sleep(0)  # type: ignore[method-assign,assignment]
    waiting = asyncio.create_task(session.run_due_work())
    async with asyncio.timeout(1):
        while not cluster.lookups:
            await asyncio.sleep(0)
        await session.close(commit=True)
        with pytest.raises(InvalidRequestError, match="closed while it took new partitions"):
            await waiting


class Deleted(Cluster):
    """A cluster without one topic, which the coordinator still assigns."""

    async def require_leader(self, topic: str, partition: int) -> Address:
        if topic == "gone":
            raise NotFoundError("there is no topic 'gone'")
        return await super().require_leader(topic, partition)


async def test_a_topic_that_is_not_there_holds_up_no_other(caplog: pytest.LogCaptureFixture):
    session = member(Deleted(), P0, TopicPartition("gone", 0))
    await session.run_due_work()
    assert session.membership.owned == {P0}
    assert session.waits_to_take
    assert "cannot start reading gone-0 yet, retrying: there is no topic 'gone'" in caplog.text


async def test_a_rewind_does_not_bring_back_what_was_given_up_meanwhile():
    session = member(Cluster(), P0, P1)
    await session.run_due_work()

    async def committed(_: object) -> list[object]:
        session._forget({P0})
        return [CommittedOffset(topic="t", partition=number, offset=3, leader_epoch=0) for number in (0, 1)]

    session.commits.committed = committed  # type: ignore[method-assign,assignment]
    await session.rewind(frozenset({P0, P1}))
    assert session._reader.positions == {P1: 3}


class Slow:
    """A callback that notes when it begins and ends."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.go = asyncio.Event()

    async def __call__(self, partitions: list[TopicPartition]) -> None:
        self.calls.append("begin " + " ".join(map(str, partitions)))
        await self.go.wait()
        self.calls.append("end")


async def poll(session: GroupSession, times: int) -> None:
    """Ask for records as an application does that waits for a moment at a time."""
    for _ in range(times):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await session.run_due_work()


async def test_on_revoked_is_called_once_though_calls_for_records_are_cancelled():
    slow = Slow()
    session = member(Cluster(), on_revoked=slow)
    session.membership.owned, session.membership.target = frozenset({P0, P1}), frozenset({P1})
    await poll(session, 3)
    assert slow.calls == ["begin t-0"]
    assert session.membership.owned == {P0, P1}, "the coordinator hears of it once the callback has ended"
    slow.go.set()
    await session.run_due_work()
    assert slow.calls == ["begin t-0", "end"]
    assert session.membership.owned == {P1}


async def test_on_lost_is_called_once_though_calls_for_records_are_cancelled():
    slow = Slow()
    session = member(Cluster(), on_lost=slow)
    session.membership.owned = frozenset({P0})
    session.membership.lose(FencedError("fenced", code=ErrorCode.FENCED_MEMBER_EPOCH))
    await poll(session, 3)
    slow.go.set()
    await session.run_due_work()
    assert slow.calls == ["begin t-0", "end"]
    assert (session.membership.phase, session.membership.owned) == ("joining", frozenset())


async def test_a_consumer_that_closes_while_partitions_are_revoked_waits_for_that_call():
    slow = Slow()
    session = member(Cluster(), on_revoked=slow)
    session.membership.owned, session.membership.target = frozenset({P0, P1}), frozenset({P1})
    await poll(session, 1)
    session.member._send_leave = lambda **_: asyncio.sleep(0)  # type: ignore[method-assign,assignment]
    closing = asyncio.create_task(session.close(commit=True))
    await asyncio.sleep(0)
    slow.go.set()
    await closing
    assert slow.calls == ["begin t-0", "end", "begin t-1", "end"]


async def test_an_error_of_a_callback_that_a_close_waits_for_reaches_the_application():
    go = asyncio.Event()

    async def fail(_: object) -> None:
        await go.wait()
        raise ValueError("no")

    session = member(Cluster(), on_revoked=fail)
    session.membership.owned = frozenset({P0})
    await poll(session, 1)
    session.member._send_leave = lambda **_: asyncio.sleep(0)  # type: ignore[method-assign,assignment]
    go.set()
    with pytest.raises(ValueError, match="no"):
        await session.close(commit=True)


async def test_an_error_of_on_revoked_reaches_the_application():
    def fail(_: object) -> None:
        raise ValueError("no")

    session = member(Cluster(), on_revoked=fail)
    session.membership.owned = frozenset({P0})
    with pytest.raises(ValueError, match="no"):
        await session.run_due_work()


async def test_partitions_are_given_up_though_their_commit_cannot_be_made(caplog: pytest.LogCaptureFixture):
    session = member(Cluster(), P0)
    await session.run_due_work()

    async def commit(_: object) -> None:
        raise RuntimeError("can't start new thread")

    session.commits.commit = commit  # type: ignore[method-assign,assignment]
    session._options = replace(session._options, auto_commit_interval_ms=60_000)
    session.membership.target = frozenset()
    await session.run_due_work()
    assert session.membership.owned == frozenset()
    assert "a commit failed" in caplog.text


class Shrunken(Cluster):
    """The topic was created again, and has only its partition 0 now."""

    async def require_leader(self, topic: str, partition: int) -> Address:
        if partition > 0:
            raise NotFoundError(f"topic {topic!r} has partitions 0 to 0, received {partition}")
        return LEADER

    def cached_topic(self, topic: str) -> SimpleNamespace:
        return SimpleNamespace(topic_id="f" * 32, partitions=("partition 0",))


async def test_a_partition_that_is_gone_raises_nothing_before_the_coordinator_takes_it_back():
    session = member(Shrunken())
    reader = session._reader
    reader._on_out_of_range = "earliest"
    reader.begin({P0: 50, P1: 50}, topic_ids={P0: "0" * 32, P1: "0" * 32})
    for partition in (P0, P1):
        await reader._decide(Failure(partition, OffsetOutOfRangeError("it was deleted and recreated")))
    assert reader.positions == {P0: 7, P1: 0}
    assert reader.fetcher.topic_id(P1) == "f" * 32
