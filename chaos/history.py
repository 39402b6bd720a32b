"""What clients did and saw: the evidence that the checker accepts, with what lies on the replicas' disks in the end.

Outcomes are Jepsen's: `ok` (acknowledged), `fail` (the client was told for certain that nothing was appended), `info`
(unknown: a timeout, a lost connection, acks=0).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

Outcome: TypeAlias = Literal["ok", "fail", "info"]
Acks: TypeAlias = Literal["all", "1", "0"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One record offered to the log. `value` is unique in the history."""

    process: str
    """A client's life: a client that starts again is another process."""
    partition: int
    value: str
    invoked_ns: int
    completed_ns: int
    outcome: Outcome
    offset: int = -1
    """Known when `ok`."""
    error: str = ""
    acks: Acks = "all"
    """Only `all` owes durability."""
    idempotent: bool = True
    """Else the record may be there twice."""

    @property
    def durable(self) -> bool:
        """Whether it was acknowledged with the promise that it stays."""
        return self.outcome == "ok" and self.acks == "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One record seen by a reader, in the order in which it saw them."""

    process: str
    partition: int
    offset: int
    value: str
    completed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Where a client was told that a partition ends: its high watermark."""

    process: str
    partition: int
    offset: int
    completed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """What a broker said of a partition, when it said something new."""

    broker: str
    partition: int
    leader: int
    """-1: none."""
    leader_epoch: int
    isr: tuple[int, ...]
    seen_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A record batch as it lies on a replica's disk, with its records' values."""

    base_offset: int
    leader_epoch: int
    crc: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """One replica's whole log, read from its files after its process has ended."""

    broker: str
    partition: int
    in_sync: bool
    batches: tuple[StoredBatch, ...]
    damage: str = ""
    """Where and why reading stopped, if it did before the end."""


@dataclass(slots=True, kw_only=True)
class Fault:
    """One fault, while it lasted. For reports: the checker ignores it."""

    kind: str
    target: str
    nodes: tuple[str, ...]
    begun_ns: int
    ended_ns: int = 0
    detail: str = ""
    skipped: str = ""
    """Why nothing was done."""
    back_ms: int = -1
    """After how long since its end every partition acknowledged again."""
    broken: str = ""
    """What did not get well afterwards."""


@dataclass(slots=True, kw_only=True)
class History:
    """Everything that happened in one run. `final_reads` come from fresh readers after healing."""

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    final_reads: list[Read] = field(default_factory=list)
    log_starts: dict[int, int] = field(default_factory=dict)
    """Where the partitions start after the final reads, if records may have been removed: what is below may be gone."""
    ends: list[End] = field(default_factory=list)
    leaderships: list[Leadership] = field(default_factory=list)
    replicas: list[ReplicaLog] = field(default_factory=list)
    corruptions: list[str] = field(default_factory=list)
    """What clients said of answers whose checksum did not fit."""
    faults: list[Fault] = field(default_factory=list)
    events: list[tuple[int, str]] = field(default_factory=list)
    """(time, event): for people who read the history; the checker ignores it."""

    def note(self, event: str) -> None:
        """Record a fault or its end."""
        self.events.append((time.monotonic_ns(), event))

    def save(self, path: Path) -> None:
        """Write the history as JSON lines, in order of completion."""
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = sorted(self._lines(), key=lambda line: int(line[0]))
        with path.open("wb") as file:
            for at, kind, what in lines:
                file.write(orjson.dumps({"kind": kind, "at": at, **what}, option=orjson.OPT_APPEND_NEWLINE))

    def _lines(self) -> Iterator[tuple[int, str, dict[str, Any]]]:
        yield from ((send.completed_ns, "send", asdict(send)) for send in self.sends)
        yield from ((read.completed_ns, "read", asdict(read)) for read in self.reads)
        yield from ((read.completed_ns, "final_read", asdict(read)) for read in self.final_reads)
        yield from ((end.completed_ns, "end", asdict(end)) for end in self.ends)
        yield from ((seen.seen_ns, "leadership", asdict(seen)) for seen in self.leaderships)
        yield from ((fault.begun_ns, "fault", asdict(fault)) for fault in self.faults)
        yield from ((at, "event", {"event": event}) for at, event in self.events)
