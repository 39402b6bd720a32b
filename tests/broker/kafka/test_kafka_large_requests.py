"""Requests with very many entries: each is answered or closes its connection, and none holds the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kafka_listener import Client, request
from large_requests import Array, arrays

from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Address
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import join_group, offset_commit
from tests.broker.listener_support import connected
from tests.broker.stall_support import require_no_stall_each_time

pytestmark = pytest.mark.cluster
COMMANDS = {"CreateTopics", "DeleteTopics", "CreatePartitions", "AlterConfigs", "IncrementalAlterConfigs"}
"""APIs whose every entry is a command to the controller: 2,000 of them take many seconds."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with LocalCluster(tmp_path_factory.mktemp("large"), controllers=1, brokers=1, port=0) as cluster:
        yield cluster


async def answered(address: Address, frame: bytes) -> None:
    """Send a request, and wait until it is answered or the connection is closed."""
    async with connected(address) as streams, asyncio.timeout(60):
        kafka = Client(*streams)
        await kafka.send(frame)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await kafka.frame()


def counts(array: Array) -> tuple[int, ...]:
    """Return numbers of entries: what every handler takes, what some take, and almost what a connection takes."""
    if array.api in COMMANDS:
        return (29_000,)
    if array.api == "Produce":
        return (1_990, 9_990, 19_990)  # It takes 10,000 partitions.
    return (1_990, 19_990, 29_000) if len(array.path) == 1 else (1_990, 19_990)


@pytest.mark.parametrize("array", list(arrays()), ids=str)
def test_no_number_of_entries_holds_the_event_loop(nodes: LocalCluster, stall_file: Path, array: Array):
    address = nodes.node("broker-1").public
    assert address is not None
    for count in counts(array):
        frame = request(array.key, array.version, array.request(count))
        require_no_stall_each_time(stall_file, lambda frame=frame: asyncio.run(answered(address, frame)))


CHANGES_WHAT_IS_HEAVY = COMMANDS | {"LeaveGroup", "DeleteRecords", "AlterPartitionReassignments"}
HEAVY = "heavy"
"""A topic with many partitions, and a group with a large member and many offsets: one request names it many times."""


@pytest.fixture(scope="module")
def heavy(nodes: LocalCluster) -> Address:
    """Make what `HEAVY` names; return the broker's address."""
    with Admin(nodes.bootstrap) as admin:
        admin.create_topic(HEAVY, partitions=1_000, replication_factor=1)
        admin.find_coordinator("group", HEAVY)
    address = nodes.node("broker-1").public
    assert address is not None
    entries = [
        offset_commit.OffsetCommitRequestPartition(
            partition_index=one, committed_offset=0, committed_metadata="m" * 200
        )
        for one in range(1_000)
    ]
    topics = [offset_commit.OffsetCommitRequestTopic(name=HEAVY, partitions=entries)]
    message = offset_commit.OffsetCommitRequest(group_id=HEAVY, topics=topics)
    assert asyncio.run(commit_errors(address, message)) == {0}
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"x" * 1_000_000)
    joining = join_group.JoinGroupRequest(
        group_id=HEAVY,
        session_timeout_ms=600_000,
        rebalance_timeout_ms=600_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    asyncio.run(answered(address, request(11, 3, joining)))
    return address


@pytest.mark.parametrize("array", [one for one in arrays() if one.api not in CHANGES_WHAT_IS_HEAVY], ids=str)
def test_a_name_that_is_repeated_holds_no_event_loop(heavy: Address, stall_file: Path, array: Array):
    for count in (500, 1_990):
        frame = request(array.key, array.version, array.request(count, HEAVY))
        require_no_stall_each_time(stall_file, lambda frame=frame: asyncio.run(answered(heavy, frame)))


def test_a_commit_of_ten_thousand_offsets_does_not_hold_the_event_loop(nodes: LocalCluster, stall_file: Path):
    with Admin(nodes.bootstrap) as admin:
        admin.create_topic("committed", partitions=1, replication_factor=1)
        admin.find_coordinator("group", "g")
    address = nodes.node("broker-1").public
    assert address is not None
    for count, numbers in ((9_900, {0}), (10_001, {KafkaError.INVALID_REQUEST})):
        entries = [
            offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=one) for one in range(count)
        ]
        topics = [offset_commit.OffsetCommitRequestTopic(name="committed", partitions=entries)]
        message = offset_commit.OffsetCommitRequest(group_id="g", topics=topics)

        def commit(message: object = message, numbers: object = numbers) -> None:
            assert asyncio.run(commit_errors(address, message)) == numbers  # type: ignore[arg-type]

        require_no_stall_each_time(stall_file, commit)
    with Admin(nodes.bootstrap) as admin:
        assert admin.group_offsets("g") == {("committed", 0): 9_899}


async def commit_errors(address: Address, message: offset_commit.OffsetCommitRequest) -> set[int]:
    """Commit, once the coordinator has loaded its log; return the errors."""
    waits = {KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR}
    async with connected(address) as streams, asyncio.timeout(60):
        kafka = Client(*streams)
        while True:
            await kafka.send(request(8, 9, message))
            answer = (await kafka.answer(8, 9))[1]
            found = {one.error_code for one in answer.topics[0].partitions}
            if not found & waits:
                return found
            await asyncio.sleep(0.1)
