"""Requests that come at once begin a few at a time, and no address has to wait for all requests of another."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from raftlog.serving import metered, workers
from raftlog.serving.loop_shares import BURST_S, MAX_DEBT_S, SHARE, UNPACED, LoopShares
from raftlog.serving.metered import Metered
from raftlog.serving.spare_clock import SpareClock
from raftlog.serving.turnstile import Turnstile
from raftlog.serving.workers import derive_key, in_worker


async def test_few_begin_in_each_turn_and_addresses_take_turns():
    turnstile, order = Turnstile(per_turn=2), list[str]()

    async def ask(address: str, number: int) -> None:
        await turnstile.enter(address)
        order.append(f"{address}{number}")

    asked = [asyncio.create_task(ask("a", number)) for number in range(8)]
    asked += [asyncio.create_task(ask("b", number)) for number in range(2)]
    begun = []
    while len(order) < 10:
        await asyncio.sleep(0)
        begun.append(len(order))
    await asyncio.gather(*asked)

    assert order == ["a0", "a1", "a2", "b0", "a3", "b1", "a4", "a5", "a6", "a7"]
    assert max(after - before for before, after in zip([0, *begun], begun, strict=False)) <= 2
    await asyncio.sleep(0.01)
    await turnstile.enter("a")
    assert not turnstile._waiting


async def test_a_request_that_is_cancelled_while_it_waits_keeps_nobody():
    turnstile = Turnstile(per_turn=1)
    await turnstile.enter("a")
    waiting = [asyncio.create_task(turnstile.enter("a")) for _ in range(3)]
    for task in waiting:
        task.cancel()  # Before any of them has begun; then once more in the queue.
    waiting = [asyncio.create_task(turnstile.enter("a")) for _ in range(3)]
    asyncio.get_running_loop().call_soon(waiting[2].cancel)
    async with asyncio.timeout(1):
        await asyncio.gather(*waiting[:2])
        await turnstile.enter("b")
    assert waiting[2].cancelled()
    assert not turnstile._waiting


async def test_who_has_taken_much_waits_while_others_are_served_and_nobody_else_does():
    loop, turnstile = asyncio.get_running_loop(), Turnstile(LoopShares(0.5))
    turnstile.charge("heavy", 0.2)
    await asyncio.wait_for(turnstile.enter("heavy"), 0.05)  # Nobody else is here.

    turnstile.mark_active("light")
    asked_at = loop.time()
    heavy = [asyncio.create_task(turnstile.enter("heavy")) for _ in range(2)]
    async with asyncio.timeout(0.05):
        await asyncio.sleep(0)
        await turnstile.enter("light")
    assert not any(task.done() for task in heavy)
    await asyncio.gather(*heavy)
    waited = loop.time() - asked_at
    assert 0.2 / 0.5 - BURST_S / 0.5 - 0.05 < waited < 1, waited


async def test_a_share_is_one_of_the_time_that_the_loop_has_to_spare(tmp_path):
    counters, now = tmp_path / "schedstat", 100.0
    counters.write_text("0 0 1\n")
    clock = SpareClock(str(counters), now=lambda: now)
    shares = LoopShares(0.25, now=clock.time)
    shares.charge("a", BURST_S + 0.1)
    assert shares.wait_s("a") == pytest.approx(0.4)

    now, began = 100.4, clock.time()
    counters.write_text("100000000 200000000 7\n")  # It ran for 0.1 s, waited for 0.2 s, and was idle for 0.1 s.
    assert clock.time() - began == pytest.approx(0.15)
    assert shares.wait_s("a") == pytest.approx(0.25)

    now = 100.5
    counters.write_text("100000000 900000000 9\n")
    assert clock.time() - began == pytest.approx(0.15), "it went back"
    now = 101.45
    assert shares.wait_s("a") == 0.0

    counters.write_text("garbage")
    now = 102.4
    assert clock.time() - began == pytest.approx(1.45)


async def test_without_counters_it_is_the_clock_of_the_wall(tmp_path):
    clock = SpareClock(str(tmp_path / "missing"), now=lambda: 7.0)
    assert clock.time() == 7.0
    own = SpareClock()
    times = [own.time() for _ in range(3)]
    assert times == sorted(times)
    assert times[-1] <= time.monotonic()


async def test_one_loop_has_one_share_for_all_of_its_turnstiles():
    shares = LoopShares(now=lambda: 0.0)
    public, internal = Turnstile(shares), Turnstile(shares)
    public.charge("a", BURST_S + 0.1)
    internal.mark_active("other")
    assert internal.wait_s("a") == pytest.approx(0.1 / SHARE)
    public.mark_active("a")
    assert not public.wait_s("a")  # The others are served at the internal listener, and need nothing here.


async def test_no_debt_is_longer_than_a_second_and_none_is_kept_for_ever():
    shares = LoopShares()
    turnstile = Turnstile(shares)
    turnstile.mark_active("other")
    turnstile.charge("a", 1_000)
    assert 0.9 < turnstile.wait_s("a") <= MAX_DEBT_S
    for number in range(5_000):
        turnstile.charge(f"10.0.{number // 256}.{number % 256}", 1e-9)
    assert len(shares._free_at) < 1_100
    assert turnstile.wait_s("a") > 0.5

    peers = Turnstile(LoopShares(UNPACED))
    peers.mark_active("other")
    peers.charge("a", 1_000)
    assert not peers.wait_s("a")


async def test_work_on_the_loop_and_in_threads_is_metered():
    async def request() -> str:
        compute(0.02)
        await asyncio.sleep(0.1)
        await in_worker(compute, 0.03)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        return "done"

    work, began = Metered(request()), time.perf_counter()
    assert await work == "done"
    assert 0.05 <= work.seconds <= time.perf_counter() - began - 0.1

    async def cancelled() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            compute(0.02)

    work = Metered(cancelled())
    task = asyncio.create_task(_await(work))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.seconds >= 0.02
    assert metered.current() is None


async def test_work_of_a_thread_counts_if_it_fails_and_if_its_request_is_cancelled():
    began, go_on = threading.Event(), threading.Event()

    def fail() -> None:
        compute(0.02)
        raise ValueError("not JSON")

    work = Metered(in_worker(fail))
    with pytest.raises(ValueError, match="not JSON"):
        await work
    assert work.seconds >= 0.02

    def long() -> None:
        began.set()
        go_on.wait(10)
        compute(0.02)

    work = Metered(in_worker(long))
    task = asyncio.create_task(_await(work))
    await asyncio.to_thread(began.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.seconds >= 0.02


async def test_work_that_no_thread_has_begun_is_cancelled_with_its_request():
    blocked, go_on, begun = threading.Barrier(3), threading.Event(), list[str]()

    def block() -> None:
        blocked.wait(10)
        go_on.wait(10)

    both = [asyncio.create_task(in_worker(block)) for _ in range(2)]
    await asyncio.to_thread(blocked.wait, 10)
    waiting = asyncio.create_task(in_worker(begun.append, "begun"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    go_on.set()
    await asyncio.gather(*both)
    assert await in_worker(lambda: list(begun)) == []


async def test_what_a_part_computes_counts_for_the_whole():
    async def whole() -> float:
        part = Metered(in_worker(compute, 0.02))
        await part
        return part.seconds

    work = Metered(whole())
    assert await work >= 0.02
    assert work.seconds >= 0.02


class Held:
    """What a request keeps, such as its body."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
