"""A task that starts at once behaves as any other task: its context, its time limits, its end."""

from __future__ import annotations

import asyncio
import contextvars
import select
import selectors
import socket
from collections.abc import Callable, Coroutine
from contextlib import ExitStack

import pytest

from raftlog.serving.loop_turns import MOST_EVENTS, TurnLoop, TurnSelector, start_now

name = contextvars.ContextVar("name", default="none")


def in_turn_loop(body: Callable[[asyncio.AbstractEventLoop], Coroutine[object, object, None]]) -> None:
    with asyncio.Runner(loop_factory=TurnLoop) as runner:
        runner.run(body(runner.get_loop()))


def called_back(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> asyncio.Future[object]:
    """Call a function as the loop calls a protocol: outside of any task."""
    result: asyncio.Future[object] = loop.create_future()
    loop.call_soon(lambda: result.set_result(callback()))
    return result


def test_the_first_step_runs_at_once():
    async def body(loop: asyncio.AbstractEventLoop) -> None:
        steps: list[str] = []

        async def work() -> str:
            task = asyncio.current_task()
            assert task is not None
            steps.append("first")
            async with asyncio.timeout(5):
                await asyncio.sleep(0)
            assert asyncio.current_task() is task
            steps.append("second")
            return "done"

        def start() -> asyncio.Task[str]:
            task = start_now(loop, work())
            assert (steps, task.done(), asyncio.current_task()) == (["first"], False, None)
            return task

        task = await called_back(loop, start)
        assert isinstance(task, asyncio.Task)
        assert await task == "done"
        assert task in asyncio.all_tasks() or task.done()
        assert steps == ["first", "second"]

    in_turn_loop(body)


def test_work_that_never_waits_is_done_at_once_with_its_result_or_error():
    async def body(loop: asyncio.AbstractEventLoop) -> None:
        async def succeed() -> int:
            return 3

        async def fail() -> int:
            raise ValueError("no")

        async def cancel() -> int:
            raise asyncio.CancelledError

        done, failed, cancelled = [
            await called_back(loop, lambda work=work: start_now(loop, work())) for work in (succeed, fail, cancel)
        ]
        assert isinstance(done, asyncio.Task)
        assert isinstance(failed, asyncio.Task)
        assert isinstance(cancelled, asyncio.Task)
        assert (done.done(), done.result()) == (True, 3)
        assert (failed.done(), str(failed.exception())) == (True, "no")
        assert cancelled.cancelled()

    in_turn_loop(body)


def test_a_time_limit_and_a_cancellation_end_it():
    async def body(loop: asyncio.AbstractEventLoop) -> None:
        async def late() -> None:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()

        async def parked() -> None:
            await asyncio.Event().wait()

        task = await called_back(loop, lambda: start_now(loop, late()))
        assert isinstance(task, asyncio.Task)
        with pytest.raises(TimeoutError):
            await task
        task = await called_back(loop, lambda: start_now(loop, parked()))
        assert isinstance(task, asyncio.Task)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    in_turn_loop(body)


def test_it_has_a_context_of_its_own():
    async def body(loop: asyncio.AbstractEventLoop) -> None:
        async def work() -> str:
            before = name.get()
            name.set("inner")
            await asyncio.sleep(0)
            return f"{before} {name.get()}"

        def start() -> asyncio.Task[str]:
            name.set("outer")
            task = start_now(loop, work())
            assert name.get() == "outer"
            return task

        task = await called_back(loop, start)
        assert isinstance(task, asyncio.Task)
        assert await task == "outer inner"

    in_turn_loop(body)


def test_within_a_task_and_in_another_loop_it_starts_in_the_next_turn():
    async def body(loop: asyncio.AbstractEventLoop) -> None:
        started: list[int] = []

        async def work() -> None:
            started.append(1)

        task = start_now(loop, work())
        assert not started
        await task
        assert started

    in_turn_loop(body)
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(body(runner.get_loop()))


def test_the_loop_calls_as_before_after_a_start():
    async def body(loop: asyncio.AbstractEventLoop) -> None:
        async def work() -> None:
            called: asyncio.Future[None] = loop.create_future()
            loop.call_soon(called.set_result, None)  # Within the first step: a turn of the loop, as always.
            await called

        task = await called_back(loop, lambda: start_now(loop, work()))
        assert isinstance(task, asyncio.Task)
        async with asyncio.timeout(5):
            await task

    in_turn_loop(body)


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="Linux only")
def test_a_turn_serves_some_sockets_and_the_next_turns_serve_the_others():
    """A thousand clients that disconnect together take several turns."""
    with ExitStack() as stack:
        selector = stack.enter_context(TurnSelector())
        for _ in range(3 * MOST_EVENTS + 1):
            one, other = map(stack.enter_context, socket.socketpair())
            selector.register(one, selectors.EVENT_READ)
            other.send(b"x")  # It stays: each socket is ready all the time.
        turns = [[key.fd for key, _ in selector.select(1)] for _ in range(8)]
        assert [len(turn) for turn in turns] == [MOST_EVENTS] * 8
        assert {fd for turn in turns[:4] for fd in turn} == set(selector.get_map())
