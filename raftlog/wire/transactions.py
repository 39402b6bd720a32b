"""Transactions: requests of producers and partition leaders to a coordinator, and of coordinators to leaders."""

from __future__ import annotations

from dataclasses import dataclass, field

from raftlog.errors import InvalidRequestError
from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId, TopicId
from raftlog.schema import limited
from raftlog.wire.errors import WireError
from raftlog.wire.groups import NO_MEMBER_EPOCH, CommitOffset
from raftlog.wire.producer_ids import MOST, require_identity

SET_SEPARATOR = "::"
MAX_TAKING_PART = 10_000
"""The most partitions and groups of one transaction."""
_MOST = {**MOST, "coordinator_epoch": (1 << 31) - 1}


def set_of(transactional_id: str) -> str:
    """Return the set of a transactional id, which determines its coordinator: `name` for every `name::member`."""
    return transactional_id.partition(SET_SEPARATOR)[0]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TransactionPartition:
    """One partition that takes part in a transaction."""

    topic: str
    partition: int
    topic_id: TopicId
    """Fences a topic that was deleted and recreated: it has no records of the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitTransactionsBody:
    """JSON sent to `paths.INIT_TRANSACTIONS`: fences earlier producers of this id, aborts their transaction."""

    timeout_ms: int = 60_000
    """How long a transaction may take before it is aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalProducer:
    """Answer of `paths.INIT_TRANSACTIONS` and `paths.END_TRANSACTION`: identity for the next transaction."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch

    def __post_init__(self) -> None:
        require_identity(self.producer_id, self.producer_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionBody:
    """JSON sent to `paths.END_TRANSACTION`. It may be retried."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMember:
    """One transaction of a set: its transactional id, producer id and epoch."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSetBody:
    """JSON sent to `paths.END_TRANSACTION_SET`: ends every transaction of a set at once. It may be retried."""

    run: str
    """The scope of `number`: the id of a streaming query, or of a job."""
    number: int
    """Commit number within the run. If it was committed before, the members are aborted instead."""
    members: tuple[SetMember, ...] = ()
    """The transactions to commit; every other open transaction of the set is aborted."""
    committed: bool = True
    passing: bool = False
    """The members' ids are not used again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSetInfo:
    """Answer of `paths.TRANSACTION_SET` and `paths.END_TRANSACTION_SET`: the last commit."""

    set_id: str
    run: str = ""
    number: int = -1
    """Number of the last commit; -1: none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTransactionRequest:
    """JSON that leaders send to `paths.JOIN_TRANSACTION` before they append the first batch of a transaction.

    The response follows once the coordinator has recorded that the partition, or group, is to receive the marker.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TransactionPartition, ...] = field(default=(), metadata=limited(most=MAX_TAKING_PART))
    groups: tuple[str, ...] = field(default=(), metadata=limited(most=MAX_TAKING_PART))
    verify_only: bool = False
    """Add nothing: everything must be in the transaction already, as a producer of Kafka's first kind has added it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTransaction:
    """Answer of `paths.JOIN_TRANSACTION`: the identity that batches of the transaction have."""

    producer_id: ProducerId = NO_PRODUCER_ID
    """-1: an earlier version answers, which has no other identity than that of the request."""
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH

    def producer(self, request: JoinTransactionRequest) -> TransactionalProducer:
        """Return the identity."""
        answer = request if self.producer_id < 0 else self
        return TransactionalProducer(producer_id=answer.producer_id, producer_epoch=answer.producer_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOffsetsBody:
    """JSON sent to `paths.TRANSACTION_OFFSETS` of the group's coordinator; valid once the transaction commits."""

    group_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    offsets: tuple[CommitOffset, ...]
    member_id: str = ""
    member_epoch: int = NO_MEMBER_EPOCH
    """Epoch of the group member: fences one that lost its partitions. Without it, only the producer epoch does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarker:
    """The outcome of one producer's transaction, decided by the coordinator."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    """The transaction's epoch plus one: batches of the transaction's epoch are fenced from now on (KIP-890)."""
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition."""
    committed: bool

    def __post_init__(self) -> None:
        """Check the ranges of the fields: a marker that no reader accepts would make a log look damaged.

        Raises:
            InvalidRequestError: a number is out of its range.
        """
        for name, most in _MOST.items():
            if not 0 <= (value := getattr(self, name)) <= most:
                raise InvalidRequestError(f"marker.{name}: expected 0 to {most}, received {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkersRequest:
    """JSON that coordinators send to `paths.WRITE_MARKERS` of the partitions' leaders."""

    marker: TransactionMarker
    partitions: tuple[TransactionPartition, ...] = field(default=(), metadata=limited(most=MAX_TAKING_PART))
    groups: tuple[str, ...] = field(default=(), metadata=limited(most=MAX_TAKING_PART))
    """Groups with offsets in the transaction that this broker coordinates."""
    timeout_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkersResponse:
    """The error of each partition, then of each group, in order; None: written and replicated."""

    errors: tuple[WireError | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionInfo:
    """The state of one transactional id at its coordinator."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    phase: str
    timeout_ms: int
    began_ms: int
    partitions: tuple[TransactionPartition, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsResponse:
    """Answer of `paths.TRANSACTIONS`, sorted by name."""

    transactions: tuple[TransactionInfo, ...]
    """The transactional ids of the page."""
    matching: int = 0
    """How many transactional ids fit, on all pages."""
    next: str = ""
    """The `after` of the next page; empty: this is the last one."""
