"""What a coordinator is made of. No IO: the shard that runs it gives it time, a log, and one request after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from raftlog.coordinator.runtime.codec import LogRecord, RecordCodec

S = TypeVar("S")
R = TypeVar("R")


class Now(NamedTuple):
    """The time of a decision."""

    monotonic_ms: int
    """Never goes back, and means nothing to the next leader: for time-outs, which are soft state."""
    wall_ms: int
    """Since 1970 UTC; may jump. For what is written down."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """Records to append, as one batch, and the answer once they are replicated. No records: nothing changes."""

    records: Sequence[LogRecord]
    response: R


class Coordinator(Protocol[S]):
    """One kind of coordinator; `S` is the state of one shard, which `replay` changes in place."""

    codec: RecordCodec

    def new_state(self) -> S:
        """Return the state of an empty log."""
        ...

    def replay(self, state: S, record: LogRecord) -> None:
        """Let a record take effect. Total and deterministic: it never raises, whatever other records compaction left.

        Runs on each record when it is appended, and again wherever the log is loaded.
        """
        ...

    def on_loaded(self, state: S, now: Now) -> None:
        """Begin what is not in the log: sessions start afresh, because the last leader's clock is unknown."""
        ...

    def on_tick(self, state: S, now: Now) -> Sequence[LogRecord]:
        """Return what time has brought about: sessions that have ended, things that have expired.

        At most some thousands of records at once; the rest comes with the next tick.
        """
        ...
