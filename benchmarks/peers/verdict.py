"""The results of the samples: medians and their spread, ratios to raftlog, and whether the goals are reached."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.peers.contestants import GOALS, RAFTLOG, WORKS, Goal, Work
from benchmarks.peers.trials import Table

Durability = Literal["fsync_off", "fsync_on"]
DURABILITIES: dict[bool, Durability] = {False: "fsync_off", True: "fsync_on"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One contestant's figure at one work."""

    contestant: str
    values: list[float]
    ratio: float | None
    """raftlog's figure over this one: the median of the rounds' ratios, each from the same state of the machine."""
    cpu_us_per_record: float

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def to_plain(self) -> dict[str, Any]:
        spread = {"median": self.median, "min": min(self.values), "max": max(self.values), "count": len(self.values)}
        return {**spread, "cpu_us_per_record": self.cpu_us_per_record, "raftlog_over_this": self.ratio}


def rows(table: Table, work: Work) -> list[Row]:
    """Return the results of `work`, raftlog first."""
    measured = {who: samples for (name, who), samples in table.samples.items() if name == work.name and samples}
    ours = _values(measured.get(RAFTLOG, []), work)
    return [
        Row(
            contestant=who,
            values=(values := _values(samples, work)),
            ratio=_ratio(ours, values),
            cpu_us_per_record=_cpu_us(samples),
        )
        for who, samples in sorted(measured.items(), key=lambda item: (not item[0].startswith(RAFTLOG), item[0]))
    ]


def goals(tables: Mapping[bool, Table], wanted: Sequence[Goal] = GOALS) -> list[dict[str, Any]]:
    """Return for every goal whether it is reached; None if it was not measured."""
    return [_judge(goal, tables) for goal in wanted]


def _judge(goal: Goal, tables: Mapping[bool, Table]) -> dict[str, Any]:
    work = next(work for work in WORKS if work.name == goal.work)
    ours = _values(tables[goal.durable].samples.get((work.name, goal.ours), []), work) if goal.durable in tables else []
    peer = tables.get(goal.peer_durable)
    theirs = _values(peer.samples.get((work.name, goal.peer), []), work) if peer else []
    ratio = _ratio(ours, theirs)
    reached = None if ratio is None else ratio >= goal.times if work.more_is_better else ratio <= goal.times
    return {
        "work": work.name,
        "ours": f"{goal.ours}, {DURABILITIES[goal.durable]}",
        "peer": f"{goal.peer}, {DURABILITIES[goal.peer_durable]}",
        "goal": f"{'>=' if work.more_is_better else '<='} {goal.times:g} x",
        "ratio": ratio,
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


def _cpu_us(samples: list[dict[str, Any]]) -> float:
    per_record = [(s["server_cpu_s"] + s["client_cpu_s"]) / s["records"] * 1e6 for s in samples]
    return float(f"{statistics.median(per_record):.3g}")
