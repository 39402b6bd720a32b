"""Every API that the broker offers, in every version, with requests that succeed and that fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
import pytest_asyncio
from kafka_frame import Frame, broker_for_kafka
from kafka_listener import Client, api_versions, request

from raftlog import Admin
from raftlog.broker.kafka.handlers import HANDLERS
from raftlog.security.kafka_apis import KAFKA
from raftlog.wire.kafka.api_keys import API_VERSIONS, APIS
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import delete_records, fetch, list_offsets, metadata, offset_for_leader_epoch, produce
from raftlog.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from raftlog.wire.kafka.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from raftlog.wire.kafka.messages.describe_topic_partitions import DescribeTopicPartitionsRequestCursor as Cursor
from raftlog.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from raftlog.wire.kafka.messages.init_producer_id import InitProducerIdRequest
from tests.broker.listener_support import connected

pytestmark = pytest.mark.cluster
TIME_MS = 1_700_000_000_000


@pytest_asyncio.fixture
async def frame(tmp_path: Path, free_ports: Callable[[int], list[int]]) -> AsyncIterator[Frame]:
    async with broker_for_kafka(tmp_path, free_ports(3), offsets_topic_num_partitions=1) as frame:
        url = f"http://{frame.context.config.public}"
        async with asyncio.timeout(30), Admin(url) as admin:
            while not (frame.context.listener.image.brokers and not frame.context.lifecycle.fenced):
                await asyncio.sleep(0.02)
            await admin.create_topic("t", partitions=3)
            while not (frame.context.image.topic("t") and all(frame.context.leads("t", one) for one in range(3))):
                await asyncio.sleep(0.01)
        yield frame


def a_batch(codec: int = 0, value: bytes = b"v" * 200) -> bytes:
    from aiokafka.record.default_records import DefaultRecordBatchBuilder  # noqa: PLC0415  (only here)

    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    builder.append(0, TIME_MS, b"k", value, [])
    return bytes(builder.build())


async def asking(kafka: Client, key: int, version: int, message: Any) -> Any:
    await kafka.send(request(key, version, message, correlation=version))
    async with asyncio.timeout(10):
        correlation, answer = await kafka.answer(key, version)
    assert correlation == version
    return answer


def versions(key: int) -> Iterator[int]:
    handler = HANDLERS[key]
    api = APIS[key]
    first = getattr(handler, "first", None)
    yield from range(api.first if first is None else first, api.last_stable + 1)


async def test_produce_and_fetch_in_every_version(frame: Frame):
    uuid = bytes.fromhex(frame.context.topic("t").topic_id)
    async with connected(frame.context.config.public) as streams:
        kafka, count = Client(*streams), 0
        for version in versions(0):
            data = [
                produce.PartitionProduceData(index=0, records=a_batch()),
                produce.PartitionProduceData(index=9, records=a_batch()),
                produce.PartitionProduceData(index=1, records=a_batch(codec=4)),
                produce.PartitionProduceData(index=2, records=b"garbage"),
            ]
            name = {"topic_id": uuid} if version >= 13 else {"name": "t"}
            topics = [produce.TopicProduceData(partition_data=data, **name)]  # type: ignore[arg-type]
            answer = await asking(
                kafka, 0, version, produce.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
            )
            good, missing, zstd, garbage = answer.responses[0].partition_responses
            assert (good.error_code, good.base_offset) == (0, count)
            unknown = KafkaError.UNKNOWN_TOPIC_ID if version >= 13 else KafkaError.UNKNOWN_TOPIC_OR_PARTITION
            assert missing.error_code == unknown
            assert zstd.error_code == (KafkaError.UNSUPPORTED_COMPRESSION_TYPE if version < 7 else 0)
            assert garbage.error_code == KafkaError.CORRUPT_MESSAGE
            assert (garbage.error_message is not None) == (version >= 8)
            count += 1
        for version in versions(1):
            found = []
            for positions in ({0: 0, 8: 0}, {0: count + 5}):
                wanted = [
                    fetch.FetchPartition(partition=number, fetch_offset=at, partition_max_bytes=1 << 20)
                    for number, at in positions.items()
                ]
                name = {"topic_id": uuid} if version >= 13 else {"topic": "t"}
                topics = [fetch.FetchTopic(partitions=wanted, **name)]  # type: ignore[arg-type]
                fetching = fetch.FetchRequest(
                    topics=topics, max_wait_ms=5_000, min_bytes=1, isolation_level=version % 2
                )
                if version >= 15:
                    fetching.replica_state = fetch.ReplicaState()
                found += (await asking(kafka, 1, version, fetching)).responses[0].partitions
            read, missing, beyond = found
            assert (read.error_code, read.high_watermark) == (0, count)
            assert len(read.records) == count * len(a_batch())
            assert beyond.error_code == KafkaError.OFFSET_OUT_OF_RANGE
            assert missing.error_code != 0
            assert (read.aborted_transactions is None) == (version % 2 == 0)


async def test_records_without_key_are_named_where_the_topic_is_compacted(frame: Frame):
    """A producer fails these records, and says of the others that they were in the same batch (KIP-467)."""
    from aiokafka.record.default_records import DefaultRecordBatchBuilder  # noqa: PLC0415  (only here)

    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 1 << 20)
    for number in range(1_500):
        builder.append(number, TIME_MS, None if number % 2 else b"k", b"v", [])
    data = [produce.PartitionProduceData(index=0, records=bytes(builder.build()))]
    async with Admin(f"http://{frame.context.config.public}") as admin:
        await admin.create_topic("c", configs={"cleanup_policy": "compact"})
    async with connected(frame.context.config.public) as streams:
        kafka, uuid = Client(*streams), bytes.fromhex(frame.context.topic("c").topic_id)
        for version in versions(0):
            name = {"topic_id": uuid} if version >= 13 else {"name": "c"}
            topics = [produce.TopicProduceData(partition_data=data, **name)]  # type: ignore[arg-type]
            message = produce.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics)
            (refused,) = (await asking(kafka, 0, version, message)).responses[0].partition_responses
            assert refused.error_code == KafkaError.INVALID_RECORD
            named = [one.batch_index for one in refused.record_errors]
            assert named == (list(range(1, 1_500, 2)) if version >= 8 else [])


async def test_fetches_of_sessions_and_of_followers_are_refused(frame: Frame):
    topics = [fetch.FetchTopic(topic="t", partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=100)])]
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        answer = await asking(kafka, 1, 11, fetch.FetchRequest(topics=topics, session_id=5, session_epoch=1))
        assert answer.error_code == KafkaError.FETCH_SESSION_ID_NOT_FOUND
        answer = await asking(kafka, 1, 11, fetch.FetchRequest(topics=topics, session_id=0, session_epoch=4))
        assert answer.error_code == KafkaError.INVALID_FETCH_SESSION_EPOCH
        answer = await asking(kafka, 1, 11, fetch.FetchRequest(topics=topics, replica_id=2))
        assert answer.error_code == KafkaError.INVALID_REQUEST
        answer = await asking(kafka, 1, 11, fetch.FetchRequest(topics=topics, session_epoch=0))
        assert (answer.error_code, answer.session_id) == (0, 0)


async def test_a_fetch_that_cannot_wait_here_is_answered_at_once_and_its_connection_pauses(
    frame: Frame, monkeypatch: pytest.MonkeyPatch
):
    topics = [fetch.FetchTopic(topic="t", partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=100)])]
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        monkeypatch.setattr(frame.parked, "_limit", 0)
        waiting = fetch.FetchRequest(topics=topics, max_wait_ms=20_000, min_bytes=1)
        answer = await asking(kafka, 1, 11, waiting)
        assert (answer.throttle_time_ms, answer.responses[0].partitions[0].error_code) == (500, 0)


async def send(kafka: Client, batch: bytes) -> None:
    data = [produce.PartitionProduceData(index=0, records=batch)]
    topics = [produce.TopicProduceData(name="t", partition_data=data)]
    await asking(kafka, 0, 9, produce.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics))


async def test_records_for_which_there_is_no_memory_come_later(frame: Frame):
    wanted = [fetch.FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    message = fetch.FetchRequest(topics=[fetch.FetchTopic(topic="t", partitions=wanted)], max_wait_ms=100)
    most = frame.context.config.broker.max_inflight_bytes
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        await send(kafka, a_batch())
        frame.inflight.hold_answer(most - 10)
        answer = await asking(kafka, 1, 11, message)
        assert (answer.throttle_time_ms, len(answer.responses[0].partitions[0].records)) == (500, 0)
        assert frame.fetching.converted.misses == 0, "no work for records that may not be sent"
        frame.inflight.release_answer(most - 10)
        answer = await asking(kafka, 1, 11, message)
        assert len(answer.responses[0].partitions[0].records) == len(a_batch())
    assert frame.inflight.answer_bytes == 0


async def test_as_many_records_are_sent_as_there_is_memory_for(frame: Frame):
    batch = a_batch(value=bytes(100_000))
    wanted = [fetch.FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    message = fetch.FetchRequest(topics=[fetch.FetchTopic(topic="t", partitions=wanted)], max_wait_ms=100, min_bytes=1)
    held = frame.context.config.broker.max_inflight_bytes - 250_000
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        for _ in range(4):
            await send(kafka, batch)
        frame.inflight.hold_answer(held)
        answer = await asking(kafka, 1, 11, message)
        assert (answer.throttle_time_ms, len(answer.responses[0].partitions[0].records)) == (0, 2 * len(batch))
        frame.inflight.release_answer(held)
    assert frame.inflight.answer_bytes == 0


async def test_a_fetch_that_waits_has_no_memory(frame: Frame):
    wanted = [fetch.FetchPartition(partition=0, partition_max_bytes=1 << 20)]
    message = fetch.FetchRequest(
        topics=[fetch.FetchTopic(topic="t", partitions=wanted)], max_wait_ms=20_000, min_bytes=1
    )
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        answering = asyncio.create_task(asking(kafka, 1, 11, message))
        while frame.parked.count < 1 and not answering.done():
            await asyncio.sleep(0)
        assert frame.inflight.answer_bytes == 0
        async with connected(frame.context.config.public) as others:
            await send(Client(*others), a_batch())
        assert len((await answering).responses[0].partitions[0].records) == len(a_batch())
    assert frame.inflight.answer_bytes == 0


@pytest.mark.parametrize("codec", [0, 4], ids=["plain", "zstd"])
async def test_an_answer_keeps_the_memory_that_it_needs_while_it_is_converted(
    frame: Frame, monkeypatch: pytest.MonkeyPatch, codec: int
):
    held = list[int]()
    wanted = [fetch.FetchPartition(partition=0, partition_max_bytes=16 << 20)]
    message = fetch.FetchRequest(topics=[fetch.FetchTopic(topic="t", partitions=wanted)], min_bytes=1)
    real = frame.fetching.converted.get

    def converted(*batch: Any) -> bytes:
        held.append(frame.inflight.answer_bytes)
        return real(*batch)

    monkeypatch.setattr(frame.fetching.converted, "get", converted)
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        await send(kafka, a_batch(codec, bytes(100_000)))
        answer = await asking(kafka, 1, 11, message)
    assert answer.responses[0].partitions[0].records
    assert 100_000 <= held[0] <= 200_000


async def test_requests_of_10_000_topics_leave_the_event_loop_free(frame: Frame):
    names, longest = [f"missing-{number}" for number in range(10_000)], 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = thread_time()  # Other processes take turns on this machine.
            await asyncio.sleep(0)
            longest = max(longest, thread_time() - before)

    position = [fetch.FetchPartition(partition=0, partition_max_bytes=100)]
    time = [list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
    epoch = [offset_for_leader_epoch.OffsetForLeaderPartition(partition=0)]
    requests = {
        (1, 11): fetch.FetchRequest(topics=[fetch.FetchTopic(topic=one, partitions=position) for one in names]),
        (2, 5): list_offsets.ListOffsetsRequest(
            topics=[list_offsets.ListOffsetsTopic(name=one, partitions=time) for one in names]
        ),
        (3, 9): metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=one) for one in names]),
        (23, 4): offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic=one, partitions=epoch) for one in names]
        ),
    }
    sent = {api: request(*api, message) for api, message in requests.items()}
    stalls = {}
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        watching = asyncio.create_task(watch())
        for api, data in [*sent.items()] * 3:  # The fastest of several is what the code needs.
            longest = 0.0
            kafka.writer.write(data)
            assert len(await kafka.frame()) > 100_000
            name = APIS[api[0]].name
            stalls[name] = min(round(longest * 1_000), stalls.get(name, 1_000))
        watching.cancel()
    assert max(stalls.values()) < 50, f"{stalls} ms of CPU, this test's own work included"


async def test_lookups_of_offsets_in_every_version(frame: Frame):
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        data = [produce.PartitionProduceData(index=0, records=a_batch())]
        topics = [produce.TopicProduceData(name="t", partition_data=data)]
        await asking(kafka, 0, 9, produce.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=topics))
        for version in versions(2):
            wanted = [
                list_offsets.ListOffsetsPartition(partition_index=0, timestamp=one)
                for one in (-1, -2, TIME_MS, TIME_MS + 1, -3, -77)
            ]
            wanted.append(list_offsets.ListOffsetsPartition(partition_index=50, timestamp=-1))
            message = list_offsets.ListOffsetsRequest(
                replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name="t", partitions=wanted)]
            )
            found = (await asking(kafka, 2, version, message)).topics[0].partitions
            assert [one.offset for one in found] == [1, 0, 0, -1, 0, -1, -1]
            assert [one.error_code for one in found] == [0, 0, 0, 0, 0, 35, 3]
        for version in versions(23):
            epochs = [
                offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0),
                offset_for_leader_epoch.OffsetForLeaderPartition(partition=9, leader_epoch=0),
            ]
            message = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
                topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=epochs)]
            )
            known, missing = (await asking(kafka, 23, version, message)).topics[0].partitions
            assert (known.error_code, known.end_offset, missing.error_code) == (0, 1, 3)
        for version in versions(21):
            partitions = [
                delete_records.DeleteRecordsPartition(partition_index=0, offset=-1),
                delete_records.DeleteRecordsPartition(partition_index=9, offset=-1),
            ]
            message = delete_records.DeleteRecordsRequest(
                topics=[delete_records.DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=5_000
            )
            done, missing = (await asking(kafka, 21, version, message)).topics[0].partitions
            assert (done.error_code, done.low_watermark, missing.error_code) == (0, 1, 3)


async def test_metadata_in_every_version(frame: Frame):
    topic_id = bytes.fromhex(frame.context.topic("t").topic_id)
    port = frame.context.config.public.port
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        for version in versions(3):
            names = [metadata.MetadataRequestTopic(name=one) for one in ("t", "missing", "t")]
            some = metadata.MetadataRequest(topics=names, include_topic_authorized_operations=version >= 8)
            answer = await asking(kafka, 3, version, some)
            assert [(one.node_id, one.host, one.port) for one in answer.brokers] == [(1, "127.0.0.1", port)]
            missing, found = sorted(answer.topics, key=lambda topic: topic.name)
            assert (missing.error_code, found.error_code) == (3, 0)
            assert [one.leader_id for one in found.partitions] == [1, 1, 1]
            assert found.topic_id == (topic_id if version >= 10 else bytes(16))
            assert (found.topic_authorized_operations > 0) == (version >= 8)
            every = metadata.MetadataRequest(topics=None if version else [])
            assert [one.name for one in (await asking(kafka, 3, version, every)).topics] == ["t"]
            if version:
                assert (await asking(kafka, 3, version, metadata.MetadataRequest(topics=[]))).topics == []
            if version >= 12:
                ids = [metadata.MetadataRequestTopic(name=None, topic_id=one) for one in (topic_id, b"x" * 16)]
                wrong, right = (await asking(kafka, 3, version, metadata.MetadataRequest(topics=ids))).topics
                assert (right.name, wrong.error_code) == ("t", KafkaError.UNKNOWN_TOPIC_ID)


async def test_descriptions_in_pages(frame: Frame):
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        for version in versions(60):
            answer = await asking(kafka, 60, version, DescribeClusterRequest())
            assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, "c", 1)
            if version:
                wrong = await asking(kafka, 60, version, DescribeClusterRequest(endpoint_type=2))
                assert wrong.error_code == KafkaError.MISMATCHED_ENDPOINT_TYPE
        topics = [TopicRequest(name=one) for one in ("t", "missing")]
        page = await asking(kafka, 75, 0, DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2))
        missing, found = page.topics
        assert (missing.error_code, len(found.partitions)) == (3, 2)
        assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("t", 2)
        cursor = Cursor(topic_name="t", partition_index=2)
        page = await asking(kafka, 75, 0, DescribeTopicPartitionsRequest(cursor=cursor))
        assert [one.partition_index for one in page.topics[0].partitions] == [2]
        assert page.next_cursor is None


async def test_coordinators_and_producer_ids_in_every_version(frame: Frame):
    async with connected(frame.context.config.public) as streams:
        kafka, ids = Client(*streams), set()
        for version in versions(10):
            if version >= 4:
                answer = await asking(kafka, 10, version, FindCoordinatorRequest(coordinator_keys=["a", "b"]))
                found = answer.coordinators
            else:
                found = [await asking(kafka, 10, version, FindCoordinatorRequest(key="a"))]
            assert [(one.error_code, one.node_id) for one in found] == [(0, 1)] * len(found)
            assert {one.port for one in found} == {frame.port}
        for version in versions(22):
            ids.add((await asking(kafka, 22, version, InitProducerIdRequest(transactional_id=None))).producer_id)
        assert len(ids) == len(list(versions(22)))


async def test_what_is_offered_is_the_table_of_handlers_and_each_has_rights(frame: Frame):
    async with connected(frame.context.config.public) as streams:
        kafka = Client(*streams)
        for version in range(5):
            await kafka.send(api_versions(version, version))
            _, answer = await kafka.answer(API_VERSIONS, version)
            assert {one.api_key for one in answer.api_keys} == {*HANDLERS, API_VERSIONS}
            assert {one.api_key: one.max_version for one in answer.api_keys} == {
                key: (getattr(HANDLERS.get(key), "last", None) or APIS[key].last_stable)
                for key in {*HANDLERS, API_VERSIONS}
            }
    for key, route in KAFKA.items():
        assert route.path == APIS[key].name
