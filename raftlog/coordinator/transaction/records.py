"""The records of `__transaction_state`: one for each transactional id and each set; compaction keeps the newest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId
from raftlog.wire.codec import encode_json
from raftlog.wire.transactions import TransactionInfo, TransactionPartition, TransactionSetInfo

Phase: TypeAlias = Literal["empty", "ongoing", "committing", "aborting", "committed", "aborted"]
"""Kafka's Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit and CompleteAbort."""
_FIXED_BYTES, _PARTITION_BYTES = 420, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionChanged:
    """The state of one transactional id."""

    KEY: ClassVar[tuple[str, ...]] = ("transactional_id",)
    VERSION: ClassVar[int] = 1

    transactional_id: str
    producer_id: ProducerId
    """The producer's current id; while a transaction is being ended, its next one."""
    producer_epoch: ProducerEpoch
    phase: Phase = "empty"
    timeout_ms: int
    """The age at which a transaction is aborted."""
    began_ms: int = -1
    """When the ongoing transaction began, in ms since 1970 UTC; -1 without one."""
    changed_ms: int
    partitions: tuple[TransactionPartition, ...] = ()
    """The partitions of the transaction, while it is ongoing or being ended."""
    groups: tuple[str, ...] = ()
    """The groups whose offsets the transaction commits."""
    marker_id: ProducerId = NO_PRODUCER_ID
    """While a transaction is being ended: the producer id and epoch in its markers."""
    marker_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    ended_id: ProducerId = NO_PRODUCER_ID
    """The producer id and epoch of the last ended transaction; its producer may repeat the request to end it.

    In phase `empty`: the identity that the last init named (KIP-360); its producer may repeat that request.
    """
    ended_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    timed_out: bool = False
    """The last transaction was aborted because it timed out, not on request of its producer."""
    held_id: ProducerId = NO_PRODUCER_ID
    """The id and epoch that a producer of Kafka's first kind keeps from one transaction to the next; see `held`."""
    held_epoch: ProducerEpoch = NO_PRODUCER_EPOCH

    def info(self) -> TransactionInfo:
        """Return the state in the form of the HTTP API."""
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


def bytes_at_end(changed: TransactionChanged) -> int:
    """Return about how many bytes of a batch the record of this transaction's end takes, rather too many."""
    of_partitions = sum(
        len(one.topic) + len(one.topic_id) + len(str(one.partition)) + _PARTITION_BYTES for one in changed.partitions
    )
    return _FIXED_BYTES + of_partitions + len(encode_json([changed.transactional_id, *changed.groups]))


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSetCommitted:
    """The last commit of a set of transactional ids; see `sets`."""

    KEY: ClassVar[tuple[str, ...]] = ("set_id",)
    VERSION: ClassVar[int] = 1

    set_id: str
    run: str
    """The run within which commits are numbered."""
    number: int
    passing: bool = False
    """The members' ids are used once: each is deleted when its transaction has ended."""
    changed_ms: int

    def info(self) -> TransactionSetInfo:
        """Return the state in the form of the HTTP API."""
        return TransactionSetInfo(set_id=self.set_id, run=self.run, number=self.number)
