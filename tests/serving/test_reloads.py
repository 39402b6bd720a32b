"""SIGHUP: every registered function is called, and the signal never ends the process."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
from collections.abc import AsyncIterator

import pytest

from raftlog.serving.reloads import Reloads


@pytest.fixture
async def closed() -> AsyncIterator[asyncio.Event]:
    yield asyncio.Event()
    asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


async def test_a_hangup_calls_every_function_even_if_one_fails(closed: asyncio.Event):
    called, second = asyncio.Event(), asyncio.Event()

    async def fails() -> None:
        called.set()
        raise OSError("gone")

    async def works() -> None:
        second.set()

    reloads = Reloads(closed.set)
    reloads.add(fails)
    reloads.add(works)
    reloads.start()
    for _ in range(2):
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait_for(asyncio.gather(called.wait(), second.wait()), 10)
        called.clear()
        second.clear()
    await reloads.close()
    os.kill(os.getpid(), signal.SIGHUP)
    assert not closed.is_set()


async def test_a_burst_of_signals_calls_a_function_once_more(closed: asyncio.Event):
    calls, going = 0, asyncio.Event()
    begun = asyncio.Event()

    async def slow() -> None:
        nonlocal calls
        calls += 1
        begun.set()
        await going.wait()

    reloads = Reloads(closed.set)
    reloads.add(slow)
    reloads.start()
    os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.wait_for(begun.wait(), 10)
    for _ in range(100):
        os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.sleep(0)
    begun.clear()
    going.set()
    await asyncio.wait_for(begun.wait(), 10)
    await reloads.close()
    assert calls == 2


async def test_in_a_terminal_a_hangup_means_that_it_was_closed(closed: asyncio.Event, monkeypatch: pytest.MonkeyPatch):
    outer, inner = pty.openpty()
    with os.fdopen(inner, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        reloads = Reloads(closed.set)
        reloads.start()
        monkeypatch.undo()
    os.close(outer)
    os.kill(os.getpid(), signal.SIGHUP)
    await asyncio.wait_for(closed.wait(), 10)
    await reloads.close()
