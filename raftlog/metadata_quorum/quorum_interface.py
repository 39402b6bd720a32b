"""The interface between the controller and its Raft engine: `Quorum` below, `StateMachine` above."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from raftlog.metrics import Histogram
from raftlog.model import ControllerId, Offset

VoterRole: TypeAlias = Literal["leader", "follower", "unreachable", "catching up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterState:
    """One voter, as the leader sees it."""

    node_id: ControllerId
    role: VoterRole
    log_end_offset: Offset
    """The voter has every entry below this offset."""
    last_heard_ms: int
    """Milliseconds since its last response; 0 for the leader itself, -1 for never."""
    max_feature_level: int = 0
    """The highest feature level that its version supports; 0: not known, it has not responded to this leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The log and its voters, as the leader sees them."""

    term: int
    log_end_offset: Offset
    committed_offset: Offset
    voters: tuple[VoterState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFiles:
    """One voter's files."""

    journal_bytes: int
    snapshot_bytes: int = 0
    """0: there is no snapshot yet."""
    snapshot_written_s: float = 0.0
    """When the snapshot was written, in seconds since 1970."""


class StateMachine(Protocol):
    """What the quorum calls on every controller."""

    def apply(self, index: int, payload: bytes) -> None:
        """Apply one committed entry. Called in log order, once per entry since the last load. Never raises."""
        ...

    def take_snapshot(self) -> bytes:
        """Return the state after all applied entries."""
        ...

    def load_snapshot(self, index: int, data: bytes) -> None:
        """Replace the state by a snapshot that was taken at `index`."""
        ...

    def leadership_changed(self, leader: ControllerId | None) -> None:
        """Handle a change of leader.

        This node counts as leader only after the first entry of its term is committed and applied.
        """
        ...


class Quorum(Protocol):
    """A replicated log of opaque entries."""

    async def start(self) -> None:
        """Recover from disk, and join the quorum."""
        ...

    async def close(self) -> None:
        """Leave the quorum."""
        ...

    @property
    def node_id(self) -> ControllerId: ...

    @property
    def leader(self) -> ControllerId | None: ...

    def status(self) -> QuorumState:
        """Describe the log and, on the leader, each voter's position."""
        ...

    @property
    def journal_syncs(self) -> Histogram:
        """Times of the journal's syncs, in seconds."""
        ...

    def files(self) -> QuorumFiles:
        """Describe this voter's files. Blocks; for a worker thread.

        Raises:
            OSError: they cannot be read.
        """
        ...

    async def propose(self, payload: bytes, *, timeout_ms: int) -> int:
        """Commit an entry; return its index once it is applied here.

        Raises:
            StaleRouteError: NOT_CONTROLLER; nothing was done.
            OverloadedError: the queue is full; nothing was done.
            UnknownOutcomeError: it may be committed later.
        """
        ...
