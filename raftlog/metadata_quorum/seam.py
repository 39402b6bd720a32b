"""The narrow seam between the metadata quorum and its Raft engine. Nothing above it knows which engine that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from raftlog.model import ControllerId, Offset

VoterRole: TypeAlias = Literal["leader", "follower", "unreachable", "catching up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterState:
    """One voter, as the leader sees it."""

    node_id: ControllerId
    role: VoterRole
    log_end_offset: Offset
    """It holds every entry below this."""
    last_heard_ms: int
    """How long ago; 0 for the leader itself, -1 for never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The log and its voters, as the leader sees them."""

    term: int
    log_end_offset: Offset
    committed_offset: Offset
    voters: tuple[VoterState, ...]


class StateMachine(Protocol):
    """What every controller does with committed entries."""

    def apply(self, index: int, payload: bytes) -> None:
        """Apply one committed entry: in order, once after each (re)load. Never raises."""
        ...

    def take_snapshot(self) -> bytes:
        """Return everything that was applied so far."""
        ...

    def load_snapshot(self, index: int, data: bytes) -> None:
        """Replace everything by a snapshot that was taken at `index`."""
        ...

    def leadership_changed(self, leader: ControllerId | None) -> None:
        """Learn who leads. It is this node only once its own term's first entry is committed and applied."""
        ...


class Quorum(Protocol):
    """A replicated log of opaque entries."""

    async def start(self) -> None:
        """Recover from disk, and take part."""
        ...

    async def close(self) -> None:
        """Stop taking part."""
        ...

    @property
    def node_id(self) -> ControllerId: ...

    @property
    def leader(self) -> ControllerId | None: ...

    @property
    def applied_index(self) -> int: ...

    def status(self) -> QuorumState:
        """Describe the log and, on the leader, how far each voter is."""
        ...

    async def propose(self, payload: bytes, *, timeout_ms: int) -> int:
        """Commit an entry; return its index once it is applied here.

        Raises:
            StaleRouteError: NOT_CONTROLLER; nothing was done.
            OverloadedError: the queue is full; nothing was done.
            UnknownOutcomeError: it may be committed later.
        """
        ...
