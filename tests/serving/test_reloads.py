"""SIGHUP: every registered function is called; without one, the signal is left alone."""

from __future__ import annotations

import asyncio
import os
import signal

from raftlog.serving.reloads import Reloads


async def test_a_hangup_calls_every_function_even_if_one_fails():
    called, second = asyncio.Event(), asyncio.Event()

    async def fails() -> None:
        called.set()
        raise OSError("gone")

    async def works() -> None:
        second.set()

    reloads = Reloads()
    reloads.add(fails)
    reloads.add(works)
    reloads.start()
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait_for(asyncio.gather(called.wait(), second.wait()), 10)
    finally:
        await reloads.close()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


async def test_without_functions_the_signal_keeps_its_default():
    reloads = Reloads()
    reloads.start()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    await reloads.close()
