"""The producer when things go wrong, on a real cluster: order, bounds of time and memory, topics that are replaced."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from unreliable_proxy import UnreliableProxy, unreliable

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import (
    ConfigError,
    ErrorCode,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    RaftlogError,
    RetriableError,
)

pytestmark = pytest.mark.cluster


@pytest.fixture
def url(shared_cluster: LocalCluster) -> str:
    return shared_cluster.bootstrap


@asynccontextmanager
async def proxies(cluster: LocalCluster, path: str) -> AsyncIterator[tuple[list[UnreliableProxy], dict[str, str]]]:
    """Put a proxy before each broker."""
    found, dial = [], {}
    async with AsyncExitStack() as stack:
        for broker in (1, 2, 3):
            address = cluster.node(f"broker-{broker}").public
            assert address is not None
            proxy, one = await stack.enter_async_context(unreliable(address, path))
            found.append(proxy)
            dial |= one
        try:
            yield found, dial
        finally:
            for proxy in found:
                proxy.release.set()


async def create(url: str, topic: str, **configs: object) -> None:
    async with Admin(url) as admin:
        await admin.create_topic(topic, partitions=1, replication_factor=3, configs=configs)


async def read_all(url: str, topic: str) -> list[bytes | None]:
    async with Consumer(url, topic, start="earliest") as consumer:
        end, values = (await consumer.end_offsets())[topic, 0], []
        while consumer.position(topic, 0) < end:
            values += [record.value for record in await consumer.fetch()]
        return values


async def any_of(proxies: list[UnreliableProxy]) -> None:
    """Wait until one of them holds a request."""
    tasks = [asyncio.ensure_future(proxy.holding.wait()) for proxy in proxies]
    try:
        async with asyncio.timeout(20):
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


@pytest.mark.parametrize("max_in_flight", [1, 5])
async def test_many_batches_in_flight_stay_in_order_when_answers_are_lost(
    url: str, topic_name: str, shared_cluster: LocalCluster, max_in_flight: int
):
    await create(url, topic_name)
    async with proxies(shared_cluster, "/v1/produce") as (found, dial):
        async with Producer(url, dial=dial, batch_bytes=200, linger_ms=0, max_in_flight=max_in_flight) as producer:
            queued = []
            for number in range(300):
                queued.append(producer.send_nowait(topic_name, b"%d" % number))
                if number % 60 == 20:
                    for proxy in found:
                        proxy.lose = 3
                if number % 10 == 0:
                    await asyncio.sleep(0)
            offsets = [(await delivery).offset for delivery in queued]
        lost = sum(3 - proxy.lose for proxy in found)

    assert lost >= 3
    assert offsets == list(range(300))
    assert await read_all(url, topic_name) == [b"%d" % number for number in range(300)]


async def test_only_a_record_that_is_too_large_by_itself_fails(url: str, topic_name: str):
    await create(url, topic_name, max_message_bytes=4096)
    async with Producer(url, linger_ms=100) as producer:
        queued = [
            producer.send_nowait(topic_name, b"%d " % number + b"x" * (10_000 if number == 7 else 900))
            for number in range(20)
        ]
        outcomes = await asyncio.gather(*queued, return_exceptions=True)

    errors = [outcome for outcome in outcomes if isinstance(outcome, RaftlogError)]
    assert [error.code for error in errors] == [ErrorCode.MESSAGE_TOO_LARGE]
    assert outcomes[7] is errors[0]
    numbers = [int((value or b"").split()[0]) for value in await read_all(url, topic_name)]
    assert numbers == [number for number in range(20) if number != 7]


async def test_a_retry_does_not_reach_a_topic_that_was_recreated(
    url: str, topic_name: str, shared_cluster: LocalCluster
):
    await create(url, topic_name)
    async with proxies(shared_cluster, "/v1/produce") as (found, dial), Producer(url, dial=dial) as producer:
        for proxy in found:
            proxy.hold = "/v1/produce"
        delivery = producer.send_nowait(topic_name, b"old")
        await any_of(found)
        async with Admin(url) as admin:
            await admin.delete_topic(topic_name)
        await create(url, topic_name)
        for proxy in found:
            proxy.release.set()
        with pytest.raises(NotFoundError, match="deleted and recreated meanwhile") as refused:
            await delivery
        assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_ID
        assert (await producer.send(topic_name, b"new")).offset == 0

    assert await read_all(url, topic_name) == [b"new"]


async def test_a_topic_whose_metadata_is_slow_delays_no_other_and_fails_in_time(
    url: str, topic_name: str, shared_cluster: LocalCluster
):
    slow = f"{topic_name}-slow"
    await create(url, topic_name)
    await create(url, slow)
    async with (
        proxies(shared_cluster, "/v1/produce") as (found, dial),
        Producer(url, dial=dial, max_block_ms=60_000) as producer,
        Producer(url, dial=dial, max_block_ms=300) as impatient,
    ):
        for proxy in found:
            proxy.hold = f"topic={slow}"
        waiting = producer.send_nowait(slow, b"slow")
        await any_of(found)
        assert (await producer.send(topic_name, b"fast")).offset == 0
        assert not waiting.done()
        with pytest.raises(RetriableError, match=r"no broker returned topic .* 300 ms; the record is not in the log"):
            await impatient.send(slow, b"never")
        for proxy in found:
            proxy.release.set()
        assert (await waiting).offset == 0

    assert await read_all(url, slow) == [b"slow"]


async def test_send_waits_for_room_no_longer_than_max_block_ms(url: str, topic_name: str, shared_cluster: LocalCluster):
    await create(url, topic_name)
    async with (
        proxies(shared_cluster, "/v1/produce") as (found, dial),
        Producer(url, dial=dial, buffer_bytes=10_000, max_block_ms=200) as producer,
    ):
        for proxy in found:
            proxy.hold = "/v1/produce"
        first = producer.send_nowait(topic_name, b"x" * 6_000)
        with pytest.raises(OverloadedError, match="waits for up to 200 ms") as refused:
            await producer.send(topic_name, b"y" * 6_000)
        with pytest.raises(InvalidRequestError, match="buffer_bytes is 10000") as too_large:
            await producer.send(topic_name, b"z" * 10_000)
        for proxy in found:
            proxy.release.set()
        assert (await first).offset == 0

    assert refused.value.code is ErrorCode.BUFFER_EXHAUSTED
    assert too_large.value.code is ErrorCode.MESSAGE_TOO_LARGE


async def test_what_waits_for_metadata_fails_when_the_producer_is_closed(
    url: str, topic_name: str, shared_cluster: LocalCluster
):
    async with proxies(shared_cluster, "/v1/produce") as (found, dial):
        producer = Producer(url, dial=dial)
        for proxy in found:
            proxy.hold = f"topic={topic_name}"
        delivery = producer.send_nowait(topic_name, b"x")
        await any_of(found)
        await producer.close(flush=False)
        with pytest.raises(RetriableError, match="closed before the record was sent; it is not in the log"):
            await delivery


@pytest.mark.parametrize("max_in_flight", [0, 6])
def test_as_many_are_in_flight_as_a_leader_remembers(max_in_flight: int):
    with pytest.raises(ConfigError, match=f"max_in_flight must be 1 to 5, received {max_in_flight}"):
        Producer("http://127.0.0.1:1", max_in_flight=max_in_flight)


async def test_a_question_that_was_not_asked_yet_when_the_producer_is_closed_leaves_nothing_behind():
    """Found by chaos: a client crashed between the two, and a coroutine was never awaited."""
    asked = []

    async def question() -> None:
        asked.append(True)

    producer = Producer("http://127.0.0.1:1")
    producer._sender._ask("topic", question, [])
    await producer.close(flush=False)

    gc.collect()  # Python warns of a coroutine that was never awaited when it goes; warnings are errors here.
    assert asked == []


async def test_a_record_for_a_partition_that_was_just_added_is_sent_there(url: str, topic_name: str):
    await create(url, topic_name)
    async with Producer(url) as producer, Admin(url) as admin:
        await producer.send(topic_name, b"0", partition=0)
        await admin.alter_topic(topic_name, partitions=3)
        async with asyncio.timeout(10):
            assert (await producer.send(topic_name, b"2", partition=2)).partition == 2
        with pytest.raises(InvalidRequestError, match="partition"):
            await producer.send(topic_name, b"99", partition=99)
        with pytest.raises(InvalidRequestError, match="partition"):
            await producer.send(topic_name, b"-1", partition=-1)
