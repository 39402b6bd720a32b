"""What clients did to topics and saw of them: the evidence for `metadata_checker`.

Each topic name has one writer, which does one thing at a time; each value of `retention_ms` that it writes to a name is
unique and larger than those before, those of creations included. Outcomes are those of `history`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import orjson

from chaos.history import Outcome

Action: TypeAlias = Literal["create", "delete", "alter"]
Source: TypeAlias = Literal["topics", "metadata"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeen:
    """One topic in an answer. `value` is its retention_ms, or None if it has none of its own."""

    topic_id: str
    partitions: int
    value: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """One creation, deletion or alteration that a client asked a broker for."""

    process: str
    broker: str
    action: Action
    topic: str
    invoked_ns: int
    completed_ns: int
    outcome: Outcome
    partitions: int | None = None
    """Asked for; creations only."""
    value: int | None = None
    """Written; creations and alterations only."""
    seen: TopicSeen | None = None
    """What the answer said; `ok` creations and alterations only."""
    code: str = ""
    """The error code, unless `ok`."""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Every topic, as one broker answered. `metadata_offset` is None where the answer has none."""

    process: str
    broker: str
    source: Source
    invoked_ns: int
    completed_ns: int
    topics: Mapping[str, TopicSeen]
    metadata_offset: int | None = None


@dataclass(slots=True, kw_only=True)
class MetadataHistory:
    """Everything that happened in one run. `final` is what all nodes agreed on in the end."""

    changes: list[TopicChange] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    final: Listing | None = None
    events: list[tuple[int, str]] = field(default_factory=list)

    def note(self, event: str) -> None:
        """Record a fault or its end."""
        self.events.append((time.monotonic_ns(), event))

    def acknowledged(self, action: Action | None = None) -> int:
        """Return how many changes were acknowledged."""
        return sum(change.outcome == "ok" and action in (None, change.action) for change in self.changes)

    def save(self, path: Path) -> None:
        """Write the history as JSON lines, in order of completion."""
        lines = [{"kind": "change", "at": change.completed_ns, **asdict(change)} for change in self.changes]
        lines += [{"kind": "listing", "at": listing.completed_ns, **_plain(listing)} for listing in self.listings]
        if self.final is not None:
            lines.append({"kind": "final", "at": self.final.completed_ns, **_plain(self.final)})
        lines += [{"kind": "event", "at": at, "event": event} for at, event in self.events]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for line in sorted(lines, key=lambda line: int(str(line["at"]))):
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def _plain(listing: Listing) -> dict[str, object]:
    topics = {name: asdict(seen) for name, seen in listing.topics.items()}
    plain = {name: getattr(listing, name) for name in Listing.__slots__ if name != "topics"}
    return {**plain, "topics": topics}
