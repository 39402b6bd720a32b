"""Judges a history. Definitions follow Jepsen's Kafka workload; `CHECKS` lists every kind of anomaly.

Each check walks through its input once or twice, so the time grows linearly with the history's length. An empty verdict
is a pass only if the history proves anything: a run without durably acknowledged sends or without final reads is
INVALID. Transactions have their own checker, `transactions`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, pairwise

from chaos.history import UNKNOWN_PARTITION, History, Read, Send
from chaos.replica_checks import REPLICA_CHECKS, Anomaly

MAX_ANOMALIES = 1_000
"""Of each check: more of the same kind add nothing."""

__all__ = ["CHECKS", "Anomaly", "Verdict", "check"]


@dataclass(slots=True, kw_only=True)
class Verdict:
    """The checker's result, with the figures of the report."""

    valid: bool
    """The history proves something: it has acknowledged sends and final reads."""
    anomalies: list[Anomaly] = field(default_factory=list)
    acknowledged: int = 0
    unknown: int = 0
    failed: int = 0
    read: int = 0
    harmless_repeats: int = 0
    """Values of producers without idempotence that are at more than one offset."""

    @property
    def ok(self) -> bool:
        return self.valid and not self.anomalies

    @property
    def kinds(self) -> dict[str, int]:
        """The number of anomalies of each kind."""
        return dict(Counter(anomaly.kind for anomaly in self.anomalies))

    def count(self, kind: str) -> int:
        """Return the number of anomalies of one kind."""
        return sum(anomaly.kind == kind for anomaly in self.anomalies)


def check(history: History) -> Verdict:
    """Run every check over one history."""
    outcomes = Counter(send.outcome for send in history.sends)
    repeatable = {send.value for send in history.sends if not send.idempotent}
    places = {(read.partition, read.offset): read.value for read in history.final_reads}
    copies = Counter(value for value in places.values() if value in repeatable)
    verdict = Verdict(
        valid=any(send.durable for send in history.sends) and bool(history.final_reads or history.log_starts),
        acknowledged=outcomes["ok"],
        unknown=outcomes["info"],
        failed=outcomes["fail"],
        read=len(places),
        harmless_repeats=sum(count > 1 for count in copies.values()),
    )
    for find in CHECKS:
        for number, anomaly in enumerate(find(history)):
            if number == MAX_ANOMALIES:
                break
            verdict.anomalies.append(anomaly)
    return verdict


def lost_writes(history: History) -> Iterator[Anomaly]:
    """Find committed values that are missing from the final reads.

    A value is committed if its send was acknowledged with acks=all, or if any client read it. An acknowledged value
    above the last offset of the final reads is reported as `unseen`: perhaps no final read asked for it. It fails the
    run as well.
    """
    final = {read.value for read in history.final_reads}
    highest: dict[int, int] = defaultdict(lambda: -1)
    for read in history.final_reads:
        highest[read.partition] = max(highest[read.partition], read.offset)
    for read in history.reads:
        if read.value not in final and not _may_be_gone(history, read):
            final.add(read.value)  # Report it once.
            yield Anomaly("lost", f"{read.value} was read by {read.process} at offset {read.offset} and is missing")
    for send in history.sends:
        if send.durable and send.value not in final and not _may_be_gone(history, send):
            kind, fate = ("lost", "is missing") if send.offset <= highest[send.partition] else ("unseen", "is not read")
            yield Anomaly(kind, f"{send.value} was acknowledged at offset {send.offset} and {fate}")


def duplicates(history: History) -> Iterator[Anomaly]:
    """Find values of idempotent producers at more than one offset."""
    repeatable = {send.value for send in history.sends if not send.idempotent}
    first: dict[str, tuple[int, int]] = {}
    others: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for read in _all_reads(history):
        place = read.partition, read.offset
        if first.setdefault(read.value, place) != place and read.value not in repeatable:
            others[read.value].add(place)
    for value, found in others.items():
        yield Anomaly("duplicate", f"{value} is at {sorted({first[value], *found})}")


