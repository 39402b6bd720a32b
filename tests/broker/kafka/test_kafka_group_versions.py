"""Kafka's requests about groups in every version, over the listener; requests that wait; access rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kafka_frame import Frame, broker_for_kafka
from kafka_listener import Client, request

from raftlog import Admin
from raftlog.broker.classic_groups import ClassicGroups
from raftlog.broker.kafka.handlers import HANDLERS
from raftlog.config import GroupConfig, SecurityConfig
from raftlog.errors import ErrorCode, OverloadedError, RetriableError, StorageError, UnknownOutcomeError
from raftlog.model import Acl
from raftlog.wire.kafka.api_keys import APIS
from raftlog.wire.kafka.consumer_protocol import decode_assignment, encode_subscription
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import (
    consumer_group_heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from raftlog.wire.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from raftlog.wire.kafka.messages.consumer_protocol import ConsumerProtocolSubscription
from raftlog.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from raftlog.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from raftlog.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from raftlog.wire.kafka.messages.heartbeat import HeartbeatRequest
from raftlog.wire.kafka.messages.list_groups import ListGroupsRequest
from tests.broker.listener_support import connected

pytestmark = pytest.mark.cluster
COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE, DELETE_OFFSETS, BEAT, SHOW = (
    8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47, 68, 69,
)  # fmt: skip
E = KafkaError


async def ready(frame: Frame) -> None:
    async with asyncio.timeout(30), Admin(f"http://{frame.context.config.public}") as admin:
        while not (frame.context.listener.image.brokers and not frame.context.lifecycle.fenced):
            await asyncio.sleep(0.02)
        await admin.create_topic("t", partitions=3)
        while not (frame.context.image.topic("t") and all(frame.context.leads("t", one) for one in range(3))):
            await asyncio.sleep(0.01)
        await admin.find_coordinator("group", "g")
        while frame.context.groups.runtime.loading or not frame.context.groups.runtime.active:
            await asyncio.sleep(0.01)


@pytest_asyncio.fixture
async def frame(tmp_path: Path, free_ports: Callable[[int], list[int]]) -> AsyncIterator[Frame]:
    group = GroupConfig(initial_rebalance_delay_ms=1, min_session_timeout_ms=300)
    async with broker_for_kafka(tmp_path, free_ports(3), group=group, offsets_topic_num_partitions=1) as frame:
        await ready(frame)
        yield frame


@pytest_asyncio.fixture
async def ask(frame: Frame) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    async with connected(frame.context.config.public) as streams:
        yield asking_by(Client(*streams))


def asking_by(kafka: Client) -> Callable[..., Awaitable[Any]]:
    async def asking(key: int, version: int, message: Any) -> Any:
        await kafka.send(request(key, version, message, correlation=version))
        async with asyncio.timeout(10):
            correlation, answer = await kafka.answer(key, version)
        assert correlation == version
        return answer

    return asking


def versions(key: int) -> Iterator[int]:
    yield from range(APIS[key].first, APIS[key].last_stable + 1)


def join(group: str, **more: Any) -> join_group.JoinGroupRequest:
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"m")
    return join_group.JoinGroupRequest(
        **{
            "group_id": group,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer",
            "protocols": [protocol],
            **more,
        }
    )


async def joined(ask: Callable[..., Awaitable[Any]], group: str, version: int, **more: Any) -> Any:
    answer = await ask(JOIN, version, join(group, **more))
    if answer.error_code == E.MEMBER_ID_REQUIRED:
        assert version >= 4
        answer = await ask(JOIN, version, join(group, member_id=answer.member_id, **more))
    return answer


async def stable(ask: Callable[..., Awaitable[Any]], group: str, **more: Any) -> tuple[str, int]:
    """Return the id and the generation of a member that is alone in its group."""
    answer = await joined(ask, group, 9, **more)
    assert answer.error_code == 0
    given = [sync_group.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"a")]
    syncs = sync_group.SyncGroupRequest(
        group_id=group, generation_id=answer.generation_id, member_id=answer.member_id, assignments=given
    )
    assert (await ask(SYNC, 4, syncs)).assignment == b"a"
    return answer.member_id, answer.generation_id


async def test_a_member_joins_syncs_beats_and_leaves_in_every_version(ask: Callable[..., Awaitable[Any]]):
    for version in versions(JOIN):
        group = f"g{version}"
        answer = await joined(ask, group, version)
        assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
        assert answer.leader == answer.member_id
        assert [one.metadata for one in answer.members] == [b"m"]
        assert answer.protocol_type == ("consumer" if version >= 7 else None)
        member = answer.member_id
        for number in versions(SYNC):
            given = [sync_group.SyncGroupRequestAssignment(member_id=member, assignment=b"a")]
            names = {"protocol_type": "consumer", "protocol_name": "range"} if number >= 5 else {}
            syncs = sync_group.SyncGroupRequest(
                group_id=group,
                generation_id=1,
                member_id=member,
                assignments=given,
                **names,  # type: ignore[arg-type]
            )
            synced = await ask(SYNC, number, syncs)
            assert (synced.error_code, synced.assignment) == (0, b"a")
        for number in versions(HEARTBEAT):
            beat = HeartbeatRequest(group_id=group, generation_id=1, member_id=member)
            assert (await ask(HEARTBEAT, number, beat)).error_code == 0
            beat.generation_id = 7
            assert (await ask(HEARTBEAT, number, beat)).error_code == E.ILLEGAL_GENERATION
        number = version % 6
        listed = [leave_group.MemberIdentity(member_id=one) for one in (member, "stranger")]
        leaves = leave_group.LeaveGroupRequest(group_id=group, member_id=member if number < 3 else "")
        leaves.members = listed if number >= 3 else []
        left = await ask(LEAVE, number, leaves)
        assert left.error_code == 0
        assert [one.error_code for one in left.members] == ([0, E.UNKNOWN_MEMBER_ID] if number >= 3 else [])
        assert (await ask(HEARTBEAT, 4, beat)).error_code == E.UNKNOWN_MEMBER_ID


async def test_errors_in_every_version(ask: Callable[..., Awaitable[Any]]):
    for version in versions(JOIN):
        assert (await ask(JOIN, version, join("g", member_id="x"))).error_code == E.UNKNOWN_MEMBER_ID
        assert (await ask(JOIN, version, join(""))).error_code == E.INVALID_GROUP_ID
        assert (await ask(JOIN, version, join("g", session_timeout_ms=1))).error_code == E.INVALID_SESSION_TIMEOUT
        assert (await ask(JOIN, version, join("g", protocols=[]))).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    for version in versions(SYNC):
        syncs = sync_group.SyncGroupRequest(group_id="g", member_id="x")
        code = E.INCONSISTENT_GROUP_PROTOCOL if version >= 5 else E.UNKNOWN_MEMBER_ID
        assert (await ask(SYNC, version, syncs)).error_code == code
    for version in versions(LEAVE):
        leaves = leave_group.LeaveGroupRequest(group_id="g", member_id="x" if version < 3 else "")
        assert (await ask(LEAVE, version, leaves)).error_code == (E.UNKNOWN_MEMBER_ID if version < 3 else 0)


async def test_offsets_in_every_version(frame: Frame, ask: Callable[..., Awaitable[Any]]):
    uuid = bytes.fromhex(frame.context.topic("t").topic_id)
    for version in versions(COMMIT):
        name = {"topic_id": uuid} if version >= 10 else {"name": "t"}
        other = {"topic_id": b"x" * 16} if version >= 10 else {"name": "missing"}
        parts = [
            offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=version),
            offset_commit.OffsetCommitRequestPartition(partition_index=9, committed_offset=1),
            offset_commit.OffsetCommitRequestPartition(
                partition_index=1, committed_offset=1, committed_metadata="x" * 5_000
            ),
            offset_commit.OffsetCommitRequestPartition(partition_index=2, committed_offset=1, committed_metadata=None),
        ]
        topics = [
            offset_commit.OffsetCommitRequestTopic(partitions=parts[:1], **other),  # type: ignore[arg-type]
            offset_commit.OffsetCommitRequestTopic(partitions=parts, **name),  # type: ignore[arg-type]
        ]
        answer = await ask(COMMIT, version, offset_commit.OffsetCommitRequest(group_id="simple", topics=topics))
        missing = E.UNKNOWN_TOPIC_ID if version >= 10 else E.UNKNOWN_TOPIC_OR_PARTITION
        assert [[one.error_code for one in topic.partitions] for topic in answer.topics] == [
            [missing],
            [0, E.UNKNOWN_TOPIC_OR_PARTITION, E.OFFSET_METADATA_TOO_LARGE, 0],
        ]
        unknown = offset_commit.OffsetCommitRequest(
            group_id="simple", topics=topics[1:], member_id="x", generation_id_or_member_epoch=3
        )
        failed = (await ask(COMMIT, version, unknown)).topics[0].partitions
        assert {one.error_code for one in failed} == {E.UNKNOWN_MEMBER_ID}
    newest = list(versions(COMMIT))[-1]
    for version in versions(FETCH):
        for every in (False, True)[: 1 + (version >= 2)]:
            found = await _fetched(ask, version, uuid, every=every)
            expected = {0: newest, 2: 1} if every else {0: newest, 7: -1}
            assert {one.partition_index: one.committed_offset for one in found} == expected
            assert {one.error_code for one in found} == {0}


async def _fetched(ask: Callable[..., Awaitable[Any]], version: int, uuid: bytes, *, every: bool) -> list[Any]:
    if version < 8:
        topics = [offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 7])]
        message = offset_fetch.OffsetFetchRequest(group_id="simple", topics=None if every else topics)
        message.require_stable = version >= 7
        return list((await ask(FETCH, version, message)).topics[0].partitions)
    name = {"topic_id": uuid} if version >= 10 else {"name": "t"}
    wanted = [offset_fetch.OffsetFetchRequestTopics(partition_indexes=[0, 7], **name)]  # type: ignore[arg-type]
    groups = [
        offset_fetch.OffsetFetchRequestGroup(group_id=one, topics=None if every else wanted)
        for one in ("simple", "other", "")
    ]
    answer = await ask(FETCH, version, offset_fetch.OffsetFetchRequest(groups=groups, require_stable=True))
    first, second, third = answer.groups
    assert (first.error_code, second.error_code, third.error_code) == (0, 0, E.INVALID_GROUP_ID)
    assert [one.committed_offset for topic in second.topics for one in topic.partitions] == ([] if every else [-1, -1])
    return list(first.topics[0].partitions)


async def test_groups_are_described_listed_and_deleted_in_every_version(ask: Callable[..., Awaitable[Any]]):
    member, _ = await stable(ask, "g", group_instance_id="i")
    for version in versions(DESCRIBE):
        describes = DescribeGroupsRequest(groups=["g", "missing"], include_authorized_operations=version >= 3)
        found, missing = (await ask(DESCRIBE, version, describes)).groups
        assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
        (one,) = found.members
        assert (one.member_id, one.client_id, one.client_host) == (member, "c", "/127.0.0.1")
        assert (one.member_metadata, one.member_assignment) == (b"m", b"a")
        assert one.group_instance_id == ("i" if version >= 4 else None)
        assert (found.authorized_operations > 0) == (version >= 3)
        assert (missing.group_state, missing.error_code) == ("Dead", E.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    for version in versions(LIST):
        filters: list[tuple[dict[str, list[str]], int]] = [({}, 1)]
        if version >= 4:
            filters += [({"states_filter": ["stable"]}, 1), ({"states_filter": ["Empty"]}, 0)]
        if version >= 5:
            filters += [({"types_filter": ["Classic"]}, 1), ({"types_filter": ["consumer"]}, 0)]
        for wanted, count in filters:
            answer = await ask(LIST, version, ListGroupsRequest(**wanted))  # type: ignore[arg-type]
            assert [one.group_id for one in answer.groups] == ["g"] * count
    for version in versions(SHOW):
        (one,) = (await ask(SHOW, version, ConsumerGroupDescribeRequest(group_ids=["g"]))).groups
        assert one.error_code == E.GROUP_ID_NOT_FOUND
    wanted = offset_delete.OffsetDeleteRequest(group_id="missing", topics=[])
    assert (await ask(DELETE_OFFSETS, 0, wanted)).error_code == E.GROUP_ID_NOT_FOUND
    for version in versions(DELETE):
        used, missing = (await ask(DELETE, version, DeleteGroupsRequest(groups_names=["g", "missing"]))).results
        assert (used.error_code, missing.error_code) == (E.NON_EMPTY_GROUP, E.GROUP_ID_NOT_FOUND)
    leaves = leave_group.LeaveGroupRequest(group_id="g", members=[leave_group.MemberIdentity(group_instance_id="i")])
    await ask(LEAVE, 5, leaves)
    (done,) = (await ask(DELETE, 2, DeleteGroupsRequest(groups_names=["g"]))).results
    assert done.error_code == 0


async def test_members_of_the_consumer_protocol_in_every_version(frame: Frame, ask: Callable[..., Awaitable[Any]]):
    uuid = bytes.fromhex(frame.context.topic("t").topic_id)
    for version in versions(BEAT):
        group = f"new{version}"
        first = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="" if version == 0 else "mine",
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        answer = await ask(BEAT, version, first)
        assert (answer.error_code, answer.member_epoch) == (0, 1)
        (part,) = answer.assignment.topic_partitions
        assert (part.topic_id, part.partitions) == (uuid, [0, 1, 2])
        owned = consumer_group_heartbeat.ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=uuid, partitions=[0])
        gone = consumer_group_heartbeat.ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=b"x" * 16, partitions=[0])
        beat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=answer.member_id, member_epoch=1, topic_partitions=[owned, gone]
        )
        assert (await ask(BEAT, version, beat)).error_code == 0
        beat.member_epoch = 9
        assert (await ask(BEAT, version, beat)).error_code == E.FENCED_MEMBER_EPOCH
        beat.server_assignor = "mine"
        assert (await ask(BEAT, version, beat)).error_code == E.UNSUPPORTED_ASSIGNOR
        assert (await ask(JOIN, 9, join(group))).error_code == E.INCONSISTENT_GROUP_PROTOCOL
        (seen,) = (await ask(SHOW, version, ConsumerGroupDescribeRequest(group_ids=[group]))).groups
        assert (seen.error_code, seen.group_state, seen.group_epoch) == (0, "Stable", 1)
        assert [one.subscribed_topic_names for one in seen.members] == [["t"]]
        assert seen.members[0].assignment.topic_partitions[0].topic_name == "t"
        beat.member_epoch, beat.server_assignor = -1, None
        left = await ask(BEAT, version, beat)
        assert (left.error_code, left.member_epoch, left.assignment) == (0, -1, None)
    await stable(ask, "classic")
    first.group_id = "classic"
    assert (await ask(BEAT, 1, first)).error_code == E.GROUP_ID_NOT_FOUND


def reads(*topics: str) -> list[join_group.JoinGroupRequestProtocol]:
    metadata = encode_subscription(1, ConsumerProtocolSubscription(topics=list(topics)))
    return [join_group.JoinGroupRequestProtocol(name="range", metadata=metadata)]


async def test_a_group_of_both_protocols_in_every_version(frame: Frame, ask: Callable[..., Awaitable[Any]]):
    for version in versions(JOIN):
        group = f"both{version}"
        old = await joined(ask, group, version, protocols=reads("t"))
        given = [sync_group.SyncGroupRequestAssignment(member_id=old.member_id, assignment=b"")]
        syncs = sync_group.SyncGroupRequest(
            group_id=group, generation_id=old.generation_id, member_id=old.member_id, assignments=given
        )
        assert (await ask(SYNC, 4, syncs)).error_code == 0
        first = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="mine",
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        new = await ask(BEAT, 1, first)
        assert (new.error_code, new.member_epoch) == (0, old.generation_id + 2)
        beat = HeartbeatRequest(group_id=group, generation_id=old.generation_id, member_id=old.member_id)
        for each in versions(HEARTBEAT):
            assert (await ask(HEARTBEAT, each, beat)).error_code == E.REBALANCE_IN_PROGRESS
        again = await ask(JOIN, version, join(group, member_id=old.member_id, protocols=reads("t")))
        assert (again.error_code, again.member_id, again.leader) == (0, old.member_id, "")
        assert (again.generation_id, again.protocol_name, again.members) == (new.member_epoch, "range", [])
        syncs = sync_group.SyncGroupRequest(
            group_id=group, generation_id=again.generation_id, member_id=old.member_id, assignments=given
        )
        got = decode_assignment((await ask(SYNC, 4, syncs)).assignment).assigned_partitions
        (part,) = new.assignment.topic_partitions
        assert sorted([*part.partitions, *(one for each in got for one in each.partitions)]) == [0, 1, 2]
        beat.generation_id = again.generation_id
        assert (await ask(HEARTBEAT, 4, beat)).error_code == 0
        (seen,) = (await ask(SHOW, 1, ConsumerGroupDescribeRequest(group_ids=[group]))).groups
        assert {one.member_id: one.member_type for one in seen.members} == {old.member_id: 0, "mine": 1}
        listed = (await ask(LIST, 5, ListGroupsRequest(types_filter=["consumer"]))).groups
        assert group in {one.group_id for one in listed}
        (seen,) = (await ask(DESCRIBE, 6, DescribeGroupsRequest(groups=[group]))).groups
        assert seen.error_code == E.GROUP_ID_NOT_FOUND
        first.member_epoch = -1
        assert (await ask(BEAT, 1, first)).error_code == 0
        assert (await ask(HEARTBEAT, 4, beat)).error_code == E.REBALANCE_IN_PROGRESS
        (seen,) = (await ask(DESCRIBE, 6, DescribeGroupsRequest(groups=[group]))).groups
        assert (seen.error_code, seen.group_state) == (0, "PreparingRebalance")


async def test_a_join_that_waits_is_answered_when_its_group_is_converted(
    frame: Frame, ask: Callable[..., Awaitable[Any]]
):
    groups: ClassicGroups = frame.context.groups.classic
    first = await joined(ask, "g", 9, protocols=reads("t"))
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        await kafka.send(request(JOIN, 3, join("g", protocols=reads("t")), correlation=1))
        await until(lambda: groups.parked == 1)
        beat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="mine", rebalance_timeout_ms=5_000, subscribed_topic_names=["t"]
        )
        beat.topic_partitions = []
        assert (await ask(BEAT, 1, beat)).error_code == 0
        async with asyncio.timeout(10):
            _, answer = await kafka.answer(JOIN, 3)
        assert (answer.error_code, answer.leader) == (0, "")
        assert answer.generation_id > first.generation_id
        await until(lambda: groups.parked == 0)


async def test_requests_that_wait_are_limited_and_end_with_their_connection(
    frame: Frame, ask: Callable[..., Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
):
    groups: ClassicGroups = frame.context.groups.classic
    monkeypatch.setattr(groups, "_max_parked", 2)
    member, _ = await stable(ask, "g")
    async with AsyncExitStack() as stack:
        for _ in range(2):
            kafka = Client(*await stack.enter_async_context(connected(frame.context.config.public)))
            await kafka.send(request(JOIN, 3, join("g"), correlation=1))
        await until(lambda: groups.parked == 2)
        assert (await ask(JOIN, 3, join("g"))).error_code == E.COORDINATOR_NOT_AVAILABLE
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
        assert (await ask(HEARTBEAT, 4, beat)).error_code == E.REBALANCE_IN_PROGRESS
    await until(lambda: groups.parked == 0)
    assert groups._waiting == {}


class Worker:
    """A member of a group that joins, and that leads or follows, until the group has so many members."""

    def __init__(self, frame: Frame, group: str, size: int) -> None:
        self._frame, self._group, self._size = frame, group, size
        self._member = ""

    async def work(self) -> None:
        async with connected(self._frame.context.config.public) as streams:
            ask = asking_by(Client(*streams))
            while not await self._generation(ask):
                pass

    async def _generation(self, ask: Callable[..., Awaitable[Any]]) -> bool:
        """Take part in one generation; return whether it had all members."""
        answer = await ask(JOIN, 3, join(self._group, member_id=self._member, rebalance_timeout_ms=60_000))
        assert answer.error_code == 0
        self._member = answer.member_id
        everyone = len(answer.members) == self._size
        given = [
            sync_group.SyncGroupRequestAssignment(member_id=one.member_id, assignment=b"all" if everyone else b"few")
            for one in answer.members
        ]
        syncs = sync_group.SyncGroupRequest(
            group_id=self._group, generation_id=answer.generation_id, member_id=self._member, assignments=given
        )
        synced = await ask(SYNC, 3, syncs)
        assert synced.error_code in (0, E.REBALANCE_IN_PROGRESS)
        beat = HeartbeatRequest(group_id=self._group, generation_id=answer.generation_id, member_id=self._member)
        while synced.assignment == b"few" and (await ask(HEARTBEAT, 3, beat)).error_code == 0:
            await asyncio.sleep(0.02)
        return bool(synced.assignment == b"all")


async def test_a_burst_of_members_in_two_groups_completes_and_others_are_served(
    frame: Frame, ask: Callable[..., Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
):
    """Joins that waited took every place, so that neither group got on, and no other request was answered."""
    monkeypatch.setattr(frame.inflight, "_max_requests", 4)
    async with asyncio.timeout(30), asyncio.TaskGroup() as workers:
        for group in ("one", "other"):
            for _ in range(10):
                workers.create_task(Worker(frame, group, 10).work())
    await stable(ask, "g")
    async with AsyncExitStack() as stack:
        for _ in range(8):
            kafka = Client(*await stack.enter_async_context(connected(frame.context.config.public)))
            await kafka.send(request(JOIN, 3, join("g")))
        await until(lambda: frame.context.groups.classic.parked == 8)
        async with asyncio.timeout(10):
            assert (await ask(LIST, 0, ListGroupsRequest())).error_code == 0
        await until(lambda: (frame.inflight.requests, frame.inflight.bytes) == (0, 0))
    await until(lambda: frame.context.groups.classic.parked == 0)
    assert (frame.inflight.requests, frame.inflight.bytes) == (0, 0)


def test_fetches_and_heartbeats_that_wait_leave_places_for_others(frame: Frame):
    waiting = frame.parked._limit + frame.context.groups._max_parked
    assert waiting < frame.context.config.broker.max_inflight_requests


async def test_requests_that_wait_learn_that_another_broker_coordinates(
    frame: Frame, ask: Callable[..., Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
):
    groups = frame.context.groups
    await stable(ask, "g")
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        await kafka.send(request(JOIN, 3, join("g"), correlation=1))
        await until(lambda: groups.classic.parked == 1)
        (shard,) = groups.runtime._shards.values()
        monkeypatch.setattr(shard, "epoch", shard.epoch - 1)  # As if it led in an earlier epoch.
        monkeypatch.setattr(groups.runtime, "update_shards", lambda: None)
        groups.on_image(frame.context.image)
        async with asyncio.timeout(10):
            _, answer = await kafka.answer(JOIN, 3)
        assert answer.error_code == E.NOT_COORDINATOR
    assert groups.classic.parked == 0


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.01)  # The listener has no event for it.


def allow(frame: Frame, rule: Acl, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the broker see one rule, as if its metadata had it. A sender without any right has to log in."""
    rules = {rule: None}
    monkeypatch.setattr(frame.context.access, "_rules", lambda: rules)


