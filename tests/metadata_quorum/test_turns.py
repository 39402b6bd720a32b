"""Whose turn it is: what keeps the cluster alive first, the rest in the order of coming, and not without end."""

from __future__ import annotations

import asyncio

import pytest

from raftlog.errors import OverloadedError
from raftlog.metadata_quorum.turns import Turns


async def take(turns: Turns, order: list[str], name: str, *, vital: bool = False) -> None:
    async with turns.turn(vital=vital):
        order.append(name)
        await asyncio.sleep(0)


async def test_vital_callers_come_first_and_each_queue_keeps_its_order():
    turns, order = Turns(max_waiting=10), list[str]()
    async with asyncio.TaskGroup() as group, turns.turn(vital=False):
        for name in ("a", "b"):
            group.create_task(take(turns, order, name))
        for name in ("beat 1", "beat 2"):
            group.create_task(take(turns, order, name, vital=True))
        await asyncio.sleep(0.01)
        assert order == []
    assert order == ["beat 1", "beat 2", "a", "b"]
    await take(turns, order, "free again")


async def test_too_many_ordinary_callers_are_refused_and_vital_ones_are_not():
    turns, order = Turns(max_waiting=2), list[str]()
    async with asyncio.TaskGroup() as group, turns.turn(vital=False):
        for name in ("a", "b"):
            group.create_task(take(turns, order, name))
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError, match="2 requests wait"):
            await take(turns, order, "c")
        group.create_task(take(turns, order, "beat", vital=True))
        await asyncio.sleep(0)
    assert order == ["beat", "a", "b"]


@pytest.mark.parametrize("given", [False, True])
async def test_a_caller_that_is_cancelled_keeps_nobody_waiting(given: bool):
    turns, order = Turns(max_waiting=10), list[str]()
    async with turns.turn(vital=False):
        left = asyncio.create_task(take(turns, order, "left"))
        stays = asyncio.create_task(take(turns, order, "stays"))
        await asyncio.sleep(0)
        if not given:
            left.cancel()
            await asyncio.sleep(0)
    if given:
        left.cancel()  # Its turn was given, and it has not run yet.
    async with asyncio.timeout(1):
        await stays
    assert (left.cancelled(), order) == (True, ["stays"])
