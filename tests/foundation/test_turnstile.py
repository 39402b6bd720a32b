"""Requests that come at once begin a few at a time, and no address has to wait for all requests of another."""

from __future__ import annotations

import asyncio

from raftlog.serving.turnstile import Turnstile


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
