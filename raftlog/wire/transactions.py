"""Transactions: what producers and partition leaders say to a coordinator, and coordinators to partition leaders."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.errors import InvalidRequestError
from raftlog.model import ProducerEpoch, ProducerId, TopicId
from raftlog.wire.errors import WireError
from raftlog.wire.groups import NO_MEMBER_EPOCH, CommitOffset
from raftlog.wire.producer_ids import MOST, require_identity

SET_SEPARATOR = "::"
_MOST = {**MOST, "coordinator_epoch": (1 << 31) - 1}


def set_of(transactional_id: str) -> str:
    """Return what decides who coordinates a transactional id: all of `name::member` go where `name` goes."""
    return transactional_id.partition(SET_SEPARATOR)[0]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TransactionPartition:
    """One partition that takes part in a transaction."""

    topic: str
    partition: int
    topic_id: TopicId
    """A topic that was deleted and recreated has nothing of the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitTransactionsBody:
    """JSON sent to `paths.INIT_TRANSACTIONS`: fences an earlier producer of this id, and aborts what it left."""

    timeout_ms: int = 60_000
    """How long a transaction may take before it is aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionalProducer:
    """Answer of `paths.INIT_TRANSACTIONS` and `paths.END_TRANSACTION`: under what the next transaction goes."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch

    def __post_init__(self) -> None:
        require_identity(self.producer_id, self.producer_epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionBody:
    """JSON sent to `paths.END_TRANSACTION`. It may be sent again until it is answered."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMember:
    """One transaction of a set: whose, and under which identity."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSetBody:
    """JSON sent to `paths.END_TRANSACTION_SET`: ends every transaction of a set at once. It may be sent again."""

    run: str
    """Within which `number` counts: the id of a streaming query, or of a job."""
    number: int
    """A number of this run that was committed is not committed again: its members are aborted then."""
    members: tuple[SetMember, ...] = ()
    """What to commit; whatever else is under way in the set is aborted."""
    committed: bool = True
    passing: bool = False
    """The members' ids are not used again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSetInfo:
    """Answer of `paths.TRANSACTION_SET` and `paths.END_TRANSACTION_SET`: what was committed last."""

    set_id: str
    run: str = ""
    number: int = -1
    """-1: nothing, as far as is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTransactionRequest:
    """JSON that leaders send to `paths.JOIN_TRANSACTION` before they append what begins a transaction there.

    It is answered once the coordinator will see to it that the partition, or group, learns of the transaction's end.
    """

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TransactionPartition, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOffsetsBody:
    """JSON sent to `paths.TRANSACTION_OFFSETS` of the group's coordinator: they count if the transaction does."""

    group_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    offsets: tuple[CommitOffset, ...]
    member_id: str = ""
    member_epoch: int = NO_MEMBER_EPOCH
    """Of the member whose partitions these are: one that has lost them is refused. Without: the epoch alone fences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarker:
    """The end of one producer's transaction, as the coordinator decided it."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    """The one after the transaction's own: from here on, the transaction's epoch is refused (KIP-890)."""
    coordinator_epoch: int
    """Leader epoch of the coordinator's partition."""
    committed: bool

    def __post_init__(self) -> None:
        """Check what a log can hold: a marker that no reader accepts would make a log look damaged.

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
    partitions: tuple[TransactionPartition, ...] = ()
    groups: tuple[str, ...] = ()
    """Whose offsets the transaction has, and this broker coordinates."""
    timeout_ms: int = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMarkersResponse:
    """What became of each partition, then of each group, in order; None: it is written and replicated."""

    errors: tuple[WireError | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionInfo:
    """One transactional id, as its coordinator knows it."""

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
    """Answer of `paths.TRANSACTIONS`: those that the broker that answers coordinates, sorted by name."""

    transactions: tuple[TransactionInfo, ...]
