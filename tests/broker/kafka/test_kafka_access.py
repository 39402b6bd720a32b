"""Access rules and the audit log at Kafka's handlers: the rules of the HTTP routes that do the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from kafka_frame import Frame, broker_for_kafka
from kafka_listener import Client, request

from raftlog.broker.kafka.handlers import HANDLERS
from raftlog.config import SecurityConfig
from raftlog.model import Acl
from raftlog.security.audit import AuditTrail
from raftlog.security.kafka_apis import KAFKA
from raftlog.wire import media, paths
from raftlog.wire.admin import QuotaRequest
from raftlog.wire.kafka.api_keys import APIS
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import (
    create_topics,
    delete_records,
    fetch,
    list_offsets,
    metadata,
    offset_commit,
    offset_for_leader_epoch,
    produce,
)
from raftlog.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from raftlog.wire.kafka.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from raftlog.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from raftlog.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from raftlog.wire.metadata import CreateTopicRequest
from tests.broker.listener_support import connected

pytestmark = pytest.mark.cluster
TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)


def rule(operation: str, name: str, resource: str = "topic") -> Acl:
    return Acl(principal="*", operation=operation, resource_type=resource, resource_name=name)  # type: ignore[arg-type]


@pytest_asyncio.fixture
async def frame(tmp_path: Path, free_ports: Callable[[int], list[int]]) -> AsyncIterator[Frame]:
    """Return a broker with the topics `t` and `open`, which enforces rules. There are none yet."""
    (tmp_path / "cluster.key").write_text("c" * 64)
    security = SecurityConfig(
        authorizer="acl",
        super_users=("User:admin",),
        cluster_key_file=str(tmp_path / "cluster.key"),
    )
    async with broker_for_kafka(tmp_path, free_ports(3), security=security, offsets_topic_num_partitions=1) as frame:
        async with asyncio.timeout(30):
            while not frame.context.listener.image.brokers or frame.context.lifecycle.fenced:
                await asyncio.sleep(0.02)
            for name in ("t", "open"):
                command = CreateTopicRequest(topic=name, partitions=1, replication_factor=1)
                await frame.context.channel.administer(paths.CREATE_TOPIC, command, timeout_ms=10_000)
            while not all(frame.context.image.topic(one) and frame.context.leads(one, 0) for one in ("t", "open")):
                await asyncio.sleep(0.01)
        yield frame


def with_rules(frame: Frame, monkeypatch: pytest.MonkeyPatch, *rules: Acl) -> None:
    """Let the broker see rules, as if its metadata had them."""
    kept: Iterable[Acl] = dict.fromkeys(rules)
    monkeypatch.setattr(frame.context.access, "_rules", lambda: kept)


async def asking(frame: Frame, key: int, version: int, message: Any) -> Any:
    """Return the response; None: the connection was closed."""
    async with asyncio.timeout(10), connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        await kafka.send(request(key, version, message))
        try:
            return (await kafka.answer(key, version))[1]
        except (asyncio.IncompleteReadError, ConnectionError):
            return None


def messages(topic: str) -> dict[tuple[int, int], Any]:
    """Return a request about a topic for each API that is about topics, by API and version."""
    data = [produce.PartitionProduceData(index=0, records=None)]
    position = [fetch.FetchPartition(partition=0, partition_max_bytes=100)]
    time = [list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    epoch = [offset_for_leader_epoch.OffsetForLeaderPartition(partition=0)]
    before = [delete_records.DeleteRecordsPartition(partition_index=0, offset=-1)]
    return {
        (0, 8): produce.ProduceRequest(
            acks=1, topic_data=[produce.TopicProduceData(name=topic, partition_data=data)], timeout_ms=1_000
        ),
        (1, 11): fetch.FetchRequest(topics=[fetch.FetchTopic(topic=topic, partitions=position)]),
        (2, 5): list_offsets.ListOffsetsRequest(topics=[list_offsets.ListOffsetsTopic(name=topic, partitions=time)]),
        (3, 9): metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=topic)]),
        (21, 2): delete_records.DeleteRecordsRequest(
            topics=[delete_records.DeleteRecordsTopic(name=topic, partitions=before)], timeout_ms=1_000
        ),
        (23, 4): offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic=topic, partitions=epoch)]
        ),
        (75, 0): DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)]),
    }


def error_of(response: Any) -> int:
    """Return the error of the one topic, or of its one partition."""
    (topic,) = response.responses if hasattr(response, "responses") else response.topics
    if getattr(topic, "error_code", 0):
        return int(topic.error_code)
    found = getattr(topic, "partition_responses", None) or topic.partitions
    return int(found[0].error_code)


async def test_without_rules_every_request_that_needs_a_login_closes_the_connection(frame: Frame):
    for key in HANDLERS:
        route = KAFKA[key]
        if route.gate == "open" or any(right.replaceable for right in route.any_of):
            continue
        message = next((one for (api, _), one in messages("t").items() if api == key), None)
        if message is not None:
            version = next(version for api, version in messages("t") if api == key)
            assert await asking(frame, key, version, message) is None, route.path
    assert await asking(frame, 60, 0, DescribeClusterRequest()) is None
    answer = await asking(frame, 22, 2, InitProducerIdRequest(transactional_id=None))
    assert answer.error_code == CLUSTER_DENIED


@pytest.mark.parametrize(("key", "version"), messages("t"))
async def test_a_topic_without_a_rule_is_refused_whether_it_exists_or_not(
    frame: Frame, key: int, version: int, monkeypatch: pytest.MonkeyPatch
):
    with_rules(frame, monkeypatch, rule("all", "open"))
    for name in ("t", "missing", "__consumer_offsets"):
        response = await asking(frame, key, version, messages(name)[key, version])
        assert error_of(response) == TOPIC_DENIED, (APIS[key].name, name)
    allowed = error_of(await asking(frame, key, version, messages("open")[key, version]))
    assert allowed != TOPIC_DENIED, APIS[key].name


async def test_listings_leave_out_what_a_sender_may_not_see(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    with_rules(frame, monkeypatch, rule("read", "open"))
    every = await asking(frame, 3, 9, metadata.MetadataRequest(topics=None))
    assert [one.name for one in every.topics] == ["open"]
    pages = await asking(frame, 75, 0, DescribeTopicPartitionsRequest())
    assert [one.name for one in pages.topics] == ["open"]
    assert pages.topics[0].topic_authorized_operations == (1 << 3) + (1 << 8), "read, and so describe"
    topic_id = bytes.fromhex(frame.context.topic("t").topic_id)
    by_id = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=None, topic_id=topic_id)])
    hidden = await asking(frame, 3, 12, by_id)
    assert (hidden.topics[0].name, hidden.topics[0].error_code) == (None, KafkaError.UNKNOWN_TOPIC_ID)


async def test_coordinators_and_producer_ids_have_rules(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    with_rules(frame, monkeypatch, rule("read", "g", "group"), rule("write", "open"))
    one = await asking(frame, 10, 3, FindCoordinatorRequest(key="other"))
    assert one.error_code == GROUP_DENIED
    assert (await asking(frame, 10, 3, FindCoordinatorRequest(key="g"))).error_code == 0
    transaction = await asking(frame, 10, 3, FindCoordinatorRequest(key="x", key_type=1))
    assert transaction.error_code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert (await asking(frame, 22, 2, InitProducerIdRequest(transactional_id=None))).error_code == 0


async def test_changes_and_refusals_are_in_the_audit_log(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    noted = list[dict[str, Any]]()
    monkeypatch.setattr(frame.context.access, "audit", AuditTrail("broker-1", noted.append, lambda: 0))
    with_rules(frame, monkeypatch, rule("delete", "open"))
    await asking(frame, 21, 2, messages("open")[21, 2])
    await asking(frame, 21, 2, messages("t")[21, 2])
    changes = [one for one in noted if one["event"] == "change"]
    assert [one["route"] for one in changes] == ["KAFKA DeleteRecords"] * 2
    assert [one["outcome"] for one in changes] == ["allowed", "failed"]
    assert changes[0]["detail"]["topics"][0]["name"] == "open"
    denied = next(one for one in noted if one["event"] == "denial")
    assert (denied["name"], denied["operation"], denied["listener"]) == ("t", "delete", "public")


async def test_commits_without_a_member_are_noted_whatever_id_they_name(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    """Equal ones of one id are summed up: some clients without a group commit so all the time."""
    noted = list[Any]()
    trail = AuditTrail("broker-1", noted.append, lambda: 0)
    monkeypatch.setattr(frame.context.access, "audit", trail)
    with_rules(frame, monkeypatch, rule("read", "g", "group"), rule("read", "open"))
    part = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = [offset_commit.OffsetCommitRequestTopic(name="open", partitions=[part])]

    async def commit(member: str) -> int:
        request = offset_commit.OffsetCommitRequest(group_id="g", member_id=member, topics=topics)
        code: int = (await asking(frame, 8, 8, request)).topics[0].partitions[0].error_code
        return code

    async with asyncio.timeout(20):
        while await commit("first"):  # Until the group has a coordinator.
            await asking(frame, 10, 3, FindCoordinatorRequest(key="g", key_type=0))
    trail.end_interval()
    noted.clear()
    assert [await commit(member) for member in ("", "", "x", "x")] == [0, 0, 0, 0]
    changes = [one["resource"] for one in noted if one["event"] == "change"]
    assert changes == [{}, {}, {"group": "g", "member": "x"}]
    trail.end_interval()
    assert [one["repeated"] for one in noted if one["event"] == "change" and "repeated" in one] == [1]


async def test_requests_that_changed_nothing_are_summed_up(frame: Frame, monkeypatch: pytest.MonkeyPatch):
    """A sender without credentials pushed everything out of the audit log: an answer refused each of its topics."""
    noted = list[dict[str, Any]]()
    trail = AuditTrail("broker-1", noted.append, lambda: 0)
    monkeypatch.setattr(frame.context.access, "audit", trail)
    with_rules(frame, monkeypatch, rule("create", "mine"))

    async def create(*names: str) -> None:
        topics = [create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
        await asking(frame, 19, 5, create_topics.CreateTopicsRequest(topics=topics, timeout_ms=5_000))

    for number in range(30):
        await create(f"t{number}", f"u{number}")
    await create("mine", "t")
    changes = [(one["outcome"], one["detail"]["topics"][0]["name"]) for one in noted if one["event"] == "change"]
    assert changes == [("failed", "t0"), ("failed", "mine")]
    noted.clear()
    trail.end_interval()
    assert [one["repeated"] for one in noted if one["event"] == "change"] == [29]


async def test_requests_before_a_login_are_charged_to_no_user(frame: Frame):
    """They shared one quota: 274 of 300 applications that started together could not log in."""
    quota = QuotaRequest(user="*", limits={"request_rate": 1.0})
    await frame.context.channel.administer(paths.ALTER_QUOTA, quota, timeout_ms=10_000)
    async with asyncio.timeout(10):
        while not frame.context.image.quotas:
            await asyncio.sleep(0.01)
    url = f"http://{frame.context.config.public}"
    async with aiohttp.ClientSession() as session:
        for _ in range(20):
            async with session.get(f"{url}{paths.OPENAPI}") as answer:
                assert (answer.status, answer.headers.get(media.THROTTLE_MS)) == (200, None)


async def test_a_connection_without_credentials_takes_no_memory_of_requests(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
):
    """Frames of unauthenticated clients filled the memory for requests, and no other client was served."""
    length = (8 << 20).to_bytes(4)
    async with asyncio.timeout(10), connected(frame.context.config.public) as (reader, writer):
        writer.write(length + bytes(1 << 20))
        assert await closed(reader)
    assert frame.inflight.bytes == 0
    with_rules(frame, monkeypatch, rule("read", "a group", "group"))
    async with asyncio.timeout(10), connected(frame.context.config.public) as (reader, writer):
        writer.write(length + bytes(1 << 20))
        while frame.inflight.bytes < 1 << 20:  # A rule gives it a right, so its frames may be large.
            await asyncio.sleep(0.01)


async def closed(reader: asyncio.StreamReader) -> bool:
    """Return whether the peer closes the connection without an answer."""
    try:
        return await reader.read() == b""
    except ConnectionError:
        return True
