"""Loops over one consumer: those of two tasks or threads at once are refused, one after the other they are not."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from raftlog import Admin, Consumer, Producer, blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import InvalidRequestError
from raftlog.record import Record

pytestmark = pytest.mark.cluster
REFUSED = "this consumer is used by another"


@pytest.fixture
async def url(shared_cluster: LocalCluster, topic_name: str) -> str:
    """Return where a cluster is that has 50 records in the topic's partition 0."""
    url = shared_cluster.bootstrap
    async with Admin(url) as admin, Producer(url) as producer:
        await admin.create_topic(topic_name, partitions=1)
        await producer.send_many(topic_name, [b"%d" % number for number in range(50)])
    return url


@pytest.fixture(params=["member", "alone"])
def options(request: pytest.FixtureRequest, topic_name: str) -> dict[str, Any]:
    if request.param == "member":
        return {"group_id": topic_name, "auto_offset_reset": "earliest"}
    return {"start": "earliest"}


@pytest.fixture
async def consumer(url: str, topic_name: str, options: dict[str, Any]) -> AsyncIterator[Consumer]:
    async with Consumer(url, topic_name, **options) as consumer:
        yield consumer


async def offsets_of(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    async for record in consumer:
        found.append(record.offset)
        if len(found) == count:
            break
    return found


async def test_a_second_task_is_refused_while_the_first_handles_a_record(consumer: Consumer):
    handling, go = asyncio.Event(), asyncio.Event()
    found: list[int] = []

    async def first() -> None:
        async for record in consumer:
            found.append(record.offset)
            if record.offset == 3:
                return
            handling.set()
            await go.wait()

    one = asyncio.create_task(first(), name="the first")
    await handling.wait()
    for _ in range(3):
        with pytest.raises(InvalidRequestError, match=f"{REFUSED} task: 'the first' iterates it"):
            await asyncio.create_task(offsets_of(consumer, 1))
    go.set()
    await one
    assert found == [0, 1, 2, 3], "the first one goes on, and has every record"
    assert await offsets_of(consumer, 2) == [4, 5]


async def test_many_tasks_that_begin_at_once_get_one_loop(consumer: Consumer):
    handling = asyncio.Event()
    found: list[int] = []

    async def loop() -> None:
        async for record in consumer:
            found.append(record.offset)
            handling.set()
            await asyncio.sleep(0)
            if record.offset == 20:
                return

    outcomes = await asyncio.gather(*(loop() for _ in range(10)), return_exceptions=True)
    assert found == list(range(21))
    assert outcomes.count(None) == 1
    assert all(REFUSED in str(one) for one in outcomes if one is not None)


async def test_a_second_task_is_refused_while_the_first_waits_for_a_record(consumer: Consumer):
    await offsets_of(consumer, 50)
    waiting = asyncio.create_task(offsets_of(consumer, 1))
    await asyncio.sleep(0)
    with pytest.raises(InvalidRequestError, match=REFUSED):
        await asyncio.create_task(offsets_of(consumer, 1))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await offsets_of(consumer, 1)


async def left_by_break(consumer: Consumer) -> None:
    assert len(await offsets_of(consumer, 2)) == 2


async def left_by_an_error(consumer: Consumer) -> None:
    try:
        async for _ in consumer:
            raise ZeroDivisionError
    except ZeroDivisionError as error:
        kept.append(error)
    assert await anext(consumer)


async def left_by_a_time_limit(consumer: Consumer) -> None:
    with pytest.raises(TimeoutError):  # noqa: PT012
        async with asyncio.timeout(None) as limit:
            async for _ in consumer:
                limit.reschedule(asyncio.get_running_loop().time())
                await asyncio.Event().wait()
    await asyncio.wait_for(anext(consumer), 10)


async def left_in_a_generator(consumer: Consumer) -> None:
    async def wrapped() -> AsyncIterator[Record]:
        async for record in consumer:
            yield record

    for _ in range(2):
        async for _ in wrapped():
            break


async def read_by_other_calls(consumer: Consumer) -> None:
    assert await consumer.fetch(max_records=1, max_wait_ms=10_000)
    assert await asyncio.wait_for(asyncio.create_task(anext(consumer)), 10)


async def read_through_an_iterator(consumer: Consumer) -> None:
    records = aiter(consumer)
    await anext(records)
    async for _ in records:
        break


kept: list[BaseException] = []
LEFT = [
    left_by_break,
    left_by_an_error,
    left_by_a_time_limit,
    left_in_a_generator,
    read_by_other_calls,
    read_through_an_iterator,
]


@pytest.mark.parametrize("leave", LEFT, ids=lambda leave: leave.__name__)
async def test_tasks_that_are_alive_may_take_turns(consumer: Consumer, leave: Callable[[Consumer], Any]):
    """No task waits in its loop when the next one begins."""
    gc.disable()
    try:
        turn, ended = [asyncio.Event() for _ in range(5)], asyncio.Event()

        async def take_turn(number: int) -> None:
            await turn[number].wait()
            await leave(consumer)
            turn[number + 1].set()
            await ended.wait()
            await leave(consumer) if number == 3 else None

        tasks = [asyncio.create_task(take_turn(number)) for number in range(4)]
        turn[0].set()
        done, _ = await asyncio.wait([asyncio.create_task(turn[4].wait()), *tasks], return_when="FIRST_COMPLETED")
        assert not done & set(tasks), [task.exception() for task in done if task in tasks]
        ended.set()
        await asyncio.gather(*tasks)
        assert (await offsets_of(consumer, 1))[0] == 10, "no record was lost or repeated"
    finally:
        gc.enable()


async def test_a_task_may_have_loops_within_a_loop(consumer: Consumer):
    async for record in consumer:
        assert record.offset == 0
        assert await offsets_of(consumer, 2) == [1, 2]
        with pytest.raises(InvalidRequestError, match=REFUSED):
            await asyncio.create_task(offsets_of(consumer, 1))
        break
    assert await asyncio.create_task(offsets_of(consumer, 1)) == [3]


async def test_a_task_that_was_cancelled_in_its_loop_has_left_it(consumer: Consumer):
    handling = asyncio.Event()

    async def first() -> None:
        async for _ in consumer:
            handling.set()
            await asyncio.Event().wait()

    one = asyncio.create_task(first())
    await handling.wait()
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    assert await asyncio.create_task(offsets_of(consumer, 2)) == [1, 2]


@pytest.fixture
def blocking_consumer(url: str, topic_name: str, options: dict[str, Any]):
    with blocking.Consumer(url, topic_name, **options) as consumer:
        yield consumer


def blocking_offsets_of(consumer: blocking.Consumer, count: int) -> list[int]:
    return [record.offset for record, _ in zip(consumer, range(count), strict=False)]


def read_one(consumer: blocking.Consumer) -> int:
    for record in consumer:
        return record.offset
    raise AssertionError


def test_a_second_thread_is_refused_while_the_first_handles_a_record(blocking_consumer: blocking.Consumer):
    consumer = blocking_consumer
    found = []
    with ThreadPoolExecutor(1, thread_name_prefix="other") as other:
        for record in consumer:
            found.append(record.offset)
            if record.offset == 3:
                break
            with pytest.raises(InvalidRequestError, match=f"{REFUSED} thread: 'MainThread' iterates it"):
                other.submit(read_one, consumer).result(timeout=20)
        assert found == [0, 1, 2, 3]
        assert other.submit(read_one, consumer).result(timeout=20) == 4
        assert read_one(consumer) == 5
        assert other.submit(read_one, consumer).result(timeout=20) == 6, "threads that are alive may take turns"


def test_many_threads_that_begin_at_once_get_one_loop(blocking_consumer: blocking.Consumer):
    consumer = blocking_consumer
    begin, end = threading.Barrier(8), threading.Barrier(8)

    def loop() -> int | str:
        begin.wait(20)
        try:
            for record in consumer:
                end.wait(20)
                return record.offset
        except InvalidRequestError as error:
            end.wait(20)
            return error.message
        raise AssertionError

    with ThreadPoolExecutor(8) as threads:
        outcomes = [future.result() for future in [threads.submit(loop) for _ in range(8)]]
    assert outcomes.count(0) == 1
    assert sum(REFUSED in str(one) for one in outcomes) == 7


def test_an_iterator_whose_thread_has_ended_holds_up_nobody(blocking_consumer: blocking.Consumer):
    consumer = blocking_consumer
    kept = []

    def begin() -> None:
        kept.append(iter(consumer))
        next(kept[0])

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    assert read_one(consumer) == 1
    assert next(kept[0]).offset == 2


async def test_a_loop_does_not_ask_for_its_task_with_each_record(consumer: Consumer, monkeypatch: pytest.MonkeyPatch):
    """In Python 3.11 that costs a system call, twice what the record costs."""
    assert await offsets_of(consumer, 1) == [0]
    asked, ask = 0, asyncio.current_task

    def current_task() -> asyncio.Task[Any] | None:
        nonlocal asked
        asked += 1
        return ask()

    monkeypatch.setattr(asyncio, "current_task", current_task)
    assert len(await offsets_of(consumer, 49)) == 49
    assert asked < 10
