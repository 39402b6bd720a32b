"""Producers that are closed in a hurry: queued records are sent, for a short time, and the others are reported."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

import pytest
from relay import relayed

from raftlog import Admin, Consumer, Delivery, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import OverloadedError, RetriableError, UnknownOutcomeError

pytestmark = pytest.mark.cluster
COUNT = 1_000


@pytest.fixture
async def url(shared_cluster: LocalCluster, topic_name: str) -> str:
    async with Admin(shared_cluster.bootstrap) as admin:
        await admin.create_topic(topic_name, partitions=1, replication_factor=3)
    return shared_cluster.bootstrap


async def count(url: str, topic: str) -> int:
    async with Consumer(url, topic, start="earliest") as consumer:
        return (await consumer.end_offsets())[topic, 0]


async def queue_and_wait(producer: Producer, topic: str, deliveries: list[Delivery], queued: asyncio.Event) -> None:
    async with producer:
        await producer.send(topic, b"first")
        deliveries += [producer.send_nowait(topic, b"%d" % number) for number in range(COUNT)]
        queued.set()
        await asyncio.Event().wait()


async def cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_leaving_a_block_by_a_cancellation_sends_what_is_queued(url: str, topic_name: str):
    deliveries: list[Delivery] = []
    queued = asyncio.Event()
    producer = Producer(url, linger_ms=60_000)
    task = asyncio.ensure_future(queue_and_wait(producer, topic_name, deliveries, queued))
    # The first record waits for its own lingering: it goes with the block's end, too.
    await asyncio.sleep(0)
    await producer.flush()
    while not queued.is_set():
        await producer.flush()
        await asyncio.sleep(0.01)
    await cancel(task)
    assert [delivery.result().offset for delivery in deliveries] == list(range(1, COUNT + 1))
    assert await count(url, topic_name) == COUNT + 1


async def test_leaving_a_block_by_a_time_out_sends_what_is_queued(url: str, topic_name: str):
    deliveries: list[Delivery] = []

    async def run_out_of_time() -> None:
        async with asyncio.timeout(None) as limit, Producer(url, linger_ms=60_000) as producer:
            deliveries.append(producer.send_nowait(topic_name, b"queued"))
            limit.reschedule(asyncio.get_running_loop().time())
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await run_out_of_time()
    assert [delivery.result().offset for delivery in deliveries] == [0]


async def test_what_could_not_be_sent_in_a_hurry_fails_and_is_told_of(
    url: str, shared_cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
):
    deliveries: list[Delivery] = []
    queued = asyncio.Event()
    async with relayed(shared_cluster) as network:
        producer = Producer(url, dial=network.dial, close_timeout_ms=200)
        task = asyncio.ensure_future(queue_and_wait(producer, topic_name, deliveries, queued))
        async with asyncio.timeout(20):
            while await count(url, topic_name) == 0:
                await asyncio.sleep(0.01)
            await network.cut()
            await queued.wait()
            late = [producer.send_nowait(topic_name, b"late") for _ in range(10)]
            started = time.monotonic()
            await cancel(task)
    assert time.monotonic() - started < 3
    errors = [delivery.exception() for delivery in late]
    assert all(isinstance(error, RetriableError) for error in errors)
    assert all("not in the log" in str(error) for error in errors if not isinstance(error, UnknownOutcomeError))
    assert all(delivery.done() for delivery in deliveries)
    (said,) = [entry for entry in caplog.records if "not acknowledged" in entry.getMessage()]
    unacknowledged = sum(delivery.exception() is not None for delivery in deliveries + late)
    assert said.levelno == logging.WARNING
    assert sum(said.args) == unacknowledged  # type: ignore[arg-type]


async def test_a_flush_and_a_close_end_when_their_time_is_up(url: str, shared_cluster: LocalCluster, topic_name: str):
    async with relayed(shared_cluster) as network:
        producer = Producer(url, dial=network.dial)
        await producer.send(topic_name, b"first")
        await network.cut()
        delivery = producer.send_nowait(topic_name, b"queued")
        with pytest.raises(TimeoutError):
            await producer.flush(timeout_ms=50)
        assert not delivery.done()
        async with asyncio.timeout(10):
            await producer.close(timeout_ms=50)
        assert isinstance(delivery.exception(), RetriableError)


async def test_a_flush_ends_while_other_tasks_send_on(url: str, shared_cluster: LocalCluster, topic_name: str):
    """It waits for what was queued before it: another task may never leave the queue empty."""
    async with Producer(url, linger_ms=0) as producer:
        await producer.send(topic_name, b"first")
        stopping = asyncio.Event()

        async def send_on() -> None:
            while not stopping.is_set():
                for _ in range(100):
                    with suppress(OverloadedError):
                        producer.send_nowait(topic_name, b"x" * 100)
                await asyncio.sleep(0)

        sending = asyncio.ensure_future(send_on())
        delivery = producer.send_nowait(topic_name, b"before")
        try:
            async with asyncio.timeout(20):
                await producer.flush()
        finally:
            stopping.set()
            await sending
        assert delivery.done()
