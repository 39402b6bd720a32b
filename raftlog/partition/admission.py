"""What is asked of a client's batch before a leader appends it, beside its soundness and its place in a sequence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from raftlog.config import TopicConfig
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.model import ACKS_ALL, Acks, ProducerEpoch, ProducerId
from raftlog.record.batch import BatchHeader, Buffer
from raftlog.record.times import require_timely
from raftlog.wire.producer_ids import is_of_transactions

Admit = Callable[[ProducerId, ProducerEpoch], Awaitable[None]]
RequireGiven = Callable[[ProducerId], Awaitable[None]]
"""Raises if the cluster has not given a producer id."""


def require_kind(header: BatchHeader, acks: Acks) -> None:
    """Require that a transactional batch is to be as safe as its transaction, and another one has an id for it.

    Raises:
        InvalidRequestError: INVALID_REQUIRED_ACKS; INVALID_TXN_STATE.
    """
    if header.is_transactional and acks != ACKS_ALL:
        raise InvalidRequestError(
            f"a transaction is as safe as its records: expected acks=all, received acks={acks}",
            code=ErrorCode.INVALID_REQUIRED_ACKS,
        )
    if not header.is_transactional and is_of_transactions(header.producer_id):
        raise InvalidRequestError(
            f"producer id {header.producer_id} is of a transactional id: expected a batch of a transaction; nothing "
            "was appended: ask for another id (POST /v1/producers)",
            code=ErrorCode.INVALID_TXN_STATE,
        )


def require_admit(admit: Admit | None) -> Admit:
    """Return what asks the coordinator.

    Raises:
        InvalidRequestError: INVALID_TXN_STATE, it is not known whose transaction it is.
    """
    if admit is None:
        raise InvalidRequestError(
            "a transactional batch needs the transactional_id of its producer, received none",
            code=ErrorCode.INVALID_TXN_STATE,
        )
    return admit


def require_in_time(header: BatchHeader, batch: Buffer, config: TopicConfig, now_us: int) -> None:
    """Require that a batch has times that its topic takes; see `require_timely`."""
    require_timely(
        header,
        batch,
        now_us=now_us,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
    )
