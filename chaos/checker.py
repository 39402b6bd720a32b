"""Judges a history. Definitions follow Jepsen's Kafka workload.

Each check returns the anomalies that it finds; an empty verdict is a pass only if the history proves anything at all:
a run without acknowledged sends or without final reads is INVALID.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from chaos.history import History, Read, Send


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One broken promise."""

    kind: str
    detail: str


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What the checker found, with the figures that a report shows."""

    valid: bool
    """The history proves something: it has acknowledged sends and final reads."""
    anomalies: list[Anomaly] = field(default_factory=list)
    acknowledged: int = 0
    unknown: int = 0
    failed: int = 0
    read: int = 0

    @property
    def ok(self) -> bool:
        return self.valid and not self.anomalies

    def count(self, kind: str) -> int:
        """Return how many anomalies of one kind there are."""
        return sum(anomaly.kind == kind for anomaly in self.anomalies)


def check(history: History) -> Verdict:
    """Run every check over one history."""
    sends = history.sends
    acknowledged = sum(send.outcome == "ok" for send in sends)
    verdict = Verdict(
        valid=acknowledged > 0 and bool(history.final_reads),
        acknowledged=acknowledged,
        unknown=sum(send.outcome == "info" for send in sends),
        failed=sum(send.outcome == "fail" for send in sends),
        read=len({(read.partition, read.offset) for read in history.final_reads}),
    )
    for find in CHECKS:
        verdict.anomalies.extend(find(history))
    return verdict


def lost_writes(history: History) -> Iterable[Anomaly]:
    """Find acknowledged values, or values once read, that the final reads do not show."""
    final = {read.value for read in history.final_reads}
    known: dict[str, str] = {read.value: f"read by {read.process} at offset {read.offset}" for read in history.reads}
    known.update(
        {send.value: f"acknowledged at offset {send.offset}" for send in history.sends if send.outcome == "ok"}
    )
    for value, evidence in known.items():
        if value not in final:
            yield Anomaly("lost", f"{value} was {evidence} and is gone")


def duplicates(history: History) -> Iterable[Anomaly]:
    """Find values at more than one offset: every producer of the workload is idempotent."""
    places: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for read in _all_reads(history):
        places[read.value].add((read.partition, read.offset))
    for value, found in places.items():
        if len(found) > 1:
            yield Anomaly("duplicate", f"{value} is at {sorted(found)}")


def phantoms(history: History) -> Iterable[Anomaly]:
    """Find values that nobody sent, and values of sends that certainly failed (aborted reads)."""
    outcomes = {send.value: send.outcome for send in history.sends}
    for value in dict.fromkeys(read.value for read in _all_reads(history)):
        if value not in outcomes:
            yield Anomaly("phantom", f"{value} was read and never sent")
        elif outcomes[value] == "fail":
            yield Anomaly("aborted read", f"{value} was read and its send had failed for certain")


def inconsistent_offsets(history: History) -> Iterable[Anomaly]:
    """Find offsets that held two values, over every acknowledgement and every read."""
    values: dict[tuple[int, int], set[str]] = defaultdict(set)
    for send in history.sends:
        if send.outcome == "ok":
            values[send.partition, send.offset].add(send.value)
    for read in _all_reads(history):
        values[read.partition, read.offset].add(read.value)
    for (partition, offset), found in sorted(values.items()):
        if len(found) > 1:
            yield Anomaly("inconsistent offset", f"partition {partition} offset {offset} held {sorted(found)}")


def reordered_sends(history: History) -> Iterable[Anomaly]:
    """Find a send that got a lower offset than one acknowledged before it was invoked (realtime order)."""
    for partition, sends in _by_partition(send for send in history.sends if send.outcome == "ok").items():
        highest, completed = None, sorted(sends, key=lambda send: send.completed_ns)
        position = 0
        for send in sorted(sends, key=lambda send: send.invoked_ns):
            while completed[position].completed_ns < send.invoked_ns:
                done = completed[position]
                highest = done if highest is None or done.offset > highest.offset else highest
                position += 1
            if highest is not None and send.offset <= highest.offset:
                detail = f"{send.value} got {send.offset} after {highest.value} had got {highest.offset}"
                yield Anomaly("reordered", f"partition {partition}: {detail}")


def reordered_reads(history: History) -> Iterable[Anomaly]:
    """Find readers that went back, and readers that jumped over an offset that the final reads show."""
    present = {(read.partition, read.offset) for read in history.final_reads}
    for reads in (history.reads, history.final_reads):
        runs: dict[tuple[str, int], list[Read]] = defaultdict(list)
        for read in reads:
            runs[read.process, read.partition].append(read)
        for (process, partition), run in runs.items():
            for before, after in pairwise(run):
                if after.offset <= before.offset:
                    detail = f"{process} read {after.offset} after {before.offset}"
                    yield Anomaly("reordered", f"partition {partition}: {detail}")
                elif skipped := [o for o in range(before.offset + 1, after.offset) if (partition, o) in present]:
                    detail = f"{process} jumped from {before.offset} to {after.offset} over {skipped[:3]}"
                    yield Anomaly("skip", f"partition {partition}: {detail}")


CHECKS: tuple[Callable[[History], Iterable[Anomaly]], ...] = (
    lost_writes,
    duplicates,
    phantoms,
    inconsistent_offsets,
    reordered_sends,
    reordered_reads,
)


def _all_reads(history: History) -> Iterable[Read]:
    yield from history.reads
    yield from history.final_reads


def _by_partition(sends: Iterable[Send]) -> dict[int, list[Send]]:
    grouped: dict[int, list[Send]] = defaultdict(list)
    for send in sends:
        grouped[send.partition].append(send)
    return grouped
