"""Small requests for large answers: a name counts once, and the bytes of an answer are limited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kafka_frame import Frame, broker_for_kafka
from kafka_listener import Client, request

from raftlog.wire import paths
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import (
    describe_configs,
    describe_producers,
    fetch,
    join_group,
    metadata,
    offset_commit,
    offset_fetch,
)
from raftlog.wire.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from raftlog.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from raftlog.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from raftlog.wire.kafka.messages.describe_transactions import DescribeTransactionsRequest
from raftlog.wire.metadata import CreateTopicRequest
from tests.broker.listener_support import connected

pytestmark = pytest.mark.cluster
WAITS = {KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR}


@pytest_asyncio.fixture
async def frame(tmp_path: Path, free_ports: Callable[[int], list[int]]) -> AsyncIterator[Frame]:
    """Return a broker with the topic `t`, and the group `g`, which has an offset."""
    async with broker_for_kafka(tmp_path, free_ports(3), offsets_topic_num_partitions=1) as frame:
        async with asyncio.timeout(30):
            while not frame.context.listener.image.brokers or frame.context.lifecycle.fenced:
                await asyncio.sleep(0.02)
            command = CreateTopicRequest(topic="t", partitions=1, replication_factor=1)
            await frame.context.channel.administer(paths.CREATE_TOPIC, command, timeout_ms=10_000)
            while frame.context.image.topic("t") is None or not frame.context.leads("t", 0):
                await asyncio.sleep(0.01)
            await frame.context.internal_topics.coordinator("group", "g", timeout_ms=10_000)
            while await committed(frame) in WAITS:
                await asyncio.sleep(0.05)
        yield frame


async def committed(frame: Frame) -> int:
    """Commit an offset of the group `g`; return the error."""
    part = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = [offset_commit.OffsetCommitRequestTopic(name="t", partitions=[part])]
    answer = await asking(frame, 8, 8, offset_commit.OffsetCommitRequest(group_id="g", topics=topics))
    return int(answer.topics[0].partitions[0].error_code)


async def asking(frame: Frame, key: int, version: int, message: Any) -> Any:
    async with asyncio.timeout(20), connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        await kafka.send(request(key, version, message))
        return (await kafka.answer(key, version))[1]


def fetching(*groups: str) -> offset_fetch.OffsetFetchRequest:
    asked = [offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups]
    return offset_fetch.OffsetFetchRequest(groups=asked)


async def test_the_offsets_of_a_group_are_answered_once(frame: Frame):
    answer = await asking(frame, 9, 8, fetching("g", "g", "other", "g"))
    assert [(one.group_id, one.error_code, len(one.topics)) for one in answer.groups] == [
        ("g", 0, 1),
        ("g", KafkaError.INVALID_REQUEST, 0),
        ("other", 0, 0),
        ("g", KafkaError.INVALID_REQUEST, 0),
    ]
    assert answer.groups[0].topics[0].partitions[0].committed_offset == 7


async def test_an_answer_beyond_the_limit_of_answers_is_refused_for_now(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr(frame.inflight, "answer_bytes", frame.inflight._max_bytes)
        answer = await asking(frame, 9, 8, fetching("g", "other"))
        refused = KafkaError.COORDINATOR_LOAD_IN_PROGRESS  # Java's consumers end at a throttling error here.
        assert (answer.groups[0].error_code, answer.groups[0].topics) == (refused, [])
        # A few offsets of one group are answered all the same: without them, its consumer cannot begin to read.
        assert (await asking(frame, 9, 8, fetching("g"))).groups[0].error_code == 0
    answer = await asking(frame, 9, 8, fetching("g", "other"))
    assert answer.groups[0].error_code == 0
    async with asyncio.timeout(5):
        while frame.inflight.answer_bytes:
            await asyncio.sleep(0.01)


async def test_a_large_answer_counts_until_it_is_sent(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    image = frame.context.image
    topic = image.topic("t")
    assert topic is not None
    named = {f"name-of-a-topic-{number:05}": f"{number:032x}" for number in range(2_000)}
    topics = {key: replace(topic, topic=name, topic_id=key) for name, key in named.items()}
    held, real = list[int](), frame.inflight.hold_answer
    with monkeypatch.context() as patch:
        patch.setattr(frame.context.listener, "image", replace(image, topics=topics, names=named))
        patch.setattr(frame.inflight, "hold_answer", lambda size, address: (held.append(size), real(size, address)))
        answer = await asking(frame, 3, 12, metadata.MetadataRequest(topics=None))
        assert (len(answer.topics), len(held), held[0] > 100_000) == (2_000, 1, True)
        patch.setattr(frame.inflight, "answer_bytes", frame.inflight._max_bytes)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await asking(frame, 3, 12, metadata.MetadataRequest(topics=None))
        few = [metadata.MetadataRequestTopic(name=name) for name in list(named)[:10]]
        assert len((await asking(frame, 3, 12, metadata.MetadataRequest(topics=few))).topics) == 10


async def test_the_settings_of_resources_count_while_they_are_described(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    resource = describe_configs.DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
    message = describe_configs.DescribeConfigsRequest(
        resources=[resource] * 3, include_synonyms=True, include_documentation=True
    )
    answer = await asking(frame, 32, 4, message)
    assert [one.error_code for one in answer.results] == [0] * 3
    with monkeypatch.context() as patch:
        patch.setattr(frame.inflight, "_max_bytes", frame.inflight.answer_bytes + 40_000)
        answer = await asking(frame, 32, 4, message)
        codes = [one.error_code for one in answer.results]
        assert codes == [0, 0, KafkaError.THROTTLING_QUOTA_EXCEEDED]
    async with asyncio.timeout(5):
        while frame.inflight.answer_bytes:
            await asyncio.sleep(0.01)


async def test_groups_and_transactional_ids_are_described_and_deleted_once(frame: Frame):
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"x" * 100_000)
    joining = join_group.JoinGroupRequest(
        group_id="joined",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    assert (await asking(frame, 11, 3, joining)).error_code == 0
    answer = await asking(frame, 15, 5, DescribeGroupsRequest(groups=["joined"] * 1_000))
    assert [len(group.members) for group in answer.groups] == [1]
    described = await asking(frame, 69, 1, ConsumerGroupDescribeRequest(group_ids=["joined"] * 1_000))
    assert [group.group_id for group in described.groups] == ["joined"]
    deleted = await asking(frame, 42, 2, DeleteGroupsRequest(groups_names=["joined"] * 1_000))
    assert [one.error_code for one in deleted.results] == [KafkaError.NON_EMPTY_GROUP]
    states = await asking(frame, 65, 0, DescribeTransactionsRequest(transactional_ids=["id"] * 1_000))
    assert [one.transactional_id for one in states.transaction_states] == ["id"]


async def test_the_producers_of_a_partition_are_described_once(frame: Frame):
    topics = [describe_producers.TopicRequest(name="t", partition_indexes=[0] * 3)] * 2
    answer = await asking(frame, 61, 0, describe_producers.DescribeProducersRequest(topics=topics))
    codes = [one.error_code for topic in answer.topics for one in topic.partitions]
    assert codes == [0] + [KafkaError.INVALID_REQUEST] * 5


async def test_a_partition_that_a_fetch_names_twice_is_read_once(frame: Frame):
    part = fetch.FetchPartition(partition=0, partition_max_bytes=100)
    topics = [fetch.FetchTopic(topic="t", partitions=[part] * 3)] * 2
    answer = await asking(frame, 1, 11, fetch.FetchRequest(topics=topics, max_bytes=100))
    codes = [one.error_code for topic in answer.responses for one in topic.partitions]
    assert codes == [0] + [KafkaError.INVALID_REQUEST] * 5
