"""Reads of real brokers, as a task does them: transactions, racks, leaders that die, retention, memory, progress."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import aiohttp
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyspark_raftlog.background import background, close_background
from pyspark_raftlog.checkpoint import BEGIN, EPOCH_STARTS, EPOCHS, TOPIC_IDS
from pyspark_raftlog.fetch import read_range
from pyspark_raftlog.offsets import OffsetRange
from pyspark_raftlog.options import SourceOptions, parse_options
from pyspark_raftlog.pushdown import Pruning
from pyspark_raftlog.reader import plan_batch
from pyspark_raftlog.schema import source_schema
from pyspark_raftlog.stream import RaftlogStreamReader
from raftlog import Admin
from raftlog.blocking import Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import OffsetOutOfRangeError, RetriableError
from raftlog.model import TopicPartition

pytestmark = pytest.mark.cluster

SCHEMA = source_schema(include_headers=True)


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    close_background()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers, each in a rack of its own. Tests that kill one start it again."""
    planned = LocalCluster(tmp_path_factory.mktemp("racks"), controllers=1, brokers=3, port=0)
    for name in planned.brokers:
        planned.configure(name, rack=f"rack-of-{name}")
    with planned as running:
        yield running


def administer(cluster: LocalCluster, work: Callable[[Admin], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with Admin(cluster.bootstrap) as admin:
            return await work(admin)

    return asyncio.run(run())


@pytest.fixture
def topic(cluster: LocalCluster, topic_name: str) -> str:
    administer(cluster, lambda admin: admin.create_topic(topic_name, partitions=1, replication_factor=3))
    return topic_name


def options(cluster: LocalCluster, topic: str, **given: str) -> SourceOptions:
    return parse_options({"bootstrap": cluster.bootstrap, "subscribe": topic, "timeoutMs": "30000"} | given)


def fill(cluster: LocalCluster, topic: str, count: int, *, size: int = 100) -> None:
    with Producer(cluster.bootstrap) as producer:
        for start in range(0, count, 100):
            producer.send_many(topic, [b"%0*d" % (size, n) for n in range(start, min(count, start + 100))])


def rows(read: SourceOptions, topic: str, start: int, end: int) -> pa.Table:
    batches = read_range(read, OffsetRange(topic, 0, start, end), SCHEMA)
    return pa.Table.from_batches(batches, to_arrow_schema(SCHEMA, timezone="UTC"))


def planned(read: SourceOptions) -> list[OffsetRange]:
    loop = background()
    return loop.run(plan_batch(loop.cluster(read), read.for_batch(), Pruning()))[1]


def values(read: SourceOptions) -> list[bytes]:
    return [value for item in planned(read) for value in rows(read, *_where(item)).column("value").to_pylist()]


def _where(item: OffsetRange) -> tuple[str, int, int]:
    return item.topic, item.start, item.end


def abort(producer: Producer, topic: str) -> None:
    """Write a record in a transaction that is aborted."""
    with suppress(ZeroDivisionError), producer.transaction():
        producer.send(topic, b"aborted")
        raise ZeroDivisionError


def until(expected: Any, ask: Callable[[], Any]) -> None:
    """Ask until the answer is right: a transaction's markers follow the answer to its end."""
    deadline = time.monotonic() + 60
    while (answer := ask()) != expected:
        assert time.monotonic() < deadline, f"{answer} is not {expected}"
        time.sleep(0.05)


def leader_of(cluster: LocalCluster, topic: str) -> str:
    info = administer(cluster, lambda admin: admin.describe_topic(topic))
    return f"broker-{info.partitions[0].leader}"


async def bytes_out(cluster: LocalCluster, broker: str) -> int:
    async with aiohttp.ClientSession() as http, http.get(f"{cluster.public_url(broker)}/metrics") as response:
        lines = (await response.text()).splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("raftlog_bytes_out_total ")))


