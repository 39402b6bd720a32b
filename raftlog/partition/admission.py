"""Checks of a client's batch before the leader appends it: transaction, producer id and timestamps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from raftlog.config import TopicConfig
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.model import ACKS_ALL, Acks, ProducerEpoch, ProducerId
from raftlog.record.batch import BatchHeader, Buffer
from raftlog.record.times import require_timely
from raftlog.wire.producer_ids import is_of_transactions

Admit = Callable[[ProducerId, ProducerEpoch], Awaitable[None]]
"""Ask the coordinator whether this producer has a transaction under way, and add the partition to it (KIP-890)."""
RequireGiven = Callable[[ProducerId], Awaitable[None]]
"""Raise if the cluster has not allocated a producer id."""

MAX_ADMITTED = 10_000
"""Producers of one partition whose transactional id is remembered. All are forgotten when there are more."""


class Admitted:
    """The transactional ids that the coordinator has confirmed, by producer.

    A producer's id alone does not prove that a sender may write in its transaction: rights are those of the
    transactional id. So each batch must name the one that the coordinator has confirmed. A new leader asks again.
    """

    def __init__(self) -> None:
        self._known: dict[ProducerId, tuple[ProducerEpoch, str]] = {}

    def has(self, header: BatchHeader, transactional_id: str) -> bool:
        """Return whether the coordinator has confirmed this id for a batch's producer."""
        return self._known.get(header.producer_id) == (header.producer_epoch, transactional_id)

    def add(self, header: BatchHeader, transactional_id: str) -> None:
        """Remember what the coordinator has confirmed."""
        if len(self._known) >= MAX_ADMITTED:
            self._known.clear()
        self._known[header.producer_id] = header.producer_epoch, transactional_id


def require_kind(header: BatchHeader, acks: Acks) -> None:
    """Require acks=all of a transactional batch, and a non-transactional producer id of any other batch.

    Raises:
        InvalidRequestError: INVALID_REQUIRED_ACKS; INVALID_TXN_STATE.
    """
    if header.is_transactional and acks != ACKS_ALL:
        raise InvalidRequestError(
            f"a transactional batch: expected acks=all, received acks={acks}",
            code=ErrorCode.INVALID_REQUIRED_ACKS,
        )
    if not header.is_transactional and is_of_transactions(header.producer_id):
        raise InvalidRequestError(
            f"producer id {header.producer_id} belongs to a transactional id: expected a transactional batch; nothing "
            "was appended: request another id (POST /v1/producers)",
            code=ErrorCode.INVALID_TXN_STATE,
        )


def require_admit(admit: Admit | None) -> Admit:
    """Return the function that asks the coordinator.

    Raises:
        InvalidRequestError: INVALID_TXN_STATE: the request names no transactional id.
    """
    if admit is None:
        raise InvalidRequestError(
            "a transactional batch needs the transactional_id of its producer, received none",
            code=ErrorCode.INVALID_TXN_STATE,
        )
    return admit


def require_in_time(header: BatchHeader, batch: Buffer, config: TopicConfig, now_us: int) -> None:
    """Require timestamps within the limits of the topic; see `require_timely`."""
    require_timely(
        header,
        batch,
        now_us=now_us,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
    )
