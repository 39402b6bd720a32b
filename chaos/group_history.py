"""What the members of a consumer group did and received, as they logged it: the evidence for `group_checker`.

The unit is a tenure: one member owns one partition, from the callback that assigns it to the callback that revokes it.
A member is a process that may be killed at any moment, so it writes one line before each commit, and one after. All
times are from the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from chaos.history import Outcome

NEVER_NS = 1 << 62
"""The completion time of an operation that never completed."""


@dataclass(frozen=True, slots=True)
class Run:
    """Records of consecutive offsets that a member has processed, all of them by `at_ns`."""

    first: int
    last: int
    at_ns: int


@dataclass(slots=True, kw_only=True)
class Commit:
    """One commit that the application requested. `ok`: acknowledged; `fail`: refused, so it never counts."""

    offset: int
    invoked_ns: int
    completed_ns: int = NEVER_NS
    outcome: Outcome = "info"
    epoch: int = -1
    """The member's epoch, if it was the same before and after the commit."""
    error: str = ""


@dataclass(slots=True, kw_only=True)
class Tenure:
    """One member's ownership of one partition: its first offset, its processed records and its commits."""

    process: str
    partition: int
    offset: int
    polled_ns: int
    """The member learned `offset` after this time."""
    began_ns: int
    automatic: bool = False
    """The client commits the returned records by itself, and does not report when."""
    ended_ns: int = NEVER_NS
    runs: list[Run] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A committed offset that a client outside the group read."""

    partition: int
    offset: int
    invoked_ns: int
    completed_ns: int


@dataclass(slots=True, kw_only=True)
class GroupHistory:
    """Everything that happened in one run."""

    tenures: list[Tenure] = field(default_factory=list)
    sightings: list[Sighting] = field(default_factory=list)
    records: dict[int, list[int]] = field(default_factory=dict)
    """By partition, the offset of every record of the final reads, in order."""
    events: list[tuple[int, str]] = field(default_factory=list)
    """(time, fault): for the reader of a report; the checker ignores it."""
    unowned: list[str] = field(default_factory=list)
    """What members did with partitions that they did not own."""

    def note(self, event: str) -> None:
        """Record a fault or its end."""
        self.events.append((time.monotonic_ns(), event))

    def add_member(self, lines: Iterable[bytes]) -> None:
        """Add the lines that one process wrote; the last line may be torn."""
        book = _Book(self)
        for line in lines:
            if line.endswith(b"\n"):
                book.read(orjson.loads(line))

    def save(self, path: Path) -> None:
        """Write the members' tenures, then everything else."""
        lines = [{"kind": "tenure", **asdict(tenure)} for tenure in self.tenures]
        lines += [{"kind": "sighting", **asdict(sighting)} for sighting in self.sightings]
        lines += [{"kind": "event", "at": at, "event": event} for at, event in self.events]
        lines += [{"kind": "records", "partition": number, "count": len(at)} for number, at in self.records.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines))


class _Book:
    """Reads one process' lines."""

    def __init__(self, history: GroupHistory) -> None:
        self._history = history
        self._open: dict[int, Tenure] = {}
        self._commits: dict[int, Commit] = {}

    def read(self, line: Mapping[str, Any]) -> None:
        match line["kind"]:
            case "began":
                began = Tenure(**{name: line[name] for name in line if name != "kind"})
                self._history.tenures.append(began)
                self._open[began.partition] = began
            case "ended":
                if (tenure := self._tenure(line)) is not None:
                    tenure.ended_ns = line["at_ns"]
                    del self._open[tenure.partition]
            case "processed":
                if (tenure := self._tenure(line)) is not None:
                    tenure.runs.append(Run(line["first"], line["last"], line["at_ns"]))
            case "commit":
                if (tenure := self._tenure(line)) is not None:
                    commit = Commit(offset=line["offset"], invoked_ns=line["at_ns"])
                    tenure.commits.append(commit)
                    self._commits[line["number"]] = commit
            case "committed":
                commit = self._commits[line["number"]]
                commit.completed_ns, commit.outcome = line["at_ns"], line["outcome"]
                commit.epoch, commit.error = line["epoch"], line["error"]

    def _tenure(self, line: Mapping[str, Any]) -> Tenure | None:
        tenure = self._open.get(line["partition"])
        if tenure is None:
            self._history.unowned.append(str(dict(line)))
        return tenure
