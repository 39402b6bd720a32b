"""Long work in slices, and objects that the garbage collector ignores."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pytest

from raftlog.runtime import concurrently, freezing_objects, in_slices


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    gc.unfreeze()
    (gc.enable if enabled else gc.disable)()


async def test_others_get_their_turns_amid_long_work():
    turns, seen = [], []

    async def other() -> None:
        while True:
            turns.append(len(seen))
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    source = list(range(10))
    async for item in in_slices(source, 4):
        seen.append(item)
        source.clear()  # What is walked over may change meanwhile.
    task.cancel()
    assert seen == list(range(10))
    assert {4, 8} <= set(turns)


async def test_some_of_many_coroutines_begin_in_each_turn():
    begun, turns = list[int](), list[int]()

    async def other() -> None:
        while True:
            turns.append(len(begun))
            await asyncio.sleep(0)

    async def work(number: int) -> int:
        begun.append(number)
        return number

    task = asyncio.ensure_future(other())
    assert await concurrently([work(number) for number in range(10)], each=4) == list(range(10))
    task.cancel()
    assert max(after - before for before, after in pairwise(turns)) <= 4


async def test_coroutines_that_run_concurrently_are_cancelled_together():
    ended = list[int]()

    async def work(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    for turns in range(1, 8):
        ended.clear()
        waiting = asyncio.ensure_future(concurrently([work(number) for number in range(10)], each=2))
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        assert waiting.cancelled()
        assert len(asyncio.all_tasks()) == 1
        assert ended == sorted(ended)


def test_the_collector_is_as_it_was_found():
    gc.enable()
    with suppress(ZeroDivisionError), freezing_objects():
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()

    gc.disable()  # As in a simulated world: what a collection closes, and when, would be no function of its seed.
    gc.unfreeze()  # What other tests froze may end meanwhile, and would change the count.
    with freezing_objects():
        assert not gc.isenabled()
    assert (gc.isenabled(), gc.get_freeze_count()) == (False, 0)


async def test_if_one_of_them_fails_the_others_are_cancelled_and_nothing_is_left_to_the_collector(
    caplog: pytest.LogCaptureFixture,
):
    began, ended = list[int](), list[int]()

    async def work(number: int) -> None:
        began.append(number)
        try:
            if number in (0, 5):  # One fails before the last one begins, and one after it.
                raise ValueError(number)
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(ValueError, match="0") as failed:
            await concurrently([work(number) for number in range(6)], each=4)
        del failed
        await asyncio.sleep(0)
        # From Python 3.12 on, the last two are cancelled before they begin.
        assert began in (list(range(4)), list(range(6)))
        assert sorted(ended) == began
        assert len(asyncio.all_tasks()) == 1
        assert not [left for left in gc.get_objects() if isinstance(left, ValueError)]
    finally:
        gc.enable()
    assert not caplog.records
