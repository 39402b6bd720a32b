"""Judges the history of a consumer group: pure, near-linear in the size of the history.

A partition's committed offset is a register that only its owner writes, and that never goes back: each owner starts at
the offset that the owner before it committed. An acknowledged commit counts from its acknowledgement on. A commit of
unknown outcome may count, but only until a later owner has begun to read. A refused commit never counts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import combinations, pairwise

from chaos.checker import Anomaly
from chaos.group_history import NEVER_NS, Commit, GroupHistory, Tenure


@dataclass(slots=True, kw_only=True)
class GroupVerdict:
    """The checker's result, with the figures of the report."""

    valid: bool
    """Commits were acknowledged, and members took partitions over from others."""
    anomalies: list[Anomaly] = field(default_factory=list)
    records: int = 0
    processed: int = 0
    again: int = 0
    """How many times a record was processed again: the promise is at least once."""
    commits: dict[str, int] = field(default_factory=dict)
    takeovers: int = 0

    @property
    def ok(self) -> bool:
        return self.valid and not self.anomalies


@dataclass(frozen=True, slots=True)
class _Point:
    """The register had this offset at some moment between the two times."""

    offset: int
    invoked_ns: int
    completed_ns: int
    what: str
    is_read: bool


@dataclass(slots=True)
class _Partition:
    """The part of the history that concerns one partition."""

    number: int
    tenures: list[Tenure]
    """In the order in which they began."""
    points: list[_Point]
    records: list[int]
    first_processed_ns: dict[int, int]
    """By offset."""
    times_processed: int


def check_group(history: GroupHistory) -> GroupVerdict:
    """Run every check over one history."""
    partitions = [_gather(history, number) for number in sorted(_numbers(history))]
    commits = [commit.outcome for tenure in history.tenures for commit in tenure.commits]
    processed = sum(partition.times_processed for partition in partitions)
    takeovers = sum(_takeovers(partition) for partition in partitions)
    verdict = GroupVerdict(
        valid="ok" in commits and takeovers > 0 and any(history.records.values()),
        records=sum(map(len, history.records.values())),
        processed=processed,
        again=processed - sum(len(partition.first_processed_ns) for partition in partitions),
        commits={outcome: commits.count(outcome) for outcome in ("ok", "fail", "info")},
        takeovers=takeovers,
    )
    verdict.anomalies = [Anomaly("not owned", what) for what in history.unowned]
    for partition in partitions:
        for find in CHECKS:
            found = find(partition)
            verdict.anomalies += [Anomaly(one.kind, f"partition {partition.number}: {one.detail}") for one in found]
    return verdict


def never_processed(partition: _Partition) -> Iterable[Anomaly]:
    """Find records that no member processed, and processed records that the final reads do not contain."""
    if missing := [offset for offset in partition.records if offset not in partition.first_processed_ns]:
        yield Anomaly("never processed", f"offsets {missing[:5]} ({len(missing)} in all)")
    there = set(partition.records)
    if phantoms := [offset for offset in partition.first_processed_ns if offset not in there]:
        yield Anomaly("phantom", f"offsets {phantoms[:5]} were processed, and are not in the log")


def skipped_or_repeated(partition: _Partition) -> Iterable[Anomaly]:
    """Find members that did not read every record once, in order, from their first offset to their last."""
    there = partition.records
    for tenure in partition.tenures:
        expected = tenure.offset
        for run in tenure.runs:
            place = bisect_left(there, expected)
            first = there[place] if place < len(there) else expected
            if run.first != first:
                kind = "skip" if run.first > first else "repeat"
                yield Anomaly(kind, f"{tenure.process} was to read {first} next, and got {run.first}")
            expected = run.last + 1


def committed_unprocessed(partition: _Partition) -> Iterable[Anomaly]:
    """Find committed offsets below which a record had not been processed yet."""
    ready_ns = _ready_times(partition)
    for point in partition.points:
        below = bisect_left(partition.records, point.offset)
        if ready_ns[below] > (point.completed_ns if point.is_read else point.invoked_ns):
            yield Anomaly("committed unprocessed", f"{point.what}, and not all below had been processed")


def went_back(partition: _Partition) -> Iterable[Anomaly]:
    """Find lost commits, and commits of a former owner that moved the group's offset back."""
    completed = sorted(partition.points, key=lambda point: point.completed_ns)
    highest: _Point | None = None
    position = 0
    for point in sorted(partition.points, key=lambda point: point.invoked_ns):
        while completed[position].completed_ns < point.invoked_ns:
            done = completed[position]
            highest = done if highest is None or done.offset > highest.offset else highest
            position += 1
        if highest is not None and point.offset < highest.offset:
            kind = "lost commit" if point.is_read else "commit went back"
            yield Anomaly(kind, f"{point.what}, after {highest.what}")


