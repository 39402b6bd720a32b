"""What watches the event loop: stalls count, and are explained, if the loop's own thread was computing."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from raftlog.serving import loop_watch
from raftlog.serving.loop_turns import TurnLoop, turns_of
from raftlog.serving.loop_watch import STALL_FILE, LoopWatch

Loop = Callable[[], asyncio.AbstractEventLoop]
every_loop = pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, TurnLoop])


def run(loop: Loop, body: Coroutine[object, object, None]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(body)


def compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


@every_loop
def test_a_stall_is_counted_measured_and_explained(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv(STALL_FILE, str(tmp_path / "stalls.txt"))
    run(loop, stalls_are_explained(tmp_path, caplog))


async def stalls_are_explained(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watch = LoopWatch()
    watch.start()
    await asyncio.sleep(0.05)
    assert (watch.stalls, watch.lag_s < 0.05) == (0, True)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            compute(0.2)
            await asyncio.sleep(0.05)
    watch.close()

    assert watch.stalls == 3
    assert 0.15 < watch.lag_s < 0.4
    assert [record.message.partition(",")[0] for record in caplog.records] == ["the event loop was blocked 1 times"]
    said = (tmp_path / "stalls.txt").read_text()
    assert said.count(" ms, process ") == 3
    assert "compute(0.2)" in said


@every_loop
def test_a_long_garbage_collection_is_named(loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """No thread can look at the stack meanwhile: without its name, such a stall is "between two looks"."""
    monkeypatch.setenv(STALL_FILE, str(tmp_path / "stalls.txt"))

    async def measured() -> None:
        watch = LoopWatch()
        watch.start()
        await asyncio.sleep(0.05)
        many = [[number] for number in range(1_000_000)]
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            gc.collect()
        await asyncio.sleep(0.05)
        watch.close()
        assert len(many) == 1_000_000

    run(loop, measured())
    assert "garbage collection 2 took " in (tmp_path / "stalls.txt").read_text()
    assert not [callback for callback in gc.callbacks if "_Stacks" in repr(callback)]


@pytest.mark.parametrize(("stolen", "said"), [(0.0, ["400 ms"]), (0.1, ["300 ms", "without 100 ms"]), (0.38, [])])
def test_what_the_host_keeps_from_the_machine_is_no_stall(
    stolen: float, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It counts as CPU time of the thread that ran."""
    so_far = [5.0]
    monkeypatch.setenv(STALL_FILE, str(tmp_path / "stalls.txt"))
    monkeypatch.setattr(loop_watch, "stolen_s", lambda: so_far[0])

    async def measured() -> None:
        watch = LoopWatch()
        watch.start()
        so_far[0] += stolen
        assert watch._stacks is not None
        watch._stacks.turn_ended(0.4)
        watch.close()

    run(TurnLoop, measured())
    file = tmp_path / "stalls.txt"
    assert file.exists() == bool(said)
    assert all(part in file.read_text() for part in said)


def test_stolen_time_is_the_mean_of_the_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stat = tmp_path / "stat"
    stat.write_text("cpu  9 8 7 6 5 4 3 400 2 1\ncpu0 9 8 7 6 5 4 3 200 2 1\n")
    monkeypatch.setattr(loop_watch, "_STAT", stat)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert loop_watch.stolen_s() == 200 / os.sysconf("SC_CLK_TCK")
    stat.unlink()
    assert loop_watch.stolen_s() == 0.0


@every_loop
def test_a_loop_that_waits_for_the_machine_is_not_to_blame(loop: Loop):
    run(loop, the_machine_is_busy())


async def the_machine_is_busy() -> None:
    watch = LoopWatch()
    watch.start()
    await asyncio.sleep(0.03)
    time.sleep(0.2)  # noqa: ASYNC251  (as if other processes had the processor)
    await asyncio.sleep(0.05)
    watch.close()
    assert (watch.stalls, watch.lag_s < 0.05) == (0, True)


def test_the_first_stall_after_an_idle_second_counts():
    """No timer runs meanwhile: the turn itself is timed."""
    run(TurnLoop, one_stall_after_a_pause())


async def one_stall_after_a_pause() -> None:
    watch = LoopWatch()
    watch.start()
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def block() -> None:
        compute(0.08)
        loop.call_soon(done.set)

    loop.call_later(1.0, block)
    await done.wait()
    watch.close()
    assert watch.stalls == 1
    assert 0.07 < watch.lag_s < 0.2


def test_many_short_callbacks_of_one_turn_count_as_one_stall():
    run(TurnLoop, one_long_turn())


async def one_long_turn() -> None:
    watch = LoopWatch()
    watch.start()
    await asyncio.sleep(0)
    for _ in range(20):
        asyncio.get_running_loop().call_soon(compute, 0.005)
    await asyncio.sleep(0.01)
    watch.close()
    assert watch.stalls == 1


def test_an_idle_loop_is_not_woken():
    run(TurnLoop, nothing_happens())


async def nothing_happens() -> None:
    watch = LoopWatch()
    watch.start()
    turns = turns_of(asyncio.get_running_loop())
    assert turns is not None
    selects, select = 0, turns.select

    def counted(timeout: float | None = None) -> object:
        nonlocal selects
        selects += 1
        return select(timeout)

    turns.select = counted  # type: ignore[method-assign, assignment]
    await asyncio.sleep(0.3)
    watch.close()
    assert selects <= 3


def test_a_closed_watch_measures_no_more():
    run(TurnLoop, closed())


async def closed() -> None:
    watch = LoopWatch()
    watch.start()
    watch.close()
    await asyncio.sleep(0)
    compute(0.08)
    await asyncio.sleep(0)
    assert watch.stalls == 0


@every_loop
def test_what_ran_before_the_start_does_not_count(loop: Loop):
    run(loop, started_late())


async def started_late() -> None:
    compute(0.08)
    watch = LoopWatch()
    watch.start()
    await asyncio.sleep(0.03)
    watch.close()
    assert watch.stalls == 0
