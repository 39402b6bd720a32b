"""What may take the place of a damaged batch, and what becomes of a replica that nobody can repair (docs/adr/0017)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from raftlog.errors import CorruptBatchError
from raftlog.model import BrokerId, LeaderEpoch, Offset, PartitionState
from raftlog.record.batch import BatchHeader, iter_batches, verify_payload_crc
from raftlog.wire.repair import Holding


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedBatch:
    """The place of one damaged batch, or of several, of which the first is known."""

    position: int
    offset: Offset
    leader_epoch: LeaderEpoch
    """Of the batch: its own header says so, or the table of epochs."""
    header: BatchHeader | None
    """Its own header, if that is sound: then nothing else may take its place."""
    end_position: int | None
    """What is put in place may not reach beyond; None where the file is shorter than it was."""
    end_offset: Offset | None
    """What lies beyond begins here, if that is known."""
    unsound_bytes: int
    """So many bytes are known not to be sound: more than the first batch may be put in place only inside them."""
    exact_fit: bool
    """Compaction may have changed what other replicas hold: only one batch that fills exactly what its neighbours leave
    may be put in place."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Bytes that belong in the place of a damaged batch, and the offset after their last record."""

    data: bytes
    next_offset: Offset


def accept(damaged: DamagedBatch, data: bytes | memoryview) -> Accepted | None:
    """Return those of the batches that another replica has sent which belong in the place; None if not one does.

    Nothing that the sender says is trusted: each batch's checksums are checked, offsets and epochs must continue.
    """
    length, offset, epoch = 0, damaged.offset, damaged.leader_epoch
    try:
        for header, batch in iter_batches(data):
            if length == 0 and not _is_wanted(damaged, header):
                break
            if header.base_offset != offset or header.leader_epoch < epoch or not _fits(damaged, length, header):
                break
            verify_payload_crc(header, batch)
            length, offset, epoch = length + header.batch_length, header.next_offset, header.leader_epoch
            if damaged.header is not None or damaged.exact_fit or offset == damaged.end_offset:
                break
    except CorruptBatchError:
        pass  # What came before is whole.
    return Accepted(bytes(data[:length]), offset) if length else None


def _is_wanted(damaged: DamagedBatch, header: BatchHeader) -> bool:
    if damaged.header is not None:
        return header == damaged.header
    return header.base_offset == damaged.offset and header.leader_epoch == damaged.leader_epoch


def _fits(damaged: DamagedBatch, length: int, header: BatchHeader) -> bool:
    position, end_offset = damaged.end_position, damaged.end_offset
    end = damaged.position + length + header.batch_length
    if length and length + header.batch_length > damaged.unsound_bytes:
        return False
    if damaged.exact_fit and damaged.header is None:
        return position in (None, end) and end_offset in (None, header.next_offset)
    return (position is None or end <= position) and (end_offset is None or header.next_offset <= end_offset)


class RepairVerdict(StrEnum):
    """What a replica does about a batch that nobody has sent whole."""

    WAIT = "wait"
    """Somebody who may have it has not answered: ask again."""
    RESIGN = "give way"
    """Another replica that may lead goes on without it, or with another one in its place: nothing acknowledged is lost
    if this replica is fetched anew."""
    LOST = "lost"
    """Everybody has answered, and nobody has it whole."""


def repair_verdict(
    state: PartitionState, broker_id: BrokerId, answers: Mapping[BrokerId, Holding | None], *, patience_over: bool
) -> RepairVerdict:
    """Decide what becomes of a replica whose damage nobody could repair.

    Args:
        answers: of the other replicas; None, or missing: no answer. One that sent bytes which do not belong here counts
            as `OTHER`.
        patience_over: it was asked for so long that a replica which may lead, and is silent, need not be waited for:
            the controller knows whether it is alive.
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
