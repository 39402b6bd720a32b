"""Log folders, the quorum, brokers, reassignments and elections."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from admin_support import Asker, asker, codes

from raftlog.wire.kafka.error_codes import KafkaError as K
from raftlog.wire.kafka.messages import alter_partition_reassignments as alter
from raftlog.wire.kafka.messages import describe_quorum as quorum
from raftlog.wire.kafka.messages import list_partition_reassignments as listing
from raftlog.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from raftlog.wire.kafka.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from raftlog.wire.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from raftlog.wire.kafka.messages.unregister_broker import UnregisterBrokerRequest

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ask(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    async with asker(tmp_path_factory.mktemp("node")) as found:
        topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in "tu"]
        assert codes((await found(CreateTopicsRequest(topics=topics, timeout_ms=30_000))).topics) == [0, 0]
        yield found


class TestLogDirs:
    async def test_every_replica_has_a_size_in_every_version(self, ask: Asker):
        for version in ask.versions("DescribeLogDirs"):
            (folder,) = (await ask(DescribeLogDirsRequest(topics=None), version)).results
            assert folder.log_dir == ask.context.config.data_dir
            sizes = {topic.name: [one.partition_index for one in topic.partitions] for topic in folder.topics}
            assert sizes == {"t": [0, 1], "u": [0, 1]}
            assert (folder.total_bytes > 0) == (version >= 4)

    async def test_only_what_is_named(self, ask: Asker):
        named = [DescribableLogDirTopic(topic="t", partitions=[1, 1, -3]), DescribableLogDirTopic(topic="no")]
        (folder,) = (await ask(DescribeLogDirsRequest(topics=named))).results
        assert [(one.name, [p.partition_index for p in one.partitions]) for one in folder.topics] == [("t", [1])]
        (folder,) = (await ask(DescribeLogDirsRequest(topics=[]))).results
        assert folder.topics == []


def of_log(name: str, *partitions: int) -> quorum.DescribeQuorumRequestTopicData:
    asked = [quorum.DescribeQuorumRequestPartitionData(partition_index=one) for one in partitions]
    return quorum.DescribeQuorumRequestTopicData(topic_name=name, partitions=asked)


class TestQuorum:
    async def test_the_metadata_log_in_every_version(self, ask: Asker):
        for version in ask.versions("DescribeQuorum"):
            found = await ask(quorum.DescribeQuorumRequest(topics=[of_log("__cluster_metadata", 0)]), version)
            (partition,) = found.topics[0].partitions
            assert (partition.error_code, partition.leader_id) == (0, 1)
            assert partition.high_watermark > 0
            assert [voter.replica_id for voter in partition.current_voters] == [1]
            assert [node.node_id for node in found.nodes] == ([1] if version >= 2 else [])

    async def test_other_logs_are_not_known(self, ask: Asker):
        found = await ask(quorum.DescribeQuorumRequest(topics=[of_log("__cluster_metadata", 1), of_log("t", 0)]))
        assert [codes(topic.partitions) for topic in found.topics] == [[K.UNKNOWN_TOPIC_OR_PARTITION]] * 2

    async def test_too_many_partitions_are_refused(self, ask: Asker):
        found = await ask(quorum.DescribeQuorumRequest(topics=[of_log("t", *range(20_000))]))
        assert found.error_code == K.POLICY_VIOLATION


@pytest.mark.parametrize(
    ("broker", "code"), [(9, K.BROKER_ID_NOT_REGISTERED), (-1, K.BROKER_ID_NOT_REGISTERED), (1, K.INVALID_REQUEST)]
)
async def test_only_a_dead_broker_can_be_unregistered(ask: Asker, broker: int, code: K):
    found = await ask(UnregisterBrokerRequest(broker_id=broker))
    assert found.error_code == code
    assert found.error_message


def moved(name: str, *partitions: tuple[int, list[int] | None]) -> alter.ReassignableTopic:
    given = [alter.ReassignablePartition(partition_index=number, replicas=ids) for number, ids in partitions]
    return alter.ReassignableTopic(name=name, partitions=given)


async def move(ask: Asker, *topics: alter.ReassignableTopic, version: int | None = None, **more: Any) -> Any:
    request = alter.AlterPartitionReassignmentsRequest(topics=list(topics), timeout_ms=30_000, **more)
    found = await ask(request, version)
    assert found.error_code == 0
    return [codes(topic.partitions) for topic in found.responses]


class TestReassignments:
    async def test_each_partition_has_its_own_answer(self, ask: Asker):
        for version in ask.versions("AlterPartitionReassignments"):
            found = await move(
                ask,
                moved("t", (0, [1]), (1, [9]), (2, [1]), (-1, [1])),
                moved("u", (0, None), (1, []), (1, [1])),
                moved("nothing", (0, [1])),
                moved("", (0, [1, 1])),
                version=version,
            )
            unknown = K.UNKNOWN_TOPIC_OR_PARTITION
            assert found == [
                [K.NONE, K.INVALID_REPLICA_ASSIGNMENT, unknown, unknown],
                [K.NO_REASSIGNMENT_IN_PROGRESS, K.INVALID_REQUEST, K.INVALID_REQUEST],
                [unknown],
                [unknown],
            ]

    async def test_another_number_of_replicas_can_be_forbidden(self, ask: Asker):
        found = await move(ask, moved("t", (0, [1])), allow_replication_factor_change=False)
        assert found == [[K.NONE]]

    async def test_10000_partitions_are_refused(self, ask: Asker):
        (found,) = await move(ask, moved("t", *((number, [1]) for number in range(10_000))))
        assert set(found) == {K.POLICY_VIOLATION}

    async def test_nothing_is_in_progress(self, ask: Asker):
        named = [listing.ListPartitionReassignmentsTopics(name="no", partition_indexes=[0, -1])]
        for topics in (None, [], named):
            found = await ask(listing.ListPartitionReassignmentsRequest(topics=topics, timeout_ms=30_000))
            assert (found.error_code, found.topics) == (0, [])


class TestElections:
    async def elect(self, ask: Asker, kind: int, topics: Any, version: int | None = None) -> Any:
        request = ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=30_000)
        found = await ask(request, version)
        results = {one.topic: codes(one.partition_result) for one in found.replica_election_results}
        return found.error_code or results

    @pytest.mark.parametrize("kind", [0, 1])
    async def test_an_election_that_is_not_needed_says_so(self, ask: Asker, kind: int):
        for version in ask.versions("ElectLeaders"):
            named = [
                TopicPartitions(topic="t", partitions=[0, 0, 5]),
                TopicPartitions(topic="no", partitions=[0]),
                TopicPartitions(topic="u", partitions=[-1]),
            ]
            unknown = K.UNKNOWN_TOPIC_OR_PARTITION
            found = await self.elect(ask, kind, named, version)
            assert found == {"t": [K.ELECTION_NOT_NEEDED, unknown], "no": [unknown], "u": [unknown]}

    async def test_all_partitions(self, ask: Asker):
        assert await self.elect(ask, 0, None) == {}
        assert await self.elect(ask, 1, None) == {}
        assert await self.elect(ask, 0, []) == {}

    async def test_other_types_are_refused(self, ask: Asker):
        assert await self.elect(ask, 7, None) == K.INVALID_REQUEST
        assert await self.elect(ask, -1, []) == K.INVALID_REQUEST

    async def test_20000_partitions_are_refused(self, ask: Asker):
        found = await self.elect(ask, 0, [TopicPartitions(topic="t", partitions=list(range(20_000)))])
        assert set(found["t"]) == {K.POLICY_VIOLATION}
