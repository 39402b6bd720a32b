"""The soak's judgement of growth, on forged samples, and of its work; and its look at a process."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import pytest

from chaos import soak_work
from chaos.soak_samples import MIN_JUDGED_S, WARM_UP_S, Sample, growths, judged_lives, look, p99, table, unjudged
from chaos.soak_work import KINDS, MAX_WITHOUT_SUCCESS_S, SoakWork, without_success

END_S = int(WARM_UP_S + 2 * MIN_JUDGED_S)


def life(pid: int = 7, *, seconds: int = END_S, **growing: float) -> list[Sample]:
    """Return a process' samples; `growing` names figures and how much they grow in an hour."""
    return [
        Sample(
            name="broker-1",
            pid=pid,
            at_s=at,
            rss_mb=200 + growing.get("rss_mb", 0) * at / 3_600,
            fds=100 + growing.get("fds", 0) * at / 3_600,
            threads=20,
            tasks=50 + growing.get("tasks", 0) * at / 3_600,
            disk_mb=300,
        )
        for at in range(0, seconds, 10)
    ]


def test_a_process_that_holds_the_same_does_not_grow():
    assert growths(life()) == []
    assert judged_lives(life()) == ["broker-1"]


def test_memory_descriptors_and_tasks_that_grow_are_found():
    found = growths(life(rss_mb=400, fds=200, tasks=300))
    assert [growth.figure for growth in found] == ["rss_mb", "fds", "tasks"]
    assert "rss_mb grew from" in str(found[0])


def test_growth_while_it_warms_up_is_not_held_against_a_process():
    warming = [*life(seconds=int(WARM_UP_S), rss_mb=2_000)]
    steady = [
        Sample(name="broker-1", pid=7, at_s=WARM_UP_S + at, rss_mb=466, fds=100, threads=20, tasks=50, disk_mb=300)
        for at in range(0, 1_200, 10)
    ]
    assert growths([*warming, *steady]) == []


def test_each_life_is_judged_by_itself_and_a_short_one_is_not():
    restarted = [*life(7), *life(8, seconds=300, rss_mb=90_000)]
    assert growths(restarted) == []
    assert judged_lives(restarted) == ["broker-1"]


def test_the_table_shows_each_process_by_period():
    text = table(life(seconds=1_200), [(5.0, 2.0), (700.0, 9.0)], period_s=600)
    assert text.splitlines()[0].split() == ["process", "figure", "10", "min", "20", "min"]
    assert text.splitlines()[1].split() == ["broker-1", "rss_mb", "200", "200"]
    assert text.splitlines()[-1].split() == ["one", "record", "p99", "ms", "2.0", "9.0"]


def test_a_process_is_looked_at_and_one_that_is_gone_is_not(tmp_path: Path):
    (tmp_path / "file").write_bytes(bytes(3 << 20))
    seen = look("self", os.getpid(), 1.0, folder=tmp_path)
    assert seen is not None
    assert seen.rss_mb > 10
    assert seen.fds > 2
    assert seen.threads >= 1
    assert 2.9 < seen.disk_mb < 3.5
    assert look("nobody", 2**22 + 1, 1.0) is None


def test_the_99th_percentile():
    assert p99([]) == -1
    assert p99([1.0] * 98 + [5.0, 9.0]) == 9.0


def on_disk(pid: int, begun: int, seconds: int, growing: float) -> list[Sample]:
    """Return samples of a disk that grows by so many MB an hour, whichever process runs."""
    return [
        Sample(name="broker-1", pid=pid, at_s=at, disk_mb=300 + growing * at / 3_600)
        for at in range(begun, begun + seconds, 10)
    ]


def test_a_disk_is_judged_over_all_processes_of_a_node():
    short, lives = int(WARM_UP_S), range(30)
    (found,) = growths([sample for pid in lives for sample in on_disk(pid, pid * short, short, 90)])

    assert str(found).startswith("broker-1 (the whole run): disk_mb grew from")
    assert growths([sample for pid in lives for sample in on_disk(pid, pid * short, short, 0)]) == []


def test_a_disk_may_fill_up_to_its_retention_before_it_is_judged():
    filling, full = on_disk(1, 0, 3_600, 3_000), on_disk(2, 0, 7_200, 0)
    later = [replace(sample, at_s=sample.at_s + 3_600, disk_mb=3_300) for sample in full]
    whole = [growth for growth in growths([*filling, *later]) if growth.pid == 0]
    assert whole == []


def test_a_disk_that_grew_in_one_life_is_told_once():
    assert len(growths(on_disk(7, 0, 3 * 3_600, 2_000))) == 1


def test_a_node_without_a_judged_life_is_named():
    names = ["broker-1", "broker-2"]
    assert unjudged(life(), names) == ["broker-2"]
    assert unjudged(life(seconds=300), names) == names
    assert unjudged(life(), ["broker-1"]) == []


def steady(seconds: int, each_s: int = 60) -> dict[str, list[float]]:
    return {kind: [float(at) for at in range(0, seconds, each_s)] for kind in KINDS}


def test_each_kind_of_work_must_succeed_while_no_node_restarts():
    assert without_success(steady(3_600), [], 3_600) == []
    stopped = steady(3_600) | {"topic": [float(at) for at in range(0, 1_000, 60)]}
    assert without_success(stopped, [], 3_600) == ["no topic succeeded for 2640 s without a restart"]
    assert len(without_success({}, [], MAX_WITHOUT_SUCCESS_S + 1)) == len(KINDS)
    assert without_success({}, [], MAX_WITHOUT_SUCCESS_S - 1) == []


def test_work_need_not_succeed_while_nodes_restart():
    paused = {kind: [at for at in times if not 1_000 < at < 1_600] for kind, times in steady(3_600).items()}
    assert len(without_success(paused, [], 3_600)) == len(KINDS)
    assert without_success(paused, [(1_100.0, 1_500.0)], 3_600) == []
    assert len(without_success(paused, [(2_000.0, 2_500.0)], 3_600)) == len(KINDS)


class Hanging:
    """A producer whose first send hangs."""

    sends = 0

    def __init__(self, *_: object, **__: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send(self, *_: object) -> None:
        Hanging.sends += 1
        if Hanging.sends == 1:
            await asyncio.Event().wait()


async def test_work_that_hangs_is_told_and_begun_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Hanging, "sends", 0)
    monkeypatch.setattr(soak_work, "UNIT_S", 0.05)
    monkeypatch.setattr(soak_work.raftlog, "Producer", Hanging)
    work: Any = SoakWork([])
    served = asyncio.Event()
    monkeypatch.setattr(SoakWork, "_succeeded", lambda *_: served.set())
    working = asyncio.create_task(work._forever(work._probe))
    async with asyncio.timeout(10):
        await served.wait()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    assert work.errors["hung"] == 1
    assert Hanging.sends >= 2