async def test_members_need_the_rights_that_http_routes_need(
    tmp_path: Path, free_ports: Callable[[int], list[int]], monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "cluster.key").write_text("c" * 64)
    key_file = str(tmp_path / "cluster.key")
    security = SecurityConfig(authorizer="acl", super_users=("User:admin",), cluster_key_file=key_file)
    group = GroupConfig(initial_rebalance_delay_ms=1)
    async with broker_for_kafka(
        tmp_path, free_ports(3), security=security, group=group, offsets_topic_num_partitions=1
    ) as frame:
        async with asyncio.timeout(30):
            while not frame.context.listener.image.brokers or frame.context.lifecycle.fenced:
                await asyncio.sleep(0.02)
        nobody = Acl(principal="*", operation="all", resource_type="group", resource_name="other")
        allow(frame, nobody, monkeypatch)
        async with connected(frame.context.config.public) as streams:
            ask = asking_by(Client(*streams))
            await _refused_everywhere(ask)
            allow(frame, replace(nobody, resource_name="g"), monkeypatch)
            assert (await ask(FIND, 4, FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators[0].error_code == 0
            await until(lambda: bool(frame.context.groups.runtime.active))
            await stable(ask, "g")
            topics = [
                offset_commit.OffsetCommitRequestTopic(
                    name="t", partitions=[offset_commit.OffsetCommitRequestPartition()]
                )
            ]
            answer = await ask(COMMIT, 9, offset_commit.OffsetCommitRequest(group_id="g", topics=topics))
            assert answer.topics[0].partitions[0].error_code == E.TOPIC_AUTHORIZATION_FAILED
            assert [one.group_id for one in (await ask(LIST, 5, ListGroupsRequest())).groups] == ["g"]
            allow(frame, nobody, monkeypatch)
            assert (await ask(LIST, 5, ListGroupsRequest())).groups == []


async def test_a_topic_that_a_sender_may_not_describe_does_not_exist_for_it(
    frame: Frame, ask: Callable[..., Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
):
    """The coordinator would show how many partitions the topic has. That of a classic group does not assign."""
    beat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="mine", rebalance_timeout_ms=5_000, subscribed_topic_names=["none"]
    )
    beat.topic_partitions = []
    assert (await ask(BEAT, 1, beat)).error_code == 0
    monkeypatch.setattr(frame.context.access, "sees", lambda sender, kind, name: (kind, name) != ("topic", "t"))
    for topics, expected in ((("t",), []), (("t", "none"), [])):
        answer = await joined(ask, "g", 9, protocols=reads(*topics))
        syncs = sync_group.SyncGroupRequest(
            group_id="g", generation_id=answer.generation_id, member_id=answer.member_id, assignments=[]
        )
        assert decode_assignment((await ask(SYNC, 4, syncs)).assignment).assigned_partitions == expected
    monkeypatch.undo()
    answer = await joined(ask, "g", 9, protocols=reads("t"))
    syncs = sync_group.SyncGroupRequest(
        group_id="g", generation_id=answer.generation_id, member_id=answer.member_id, assignments=[]
    )
    (part,) = decode_assignment((await ask(SYNC, 4, syncs)).assignment).assigned_partitions
    assert (part.topic, part.partitions) == ("t", [0, 1, 2])


async def _refused_everywhere(ask: Callable[..., Awaitable[Any]]) -> None:
    denied = E.GROUP_AUTHORIZATION_FAILED
    assert (await ask(JOIN, 9, join("g"))).error_code == denied
    assert (await ask(HEARTBEAT, 4, HeartbeatRequest(group_id="g"))).error_code == denied
    assert (await ask(SYNC, 4, sync_group.SyncGroupRequest(group_id="g"))).error_code == denied
    assert (await ask(LEAVE, 5, leave_group.LeaveGroupRequest(group_id="g"))).error_code == denied
    beat = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group_id="g", member_id="x")
    assert (await ask(BEAT, 1, beat)).error_code == denied
    topics = [
        offset_commit.OffsetCommitRequestTopic(name="t", partitions=[offset_commit.OffsetCommitRequestPartition()])
    ]
    commit = await ask(COMMIT, 9, offset_commit.OffsetCommitRequest(group_id="g", topics=topics))
    assert commit.topics[0].partitions[0].error_code == denied
    fetch = offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)])
    assert (await ask(FETCH, 9, fetch)).groups[0].error_code == denied
    assert (await ask(DESCRIBE, 6, DescribeGroupsRequest(groups=["g"]))).groups[0].error_code == denied
    assert (await ask(SHOW, 1, ConsumerGroupDescribeRequest(group_ids=["g"]))).groups[0].error_code == denied
    assert (await ask(DELETE, 2, DeleteGroupsRequest(groups_names=["g"]))).results[0].error_code == denied
    assert (await ask(DELETE_OFFSETS, 0, offset_delete.OffsetDeleteRequest(group_id="g"))).error_code == denied


