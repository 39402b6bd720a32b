"""Merges the stamps of all processes (no IO): own times, records, messages, and the way of a record."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from benchmarks.timeline.targets import LOOP, RECEIVED, SENT, kind_of


class Span(NamedTuple):
    """One stamp. Times are in ns of the machine's monotonic clock."""

    label: str
    begin: int
    end: int
    thread: int
    descriptor: int = 0
    cpu: int = -1


class Placed(NamedTuple):
    """A span with its own time (ns), which is that without the spans in it, and how many spans it is in."""

    span: Span
    own: int
    depth: int


class Record(NamedTuple):
    """When a record was sent, when it was acknowledged, and when the next one was sent."""

    sent: int
    acknowledged: int
    next_sent: int


class Message(NamedTuple):
    """Bytes from one process to another: when the sender had written them, and when the receiver began to read."""

    sender: str
    receiver: str
    written: int
    read: int


class Row(NamedTuple):
    """A line of the table: medians over the records."""

    role: str
    label: str
    kind: str
    calls: float
    own_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTrace:
    """What one process stamped.

    Args:
        ports: the own and the peer's port of each connection, by its descriptor.
        cost_ns: what a stamp costs outside of itself, by its kind; "": of other kinds.
    """

    role: str
    spans: Sequence[Span]
    ports: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    cost_ns: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, role: str, stored: Mapping[str, Any]) -> ProcessTrace:
        """Return what `Tracer.write` wrote."""
        return cls(
            role=role,
            spans=[Span(*stamp) for stamp in stored["stamps"]],
            ports={int(descriptor): (own, peer) for descriptor, (own, peer) in stored["ports"].items()},
            cost_ns=stored["cost_ns"],
        )

    def placed(self) -> list[Placed]:
        """Return the spans of all threads, by their begin, each with its own time."""
        threads = defaultdict[int, list[Span]](list)
        for span in self.spans:
            threads[span.thread].append(span)
        placed = [one for spans in threads.values() for one in self._of_thread(spans)]
        return sorted(placed, key=lambda one: one.span.begin)

    def _of_thread(self, spans: Iterable[Span]) -> list[Placed]:
        """Nest spans. Where the CPU time was read, it is the own time: the process may have slept meanwhile."""
        done, open_spans = list[Placed](), list[tuple[Span, list[int]]]()

        def close(until: int) -> None:
            while open_spans and open_spans[-1][0].end <= until:
                span, inside = open_spans.pop()
                own = span.end - span.begin - sum(inside) if span.cpu < 0 else span.cpu
                done.append(Placed(span, max(0, own), len(open_spans)))

        for span in sorted(spans, key=lambda span: (span.begin, -span.end)):
            close(span.begin)
            if open_spans:
                cost = self.cost_ns.get(kind_of(span.label), self.cost_ns.get("", 0))
                open_spans[-1][1].append(span.end - span.begin + cost)
            open_spans.append((span, []))
        close(1 << 63)
        return done


def records_of(times: Sequence[tuple[int, int]]) -> list[Record]:
    """Return all records but the last one, which has none behind it, of the times of sending and acknowledging."""
    return [Record(sent, acknowledged, next_sent) for (sent, acknowledged), (next_sent, _) in pairwise(times)]


def within(placed: Sequence[Placed], begin: int, end: int) -> Sequence[Placed]:
    """Return the spans that begin in a time, of spans in the order of their begins."""
    first = bisect_left(placed, begin, key=lambda one: one.span.begin)
    return placed[first : bisect_left(placed, end, key=lambda one: one.span.begin)]


def table(traces: Iterable[ProcessTrace], records: Sequence[Record]) -> list[Row]:
    """Return what each process does for a record, most expensive first.

    A follower's work behind the acknowledgement counts for the record during which it happens.
    """
    rows = []
    for trace in traces:
        calls, own = (defaultdict[str, list[int]](lambda: [0] * len(records)) for _ in range(2))
        placed = trace.placed()
        for number, record in enumerate(records):
            for one in within(placed, record.sent, record.next_sent):
                calls[one.span.label][number] += 1
                own[one.span.label][number] += one.own
        for label, counts in calls.items():
            rows.append(Row(trace.role, label, kind_of(label), median(counts), median(own[label]) / 1_000))
    return sorted((row for row in rows if row.calls or row.own_us), key=lambda row: -row.own_us)


def by_kind(rows: Iterable[Row]) -> dict[str, dict[str, tuple[float, float]]]:
    """Return calls and microseconds of each kind, by role."""
    sums = defaultdict[str, dict[str, tuple[float, float]]](dict)
    for row in rows:
        calls, own_us = sums[row.kind].get(row.role, (0.0, 0.0))
        sums[row.kind][row.role] = calls + row.calls, own_us + row.own_us
    return dict(sums)


def turns(trace: ProcessTrace, records: Sequence[Record]) -> list[int]:
    """Return how many turns the loop of a process takes for each record."""
    begins = sorted(span.begin for span in trace.spans if span.label == LOOP)
    return [bisect_left(begins, record.next_sent) - bisect_left(begins, record.sent) for record in records]


def messages(traces: Sequence[ProcessTrace]) -> list[Message]:
    """Return each message, by the time when it was read; a write belongs to the first read at its peer behind it."""
    written = defaultdict[tuple[int, int], list[tuple[int, int, str]]](list)
    for trace in traces:
        for span in trace.spans:
            if span.label in SENT and (ports := trace.ports.get(span.descriptor)) is not None:
                written[ports].append((span.begin, span.end, trace.role))
    found = []
    for trace in traces:
        for span in trace.spans:
            if span.label != RECEIVED or (ports := trace.ports.get(span.descriptor)) is None:
                continue
            sent = written[ports[::-1]]
            before = bisect_right(sent, (span.end,)) - 1
            if before >= 0:
                found.append((sent.pop(before), trace.role, span.begin))
                del sent[:before]
    return sorted((Message(by, to, end, read) for (_, end, by), to, read in found), key=lambda one: one.read)


LEGS = (
    "client: until it has written",
    "to the leader",
    "leader: until it has written to the follower",
    "to the follower",
    "follower: until it has written its next fetch",
    "to the leader again",
    "leader: until it has written the answer",
    "to the client",
    "client: until the record is acknowledged",
)
"""The way of a record, by the follower that acknowledged last."""


def legs(sent: Sequence[Message], record: Record) -> list[int] | None:
    """Return the time (ns) of each of the `LEGS`, found backwards; None: a message is missing."""

    def last(receiver: str, senders: Iterable[str], before: int) -> Message | None:
        for message in reversed(sent[: bisect_right(sent, before, key=lambda one: one.read)]):
            if message.read < record.sent:
                return None
            if message.receiver == receiver and message.sender in senders:
                return message
        return None

    ends, receiver, senders, before = [record.acknowledged], "client", {"leader"}, record.acknowledged
    followers = {one.sender for one in sent} - {"client", "leader"}
    for step in range(4):
        message = last(receiver, senders, before)
        if message is None:
            return None
        ends += [message.read, message.written]
        before, receiver = message.written, message.sender
        senders = followers if step == 0 else {"leader"} if step == 1 else {"client"}
    ends.append(record.sent)
    times = ends[::-1]
    return [after - earlier for earlier, after in pairwise(times)]
