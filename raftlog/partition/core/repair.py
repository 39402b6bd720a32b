"""Rules of repair: which bytes may replace a damaged batch, and when a replica is beyond repair (docs/adr/0017)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from raftlog.errors import CorruptBatchError
from raftlog.model import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, Offset, PartitionState
from raftlog.record.batch import BatchHeader, iter_batches, verify_payload_crc
from raftlog.wire.repair import Holding, RepairResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBatch:
    """The position of a damaged batch, or of the first of several."""

    position: int
    offset: Offset
    leader_epoch: LeaderEpoch
    """Of the batch, from its header, its neighbours or the epoch table; NO_LEADER_EPOCH if unknown."""
    later_epochs: tuple[tuple[LeaderEpoch, Offset], ...] = ()
    """Epochs that begin within the damage, with their first offsets. Complete if `leader_epoch` is known."""
    header: BatchHeader | None
    """Its own header, if that is intact: then only the batch with this header may replace it."""
    end_position: int | None
    """The replacement must end at or before it; None where the file is shorter than it was."""
    end_offset: Offset | None
    """First offset after the damage, if known."""
    unsound_bytes: int
    """Length of the damage: batches after the first may be written only within it."""
    following: BatchHeader | None = None
    """The next intact batch. Where the epoch is unknown, only batches that lead up to this one may be written. Two logs
    with the same batch at one offset in one epoch are equal below it (Raft's log matching)."""
    following_position: int | None = None
    """Where `following` begins, if it is in the same file."""
    exact_fit: bool
    """The log may be compacted, so other replicas may have other batches: only batches that exactly fill the gap may be
    written."""
    inner: tuple[tuple[int, BatchHeader], ...] = ()
    """Positions and headers of further damaged batches up to `end_position` that have an intact header. Searched for
    only if `exact_fit` is true and `header` is None."""

    def as_compacted(self) -> DamagedBatch:
        """Return the same damage if the log may be compacted: what is written must end where `following` begins."""
        if self.exact_fit or self.header is not None:
            return self
        if self.following is None or self.following_position is None:
            return replace(self, exact_fit=True)
        end_position, end_offset = self.following_position, self.following.base_offset
        return replace(self, exact_fit=True, end_position=end_position, end_offset=end_offset)

    def epoch_of(self, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch of a batch within the damage; NO_LEADER_EPOCH if unknown."""
        return next((epoch for epoch, start in reversed(self.later_epochs) if start <= offset), self.leader_epoch)


@dataclass(frozen=True, slots=True)
class Accepted:
    """Bytes that replace a damaged batch, and the offset after their last record."""

    data: bytes
    next_offset: Offset


def accept(damaged: DamagedBatch, data: bytes | memoryview) -> Accepted | None:
    """Return the batches from another replica that may replace the damage; None if the first one may not.

    The sender is not trusted: each batch's checksums are verified, and offsets and epochs must continue. Nor is its
    log: it may have diverged within the damage, so each batch must have the epoch that was at its offset here. One of
    the two may be compacted, whatever the topic's policy is by now.
    """
    length, offset, epoch = 0, damaged.offset, damaged.leader_epoch
    is_proven = damaged.leader_epoch != NO_LEADER_EPOCH
    fitting = (0, offset)
    try:
        for header, batch in iter_batches(data):
            if not is_proven and length and header == damaged.following and header.base_offset == offset:
                is_proven = True
                break
            if length == 0 and not _is_wanted(damaged, header):
                break
            if header.is_compacted and not damaged.exact_fit and damaged.header is None:
                damaged, fitting = damaged.as_compacted(), (0, damaged.offset)
            if header.base_offset != offset or header.leader_epoch < epoch or not _fits(damaged, length, header):
                break
            if is_proven and header.leader_epoch != damaged.epoch_of(offset):
                break
            verify_payload_crc(header, batch)
            length, offset, epoch = length + header.batch_length, header.next_offset, header.leader_epoch
            if _may_end(damaged, length, offset):
                fitting = (length, offset)
            if is_proven and (_is_single(damaged) or offset == damaged.end_offset):
                break
    except CorruptBatchError:
        pass  # The batches before it are intact.
    length, offset = fitting
    return Accepted(bytes(data[:length]), offset) if length and is_proven else None


def _is_wanted(damaged: DamagedBatch, header: BatchHeader) -> bool:
    if damaged.header is not None:
        return header == damaged.header
    return header.base_offset == damaged.offset and damaged.leader_epoch in (NO_LEADER_EPOCH, header.leader_epoch)


def _is_single(damaged: DamagedBatch) -> bool:
    """Return whether only one batch may be written: it is known, or nothing bounds a compacted log's damage."""
    return damaged.header is not None or (damaged.exact_fit and damaged.end_offset is None)


def _fits(damaged: DamagedBatch, length: int, header: BatchHeader) -> bool:
    """Return whether a batch may follow `length` bytes of others: in the damage, and as intact headers there say."""
    start = damaged.position + length
    end = start + header.batch_length
    if length and length + header.batch_length > damaged.unsound_bytes:
        return False
    if any(start <= at < end and (at != start or header != inner) for at, inner in damaged.inner):
        return False
    return (damaged.end_position is None or end <= damaged.end_position) and (
        damaged.end_offset is None or header.next_offset <= damaged.end_offset
    )


def _may_end(damaged: DamagedBatch, length: int, offset: Offset) -> bool:
    """Return whether batches of `length` bytes up to an offset may replace the damage without further ones."""
    if damaged.header is not None or not damaged.exact_fit:
        return True
    end = damaged.position + length
    if any(end == at and offset == inner.base_offset for at, inner in damaged.inner):
        return True
    return damaged.end_position in (None, end) and damaged.end_offset in (None, offset)


def continuation(
    data: bytes | memoryview, *, offset: Offset, leader_epoch: LeaderEpoch, end: Offset
) -> Accepted | None:
    """Return the intact batches that continue a log at an offset, up to `end`; None if the first one does not.

    The sender is not trusted, as in `accept`.
    """
    length = 0
    try:
        for header, batch in iter_batches(data):
            if header.base_offset != offset or header.leader_epoch < leader_epoch or header.next_offset > end:
                break
            verify_payload_crc(header, batch)
            length, offset, leader_epoch = length + header.batch_length, header.next_offset, header.leader_epoch
    except CorruptBatchError:
        pass  # The batches before it are intact.
    return Accepted(bytes(data[:length]), offset) if length else None


def later_starts(damaged: DamagedBatch, responses: Iterable[RepairResponse | None]) -> list[tuple[Offset, LeaderEpoch]]:
    """Return log starts of other replicas after a damaged batch, latest first, with the epoch of the record there.

    Records below a log start were deleted by a leader, and were committed. A log that has a record of the same epoch at
    that offset is equal below it, so the same records are deleted there.
    """
    starts = {(response.log_start_offset, response.log_start_epoch) for response in responses if response is not None}
    return sorted(((at, epoch) for at, epoch in starts if at > damaged.offset and epoch >= 0), reverse=True)


class RepairVerdict(StrEnum):
    """What to do about a batch that no replica has sent intact."""

    WAIT = "wait"
    """A replica that may have it has not responded: retry."""
    RESIGN = "give way"
    """Another replica that may lead has no such batch, or another one: this replica resigns and fetches its log again,
    without loss of acknowledged records."""
    LOST = "lost"
    """Every replica has responded, and none has it intact."""


def repair_verdict(
    state: PartitionState, broker_id: BrokerId, answers: Mapping[BrokerId, Holding | None], *, patience_over: bool
) -> RepairVerdict:
    """Decide about a damaged batch that no replica could repair.

    Args:
        answers: of the other replicas; None, or missing: no response. A replica that sent bytes which do not fit counts
            as `OTHER`.
        patience_over: the wait for replicas that may lead has timed out; the controller knows whether they are alive.
    """
    others = [member for member in state.replicas if member != broker_id]
    heirs = [member for member in others if member in (*state.isr, *state.elr)]
    if any(answers.get(heir) in (Holding.OTHER, Holding.ABSENT) for heir in heirs):
        return RepairVerdict.RESIGN
    if patience_over and any(answers.get(heir) is None for heir in heirs):
        return RepairVerdict.RESIGN
    if any(answers.get(other) is None for other in others):
        return RepairVerdict.WAIT
    return RepairVerdict.LOST