def unexplained(partition: _Partition) -> Iterable[Anomaly]:
    """Find committed offsets that no member had requested to commit, or whose commit was refused."""
    asked, refused = _asked(partition)
    for point in partition.points:
        if not point.is_read or point.offset <= 0 or asked.get(point.offset, NEVER_NS) < point.completed_ns:
            continue
        kind = "refused commit counts" if point.offset in refused else "phantom commit"
        yield Anomaly(kind, point.what)


def former_owners(partition: _Partition) -> Iterable[Anomaly]:
    """Find commits that were acknowledged although another member owned the partition by then.

    A member that slept logs the beginning of its tenure late, when it may be over already. If it learned its offset
    before the other tenure began, it may have owned the partition earlier; it then has no acknowledged commit.
    """
    for before, after in combinations(partition.tenures, 2):
        if after.process == before.process or (after.polled_ns < before.began_ns and not _acknowledged(after)):
            continue
        for commit in _acknowledged(before):
            if commit.invoked_ns <= after.began_ns:
                continue
            detail = f"{before.process} committed {commit.offset} after {after.process} had begun at {after.offset}"
            yield Anomaly("two owners", detail)


def shared_epochs(partition: _Partition) -> Iterable[Anomaly]:
    """Find partitions of which two members committed in the same epoch, or a later owner in an earlier one."""
    owners: dict[int, str] = {}
    newest = -1
    for tenure in partition.tenures:
        epochs = [commit.epoch for commit in _acknowledged(tenure) if commit.epoch >= 0]
        for epoch in dict.fromkeys(epochs):
            if owners.setdefault(epoch, tenure.process) != tenure.process:
                yield Anomaly("two owners", f"{owners[epoch]} and {tenure.process} both committed in epoch {epoch}")
        if epochs and min(epochs) < newest:
            yield Anomaly("epoch went back", f"{tenure.process} committed in epoch {min(epochs)}, after {newest}")
        newest = max([newest, *epochs])


CHECKS: tuple[Callable[[_Partition], Iterable[Anomaly]], ...] = (
    never_processed,
    skipped_or_repeated,
    committed_unprocessed,
    went_back,
    unexplained,
    former_owners,
    shared_epochs,
)


def _numbers(history: GroupHistory) -> set[int]:
    return {*history.records, *(tenure.partition for tenure in history.tenures)}


def _gather(history: GroupHistory, number: int) -> _Partition:
    tenures = sorted((t for t in history.tenures if t.partition == number), key=lambda tenure: tenure.began_ns)
    points = [
        _Point(s.offset, s.invoked_ns, s.completed_ns, f"{s.offset} was shown as committed", is_read=True)
        for s in history.sightings
        if s.partition == number
    ]
    first_processed_ns: dict[int, int] = {}
    times = 0
    for tenure in tenures:
        what = f"{tenure.process} began at {tenure.offset}"
        points.append(_Point(tenure.offset, tenure.polled_ns, tenure.began_ns, what, is_read=True))
        for commit in _acknowledged(tenure):
            what = f"{tenure.process} committed {commit.offset}"
            points.append(_Point(commit.offset, commit.invoked_ns, commit.completed_ns, what, is_read=False))
        for run in tenure.runs:
            times += run.last - run.first + 1
            for offset in range(run.first, run.last + 1):
                first_processed_ns[offset] = min(run.at_ns, first_processed_ns.get(offset, NEVER_NS))
    return _Partition(number, tenures, points, history.records.get(number, []), first_processed_ns, times)


def _acknowledged(tenure: Tenure) -> list[Commit]:
    return [commit for commit in tenure.commits if commit.outcome == "ok"]


def _ready_times(partition: _Partition) -> list[int]:
    """Return, for each count of records from the start of the log, when all of them had been processed."""
    times = [0]
    for offset in partition.records:
        times.append(max(times[-1], partition.first_processed_ns.get(offset, NEVER_NS)))
    return times


def _asked(partition: _Partition) -> tuple[dict[int, int], set[int]]:
    """Return the earliest time at which each offset may have been committed, and the offsets with a refused commit."""
    asked: dict[int, int] = {}
    refused: set[int] = set()
    for tenure in partition.tenures:
        for commit in tenure.commits:
            if commit.outcome == "fail":
                refused.add(commit.offset)
            else:
                asked[commit.offset] = min(commit.invoked_ns, asked.get(commit.offset, NEVER_NS))
        for run in tenure.runs if tenure.automatic else ():
            # The client commits whole answers, but the application may have processed an answer in parts.
            asked[run.last + 1] = min(run.at_ns, asked.get(run.last + 1, NEVER_NS))
    return asked, refused


def _takeovers(partition: _Partition) -> int:
    return sum(after.process != before.process and after.offset > 0 for before, after in pairwise(partition.tenures))