def phantoms(history: History) -> Iterator[Anomaly]:
    """Find values that were never sent, and values of sends that certainly failed (aborted reads)."""
    outcomes = {send.value: send.outcome for send in history.sends}
    seen = set[str]()
    for read in _all_reads(history):
        if read.value in seen:
            continue
        seen.add(read.value)
        outcome = outcomes.get(read.value)
        if outcome is None:
            yield Anomaly("phantom", f"{read.value} was read by {read.process} at {read.offset} and was never sent")
        elif outcome == "fail":
            yield Anomaly("aborted read", f"{read.value} was read, and its send had certainly failed")


def corruptions(history: History) -> Iterator[Anomaly]:
    """Find answers with a wrong checksum."""
    for what in history.corruptions:
        yield Anomaly("corrupt", what)


def blamed_disks(history: History) -> Iterator[Anomaly]:
    """Find sends that failed for good because a broker's disk had failed: the next leader takes them."""
    for send in history.sends:
        if send.blames_disk:
            yield Anomaly("blamed disk", f"{send.value} of {send.process} failed: {send.error}")


def inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    """Find offsets that held two values, over every durable acknowledgement and every read."""
    first: dict[tuple[int, int], str] = {}
    others: dict[tuple[int, int], set[str]] = defaultdict(set)
    acknowledged = ((send.partition, send.offset, send.value) for send in history.sends if send.placed)
    read = ((read.partition, read.offset, read.value) for read in _all_reads(history))
    for partition, offset, value in chain(acknowledged, read):
        if first.setdefault((partition, offset), value) != value:
            others[partition, offset].add(value)
    for (partition, offset), found in sorted(others.items()):
        held = sorted({first[partition, offset], *found})
        yield Anomaly("inconsistent offset", f"partition {partition} offset {offset} held {held}")


def altered(history: History) -> Iterator[Anomaly]:
    """Find records with another key, timestamp, header or partition than they were sent with, or were read with."""
    sent = {send.value: send for send in history.sends}
    first: dict[tuple[int, int, str], str] = {}
    told = set[str]()
    for read in _all_reads(history):
        send, known = sent.get(read.value), read.extra
        if read.extra:
            known = first.setdefault((read.partition, read.offset, read.value), read.extra)
        wrong = "" if read.extra == known else f"{read.extra}, before {known}"
        if send is not None and send.extra and read.extra and send.extra != read.extra:
            wrong = f"{read.extra}, sent {send.extra}"
        if send is not None and send.partition not in (UNKNOWN_PARTITION, read.partition):
            wrong = f"in partition {read.partition}, sent to {send.partition}"
        if wrong and read.value not in told:
            told.add(read.value)
            yield Anomaly("altered", f"{read.process} read {read.value} at {read.offset}: {wrong}")


def reordered_sends(history: History) -> Iterator[Anomaly]:
    """Find a send that got a lower offset than one acknowledged before it was invoked (realtime order)."""
    for partition, sends in _by_partition(send for send in history.sends if send.placed).items():
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


def nonmonotonic_sends(history: History) -> Iterator[Anomaly]:
    """Find sends of one idempotent producer that lost its order while both were in flight."""
    last: dict[tuple[str, int], Send] = {}
    placed = (send for send in history.sends if send.placed and send.idempotent)
    for send in sorted(placed, key=lambda send: send.invoked_ns):
        before = last.get((send.process, send.partition))
        if before is not None and send.offset <= before.offset and before.completed_ns >= send.invoked_ns:
            detail = f"{send.process} sent {before.value} to {before.offset}, then {send.value} to {send.offset}"
            yield Anomaly("nonmonotonic send", f"partition {send.partition}: {detail}")
        last[send.process, send.partition] = send


