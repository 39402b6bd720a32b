"""What the transaction coordinator writes down: one record for each transactional id and set; the newest counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId
from raftlog.wire.transactions import TransactionInfo, TransactionPartition, TransactionSetInfo

Phase: TypeAlias = Literal["empty", "ongoing", "committing", "aborting", "committed", "aborted"]
"""Kafka's Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit and CompleteAbort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionChanged:
    """All that is known of one transactional id."""

    KEY: ClassVar[tuple[str, ...]] = ("transactional_id",)
    VERSION: ClassVar[int] = 1

    transactional_id: str
    producer_id: ProducerId
    """Under which its producer works now, or will work next while a transaction is being ended."""
    producer_epoch: ProducerEpoch
    phase: Phase = "empty"
    timeout_ms: int
    """How long a transaction may take before it is aborted."""
    began_ms: int = -1
    """When the transaction under way began, since 1970 UTC."""
    changed_ms: int
    partitions: tuple[TransactionPartition, ...] = ()
    """Where the transaction has written, while it is under way or being ended."""
    groups: tuple[str, ...] = ()
    """Whose offsets the transaction commits."""
    marker_id: ProducerId = NO_PRODUCER_ID
    """While a transaction is being ended: the producer id and epoch in its markers."""
    marker_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    ended_id: ProducerId = NO_PRODUCER_ID
    """The producer id and epoch of the last transaction, whose end its producer may ask for again."""
    ended_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    timed_out: bool = False
    """The last transaction took too long: its producer has not asked for its end."""

    def info(self) -> TransactionInfo:
        """Return what there is to show."""
        return TransactionInfo(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            phase=self.phase,
            timeout_ms=self.timeout_ms,
            began_ms=self.began_ms,
            partitions=self.partitions,
            groups=self.groups,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSetCommitted:
    """What was committed last for a set of transactional ids."""

    KEY: ClassVar[tuple[str, ...]] = ("set_id",)
    VERSION: ClassVar[int] = 1

    set_id: str
    run: str
    """Within which commits are numbered."""
    number: int
    passing: bool = False
    """Its members' ids are not used again: each is forgotten once its transaction has ended."""
    changed_ms: int

    def info(self) -> TransactionSetInfo:
        """Return what there is to show."""
        return TransactionSetInfo(set_id=self.set_id, run=self.run, number=self.number)
