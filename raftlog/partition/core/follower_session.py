"""Fetch sessions (KIP-227), the follower's side; see `fetch_sessions` for the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from raftlog.errors import ErrorCode
from raftlog.model import LeaderEpoch, TopicIdPartition
from raftlog.wire.replication import NEW_SESSION, ReplicaFetchPartition

SESSION_ERRORS = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
"""The leader has no such session, or expects another epoch: open another session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPart:
    """The session's part of the next request."""

    session_id: str
    session_epoch: int
    answers_lost: bool
    forgotten: tuple[TopicIdPartition, ...]
    partitions: tuple[ReplicaFetchPartition, ...]


class FollowerSession:
    """Decides which partitions the next request to one leader names."""

    def __init__(self) -> None:
        self._followed: dict[TopicIdPartition, None] = {}
        self._held_back: dict[TopicIdPartition, None] = {}
        self._to_name: dict[TopicIdPartition, None] = {}
        self._to_forget: dict[TopicIdPartition, None] = {}
        self._sent_epochs: dict[TopicIdPartition, LeaderEpoch] = {}
        self._id = ""
        self._epoch = NEW_SESSION
        self._answers_lost = False
        self.packs = False
        """Whether the leader reads packed requests of this session."""

    @property
    def is_empty(self) -> bool:
        return not self._followed

    def follow(self, wanted: Iterable[TopicIdPartition]) -> None:
        """Replace the set of followed partitions."""
        followed = dict.fromkeys(wanted)
        for key in [key for key in self._followed if key not in followed]:
            self.leave(key)
        for key in [key for key in followed if key not in self._followed]:
            self._followed[key] = None
            self.name(key)

    def leave(self, key: TopicIdPartition) -> None:
        """Stop following a partition."""
        for keys in (self._followed, self._held_back, self._to_name):
            keys.pop(key, None)
        if self._sent_epochs.pop(key, None) is not None:
            self._to_forget[key] = None

    def name(self, key: TopicIdPartition) -> None:
        """Name a partition in the next request: its position changed, or the leader must read it again."""
        if key in self._followed:
            self._held_back.pop(key, None)
            self._to_forget.pop(key, None)
            self._to_name[key] = None

    def hold_back(self, key: TopicIdPartition) -> None:
        """Leave a partition out of requests until `name` is called for it."""
        if key in self._followed:
            self._to_name.pop(key, None)
            self._held_back[key] = None

    def sent_epoch(self, key: TopicIdPartition) -> LeaderEpoch | None:
        """Return the leader epoch sent with a partition's last position: its next result is of that epoch."""
        return self._sent_epochs.get(key)

    def next_request(self, position: Callable[[TopicIdPartition], ReplicaFetchPartition | None]) -> SessionPart:
        """Return the session's part of a request.

        Args:
            position: called now, so positions are current; None leaves the partition out.
        """
        opens = self._epoch == NEW_SESSION
        if opens:
            self._sent_epochs.clear()
            self._to_forget.clear()
        named = [key for key in self._followed if key not in self._held_back] if opens else list(self._to_name)
        positions = tuple(found for key in named if (found := position(key)) is not None)
        self._sent_epochs.update((at.key, at.leader_epoch) for at in positions)
        part = SessionPart(
            session_id=self._id,
            session_epoch=self._epoch,
            answers_lost=self._answers_lost,
            forgotten=tuple(self._to_forget),
            partitions=positions,
        )
        self._to_name.clear()
        self._to_forget.clear()
        return part

    def on_answer(self, session_id: str, *, packs: bool = False) -> None:
        """Handle a response; an empty id means that the leader keeps no session."""
        if not session_id:
            self.reset()
            return
        self.packs = packs
        self._id, self._epoch, self._answers_lost = session_id, self._epoch + 1, False

    def on_abandoned(self) -> None:
        """Handle a request that was cancelled: whether the leader received and answered it is unknown."""
        if self._epoch != NEW_SESSION:
            self._epoch, self._answers_lost = self._epoch + 1, True

    def on_failure(self, code: ErrorCode) -> bool:
        """Handle a failed request; return whether a new session may be opened at once."""
        opened = self._epoch != NEW_SESSION
        self.reset()
        return opened and code in SESSION_ERRORS

    def reset(self) -> None:
        """Open another session with the next request."""
        self._id, self._epoch, self._answers_lost, self.packs = "", NEW_SESSION, False, False
