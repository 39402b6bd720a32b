"""The order in which a `PriorityLock` admits callers: urgent ones first, each queue in order."""

from __future__ import annotations

import asyncio

import pytest

from raftlog.metadata_quorum.priority_lock import PriorityLock


async def take(lock: PriorityLock, order: list[str], name: str, *, urgent: bool = False) -> None:
    async with lock.acquire(urgent=urgent):
        order.append(name)
        await asyncio.sleep(0)


async def test_urgent_callers_come_first_and_each_queue_keeps_its_order():
    lock, order = PriorityLock(), list[str]()
    async with asyncio.TaskGroup() as group, lock.acquire(urgent=False):
        for name in ("a", "b"):
            group.create_task(take(lock, order, name))
        for name in ("beat 1", "beat 2"):
            group.create_task(take(lock, order, name, urgent=True))
        await asyncio.sleep(0.01)
        assert order == []
    assert order == ["beat 1", "beat 2", "a", "b"]
    await take(lock, order, "free again")


@pytest.mark.parametrize("given", [False, True])
async def test_a_caller_that_is_cancelled_keeps_nobody_waiting(given: bool):
    lock, order = PriorityLock(), list[str]()
    async with lock.acquire(urgent=False):
        left = asyncio.create_task(take(lock, order, "left"))
        stays = asyncio.create_task(take(lock, order, "stays"))
        await asyncio.sleep(0)
        if not given:
            left.cancel()
            await asyncio.sleep(0)
    if given:
        left.cancel()  # It owns the lock, and has not run yet.
    async with asyncio.timeout(1):
        await stays
    assert (left.cancelled(), order) == (True, ["stays"])