async def known_end(cluster: LocalCluster, broker: str, topic: str) -> int:
    """Return the high watermark that a follower knows: it learns of a new one with its next fetch."""
    url = f"{cluster.public_url(broker)}/v1/topics/{topic}/partitions/0/records?offset=0&replica=any&max_bytes=1"
    async with aiohttp.ClientSession() as http, http.get(url) as response:
        return (await response.json()).get("high_watermark", -1)


def test_committed_records_are_read_and_aborted_ones_left_out(cluster, topic):
    committed = options(cluster, topic)
    everything = options(cluster, topic, isolation="read_uncommitted")
    with Producer(cluster.bootstrap, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"kept")
        abort(producer, topic)
        with producer.transaction():
            producer.send(topic, b"kept too")
        # Three records, and a marker after each.
        until([(topic, 0, 6)], lambda: [_where(item) for item in planned(committed)])
        assert values(committed) == [b"kept", b"kept too"]
        assert values(everything) == [b"kept", b"aborted", b"kept too"]
        assert rows(committed, topic, 5, 6).num_rows == 0, "a marker alone is no record, and no loss"
        assert rows(committed, topic, 2, 4).num_rows == 0

        with producer.transaction():
            producer.send(topic, b"open")
            assert values(committed) == [b"kept", b"kept too"]
            assert values(everything)[-1] == b"open"
            late = options(cluster, topic, endingOffsets=f'{{"{topic}": {{"0": 7}}}}')
            with pytest.raises(RetriableError, match="after the transaction that is open at offset 6"):
                planned(late)
        until([b"kept", b"kept too", b"open"], lambda: values(committed))


def test_a_stream_reads_what_is_committed_and_passes_over_markers(cluster, topic):
    stream = RaftlogStreamReader(options(cluster, topic, startingOffsets="earliest").for_stream(), SCHEMA)
    begin = stream.initialOffset()
    with Producer(cluster.bootstrap, transactional_id=topic) as producer:
        with producer.transaction():
            producer.send(topic, b"first")
            assert stream.latestOffset(begin, ReadAllAvailable()) == begin
        assert begin[topic] == {"0": 0}
        known = {EPOCHS: {topic: {"0": 0}}, EPOCH_STARTS: {topic: {"0": [[0, 0]]}}}
        read = {**begin, TOPIC_IDS: {**begin[TOPIC_IDS], **known}}
        end, last = {**read, topic: {"0": 2}, BEGIN: begin}, {**read, topic: {"0": 4}}
        until(end, lambda: stream.latestOffset(begin, ReadAllAvailable()))
        abort(producer, topic)
        until(last, lambda: stream.latestOffset(end, ReadAllAvailable()))

    tasks = [*stream.partitions(begin, end), *stream.partitions(end, last)]
    batches = [batch for task in tasks for batch in stream.read(task)]
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == [b"first"]


def test_the_replica_in_the_readers_rack_is_read_and_left_when_it_dies(cluster, topic):
    fill(cluster, topic, 300)
    leader = leader_of(cluster, topic)
    near = next(name for name in cluster.brokers if name != leader)
    until(300, lambda: asyncio.run(known_end(cluster, near, topic)))
    read = options(cluster, topic, clientRack=f"rack-of-{near}", fetchBytes="1")
    before = asyncio.run(bytes_out(cluster, leader))

    assert rows(read, topic, 0, 300).num_rows == 300
    assert asyncio.run(bytes_out(cluster, leader)) == before
    assert asyncio.run(bytes_out(cluster, near)) > 0

    cluster.kill(near)
    try:
        assert rows(read, topic, 0, 300).num_rows == 300
        assert asyncio.run(bytes_out(cluster, leader)) > before
    finally:
        cluster.restart(near)
        cluster.wait_ready()


