"""What watches the event loop: stalls count, and are explained, if the loop's own thread was computing."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest

from raftlog.serving.loop_watch import STALL_FILE, LoopWatch


def compute(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_a_stall_is_counted_measured_and_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv(STALL_FILE, str(tmp_path / "stalls.txt"))
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


async def test_a_loop_that_waits_for_the_machine_is_not_to_blame():
    watch = LoopWatch()
    watch.start()
    await asyncio.sleep(0.03)
    time.sleep(0.2)  # noqa: ASYNC251  (as if other processes had the processor)
    await asyncio.sleep(0.05)
    watch.close()
    assert (watch.stalls, watch.lag_s < 0.05) == (0, True)
