"""Where two histories part, by leader epochs (KIP-101, KIP-279, KIP-595). Never by high watermarks.

A follower says which epoch wrote its last record. If the leader's log does not agree, it answers its own largest epoch
at or below that one and where it ends; the follower cuts its log to where both still agree, and asks again.
"""

from __future__ import annotations

from typing import Protocol

from raftlog.errors import ErrorCode, FencedError, StaleRouteError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset


class Epochs(Protocol):
    """What both sides ask of an epoch table."""

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch at or below `epoch`, and where it ends."""
        ...


def require_same_epoch(mine: LeaderEpoch, theirs: LeaderEpoch, partition: object) -> None:
    """Refuse a request of another leader epoch: the caller is behind, or this broker is.

    Raises:
        FencedError: FENCED_LEADER_EPOCH, the caller is behind.
        StaleRouteError: UNKNOWN_LEADER_EPOCH, this broker is behind.
    """
    if theirs < mine:
        raise FencedError(f"{partition}: leader epoch {theirs} has ended, the current one is {mine}")
    if theirs > mine:
        raise StaleRouteError(
            f"{partition}: leader epoch {theirs} is not known here yet, the current one is {mine}",
            code=ErrorCode.UNKNOWN_LEADER_EPOCH,
        )


def diverging_epoch(
    epochs: Epochs, *, log_end_offset: Offset, fetch_offset: Offset, last_fetched_epoch: LeaderEpoch
) -> tuple[LeaderEpoch, Offset] | None:
    """Compare a follower's position with the leader's log; None means that they agree below `fetch_offset`."""
    if last_fetched_epoch == NO_LEADER_EPOCH:
        return None  # The follower's log is empty: there is nothing to disagree about.
    epoch, end_offset = epochs.end_offset_for(last_fetched_epoch, log_end_offset)
    if epoch == last_fetched_epoch and fetch_offset <= end_offset:
        return None
    return epoch, min(end_offset, log_end_offset)


def truncation_offset(
    epochs: Epochs, *, log_end_offset: Offset, leader_epoch: LeaderEpoch, leader_end_offset: Offset
) -> Offset:
    """Return where a follower cuts its log, told the leader's diverging epoch and where that ends there."""
    _, own_end_offset = epochs.end_offset_for(leader_epoch, log_end_offset)
    return min(own_end_offset, leader_end_offset)