def test_a_range_is_the_same_bytes_while_its_leader_dies_and_after(cluster, topic, monkeypatch):
    monkeypatch.setattr("pyspark_raftlog.fetch.TARGET_ROWS", 1)
    fill(cluster, topic, 5_000)
    read = options(cluster, topic, fetchBytes="1", timeoutMs="90000")
    first = rows(read, topic, 123, 4_567)
    assert first.column("offset").to_pylist() == list(range(123, 4_567))

    batches = read_range(read, OffsetRange(topic, 0, 123, 4_567), SCHEMA)
    pieces = [next(batches)]
    leader = leader_of(cluster, topic)
    cluster.kill(leader)
    try:
        pieces += batches
        again = rows(read, topic, 123, 4_567)
    finally:
        cluster.restart(leader)
        cluster.wait_ready()

    assert len(pieces) > 10, "the leader died in the middle"
    assert pa.Table.from_batches(pieces).equals(first)
    assert again.equals(first)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_deleted_while_a_task_reads_are_a_loss_or_skipped(cluster, topic, fail, monkeypatch):
    monkeypatch.setattr("pyspark_raftlog.fetch.TARGET_ROWS", 1)
    fill(cluster, topic, 2_000)
    read = options(cluster, topic, fetchBytes="1", failOnDataLoss=fail)
    batches = read_range(read, OffsetRange(topic, 0, 0, 2_000), SCHEMA)
    seen = next(batches).column("offset").to_pylist()
    administer(cluster, lambda admin: admin.delete_records(topic, 0, before=1_500))

    if fail == "true":
        with pytest.raises(OffsetOutOfRangeError, match=f"{topic}-0: offset .* cannot be read: .*failOnDataLoss"):
            list(batches)
    else:
        seen += [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        assert seen == sorted(set(seen))
        assert set(range(1_500, 2_000)) <= set(seen)
        assert len(seen) < 2_000


def test_memory_is_bounded_by_the_fetch_size_and_not_by_the_range(cluster, topic, monkeypatch):
    monkeypatch.setattr("pyspark_raftlog.fetch.TARGET_ROWS", 500)
    fill(cluster, topic, 10_000, size=2_000)
    read = options(cluster, topic, fetchBytes="512k")
    tracemalloc.start()
    try:
        count = sum(batch.num_rows for batch in read_range(read, OffsetRange(topic, 0, 0, 10_000), SCHEMA))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count == 10_000
    assert peak < 8 << 20, "of 20 MB: 1 MB that is joined for Spark, and four fetches while they are received"


def test_a_streams_progress_is_a_groups_offsets(cluster, topic):
    fill(cluster, topic, 50)
    group, key = f"spark-{topic}", TopicPartition(topic, 0)
    given = options(cluster, topic, startingOffsets="earliest", groupId=group)
    stream = RaftlogStreamReader(given.for_stream(), SCHEMA)
    stream.prepareForTriggerAvailableNow()
    begin = stream.initialOffset()
    # The first use of groups creates their topic, which may take longer than a stream waits.
    administer(cluster, lambda admin: admin.alter_group_offsets(f"first-{topic}", {key: 0}))

    end = stream.latestOffset(begin, ReadAllAvailable())
    assert administer(cluster, lambda admin: admin.group_lag(group)) == {key: 50}
    stream.latestOffset(end, ReadAllAvailable())
    assert administer(cluster, lambda admin: admin.group_lag(group)) == {key: 0}


def test_a_group_that_has_members_costs_a_warning_and_nothing_else(cluster, topic, caplog):
    fill(cluster, topic, 50)
    given = options(cluster, topic, startingOffsets="earliest", groupId=f"busy-{topic}")
    stream = RaftlogStreamReader(given.for_stream(), SCHEMA)
    stream.prepareForTriggerAvailableNow()
    with Consumer(cluster.bootstrap, topic, group_id=f"busy-{topic}", auto_offset_reset="earliest") as member:
        while not member.fetch():
            """It has joined when records come."""

        assert stream.latestOffset(stream.initialOffset(), ReadAllAvailable())[topic] == {"0": 50}

    assert f"group 'busy-{topic}': the stream's progress was not published" in caplog.text
