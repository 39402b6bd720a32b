"""Log divergence by leader epochs (KIP-101, KIP-279, KIP-595), never by high watermarks.

A follower sends the epoch of its last record. If the leader's log differs, the leader returns its largest epoch at or
below that one, and the epoch's end offset. The follower truncates to where both may agree, and fetches again.
"""

from __future__ import annotations

from typing import Protocol

from raftlog.errors import ErrorCode, FencedError, StaleRouteError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset


class Epochs(Protocol):
    """The lookup of an epoch table that leader and follower use."""

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch at or below `epoch`, and its end offset."""
        ...


def require_same_epoch(mine: LeaderEpoch, theirs: LeaderEpoch, partition: object) -> None:
    """Raise if a request is of another leader epoch.

    Raises:
        FencedError: FENCED_LEADER_EPOCH, the caller is behind.
        StaleRouteError: UNKNOWN_LEADER_EPOCH, this broker is behind.
    """
    if theirs < mine:
        raise FencedError(f"{partition}: leader epoch {theirs} has ended, the current one is {mine}")
    if theirs > mine:
        raise StaleRouteError(
            f"{partition}: leader epoch {theirs} is newer than the one of this broker's metadata, {mine}",
            code=ErrorCode.UNKNOWN_LEADER_EPOCH,
        )


def diverging_epoch(
    epochs: Epochs,
    *,
    log_start_offset: Offset,
    log_end_offset: Offset,
    fetch_offset: Offset,
    last_fetched_epoch: LeaderEpoch,
) -> tuple[LeaderEpoch, Offset] | None:
    """Return the diverging epoch and its end offset in the leader's log; None if the logs agree.

    `NO_LEADER_EPOCH` with the log start offset means that the last fetched epoch is older than every epoch there.
    """
    if last_fetched_epoch == NO_LEADER_EPOCH:
        return None  # The follower's log is empty: it cannot diverge.
    epoch, end_offset = epochs.end_offset_for(last_fetched_epoch, log_end_offset)
    if epoch == last_fetched_epoch and fetch_offset <= end_offset:
        return None
    return epoch, max(log_start_offset, min(end_offset, log_end_offset))


def truncation_offset(
    epochs: Epochs, *, log_end_offset: Offset, leader_epoch: LeaderEpoch, leader_end_offset: Offset
) -> Offset:
    """Return where a follower truncates, given the leader's diverging epoch and its end offset there."""
    _, own_end_offset = epochs.end_offset_for(leader_epoch, log_end_offset)
    return min(own_end_offset, leader_end_offset)
