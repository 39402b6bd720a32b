"""Producer, Consumer and Admin on a real cluster, with lost answers, full buffers, time-outs and damaged bytes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from unreliable_proxy import unreliable

import raftlog
from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import (
    ConfigError,
    CorruptBatchError,
    ErrorCode,
    InvalidRequestError,
    NotFoundError,
    OffsetOutOfRangeError,
    OverloadedError,
    RaftlogError,
    RetriableError,
    UnknownOutcomeError,
)
from raftlog.model import Address, TopicPartition
from raftlog.wire.metadata import ClientMetadata, TopicInfo

pytestmark = pytest.mark.cluster


@pytest.fixture
def url(shared_cluster: LocalCluster) -> str:
    return shared_cluster.bootstrap


async def create(url: str, topic: str, **settings: object) -> TopicInfo:
    async with Admin(url) as admin:
        return await admin.create_topic(topic, **{"partitions": 1, "replication_factor": 3, **settings})  # type: ignore[arg-type]


async def leader_of(shared_cluster: LocalCluster, info: TopicInfo) -> Address:
    address = shared_cluster.node(f"broker-{info.partitions[0].leader}").public
    assert address is not None
    return address


async def read_all(url: str, topic: str) -> list[raftlog.Record]:
    async with Consumer(url, topic, start="earliest") as consumer:
        ends, records = await consumer.end_offsets(), []
        while any(consumer.position(*partition) < end for partition, end in ends.items()):
            records += await consumer.fetch()
        return records


async def test_what_is_sent_is_read(url: str, topic_name: str):
    await create(url, topic_name, partitions=3)
    async with Producer(url) as producer:
        first = await producer.send(
            topic_name, b"v", key=b"k", headers={"h": b"1", "n": None}, timestamp=datetime.fromtimestamp(1, UTC)
        )
        many = await producer.send_many(topic_name, [b"%d" % number for number in range(500)])
        null = await producer.send(topic_name, partition=2)

    records = await read_all(url, topic_name)

    assert len(records) == 502
    (sent,) = [record for record in records if (record.partition, record.offset) == (first.partition, first.offset)]
    assert (sent.value, sent.key, sent.timestamp, sent.headers) == (b"v", b"k", 1_000_000, (("h", b"1"), ("n", None)))
    assert {(m.partition, m.offset) for m in many} <= {(r.partition, r.offset) for r in records}
    assert null.partition == 2


@pytest.mark.parametrize("acks", ["all", 1, 0])
async def test_every_kind_of_acknowledgement(url: str, topic_name: str, acks):
    await create(url, topic_name)
    async with Producer(url, acks=acks, compression="zstd") as producer:
        offsets = [(await producer.send(topic_name, b"%d" % number)).offset for number in range(5)]

    assert offsets == ([-1] * 5 if acks == 0 else list(range(5)))
    async with asyncio.timeout(20):
        while len(values := [record.value for record in await read_all(url, topic_name)]) < 5:
            await asyncio.sleep(0.01)
    assert values == [b"%d" % number for number in range(5)]


async def test_lost_answers_make_no_duplicates(url: str, topic_name: str, shared_cluster: LocalCluster):
    info = await create(url, topic_name)
    async with unreliable(await leader_of(shared_cluster, info), "/v1/produce") as (proxy, dial):
        async with Producer(url, dial=dial) as producer:
            proxy.lose = 3
            offsets = [(await producer.send(topic_name, b"%d" % number)).offset for number in range(4)]
        assert proxy.seen == 7

    assert offsets == [0, 1, 2, 3]
    assert [record.value for record in await read_all(url, topic_name)] == [b"0", b"1", b"2", b"3"]


async def test_a_send_without_any_answer_is_unknown_and_the_next_one_works(
    url: str, topic_name: str, shared_cluster: LocalCluster
):
    info = await create(url, topic_name)
    async with (
        unreliable(await leader_of(shared_cluster, info), "/v1/produce") as (proxy, dial),
        Producer(url, dial=dial, delivery_timeout_ms=2_000, linger_ms=0) as producer,
    ):
        proxy.lose = 1_000
        with pytest.raises(UnknownOutcomeError, match="it may be in the log"):
            await producer.send(topic_name, b"unknown")
        proxy.lose = 0
        known = await producer.send(topic_name, b"known")

    assert known.offset == 1
    assert [record.value for record in await read_all(url, topic_name)] == [b"unknown", b"known"]


async def test_a_send_that_is_cancelled_on_its_way_hinders_no_other(
    url: str, topic_name: str, shared_cluster: LocalCluster
):
    info = await create(url, topic_name)
    async with (
        unreliable(await leader_of(shared_cluster, info), "/v1/produce") as (proxy, dial),
        Producer(url, dial=dial, linger_ms=0) as producer,
    ):
        proxy.hold = "/v1/produce"
        sending = asyncio.create_task(producer.send(topic_name, b"cancelled"))
        await proxy.holding.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        proxy.release.set()
        later = await producer.send(topic_name, b"later")

    assert later.offset == 1
    assert [record.value for record in await read_all(url, topic_name)] == [b"cancelled", b"later"]


async def test_a_full_buffer_refuses_or_waits(url: str, topic_name: str):
    await create(url, topic_name)
    async with Producer(url, buffer_bytes=10_080, linger_ms=1_000) as producer:
        await producer.send(topic_name, b"first")
        queued = [producer.send_nowait(topic_name, b"x" * 5_000) for _ in range(2)]
        with pytest.raises(OverloadedError) as refused:
            producer.send_nowait(topic_name, b"y")
        waited = await producer.send(topic_name, b"z")

    assert refused.value.code is ErrorCode.BUFFER_EXHAUSTED
    assert [(await delivery).offset for delivery in queued] == [1, 2]
    assert waited.offset == 3


async def test_records_that_cannot_be_stored_fail_alone(url: str, topic_name: str):
    await create(url, topic_name, configs={"max_message_bytes": 4096})
    async with Producer(url, linger_ms=0) as producer:
        with pytest.raises(InvalidRequestError) as too_large:
            await producer.send(topic_name, b"x" * 10_000)
        with pytest.raises(InvalidRequestError, match="has partitions 0 to 0, received 5"):
            await producer.send(topic_name, b"x", partition=5)
        with pytest.raises(NotFoundError, match="there is no topic 'none'"):
            await producer.send("none", b"x")
        with pytest.raises(TypeError, match=r"value: expected bytes or None, received str: encode it"):
            await producer.send(topic_name, "text")  # type: ignore[arg-type]
        stored = await producer.send(topic_name, b"small")

    assert too_large.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert stored.offset == 0


async def test_order_holds_for_each_key(url: str, topic_name: str):
    await create(url, topic_name, partitions=4)
    async with Producer(url, batch_bytes=2_000) as producer:
        for number in range(2_000):
            producer.send_nowait(topic_name, b"%d" % number, key=b"k%d" % (number % 11))

    last: dict[bytes | None, int] = {}
    for record in await read_all(url, topic_name):
        assert int(record.value or b"") > last.get(record.key, -1)
        last[record.key] = int(record.value or b"")
    assert len(last) == 11


START_US = 1_700_000_000_000_000


async def test_starting_points_and_seeking(url: str, topic_name: str):
    await create(url, topic_name, configs={"retention_ms": -1})  # The records are years old.
    async with Producer(url) as producer:
        for number in range(10):
            await producer.send(topic_name, b"%d" % number, timestamp=START_US + number * 1_000_000)

    async def first(start) -> tuple[int, bytes | None]:
        async with Consumer(url, topic_name, start=start) as consumer:
            position = consumer.position(topic_name, 0)
            records = await consumer.fetch(max_records=1, max_wait_ms=100)
            return position, records[0].value if records else None

    assert await first("earliest") == (0, b"0")
    assert await first("latest") == (10, None)
    assert await first(START_US + 3_500_000) == (4, b"4")
    assert await first(datetime.fromtimestamp(START_US / 1e6 + 7, UTC)) == (7, b"7")
    async with Consumer(url, topic_name) as consumer:
        await consumer.seek(topic_name, 0, 6)
        assert [record.offset for record in await consumer.fetch(max_records=2)] == [6, 7]
        assert [record.offset for record in await consumer.fetch(max_records=2)] == [8, 9]
        await consumer.seek_to(START_US + 5_000_000)  # A record's own timestamp.
        assert [record.offset for record in await consumer.fetch(max_records=1)] == [5]
        await consumer.seek_to("earliest")
        table = await consumer.fetch_arrow()
        assert table.column("offset").to_pylist() == list(range(10))
        assert table.column_names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
        assert consumer.position(topic_name, 0) == 10
        assert await consumer.beginning_offsets() == {TopicPartition(topic_name, 0): 0}
        assert isinstance(table, pa.Table)


async def test_an_iteration_that_is_left_skips_nothing(url: str, topic_name: str):
    await create(url, topic_name)
    async with Producer(url) as producer:
        await producer.send_many(topic_name, [b"%d" % number for number in range(9)])

    async with Consumer(url, topic_name, start="earliest") as consumer:
        for expected in (b"0", b"1"):
            async for record in consumer:
                assert record.value == expected
                break
        assert consumer.position(topic_name, 0) == 2
        assert [record.value for record in await consumer.fetch()] == [b"%d" % number for number in range(2, 9)]


async def test_a_consumer_waits_for_records(url: str, topic_name: str):
    await create(url, topic_name, partitions=2)
    async with Consumer(url, topic_name) as consumer, Producer(url) as producer:
        waiting = asyncio.ensure_future(anext(aiter(consumer)))
        await producer.send(topic_name, b"new", partition=1)
        async with asyncio.timeout(10):
            record = await waiting

    assert (record.topic, record.partition, record.value) == (topic_name, 1, b"new")


async def test_positions_outside_the_log_are_errors_unless_asked_otherwise(url: str, topic_name: str):
    await create(url, topic_name)
    async with Producer(url) as producer:
        await producer.send(topic_name, b"only")

    async with Consumer(url, topic_name) as consumer:
        await consumer.seek(topic_name, 0, 99)
        with pytest.raises(OffsetOutOfRangeError, match="it holds 0 to 1"):
            await consumer.fetch()
    async with Consumer(url, topic_name, on_out_of_range="earliest") as consumer:
        await consumer.seek(topic_name, 0, 99)
        async with asyncio.timeout(10):
            while not (records := await consumer.fetch()):
                continue
    assert records[0].value == b"only"


async def test_damaged_bytes_are_not_delivered(url: str, topic_name: str, shared_cluster: LocalCluster):
    info = await create(url, topic_name)
    async with Producer(url) as producer:
        await producer.send(topic_name, b"x" * 1_000)
    async with (
        unreliable(await leader_of(shared_cluster, info), "/v1/fetch") as (proxy, dial),
        Consumer(url, topic_name, start="earliest", dial=dial) as consumer,
    ):
        for read in (consumer.fetch, consumer.fetch_arrow):
            for damaged in (1, 2):
                await consumer.seek(topic_name, 0, 0)
                proxy.corrupt = damaged
                if damaged == 2:  # The broker had checked the second answer: there is nothing left to try.
                    with pytest.raises(CorruptBatchError, match="payload checksum"):
                        await read(max_wait_ms=5_000)
                    assert consumer.position(topic_name, 0) == 0
                records = await read(max_wait_ms=5_000)
                assert (len(records), consumer.position(topic_name, 0), proxy.corrupt) == (1, 1, 0)


async def test_usage_errors_say_what_to_do(url: str, topic_name: str):
    with pytest.raises(ConfigError, match="expected a URL such as"):
        Producer("ftp://somewhere")
    with pytest.raises(ConfigError, match="topics: expected at least one"):
        Consumer(url)
    with pytest.raises(ConfigError, match="acks: expected"):
        Producer(url, acks="most")  # type: ignore[arg-type]
    async with Admin("http://127.0.0.1:1", timeout_ms=1_000) as admin:
        with pytest.raises(RaftlogError, match=r"cannot connect to 127\.0\.0\.1:1"):
            await admin.list_topics()
    await create(url, topic_name)
    with pytest.raises(NotFoundError, match="has partitions 0 to 0, received 3"):
        await Consumer(url, topic_name, partitions=[3]).__aenter__()


async def test_a_consumer_is_for_one_task_and_until_it_is_closed(url: str, topic_name: str):
    await create(url, topic_name)
    async with Consumer(url, topic_name) as consumer:
        waiting = asyncio.create_task(consumer.fetch(max_wait_ms=300))
        await asyncio.sleep(0.01)
        with pytest.raises(InvalidRequestError, match="another task is reading"):
            await consumer.fetch()
        assert await waiting == []
    await consumer.close()
    with pytest.raises(InvalidRequestError, match="this consumer is closed"):
        await consumer.fetch()
    with pytest.raises(InvalidRequestError, match="this consumer is closed"):
        await consumer.end_offsets()


async def test_topics_are_listed_described_and_deleted(url: str, topic_name: str):
    created = await create(url, topic_name, configs={"retention_ms": 5})
    async with Admin(url) as admin:
        assert topic_name in [info.topic for info in await admin.list_topics()]
        assert (await admin.describe_topic(topic_name)).configs["retention_ms"] == 5
        assert (await admin.create_topic(topic_name, if_not_exists=True)).topic_id == created.topic_id
        cluster = await admin.describe_cluster()
        await admin.delete_topic(topic_name)
        with pytest.raises(NotFoundError):
            await admin.delete_topic(topic_name)

    assert [broker.broker_id for broker in cluster.brokers] == [1, 2, 3]


async def test_a_producer_and_a_consumer_go_on_when_a_leader_is_killed(tmp_path, topic_name: str):
    with LocalCluster(tmp_path / "c", controllers=1, port=0) as cluster:
        url = cluster.bootstrap
        await create(url, topic_name, partitions=3)
        async with Producer(url) as producer, Consumer(url, topic_name, start="earliest") as consumer:
            sent = {(await producer.send(topic_name, b"%d" % number, partition=number % 3)) for number in range(30)}
            await asyncio.to_thread(cluster.kill, "broker-1")
            for number in range(30, 60):
                sent.add(await producer.send(topic_name, b"%d" % number, partition=number % 3))
            seen: list[raftlog.Record] = []
            async with asyncio.timeout(30):
                while len(seen) < 60:
                    seen += await consumer.fetch()

    assert sorted(int(record.value or b"") for record in seen) == list(range(60))
    assert {(m.partition, m.offset) for m in sent} == {(record.partition, record.offset) for record in seen}


async def test_a_partition_that_the_broker_has_not_heard_of_is_asked_of_the_controllers(
    shared_cluster: LocalCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
):
    """Brokers learn of new partitions one after another: one may be late, if its metadata update is slow."""
    async with Admin(shared_cluster.bootstrap) as admin, Producer(shared_cluster.bootstrap) as producer:
        await admin.create_topic(topic_name, partitions=1)
        await producer.send(topic_name, b"0", partition=0)
        late = await producer._connection._newest_metadata(f"/v1/metadata?topic={topic_name}")
        await admin.alter_topic(topic_name, partitions=3)

        async def newest(_: str) -> ClientMetadata:
            return late

        monkeypatch.setattr(producer._connection, "_newest_metadata", newest)
        assert (await producer.send(topic_name, b"2", partition=2)).partition == 2
        with pytest.raises(InvalidRequestError, match="partitions 0 to 2, received 3"):
            await producer.send(topic_name, b"3", partition=3)


async def test_a_partition_that_nobody_knows_is_refused_soon_while_no_controller_answers(
    url: str, topic_name: str, monkeypatch: pytest.MonkeyPatch
):
    """Records for partitions that are known wait behind the question."""
    await create(url, topic_name)
    async with Producer(url) as producer:
        await producer.send(topic_name, b"0", partition=0)
        ask = producer._connection.ask_any

        async def without_controllers(cls: type[Any], method: str, path: str, **request: Any) -> Any:
            if cls is TopicInfo:
                raise RetriableError("no controller answers")
            return await ask(cls, method, path, **request)

        monkeypatch.setattr(producer._connection, "ask_any", without_controllers)
        async with asyncio.timeout(10):
            with pytest.raises(InvalidRequestError, match="partitions 0 to 0, received 9"):
                await producer.send(topic_name, b"9", partition=9)
            assert (await producer.send(topic_name, b"1", partition=0)).offset == 1
