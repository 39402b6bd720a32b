"""The soak's judgement of growth, on forged samples, and its look at a process."""

from __future__ import annotations

import os
from pathlib import Path

from chaos.soak_samples import MIN_JUDGED_S, WARM_UP_S, Sample, growths, judged_lives, look, p99, table

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
    assert judged_lives(life()) == 1


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
    assert judged_lives(restarted) == 1


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
