"""The resources of each process of a soak (memory, descriptors, threads, tasks, disk), and how they grow."""

from __future__ import annotations

import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

FIGURES = ("rss_mb", "fds", "threads", "tasks", "disk_mb")
WARM_UP_S = 480.0
"""A process is judged from then on: its caches, pools and arenas are full."""
DISK_WARM_UP_S = 3_600.0
"""A node's disk is judged over the whole run from then on: every topic has grown to its retention."""
MIN_JUDGED_S = 600.0
"""A life shorter than this, after its warm-up, is not judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """How much a figure's last third may exceed its first third."""

    share: float
    plus: float


ALLOWED: dict[str, Allowance] = {
    "rss_mb": Allowance(share=0.10, plus=16),
    "fds": Allowance(share=0.10, plus=10),
    "threads": Allowance(share=0.0, plus=4),
    "tasks": Allowance(share=0.10, plus=20),
    "disk_mb": Allowance(share=0.25, plus=64),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One process at one moment. An unavailable figure is -1."""

    name: str
    pid: int
    at_s: float
    """Since the soak began."""
    rss_mb: float = -1
    fds: float = -1
    threads: float = -1
    tasks: float = -1
    disk_mb: float = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """A figure of one process' life that grew by more than its allowance."""

    name: str
    pid: int
    """0: all its processes, one after another."""
    figure: str
    before: float
    after: float

    def __str__(self) -> str:
        which = f"process {self.pid}" if self.pid else "the whole run"
        return f"{self.name} ({which}): {self.figure} grew from {self.before:g} to {self.after:g}"


def look(name: str, pid: int, at_s: float, *, folder: Path | None = None, tasks: float = -1) -> Sample | None:
    """Sample a process; None if it has exited."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("utf-8", "replace")
        fds = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  (names only, many times)
    except OSError:
        return None
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if "VmRSS" not in lines:
        return None  # A zombie.
    return Sample(
        name=name,
        pid=pid,
        at_s=at_s,
        rss_mb=int(lines["VmRSS"].split()[0]) / 1024,
        fds=fds,
        threads=int(lines["Threads"]),
        tasks=tasks,
        disk_mb=-1 if folder is None else _disk_mb(folder),
    )


def growths(samples: Iterable[Sample]) -> list[Growth]:
    """Return what grew: for each process' life, after its warm-up, the last third against the first third.

    A node's disk outlives its processes: it is judged over the whole run, too.
    """
    lives: dict[tuple[str, int], list[Sample]] = defaultdict(list)
    nodes: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        lives[sample.name, sample.pid].append(sample)
        nodes[sample.name].append(sample)
    found = [growth for (name, pid), life in lives.items() for growth in _growths(name, pid, life, FIGURES, WARM_UP_S)]
    told = {(growth.name, growth.figure) for growth in found}
    whole = [growth for name, run in nodes.items() for growth in _growths(name, 0, run, ("disk_mb",), DISK_WARM_UP_S)]
    return found + [growth for growth in whole if (growth.name, growth.figure) not in told]


def _growths(name: str, pid: int, life: Sequence[Sample], figures: Iterable[str], warm_up_s: float) -> Iterator[Growth]:
    judged = [sample for sample in life if sample.at_s - life[0].at_s >= warm_up_s]
    if not judged or judged[-1].at_s - judged[0].at_s < MIN_JUDGED_S:
        return
    for figure in figures:
        first, last = _thirds([getattr(sample, figure) for sample in judged])
        allowed = ALLOWED[figure]
        if last > first * (1 + allowed.share) + allowed.plus:
            yield Growth(name=name, pid=pid, figure=figure, before=round(first, 1), after=round(last, 1))


def judged_lives(samples: Iterable[Sample]) -> list[str]:
    """Return the process of each life that was long enough to be judged."""
    lives: dict[tuple[str, int], list[float]] = defaultdict(list)
    for sample in samples:
        lives[sample.name, sample.pid].append(sample.at_s)
    return [name for (name, _), times in lives.items() if max(times) - min(times) >= WARM_UP_S + MIN_JUDGED_S]


def unjudged(samples: Iterable[Sample], names: Iterable[str]) -> list[str]:
    """Return which of these processes have no life that was long enough to be judged."""
    judged = {*judged_lives(samples)}
    return [name for name in names if name not in judged]


def p99(milliseconds: Sequence[float]) -> float:
    """Return the 99th percentile, or -1 if there are no values."""
    if not milliseconds:
        return -1
    ordered = sorted(milliseconds)
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def table(samples: Sequence[Sample], probes: Sequence[tuple[float, float]], *, period_s: float) -> str:
    """Return the medians of each period for each process, and the p99 of single records, as text.

    Args:
        probes: (seconds since the beginning, milliseconds until the acknowledgement).
        period_s: the length of a period.
    """
    periods = int(max((sample.at_s for sample in samples), default=0) // period_s) + 1
    names = list(dict.fromkeys(sample.name for sample in samples))
    lines = [f"{'process':14} {'figure':8} " + " ".join(f"{_label(n, period_s):>9}" for n in range(periods))]
    for name in names:
        for figure in FIGURES:
            cells = [_cell(samples, name, figure, n, period_s) for n in range(periods)]
            if any(cell != "-" for cell in cells):
                lines.append(f"{name:14} {figure:8} " + " ".join(f"{cell:>9}" for cell in cells))
    times = [p99([ms for at, ms in probes if int(at // period_s) == n]) for n in range(periods)]
    lines.append(f"{'one record':14} {'p99 ms':8} " + " ".join(f"{ms:>9.1f}" for ms in times))
    return "\n".join(lines)


def _label(number: int, period_s: float) -> str:
    return f"{round((number + 1) * period_s / 60)} min"


def _cell(samples: Sequence[Sample], name: str, figure: str, number: int, period_s: float) -> str:
    values = [
        value
        for sample in samples
        if sample.name == name and int(sample.at_s // period_s) == number
        if (value := getattr(sample, figure)) >= 0
    ]
    return f"{statistics.median(values):.0f}" if values else "-"


def _thirds(values: Sequence[float]) -> tuple[float, float]:
    third = max(1, len(values) // 3)
    return statistics.median(values[:third]), statistics.median(values[-third:])


def _disk_mb(folder: Path) -> float:
    total, pending = 0, [str(folder)]
    while pending:
        with suppress(FileNotFoundError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total / (1 << 20)
