"""What producers tell their callers: one future for each record, or a sequence for many."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from concurrent.futures import Future

import pytest

from raftlog.blocking.outbox import _own
from raftlog.client.delivery import Delivery, SharedHandle
from raftlog.client.record_outcomes import (
    Acknowledged,
    Handle,
    PartialHandle,
    Placed,
    RecordMetadata,
    Run,
    acknowledge,
    fail,
)
from raftlog.errors import RetriableError
from raftlog.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def metadata(offset: int, timestamp: int, partition: int = 0) -> RecordMetadata:
    return RecordMetadata("t", partition, offset, timestamp)


async def test_a_batch_of_single_records_and_of_runs():
    loop = asyncio.get_running_loop()
    first, last, run = loop.create_future(), loop.create_future(), Run(3)
    handles: list[Handle] = [first, PartialHandle(run, 0, 3), last]
    acknowledge(handles, [1, 2, 3, 4, 5], P0, 70)

    assert (first.result(), last.result()) == (metadata(70, 1), metadata(74, 5))
    assert list(Acknowledged(await run.outcome())) == [metadata(71, 2), metadata(72, 3), metadata(73, 4)]


async def test_nobody_says_where_records_are_with_acks_0():
    delivery, run = asyncio.get_running_loop().create_future(), Run(2)
    acknowledge([delivery], [1], P0, -1)
    acknowledge([PartialHandle(run, 0, 2)], [1, 2], P0, -1)

    assert delivery.result() == metadata(-1, 1)
    assert list(Acknowledged(await run.outcome())) == [metadata(-1, 1), metadata(-1, 2)]


async def test_a_run_ends_once_each_part_has_an_outcome_in_whatever_order():
    run = Run(4)
    whole = PartialHandle(run, 0, 4)
    front, back = whole.divided(1)
    waiting = asyncio.create_task(run.outcome())
    acknowledge([back], [2, 3, 4], P0, 11)
    await asyncio.sleep(0)
    assert not waiting.done()
    acknowledge([front], [1], P0, 10)

    assert list(Acknowledged(await waiting)) == [metadata(10 + n, 1 + n) for n in range(4)]
    assert run.error is None


async def test_a_failure_that_nobody_looks_at_is_no_warning():
    error = RetriableError("down")
    dropped, cancelled, run = asyncio.get_running_loop().create_future(), Run(1), Run(2)
    fail([dropped, PartialHandle(run, 0, 2), PartialHandle(cancelled, 0, 1)], error)
    assert await run.outcome() == []
    assert (run.error, cancelled.error) == (error, error)
    del dropped  # Warnings are errors here.


async def test_a_caller_who_went_away_is_not_told():
    gone = asyncio.get_running_loop().create_future()
    gone.cancel()
    run = Run(1)
    waiting = asyncio.create_task(run.outcome())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    acknowledge([gone, PartialHandle(run, 0, 1)], [1, 2], P0, 5)
    assert list(Acknowledged(await run.outcome())) == [metadata(6, 2)]


def test_many_records_are_a_sequence():
    many = Acknowledged([Placed(P0, 5, [1, 2, 3]), Placed(P1, 0, [4])])
    expected = [metadata(5, 1), metadata(6, 2), metadata(7, 3), metadata(0, 4, partition=1)]

    assert list(many) == expected
    assert (len(many), many[0], many[2], many[3], many[-1]) == (4, expected[0], expected[2], expected[3], expected[3])
    assert many[1:] == expected[1:]
    assert expected[1] in many
    for outside in (4, -5):
        with pytest.raises(IndexError, match=f"expected 0 to 3, received {outside}"):
            _ = many[outside]
    assert list(Acknowledged([])) == []


def handle_of(count: int) -> tuple[SharedHandle, list[Delivery]]:
    handle = SharedHandle(asyncio.get_running_loop())
    deliveries = []
    for number in range(count):
        handle.count += 1
        deliveries.append(Delivery(handle, number))
    return handle, deliveries


async def test_a_delivery_is_a_future_as_far_as_asyncio_can_tell():
    handle, (first, second, third, fourth) = handle_of(4)
    assert asyncio.isfuture(first)
    assert not first.done()
    for ask in (first.result, first.exception):
        with pytest.raises(asyncio.InvalidStateError, match="no outcome yet"):
            ask()
    gathered = asyncio.gather(first, second)
    awaited = asyncio.create_task(asyncio.wait_for(third, 10))
    shielded = asyncio.shield(fourth)
    waited = asyncio.create_task(asyncio.wait([first, third]))  # type: ignore[type-var]
    completed = asyncio.as_completed([second, fourth])
    await asyncio.sleep(0)
    acknowledge([handle], [1, 2, 3, 4], P0, 70)

    assert await gathered == [metadata(70, 1), metadata(71, 2)]
    assert (await awaited, await shielded) == (metadata(72, 3), metadata(73, 4))
    assert await waited == ({first, third}, set())
    assert {await one for one in completed} == {metadata(71, 2), metadata(73, 4)}
    assert (first.done(), first.cancelled(), first.exception(), first.result()) == (True, False, None, metadata(70, 1))
    assert await first == await asyncio.wait_for(first, 1) == metadata(70, 1)


async def test_a_delivery_calls_back_with_itself_in_its_context_and_not_at_once():
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="")
    handle, (first, second) = handle_of(2)
    seen: list[object] = []

    def call(name: str, delivery: Delivery) -> None:
        seen.append((name, delivery, variable.get()))

    twice, taken_back = functools.partial(call, "twice"), functools.partial(call, "taken back")
    variable.set("then")
    for callback in (twice, taken_back, twice):
        first.add_done_callback(callback)
    second.add_done_callback(taken_back)
    variable.set("now")
    assert (first.remove_done_callback(taken_back), first.remove_done_callback(taken_back)) == (1, 0)
    assert second.remove_done_callback(taken_back) == 1
    acknowledge([handle], [1, 2], P0, 0)
    first.add_done_callback(functools.partial(call, "late"))
    second.add_done_callback(functools.partial(call, "elsewhere"), context=contextvars.Context())
    assert seen == []
    await asyncio.sleep(0)
    twice_seen = ("twice", first, "then")
    assert seen == [twice_seen, twice_seen, ("late", first, "now"), ("elsewhere", second, "")]


async def test_who_is_cancelled_while_waiting_leaves_the_delivery_and_who_cancels_it_is_told_nothing():
    handle, (awaited, cancelled, dropped) = handle_of(3)
    waiting = asyncio.create_task(asyncio.wait_for(asyncio.shield(awaited), 10))
    alone = asyncio.create_task(_value_of(awaited))
    told: list[Delivery] = []
    cancelled.add_done_callback(told.append)
    await asyncio.sleep(0)
    alone.cancel()
    assert (cancelled.cancel(), cancelled.cancel(), cancelled.cancelled()) == (True, False, True)
    for ask in (cancelled.result, cancelled.exception):
        with pytest.raises(asyncio.CancelledError):
            ask()
    acknowledge([handle], [1, 2, 3], P0, 5)
    del dropped

    assert await waiting == metadata(5, 1)
    assert alone.cancelled()
    assert told == [cancelled]
    assert cancelled.cancelled()
    assert (awaited.cancelled(), awaited.cancel()) == (False, False)


async def _value_of(delivery: Delivery) -> RecordMetadata:
    return await delivery


@pytest.mark.parametrize("who", ["all", "one"])
async def test_gathering_deliveries_ends_when_it_is_cancelled(who: str):
    """As Ctrl-C and time limits do. What asyncio asks of a future for that has a private name."""
    handle = SharedHandle(asyncio.get_running_loop())
    handle.count = 3
    deliveries = [Delivery(handle, at) for at in range(3)]
    gathering = asyncio.gather(*deliveries)
    (gathering if who == "all" else deliveries[1]).cancel()
    ended, _ = await asyncio.wait({gathering}, timeout=5)
    assert ended == {gathering}, "it hangs"
    with pytest.raises(asyncio.CancelledError):
        gathering.result()
    assert [delivery.cancelled() for delivery in deliveries] == [who == "all", True, who == "all"]


async def test_a_stretch_that_is_divided_has_the_outcomes_of_its_parts():
    error = RetriableError("down")
    handle, deliveries = handle_of(5)
    front, back = handle.divided(2)
    waiting = asyncio.gather(*deliveries, return_exceptions=True)
    fail([front], error)
    middle, last = back.divided(1)
    acknowledge([last], [4, 5], P0, 30)
    assert [delivery.done() for delivery in deliveries] == [True, True, False, True, True]
    acknowledge([middle], [3], P0, 20)

    assert await waiting == [error, error, metadata(20, 3), metadata(30, 4), metadata(31, 5)]
    assert deliveries[0].exception() is error
    with pytest.raises(RetriableError, match="down"):
        await deliveries[1]
    assert repr(deliveries[2]) == "<Delivery RecordMetadata(topic='t', partition=0, offset=20, timestamp=3)>"


async def test_the_error_of_a_batch_does_not_grow_with_its_records():
    handle, deliveries = handle_of(5)
    fail([handle], RetriableError("lost"))
    frames = set[int]()
    for delivery in deliveries:
        with pytest.raises(RetriableError) as raised:
            await delivery
        frames.add(len(raised.traceback))
    assert len(frames) == 1


def test_each_record_of_a_blocking_producer_has_its_own_error():
    shared = RetriableError("lost", details={"attempts": 3})
    shared.__cause__ = TimeoutError("no answer")
    futures = [Future[None]() for _ in range(3)]
    for future in futures:
        future.set_exception(_own(shared))
    errors = [future.exception() for future in futures]
    assert len({id(error) for error in errors}) == 3
    for error in errors:
        assert isinstance(error, RetriableError)
        assert (error.message, error.details, error.__cause__) == ("lost", {"attempts": 3}, shared.__cause__)
