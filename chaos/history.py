"""What clients did and received, and the replicas' logs on disk in the end: the evidence for the checker.

Outcomes are Jepsen's: `ok` (acknowledged), `fail` (the client certainly knows that nothing was appended), `info`
(unknown: a timeout, a lost connection, acks=0).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import orjson

from raftlog.errors import ErrorCode, RaftlogError

Outcome: TypeAlias = Literal["ok", "fail", "info"]
Acks: TypeAlias = Literal["all", "1", "0"]
UNKNOWN_PARTITION = -1
_OF_A_DISK = f"{ErrorCode.KAFKA_STORAGE_ERROR.value}: "


def with_code(error: RaftlogError) -> str:
    """Return an error's code and text."""
    return f"{error.code.value}: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One record offered to the log. `value` is unique in the history."""

    process: str
    """A client's life: a client that starts again is another process."""
    partition: int
    """UNKNOWN_PARTITION: the client chose it, and has no answer."""
    value: str
    invoked_ns: int
    completed_ns: int
    outcome: Outcome
    offset: int = -1
    """Known when `ok`, unless the client does not tell it (kcat): -1."""
    error: str = ""
    """Why it was not acknowledged: see `with_code`."""
    extra: str = ""
    """Key, timestamp and headers as the record was sent with them, by `extra_of`; "": not compared."""
    acks: Acks = "all"
    """Only `all` promises durability."""
    idempotent: bool = True
    """Without idempotence the record may be in the log twice."""

    @property
    def blames_disk(self) -> bool:
        """Whether it failed for good because one broker's disk had failed."""
        return self.error.startswith(_OF_A_DISK)

    @property
    def durable(self) -> bool:
        """Whether it was acknowledged with the promise of durability."""
        return self.outcome == "ok" and self.acks == "all"

    @property
    def placed(self) -> bool:
        """Whether it is durable, and its offset is known."""
        return self.durable and self.offset >= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One record that a reader received, in the order of its reads."""

    process: str
    partition: int
    offset: int
    value: str
    completed_ns: int
    extra: str = ""
    """Its key, timestamp and headers, by `extra_of`; "": not compared."""


def extra_of(key: bytes | None, timestamp: int, headers: Iterable[tuple[str, bytes | None]]) -> str:
    """Return what a record has beside its value, as one text."""
    return f"{key!r} at {timestamp} us with {list(headers)!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of a partition that a client received: its high watermark."""

    process: str
    partition: int
    offset: int
    completed_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """A partition's leader and ISR as a broker reported them, when they differed from its last report."""

    broker: str
    partition: int
    leader: int
    """-1: none."""
    leader_epoch: int
    isr: tuple[int, ...]
    seen_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """A record batch on a replica's disk, with its records' values."""

    base_offset: int
    leader_epoch: int
    crc: int
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """One replica's whole log, read from its files after its process has exited."""

    broker: str
    partition: int
    in_sync: bool
    batches: tuple[StoredBatch, ...]
    damage: str = ""
    """Where and why reading stopped, if it did before the end."""


@dataclass(slots=True, kw_only=True)
class Fault:
    """One fault, and how long it lasted. For reports: the checker ignores it."""

    kind: str
    target: str
    nodes: tuple[str, ...]
    begun_ns: int
    ended_ns: int = 0
    detail: str = ""
    skipped: str = ""
    """Why the fault was not injected."""
    back_ms: int = -1
    """The time from its end until every partition acknowledged again."""
    broken: str = ""
    """What did not become healthy afterwards."""


@dataclass(slots=True, kw_only=True)
class History:
    """Everything that happened in one run. `final_reads` come from new readers after healing."""

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    final_reads: list[Read] = field(default_factory=list)
    log_starts: dict[int, int] = field(default_factory=dict)
    """The log start offsets after the final reads, if records may have been removed: records below may be deleted."""
    ends: list[End] = field(default_factory=list)
    leaderships: list[Leadership] = field(default_factory=list)
    replicas: list[ReplicaLog] = field(default_factory=list)
    corruptions: list[str] = field(default_factory=list)
    """The clients' errors about answers with a wrong checksum."""
    faults: list[Fault] = field(default_factory=list)
    events: list[tuple[int, str]] = field(default_factory=list)
    """(time, event): for the reader of a history; the checker ignores it."""

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