async def test_a_cancelled_request_leaves_nothing_to_the_garbage_collector():
    async def waits(held: Held) -> Held:
        await asyncio.Event().wait()
        return held

    held = Held()
    gone = weakref.ref(held)
    task = asyncio.create_task(_await(Metered(waits(held))))
    del held
    await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    del task
    await asyncio.sleep(0)
    assert gone() is None


@pytest.mark.usefixtures("no_collector")
async def test_failed_work_of_a_thread_leaves_nothing_to_the_garbage_collector():
    def fail(held: Held) -> None:
        raise ValueError(f"{held} is not JSON")

    held = Held()
    gone = weakref.ref(held)
    with contextlib.suppress(ValueError):
        await in_worker(fail, held)
    del held
    await in_worker(int, "7")  # The thread forgets its last work.
    await in_worker(int, "7")
    await asyncio.sleep(0)
    assert gone() is None


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux only")
async def test_the_thread_for_passwords_yields_to_all_others():
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    usual = await in_worker(priority)
    assert await derive_key(priority) == min(19, usual + 10)


def test_where_priorities_are_forbidden_the_thread_for_passwords_has_the_usual_one(monkeypatch: pytest.MonkeyPatch):
    def forbid(*_: int) -> None:
        raise PermissionError("seccomp")

    monkeypatch.setattr(os, "setpriority", forbid)
    with ThreadPoolExecutor(1, initializer=workers._yield_processors) as threads:
        assert threads.submit(int, "7").result(10) == 7


def compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def _await(work: Metered[Any]) -> None:
    await work
