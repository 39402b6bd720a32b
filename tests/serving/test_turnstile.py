"""Requests that come at once begin a few at a time, and no address has to wait for all requests of another."""

from __future__ import annotations

import asyncio
import time

import pytest

from raftlog.serving import metered
from raftlog.serving.metered import Metered
from raftlog.serving.turnstile import BURST_S, MAX_DEBT_S, UNPACED, Turnstile
from raftlog.serving.workers import in_worker


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
    loop, turnstile = asyncio.get_running_loop(), Turnstile(share=0.5)
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


async def test_no_debt_is_longer_than_a_second_and_none_is_kept_for_ever():
    turnstile = Turnstile()
    turnstile.mark_active("other")
    turnstile.charge("a", 1_000)
    assert 0.9 < turnstile._wait_s("a") <= MAX_DEBT_S
    for number in range(5_000):
        turnstile.charge(f"10.0.{number // 256}.{number % 256}", 1e-9)
    assert len(turnstile._free_at) < 1_100
    assert turnstile._wait_s("a") > 0.5

    peers = Turnstile(share=UNPACED)
    peers.mark_active("other")
    peers.charge("a", 1_000)
    assert not peers._wait_s("a")


async def test_work_on_the_loop_and_in_threads_is_metered():
    def compute(seconds: float) -> None:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass

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


async def _await(work: Metered[None]) -> None:
    await work
