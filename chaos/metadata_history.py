"""The clients' requests about topics, and the answers: the evidence for `metadata_checker`.

Several clients work on the same names at the same time; each does one thing at a time. Every written value of
`retention_ms` is unique in the history, so a topic in an answer identifies its writer. Outcomes are those of `history`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

import orjson

from chaos.history import Outcome

Action: TypeAlias = Literal["create", "alter", "delete", "read"]
CHANGES: tuple[Action, ...] = ("create", "alter", "delete")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSeen:
    """One topic in an answer. `value` is its retention_ms, or None if it has none of its own."""

    topic_id: str
    partitions: int
    value: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOperation:
    """One request about one topic. A read that found no topic is `ok`, and `seen` is None."""

    process: str
    broker: str
    action: Action
    topic: str
    invoked_ns: int
    completed_ns: int
    outcome: Outcome
    partitions: int | None = None
    """The requested number, of a creation, or of an alteration that adds partitions."""
    value: int | None = None
    """The written value, of a creation or an alteration."""
    seen: TopicSeen | None = None
    """The topic in the answer: to a read, or to an acknowledged creation or alteration."""
    code: str = ""
    """The error code, if there was an error."""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Every topic, as one broker answered: linearizably, or, with `metadata_offset`, from that broker's own image."""

    process: str
    broker: str
    invoked_ns: int
    completed_ns: int
    topics: Mapping[str, TopicSeen]
    metadata_offset: int | None = None
    final: bool = False
    """Read after everything was healed and all nodes agreed."""


@dataclass(slots=True, kw_only=True)
class MetadataHistory:
    """Everything that happened in one run, in order of completion."""

    operations: list[TopicOperation] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    events: list[tuple[int, str]] = field(default_factory=list)
    """(time, fault): for the reader of a history, and for figures; the checker ignores it."""

    def note(self, event: str) -> None:
        """Record a fault or its end."""
        self.events.append((time.monotonic_ns(), event))

    def save(self, path: Path) -> None:
        """Write the history as JSON lines, in order of completion."""
        lines = [{"kind": "operation", "at": done.completed_ns, **asdict(done)} for done in self.operations]
        lines += [{"kind": "listing", "at": listing.completed_ns, **_plain(listing)} for listing in self.listings]
        lines += [{"kind": "event", "at": at, "event": event} for at, event in self.events]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for line in sorted(lines, key=lambda line: int(str(line["at"]))):
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def _plain(listing: Listing) -> dict[str, object]:
    topics = {name: asdict(seen) for name, seen in listing.topics.items()}
    plain = {name: getattr(listing, name) for name in Listing.__slots__ if name != "topics"}
    return {**plain, "topics": topics}
