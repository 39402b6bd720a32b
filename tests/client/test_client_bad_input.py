"""What a client is given that it cannot use: a clear error, in time, and no task or socket is left behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from raftlog import Admin, Consumer, Producer
from raftlog.errors import ConfigError, ErrorCode, InvalidRequestError, OverloadedError, RaftlogError, RetriableError

DOWN = "http://127.0.0.1:1"
"""No process listens there."""


def sockets() -> int:
    gc.collect()
    links = (Path("/proc/self/fd") / fd.name for fd in Path("/proc/self/fd").iterdir())
    return sum(link.is_symlink() and str(link.readlink()).startswith("socket:") for link in links)


@pytest.fixture
async def nothing_is_left() -> AsyncIterator[None]:
    before = sockets()
    yield
    async with asyncio.timeout(5):
        while len(asyncio.all_tasks()) > 1 or sockets() > before:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """Listen, and never answer."""
    connections: list[asyncio.StreamWriter] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await reader.read()

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in connections:
            writer.close()
        await server.wait_closed()


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_producer_may_be_closed_twice_and_says_that_it_is_closed():
    producer = Producer(DOWN)
    await producer.close()
    await producer.close()
    await producer.flush()
    for send in (producer.send, producer.send_many):
        with pytest.raises(RuntimeError, match="the producer is closed; make another one"):
            await send("topic", [b"x"])  # type: ignore[operator]
    with pytest.raises(RuntimeError, match="the producer is closed; make another one"):
        producer.send_nowait("topic", b"x")


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_closed_transactional_producer_begins_nothing():
    producer = Producer(DOWN, transactional_id="closed")
    await producer.close()
    with pytest.raises(RuntimeError, match="the producer is closed; make another one"):
        producer.transaction()


@pytest.mark.parametrize(
    ("record", "error", "message"),
    [
        ({"value": "text"}, TypeError, r"value: expected bytes or None, received str: encode it"),
        ({"value": 7}, TypeError, "value: expected bytes or None, received int"),
        ({"key": 7}, TypeError, "key: expected bytes or None, received int"),
        ({"headers": {"h": "text"}}, TypeError, r"headers\['h'\]: expected bytes or None, received str"),
        ({"headers": {7: b"x"}}, TypeError, "headers: expected str keys, received int"),
        ({"headers": "text"}, TypeError, "headers: expected a mapping, or a list of pairs"),
        ({"headers": [b"x"]}, TypeError, "headers: expected a mapping, or a list of pairs"),
        ({"headers": {"\ud800": b""}}, InvalidRequestError, "expected keys that UTF-8 can encode"),
        (
            {"timestamp": 1.5},
            TypeError,
            "timestamp: expected microseconds since 1970 as an int, or a datetime, received float",
        ),
        (
            {"timestamp": 1 << 63},
            InvalidRequestError,
            "timestamp: expected microseconds since 1970, received 9223372036854775808",
        ),
        ({"partition": "0"}, TypeError, "partition: expected an int or None, received str"),
        ({"value": b"x" * 100_000}, InvalidRequestError, "the record has 100032 bytes, buffer_bytes is 50000"),
    ],
)
@pytest.mark.usefixtures("nothing_is_left")
async def test_a_record_that_cannot_be_stored_is_refused_at_once(record: dict, error: type[Exception], message: str):
    async with Producer(DOWN, buffer_bytes=50_000) as producer:
        with pytest.raises(error, match=message):
            await producer.send("topic", **record)
        with pytest.raises(error, match=message):
            producer.send_nowait("topic", **record)
        assert producer.metrics().buffered_bytes == 0


@pytest.mark.usefixtures("nothing_is_left")
async def test_send_many_takes_all_values_or_none():
    async with Producer(DOWN, buffer_bytes=50_000) as producer:
        with pytest.raises(TypeError, match=r"values\[1\]: expected bytes or None, received int"):
            await producer.send_many("topic", [b"x", 7])  # type: ignore[list-item]
        with pytest.raises(TypeError, match="values: expected several, in a list, received one bytes"):
            await producer.send_many("topic", b"x")  # type: ignore[arg-type]
        assert list(await producer.send_many("topic", [])) == []


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Producer(DOWN, linger=5), "unknown option 'linger': did you mean linger_ms"),
        (lambda: Consumer(DOWN, "t", groupid="g"), "unknown option 'groupid': did you mean group_id"),
        (lambda: Admin(DOWN, timeout=1), "unknown option 'timeout': did you mean timeout_ms"),
        (lambda: Producer(DOWN, xyz=1), "unknown option 'xyz': known are acks, batch_bytes"),
        (lambda: Producer(DOWN, linger_ms=-1), "linger_ms: expected a whole number, at least 0, received -1"),
        (lambda: Producer(DOWN, batch_bytes="1"), "batch_bytes: expected a whole number, at least 1, received '1'"),
        (lambda: Producer(DOWN, compression="gzip"), "compression: expected None, lz4 or zstd, received 'gzip'"),
        (lambda: Producer(DOWN, partitioner=3), "partitioner: expected a function, received 3"),
        (
            lambda: Producer("ftp://a:1"),
            "bootstrap: expected a URL such as http://127.0.0.1:9400, not ftp://, received 'ftp:",
        ),
        (
            lambda: Producer("http://[::1"),
            "bootstrap: expected a URL such as http://127.0.0.1:9400, received 'http://\\[::1'",
        ),
        (
            lambda: Admin("http://a b:1"),
            "bootstrap: expected a URL such as http://127.0.0.1:9400, received 'http://a b:1'",
        ),
        (
            lambda: Admin("http://a:port"),
            "bootstrap: expected a URL such as http://127.0.0.1:9400, received 'http://a:port'",
        ),
        (lambda: Consumer("kafka://a:1", "t"), "bootstrap: expected a URL such as"),
        (lambda: Admin(""), "bootstrap: expected at least one URL"),
        (lambda: Consumer(DOWN, "t", fetch_max_bytes=0), "fetch_max_bytes: expected a whole number, at least 1"),
        (lambda: Consumer(DOWN, "t", auto_offset_reset="first"), "auto_offset_reset: expected earliest, latest, none"),
        (
            lambda: Consumer(DOWN, "t", on_out_of_range="none"),
            "on_out_of_range: expected one of error, earliest",
        ),
        (lambda: Consumer(DOWN, ["t"]), r"topics: expected names, one argument each, received \['t'\]"),
    ],
)
@pytest.mark.usefixtures("nothing_is_left")
async def test_wrong_options_are_named(make: Callable[[], object], message: str):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.usefixtures("nothing_is_left")
async def test_nobody_at_the_bootstrap_address():
    async with Producer(DOWN, max_block_ms=200, request_timeout_ms=100) as producer:
        with pytest.raises(RetriableError, match=r"within 200 ms; the record .* cannot connect to 127\.0\.0\.1:1"):
            await producer.send("topic", b"x")
        with pytest.raises(RetriableError, match=r"no broker returned topic .* within 200 ms"):
            await producer.send_many("topic", [b"x"] * 3)
    assert producer.metrics().records_failed == 2
    with pytest.raises(RaftlogError, match=r"cannot connect to 127\.0\.0\.1:1"):
        await Consumer(DOWN, "topic", request_timeout_ms=200).__aenter__()
    with pytest.raises(RetriableError, match=r"cannot join group 'g' within 200 ms"):
        await Consumer(DOWN, "topic", group_id="g", request_timeout_ms=200).__aenter__()
    async with Producer(DOWN, transactional_id="t", delivery_timeout_ms=200, request_timeout_ms=100) as producer:
        with pytest.raises(RetriableError, match=r"cannot connect to 127\.0\.0\.1:1"):
            await producer.transaction().__aenter__()


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_send_that_is_cancelled_leaves_a_producer_that_works():
    async with silent_server() as url:
        producer = Producer(url, max_block_ms=60_000, buffer_bytes=1_100)
        for work in (producer.send("topic", b"x"), producer.send_many("topic", [b"y"] * 2), producer.flush()):
            task = asyncio.ensure_future(work)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        waiting = asyncio.create_task(producer.send("topic", b"z" * 900))
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError) as full:
            producer.send_nowait("topic", b"z" * 900)
        assert full.value.code is ErrorCode.BUFFER_EXHAUSTED
        waiting.cancel()
        delivery = producer.send_nowait("topic", b"x")
        await producer.close(flush=False)
        with pytest.raises(RetriableError, match="it is not in the log"):
            await delivery


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_producer_that_is_closed_before_it_has_begun_to_ask_is_closed():
    producer = Producer(DOWN)
    delivery = producer.send_nowait("topic", b"x")
    await producer.close(flush=False)
    async with asyncio.timeout(10):
        await producer.close()
    with pytest.raises(RetriableError, match="it is not in the log"):
        await delivery


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_transaction_begins_once():
    async with silent_server() as url:
        producer = Producer(url, transactional_id="t", delivery_timeout_ms=60_000)
        first = asyncio.create_task(producer.transaction().__aenter__())
        await asyncio.sleep(0.01)
        with pytest.raises(RuntimeError, match="one transaction at a time, and its state is 'beginning'"):
            await producer.transaction().__aenter__()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(producer.transaction().__aenter__())
        await asyncio.sleep(0.01)
        assert not second.done()
        second.cancel()
        await producer.close(flush=False)


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_member_whose_start_is_cancelled_leaves_no_heartbeats():
    async with silent_server() as url:
        consumer = Consumer(url, "topic", group_id="g", request_timeout_ms=60_000)
        for _ in range(2):
            reading = asyncio.create_task(consumer.fetch())
            await asyncio.sleep(0.01)
            assert [task for task in asyncio.all_tasks() if task.get_name() == "group member:heartbeats"]
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            assert not [task for task in asyncio.all_tasks() if task.get_name() == "group member:heartbeats"]
        await consumer.close()


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_consumer_whose_task_is_cancelled_can_be_used_by_another():
    async with silent_server() as url:
        consumer = Consumer(url, "topic", request_timeout_ms=60_000)
        reading = asyncio.create_task(consumer.fetch())
        await asyncio.sleep(0.01)
        with pytest.raises(InvalidRequestError, match="another task is reading from this consumer"):
            await consumer.fetch()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        another = asyncio.create_task(consumer.fetch())
        await asyncio.sleep(0.01)
        assert not another.done()
        another.cancel()
        with pytest.raises(ConfigError, match="max_records: expected a whole number, at least 0, received -1"):
            await consumer.fetch(max_records=-1)
        await consumer.close()
        await consumer.close()
    with pytest.raises(InvalidRequestError, match="this consumer is closed; make another one"):
        await consumer.fetch()


def test_a_client_belongs_to_one_event_loop():
    producer, consumer = Producer(DOWN), Consumer(DOWN, "topic")
    with pytest.raises(RuntimeError, match=r"a producer needs a running event loop: .* use raftlog\.blocking"):
        producer.send_nowait("topic", b"x")

    async def use() -> None:
        await producer.flush()
        with pytest.raises(InvalidRequestError, match="group_id: missing"):
            await consumer.commit()

    asyncio.run(use())
    for work in (producer.flush, lambda: producer.send("topic", b"x"), consumer.commit):
        with pytest.raises(RuntimeError, match="belongs to another event loop, which is closed: make one in each loop"):
            asyncio.run(work())  # type: ignore[operator]


def test_an_admin_belongs_to_one_event_loop():
    admin, loop = Admin(DOWN, timeout_ms=100), asyncio.new_event_loop()
    try:
        with pytest.raises(RetriableError, match="no broker answered"):
            loop.run_until_complete(admin.list_topics())
        with pytest.raises(RuntimeError, match="this client belongs to another event loop, which still exists"):
            asyncio.run(admin.list_topics())
        loop.run_until_complete(admin.close())
    finally:
        loop.close()
