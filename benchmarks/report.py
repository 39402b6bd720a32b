"""What a suite says: a table for people on stderr, one JSON object for programs on stdout, and the same in a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How often to repeat what is measured."""

    quick: bool = False
    kills: int | None = None
    """How many processes to kill for a figure that kills some, where the command line says so."""

    def pick(self, usual: int, *, quick: int) -> int:
        return quick if self.quick else usual

    def kill_count(self, usual: int, *, quick: int) -> int:
        return self.pick(usual, quick=quick) if self.kills is None else self.kills


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a statistic of a figure must keep to."""

    statistic: Literal["min", "median", "p99", "max"]
    at_most: float | None = None
    at_least: float | None = None

    def holds(self, measured: dict[str, float]) -> bool:
        value = measured[self.statistic]
        return (self.at_most is None or value < self.at_most) and (self.at_least is None or value >= self.at_least)

    def __str__(self) -> str:
        return f"{self.statistic} " + (f"< {self.at_most:,g}" if self.at_most is not None else f">= {self.at_least:,g}")


@dataclass(slots=True, kw_only=True)
class Figure:
    """One measured figure; one without bounds only explains the others."""

    name: str
    samples: list[float]
    bounds: tuple[Bound, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict)

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


def conclude(suite: str, figures: list[Figure], *, folder: Path) -> int:
    """Show all figures, keep them in `folder`, and return the exit status."""
    console.print(_table(suite, figures))
    ok = bool(figures) and all(figure.ok for figure in figures)
    line = orjson.dumps({"ok": ok, "figures": {figure.name: figure.to_plain() for figure in figures}})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{suite}.json").write_bytes(line + b"\n")
    sys.stdout.write(line.decode() + "\n")
    return 0 if ok else 1


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
