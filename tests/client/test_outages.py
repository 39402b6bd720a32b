"""Consumers while no broker answers: they wait as long as the application lets them, and report it once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from relay import relayed

from raftlog import Admin, Consumer, Producer, blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import UnreachableError
from raftlog.record import Record

pytestmark = pytest.mark.cluster
TIMEOUT_MS = 400
"""Of a request: an outage that lasts longer than this is long."""


@pytest.fixture
async def url(shared_cluster: LocalCluster, topic_name: str) -> str:
    async with Admin(shared_cluster.bootstrap) as admin:
        await admin.create_topic(topic_name, partitions=2, replication_factor=3)
    await send(shared_cluster.bootstrap, topic_name, b"before")
    return shared_cluster.bootstrap


async def send(url: str, topic: str, value: bytes) -> None:
    async with Producer(url) as producer:
        await producer.send(topic, value, partition=1)


async def by_iteration(consumer: Consumer) -> list[bytes | None]:
    return [(await anext(consumer)).value]


async def by_fetch(consumer: Consumer) -> list[bytes | None]:
    return [record.value for record in await consumer.fetch(max_wait_ms=60_000)]


async def by_arrow(consumer: Consumer) -> list[bytes | None]:
    return list((await consumer.fetch_arrow(max_wait_ms=60_000)).column("value").to_pylist())


async def outage_of(consumer: Consumer) -> None:
    """Return once an outage has lasted several times as long as a request may take."""
    async with asyncio.timeout(20):
        while consumer.metrics().outage_s < 4 * TIMEOUT_MS / 1000:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("read", [by_iteration, by_fetch, by_arrow])
@pytest.mark.parametrize("options", [{"start": "earliest"}, {"group_id": "new", "auto_offset_reset": "earliest"}])
async def test_a_consumer_waits_until_brokers_answer_again(
    url: str,
    shared_cluster: LocalCluster,
    topic_name: str,
    read: Callable[[Consumer], Awaitable[list[bytes | None]]],
    options: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.WARNING, "raftlog.client")
    if "group_id" in options:
        options = options | {"group_id": f"group-{topic_name}"}
        async with Admin(url) as admin:  # The first group of a cluster waits for a topic of its own.
            await admin.find_coordinator("group", options["group_id"])
    async with (
        relayed(shared_cluster) as network,
        asyncio.timeout(40),
        Consumer(url, topic_name, dial=network.dial, request_timeout_ms=TIMEOUT_MS, **options) as consumer,
    ):
        assert await read(consumer) == [b"before"]
        assert (consumer.metrics().outages, consumer.metrics().outage_s) == (0, 0.0)

        await network.cut()
        reading = asyncio.ensure_future(read(consumer))
        await outage_of(consumer)
        await network.mend()
        await send(url, topic_name, b"after")

        assert await reading == [b"after"]
        assert (consumer.metrics().outages, consumer.metrics().outage_s) == (1, 0.0)
    said = [entry.getMessage() for entry in caplog.records if entry.name == "raftlog.client.outage"]
    assert [text.split(",")[0].split(";")[0] for text in said] == ["no broker answers", "brokers answer again"]


async def test_a_fetch_ends_in_time_though_no_broker_answers(url: str, shared_cluster: LocalCluster, topic_name: str):
    async with (
        relayed(shared_cluster) as network,
        Consumer(url, topic_name, start="earliest", dial=network.dial) as consumer,
    ):
        assert await by_iteration(consumer) == [b"before"]
        await network.cut()
        started = time.monotonic()
        for _ in range(5):
            assert await consumer.fetch(max_wait_ms=100) == []
        assert time.monotonic() - started < 5  # One attempt to get metadata may take 30 s.


async def test_a_consumer_that_never_had_an_answer_fails_in_time_and_says_where_it_looked(
    free_ports: Callable[[int], list[int]],
):
    (port,) = free_ports(1)
    with pytest.raises(UnreachableError, match=rf"no broker answered within 300 ms at http://127.0.0.1:{port}"):
        async with Consumer(f"http://127.0.0.1:{port}", "t", request_timeout_ms=300):
            pass


async def test_a_blocking_consumer_waits_until_brokers_answer_again(
    url: str, shared_cluster: LocalCluster, topic_name: str
):
    async with relayed(shared_cluster) as network, asyncio.timeout(40):

        def read() -> list[Record]:
            with blocking.Consumer(
                url, topic_name, start="earliest", dial=network.dial, request_timeout_ms=TIMEOUT_MS
            ) as consumer:
                first = next(iter(consumer))
                loop.call_soon_threadsafe(had_first.set)
                return [first, next(iter(consumer))]

        loop, had_first = asyncio.get_running_loop(), asyncio.Event()
        reading = asyncio.ensure_future(asyncio.to_thread(read))
        await had_first.wait()
        await network.cut()
        await asyncio.wait([reading], timeout=3 * TIMEOUT_MS / 1000)
        assert not reading.done()
        await network.mend()
        await send(url, topic_name, b"after")
        assert [record.value for record in await reading] == [b"before", b"after"]


async def test_iterating_goes_on_after_a_wait_that_was_given_up(url: str, topic_name: str):
    async with Consumer(url, topic_name, start="earliest") as consumer:
        assert (await anext(consumer)).value == b"before"
        for number in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(consumer), 0.05)
            await send(url, topic_name, b"%d" % number)
            assert (await asyncio.wait_for(anext(consumer), 20)).value == b"%d" % number


async def test_reading_that_is_cancelled_at_any_moment_neither_loses_nor_repeats_a_record(url: str, topic_name: str):
    count = 400
    async with Producer(url, batch_bytes=2_000) as producer:
        for number in range(count):
            producer.send_nowait(topic_name, b"%d" % number, partition=0)
    seen: list[bytes | None] = []
    async with Consumer(url, topic_name, partitions=[0], start="earliest", fetch_max_bytes=1_000) as consumer:
        reads = (
            lambda: consumer.fetch(max_records=7),
            lambda: anext(consumer),
            lambda: consumer.fetch_arrow(max_wait_ms=20),
        )
        async with asyncio.timeout(40):
            for turn in range(1_000_000):
                task = asyncio.ensure_future(reads[turn % 3]())
                for _ in range(turn % 11):
                    await asyncio.sleep(0)
                task.cancel()
                (outcome,) = await asyncio.gather(task, return_exceptions=True)
                if isinstance(outcome, list):
                    seen += [record.value for record in outcome]
                elif isinstance(outcome, Record):
                    seen.append(outcome.value)
                elif not isinstance(outcome, BaseException):
                    seen += outcome.column("value").to_pylist()
                if len(seen) >= count:
                    break
    assert seen == [b"%d" % number for number in range(count)]
