"""The results of the samples: medians and their spread, ratios to raftlog, and whether the goals are reached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.peers.contestants import GOALS, RAFTLOG, WORKS, Goal, Work
from benchmarks.peers.trials import Table

Durability = Literal["fsync_off", "fsync_on"]
_OTHERS = ("p50_ms", "p99_9_ms", "max_ms", "stolen_share")
DURABILITIES: dict[bool, Durability] = {False: "fsync_off", True: "fsync_on"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One contestant's figure at one work."""

    contestant: str
    values: list[float]
    ratio: float | None
    """raftlog's figure over this one: the median of the rounds' ratios, each from the same state of the machine."""
    cpu_us: list[float]
    """CPU time for each record, servers and client, round by round."""
    others: dict[str, float] = field(default_factory=dict)
    """Medians of the rounds: of latencies, in ms; `stolen_share` is the share of the machine that its host took."""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def cpu_us_per_record(self) -> float:
        return float(f"{statistics.median(self.cpu_us):.3g}")

    def to_plain(self) -> dict[str, Any]:
        spread = {"median": self.median, "min": min(self.values), "max": max(self.values), "count": len(self.values)}
        cpu = {"cpu_us_per_record": self.cpu_us_per_record, "most_cpu_us": float(f"{max(self.cpu_us):.3g}")}
        return {**spread, **cpu, "raftlog_over_this": self.ratio, **self.others}


def rows(table: Table, work: Work) -> list[Row]:
    """Return the results of `work`, raftlog first."""
    measured = {who: samples for (name, who), samples in table.samples.items() if name == work.name and samples}
    ours = _values(measured.get(RAFTLOG, []), work)
    return [
        Row(
            contestant=who,
            values=(values := _values(samples, work)),
            ratio=_ratio(ours, values),
            cpu_us=_cpu_us(samples),
            others={name: statistics.median(s[name] for s in samples) for name in _OTHERS if name in samples[0]},
        )
        for who, samples in sorted(measured.items(), key=lambda item: (not item[0].startswith(RAFTLOG), item[0]))
    ]


def goals(tables: Mapping[bool, Table], wanted: Sequence[Goal] = GOALS) -> list[dict[str, Any]]:
    """Return for every goal whether it is reached; None if it was not measured."""
    return [_judge(goal, tables) for goal in wanted]


def _judge(goal: Goal, tables: Mapping[bool, Table]) -> dict[str, Any]:
    work = next(work for work in WORKS if work.name == goal.work)
    ours, theirs = (
        tables[durable].samples.get((work.name, who), []) if durable in tables else []
        for who, durable in ((goal.ours, goal.durable), (goal.peer, goal.peer_durable))
    )
    ratio = _ratio(_values(ours, work), _values(theirs, work))
    reached = None if ratio is None else ratio >= goal.times if work.more_is_better else ratio <= goal.times
    wanted, cpu_share = f"{'>=' if work.more_is_better else '<='} {goal.times:g} x", None
    if goal.cpu_share is not None:
        wanted += f", CPU <= {goal.cpu_share:g} x"
        if ratio is not None:
            cpu_share = float(f"{statistics.median(_cpu_us(ours)) / statistics.median(_cpu_us(theirs)):.3g}")
            reached = reached and cpu_share <= goal.cpu_share
    return {
        "work": work.name,
        "ours": f"{goal.ours}, {DURABILITIES[goal.durable]}",
        "peer": f"{goal.peer}, {DURABILITIES[goal.peer_durable]}",
        "goal": wanted,
        "ratio": ratio,
        "cpu_share": cpu_share,
        "reached": reached,
    }


def _values(samples: list[dict[str, Any]], work: Work) -> list[float]:
    return [float(sample[work.unit]) for sample in samples]


def _ratio(ours: list[float], theirs: list[float]) -> float | None:
    """Return the median of the rounds' ratios; or the ratio of the medians, if a contestant missed a round."""
    if not ours or not theirs or not all(theirs):
        return None
    if len(ours) == len(theirs):
        ratio = statistics.median(our / their for our, their in zip(ours, theirs, strict=True))
    else:
        ratio = statistics.median(ours) / statistics.median(theirs)
    return float(f"{ratio:.3g}")


def _cpu_us(samples: list[dict[str, Any]]) -> list[float]:
    return [(s["server_cpu_s"] + s["client_cpu_s"]) / s["records"] * 1e6 for s in samples]
