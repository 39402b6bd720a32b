"""The parts of a coordinator. No IO: the shard that runs it provides the time and the log, and serializes requests."""

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
    """Never decreases; not comparable between leaders. For time-outs, which are soft state."""
    wall_ms: int
    """Since 1970 UTC; may jump. For times in records."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """Records to append as one batch, and the response once they are replicated. No records: nothing changes."""

    records: Sequence[LogRecord]
    response: R
    is_confirmed: bool = False
    """Also without records, the replicas in sync confirm that this broker still leads before the response is sent."""


class Coordinator(Protocol[S]):
    """One kind of coordinator; `S` is the state of one shard, which `replay` changes in place."""

    codec: RecordCodec

    def new_state(self) -> S:
        """Return the state of an empty log."""
        ...

    def replay(self, state: S, record: LogRecord) -> None:
        """Apply a record. Total and deterministic: it never raises, whatever records compaction has removed.

        Called for each record when it is appended, and again when the log is loaded.
        """
        ...

    def on_loaded(self, state: S, now: Now) -> None:
        """Initialize soft state. Sessions restart, because the previous leader's clock is unknown."""
        ...

    def on_tick(self, state: S, now: Now) -> Sequence[LogRecord]:
        """Return records for sessions that have timed out and state that has expired.

        They become one batch: far fewer bytes than a batch may have, and no more than the event loop can spare. The
        next tick returns more.
        """
        ...

    def is_behind(self, state: S, now: Now) -> bool:
        """Return whether a tick has more to do at once. It comes soon then, after others had the event loop."""
        ...
