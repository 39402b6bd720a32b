"""What clients did and saw: the only evidence that the checker accepts.

Outcomes are Jepsen's: `ok` (acknowledged), `fail` (the server guarantees that nothing was appended), `info` (unknown:
a timeout, a lost connection, a 5xx after bytes were sent).
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import orjson

Outcome: TypeAlias = Literal["ok", "fail", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One record offered to the log. `value` is unique in the history."""

    process: str
    partition: int
    value: str
    invoked_ns: int
    completed_ns: int
    outcome: Outcome
    offset: int = -1
    """Known when `ok`."""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One record seen by a reader, in the order in which it saw them."""

    process: str
    partition: int
    offset: int
    value: str
    completed_ns: int


@dataclass(slots=True, kw_only=True)
class History:
    """Everything that happened in one run. `final_reads` come from fresh readers after healing, from offset 0."""

    sends: list[Send] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    final_reads: list[Read] = field(default_factory=list)
    events: list[tuple[int, str]] = field(default_factory=list)
    """(time, fault): for people who read the history; the checker ignores it."""

    def note(self, event: str) -> None:
        """Record a fault or its end."""
        self.events.append((time.monotonic_ns(), event))

    def save(self, path: Path) -> None:
        """Write the history as JSON lines, in order of completion."""
        lines = [{"kind": "send", "at": send.completed_ns, **asdict(send)} for send in self.sends]
        lines += [{"kind": "read", "at": read.completed_ns, **asdict(read)} for read in self.reads]
        lines += [{"kind": "final_read", "at": read.completed_ns, **asdict(read)} for read in self.final_reads]
        lines += [{"kind": "event", "at": at, "event": event} for at, event in self.events]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for line in sorted(lines, key=lambda line: int(str(line["at"]))):
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
