"""The report of a suite: a table on stderr, one JSON object on stdout, and the same in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from benchmarks.plot import Bar, Chart, page

_UNITS = (
    "records_per_s",
    "batches_per_s",
    "per_s",
    "MBps",
    "p99_9_ms",
    "p99_ms",
    "p50_ms",
    "ms",
    "us",
    "mb",
    "kB",
    "s",
)
"""The suffixes of figures' names; the first that fits counts."""
console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often to repeat a measurement."""

    quick: bool = False
    kills: int | None = None
    """How many processes to kill for figures that kill some, if the command line sets it."""

    def pick(self, usual: int, *, quick: int) -> int:
        return quick if self.quick else usual

    def kill_count(self, usual: int, *, quick: int) -> int:
        return self.pick(usual, quick=quick) if self.kills is None else self.kills


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The limit of one statistic of a figure."""

    statistic: Literal["min", "median", "p99", "max"]
    at_most: float | None = None
    at_least: float | None = None

    def holds(self, measured: dict[str, float]) -> bool:
        value = measured[self.statistic]
        return (self.at_most is None or value < self.at_most) and (self.at_least is None or value >= self.at_least)

    def __str__(self) -> str:
        return f"{self.statistic} " + (f"< {self.at_most:,g}" if self.at_most is not None else f">= {self.at_least:,g}")


Better: TypeAlias = Literal["more", "less", "less_whatever_speed"]


@dataclass(slots=True, kw_only=True)
class Figure:
    """One measured figure; one without bounds only explains the others."""

    name: str
    samples: list[float]
    bounds: tuple[Bound, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)
    better: Better | None = None
    """Which direction is better, for figures that are compared with kept ones; `less_whatever_speed` is memory's."""

    @property
    def comparable(self) -> bool:
        return self.better is not None

    @property
    def measured(self) -> dict[str, float]:
        ordered = sorted(self.samples)
        last = len(ordered) - 1
        return {
            "min": ordered[0],
            "median": ordered[len(ordered) // 2],
            "p99": ordered[min(last, int(len(ordered) * 0.99))],
            "max": ordered[-1],
        }

    @property
    def ok(self) -> bool:
        return bool(self.samples) and all(bound.holds(self.measured) for bound in self.bounds)

    def to_plain(self) -> dict[str, Any]:
        measured = {name: round(value, 2) for name, value in self.measured.items()} if self.samples else {}
        bounds = [str(bound) for bound in self.bounds]
        return {"ok": self.ok, "bounds": bounds, "count": len(self.samples), **measured, **self.notes}


def progress() -> Progress:
    """Return a progress bar for stderr."""
    columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def repeat(times: int, what: str) -> Iterator[int]:
    """Count to `times`, with a progress bar on stderr."""
    with progress() as bar:
        yield from bar.track(range(times), description=what)


def conclude(suite: str, figures: list[Figure], *, folder: Path, more: Mapping[str, Any] | None = None) -> int:
    """Show all figures, keep them in `folder` as JSON and as a page, and return the exit status.

    Args:
        more: further entries of the report; `against_kept` are the verdicts of a comparison, which count.
    """
    more = more or {}
    against: dict[str, dict[str, Any]] = more.get("against_kept", {})
    console.print(_table(suite, figures))
    for name, verdict in against.items():
        color = "green" if verdict["ok"] else "red"
        console.print(f"[{color}]{name}: {verdict['share_of_kept']:g} of the kept figure, by calibration[/{color}]")
    ok = bool(figures) and all(figure.ok for figure in figures) and all(verdict["ok"] for verdict in against.values())
    line = orjson.dumps({"ok": ok, "figures": {figure.name: figure.to_plain() for figure in figures}, **more})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{suite}.json").write_bytes(line + b"\n")
    (folder / f"{suite}.html").write_text(page(f"raftlog bench {suite}", [], _charts(figures)))
    sys.stdout.write(line.decode() + "\n")
    return 0 if ok else 1


def _charts(figures: list[Figure]) -> list[Chart]:
    """Put figures of the same unit, which their names end with, into the same chart."""
    charts: dict[str, list[Bar]] = {}
    for figure in figures:
        if figure.samples:
            unit = next((unit for unit in _UNITS if figure.name.endswith(unit)), figure.name)
            bars = charts.setdefault(unit, [])
            measured = figure.measured
            label, low, high = figure.name.removesuffix(f"_{unit}"), measured["min"], measured["max"]
            bars.append(Bar(label=label, value=measured["median"], low=low, high=high, ours=figure.ok))
    return [Chart(title=unit, unit="median, and from least to most", bars=bars) for unit, bars in charts.items()]


def _table(suite: str, figures: list[Figure]) -> Table:
    table = Table("figure", "bound", title=f"raftlog bench {suite}")
    for column in ("n", "min", "median", "p99", "max"):
        table.add_column(column, justify="right")
    table.add_column("ok")
    for figure in figures:
        measured = figure.measured.values() if figure.samples else ["-"] * 4
        numbers = [f"{value:,.1f}" if isinstance(value, float | int) else value for value in measured]
        verdict = "" if not figure.bounds and figure.ok else "[green]yes[/green]" if figure.ok else "[red]NO[/red]"
        bounds = ", ".join(str(bound) for bound in figure.bounds)
        table.add_row(figure.name, bounds, str(len(figure.samples)), *numbers, verdict)
    return table
