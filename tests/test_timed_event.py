"""An event with a deadline: what wakes its waiter, and what stays when the waiter is cancelled."""

from __future__ import annotations

import asyncio

from raftlog.runtime import TimedEvent


async def test_a_waiter_is_woken_once_and_not_before():
    parked, loop = TimedEvent(), asyncio.get_running_loop()
    waiting = asyncio.ensure_future(parked.wait(until := loop.time() + 60))
    await asyncio.sleep(0)
    assert not waiting.done()
    parked.set()
    parked.set()
    assert await waiting == until
    assert await parked.wait(until) == until  # Still set: what came during the look is not lost.
    parked.clear()
    again = asyncio.ensure_future(parked.wait(until))
    await asyncio.sleep(0)
    assert not again.done()
    again.cancel()
    await asyncio.gather(again, return_exceptions=True)


async def test_a_deadline_moves_only_to_an_earlier_time():
    parked, loop = TimedEvent(), asyncio.get_running_loop()
    parked.by(loop.time())  # Nothing waits: no deadline moves.
    waiting = asyncio.ensure_future(parked.wait(loop.time() + 60))
    await asyncio.sleep(0)
    parked.by(early := loop.time() + 0.01)
    parked.by(loop.time() + 30)
    async with asyncio.timeout(5):
        assert await waiting == early
    assert loop.time() >= early
    assert await parked.wait(early) == early  # It has passed: no wait.


async def test_a_waiter_that_is_cancelled_leaves_no_timer():
    parked, loop = TimedEvent(), asyncio.get_running_loop()
    waiting = asyncio.ensure_future(parked.wait(loop.time() + 60))
    await asyncio.sleep(0)
    timer = parked._timer
    assert timer is not None
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    parked.set()
    parked.by(loop.time())
    assert timer.cancelled()
    assert (parked._waiting, parked._timer) == (None, None)