def test_every_api_of_groups_is_served():
    assert HANDLERS.keys() >= {COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE}
    assert HANDLERS.keys() >= {DELETE_OFFSETS, BEAT, SHOW}


@pytest.mark.parametrize(
    ("error", "heartbeat", "sync", "fetched"),
    [
        (RetriableError("loading", code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), E.NONE, E.REBALANCE_IN_PROGRESS, 14),
        (RetriableError("full", code=ErrorCode.COORDINATOR_NOT_AVAILABLE), 15, 15, E.NOT_COORDINATOR),
        (UnknownOutcomeError("late"), 7, 7, E.NOT_COORDINATOR),
        (StorageError("broken"), E.NOT_COORDINATOR, E.NOT_COORDINATOR, E.NOT_COORDINATOR),
        (OverloadedError("slow readers"), E.NONE, E.REBALANCE_IN_PROGRESS, E.COORDINATOR_LOAD_IN_PROGRESS),
    ],
    ids=lambda given: str(getattr(given, "code", "")),
)
async def test_no_client_gets_an_error_that_ends_it(
    frame: Frame,
    ask: Callable[..., Awaitable[Any]],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    heartbeat: int,
    sync: int,
    fetched: int,
):
    """Java's consumers before 3.9 and aiokafka end at errors that Kafka's coordinators never answer to a request.

    aiokafka reads errors of partitions only: without one it began at `auto_offset_reset`, and skipped records.
    """

    async def fail(*_: Any, **__: Any) -> Any:
        raise error

    groups = frame.context.groups
    for owner, name in ((groups.classic, "heartbeat"), (groups.classic, "sync"), (groups, "fetch_offsets")):
        monkeypatch.setattr(owner, name, fail)
    assert (
        await ask(HEARTBEAT, 3, HeartbeatRequest(group_id="g", member_id="m", generation_id=1))
    ).error_code == heartbeat
    assert (await ask(SYNC, 3, sync_group.SyncGroupRequest(group_id="g", generation_id=1))).error_code == sync
    topic = offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    answer = await ask(FETCH, 3, offset_fetch.OffsetFetchRequest(group_id="g", topics=[topic]))
    assert [answer.error_code, answer.topics[0].partitions[0].error_code] == [fetched, fetched]
    group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)
    answer = await ask(FETCH, 8, offset_fetch.OffsetFetchRequest(groups=[group]))
    assert answer.groups[0].error_code == fetched


async def test_slow_readers_keep_no_member_from_its_offsets(frame: Frame, ask: Callable[..., Awaitable[Any]]):
    frame.inflight.hold_answer(frame.inflight.answer_space())
    topic = offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=[0])
    answer = await ask(FETCH, 3, offset_fetch.OffsetFetchRequest(group_id="g", topics=[topic]))
    assert [answer.error_code, answer.topics[0].partitions[0].error_code] == [0, 0]
