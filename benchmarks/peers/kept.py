"""Compares a run with the last kept one of the same kind of machine, and says what got worse.

A figure that is worse by more than a tenth, and worse than each round of the kept run, is worth a look. On a shared
machine the rounds of one run differ by more than a tenth.

The code of the peers stays the same. The median of their changes is what the machine does differently now: raftlog's
figures are compared in proportion to it.
"""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from benchmarks.peers.contestants import RAFTLOG, WORKS, Work
from benchmarks.peers.trials import Plan

KEPT = Path(__file__).parent / "kept"
TOLERANCE = 0.1
"""What got worse by more than this share is named."""
_KEPT = ("median", "min", "max", "cpu_us_per_record", "most_cpu_us")
Figures: TypeAlias = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]]
"""By durability, work and contestant: `Row.to_plain`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One figure of raftlog in two runs."""

    durability: str
    work: str
    contestant: str
    figure: str
    kept: float
    """The kept figure in proportion to this run's machine."""
    now: float
    worse_by: float
    """As a share of the kept figure; below 0 it got better."""
    beyond_rounds: bool
    """It is worse than each round of the kept run, in proportion to the machine: rarely by chance."""


def machine_kind() -> str:
    """Return the name of this kind of machine: figures of another kind say nothing about this one."""
    return f"{os.cpu_count()}-cores-{platform.machine()}"


def plan_kind(plan: Plan) -> str:
    """Return the name of what a run measures: other volumes or partitions make other figures."""
    partitions = f"{plan.partitions} partition{'' if plan.partitions == 1 else 's'}"
    return f"{partitions}, at most {plan.max_bytes >> 20} MB{', TLS' if plan.tls else ''}"


def kept_figures(plan: Plan) -> Figures:
    """Return the kept figures of this kind of machine and run; none if there are none."""
    figures: Figures = _read().get(plan_kind(plan), {})
    return figures


def keep(plan: Plan, figures: Figures) -> Path:
    """Keep the figures for later runs; figures of works that were not measured stay as they were."""
    runs = _read()
    kept = runs.setdefault(plan_kind(plan), {})
    for durability, works in figures.items():
        measured = {
            work: {who: {name: row[name] for name in _KEPT} for who, row in rows.items()}
            for work, rows in works.items()
            if rows
        }
        kept[durability] = kept.get(durability, {}) | measured
    KEPT.mkdir(exist_ok=True)
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    _path().write_bytes(orjson.dumps(runs, option=options))
    return _path()


def changes(figures: Figures, kept: Figures) -> list[Change]:
    """Return the change of each figure of raftlog that both runs have, where both have a peer's, too."""
    return [
        change
        for durability, works in figures.items()
        for work in WORKS
        for change in _changes(durability, work, works.get(work.name, {}), kept.get(durability, {}).get(work.name, {}))
    ]


def compared(found: list[Change], plan: Plan) -> dict[str, Any]:
    """Return the comparison for the JSON line."""
    worse = [asdict(change) for change in found if change.worse_by > TOLERANCE]
    return {"machine": machine_kind(), "run": plan_kind(plan), "compared": len(found), "worse": worse}


def _changes(
    durability: str, work: Work, now: Mapping[str, Mapping[str, Any]], kept: Mapping[str, Mapping[str, Any]]
) -> list[Change]:
    both = [who for who in now if who in kept]
    peers = [who for who in both if not who.startswith(RAFTLOG)]
    if not peers:
        return []
    found = []
    rate = ("median", "min" if work.more_is_better else "max", work.more_is_better)
    for name, worst, more_is_better in (rate, ("cpu_us_per_record", "most_cpu_us", False)):
        machine = statistics.median(now[peer][name] / kept[peer][name] for peer in peers)
        for who in (who for who in both if who not in peers):
            before, limit, after = kept[who][name] * machine, kept[who][worst] * machine, now[who][name]
            found.append(
                Change(
                    durability=durability,
                    work=work.name,
                    contestant=who,
                    figure=work.unit if name == "median" else name,
                    kept=float(f"{before:.4g}"),
                    now=after,
                    worse_by=round(1 - after / before if more_is_better else after / before - 1, 3),
                    beyond_rounds=after < limit if more_is_better else after > limit,
                )
            )
    return found


def _path() -> Path:
    return KEPT / f"{machine_kind()}.json"


def _read() -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(_path().read_bytes()) if _path().exists() else {}
    return found