def reordered_reads(history: History) -> Iterator[Anomaly]:
    """Find readers that went back, and readers that skipped an offset that the final reads contain."""
    present = {(read.partition, read.offset) for read in history.final_reads}
    for reads in (history.reads, history.final_reads):
        runs: dict[tuple[str, int], list[Read]] = defaultdict(list)
        for read in reads:
            runs[read.process, read.partition].append(read)
        for (process, partition), run in runs.items():
            for before, after in pairwise(run):
                if after.offset == before.offset + 1:
                    continue
                if after.offset <= before.offset:
                    detail = f"{process} read {after.offset} after {before.offset}"
                    yield Anomaly("nonmonotonic poll", f"partition {partition}: {detail}")
                elif skipped := [o for o in range(before.offset + 1, after.offset) if (partition, o) in present]:
                    detail = f"{process} jumped from {before.offset} to {after.offset} over {skipped[:3]}"
                    yield Anomaly("skip", f"partition {partition}: {detail}")


def unstable_reads(history: History) -> Iterator[Anomaly]:
    """Find (partition, offset, value) that was read once, and that a full read that began later does not contain."""
    full = _full_reads(history)
    told = set[tuple[int, int]]()
    for read in _all_reads(history):
        place = read.partition, read.offset
        for process, (began_ns, places) in full.items():
            is_later = began_ns > read.completed_ns or process == read.process
            if is_later and places.get(place) != read.value and place not in told and not _may_be_gone(history, read):
                told.add(place)
                shown = places.get(place, "nothing")
                detail = f"{read.process} read {read.value} at {place}, in the end {process} reads {shown} there"
                yield Anomaly("unstable", detail)


def stale_full_reads(history: History) -> Iterator[Anomaly]:
    """Find a full read without a record that was durably acknowledged before it began, and that another one has."""
    full = _full_reads(history)
    found = {read.value for read in history.final_reads}
    for process, (began_ns, places) in full.items():
        missing = found - set(places.values())
        for send in history.sends:
            expected = send.durable and send.completed_ns < began_ns and not _may_be_gone(history, send)
            if expected and send.value in missing:
                detail = f"{process} does not contain {send.value}, acknowledged at {send.offset} before it began"
                yield Anomaly("stale read", f"partition {send.partition}: {detail}")


def _full_reads(history: History) -> dict[str, tuple[int, dict[tuple[int, int], str]]]:
    """Return when each full read received its first record, and what it contains, by its process."""
    full: dict[str, tuple[int, dict[tuple[int, int], str]]] = {}
    for read in history.final_reads:
        full.setdefault(read.process, (read.completed_ns, {}))[1][read.partition, read.offset] = read.value
    return full


def ends_that_go_back(history: History) -> Iterator[Anomaly]:
    """Find a client that received a lower end offset than before."""
    last: dict[tuple[str, int], int] = {}
    for end in history.ends:
        before = last.get((end.process, end.partition), 0)
        if end.offset < before:
            detail = f"{end.process} received the end {end.offset} after {before}"
            yield Anomaly("end went back", f"partition {end.partition}: {detail}")
        last[end.process, end.partition] = max(before, end.offset)


CHECKS: tuple[Callable[[History], Iterable[Anomaly]], ...] = (
    lost_writes,
    duplicates,
    phantoms,
    corruptions,
    blamed_disks,
    inconsistent_offsets,
    altered,
    reordered_sends,
    nonmonotonic_sends,
    reordered_reads,
    unstable_reads,
    stale_full_reads,
    ends_that_go_back,
    *REPLICA_CHECKS,
)


def _may_be_gone(history: History, what: Send | Read) -> bool:
    """Return whether it may be below the log start; an unknown offset may be anywhere."""
    return max(what.offset, 0) < history.log_starts.get(what.partition, 0)


def _all_reads(history: History) -> Iterator[Read]:
    return chain(history.reads, history.final_reads)


def _by_partition(sends: Iterable[Send]) -> dict[int, list[Send]]:
    grouped: dict[int, list[Send]] = defaultdict(list)
    for send in sends:
        grouped[send.partition].append(send)
    return grouped
