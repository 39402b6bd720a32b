"""What an error of a produce attempt implies for its batch, and the errors that callers get."""

from __future__ import annotations

from typing import Protocol

from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    NotFoundError,
    RaftlogError,
    RetriableError,
    TransactionAbortedError,
    UnknownOutcomeError,
    UnreachableError,
    with_request_of,
)
from raftlog.model import TopicId

_SILENCE = (UnreachableError, UnknownOutcomeError)
_LOST_IDENTITY = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH})
_LOST_SEQUENCE = _LOST_IDENTITY | {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}


class Attempted(Protocol):
    """The attempts of a batch so far."""

    attempts: int
    may_be_appended: bool
    cause: RaftlogError | None
    topic_id: TopicId


def is_ambiguous(error: RaftlogError) -> bool:
    """Return whether the attempt may have appended the batch, or may still append it."""
    appended = bool(error.details.get("appended"))
    return appended or isinstance(error, UnknownOutcomeError) or error.code is ErrorCode.UNKNOWN_SERVER_ERROR


def is_lost_sequence(error: RaftlogError) -> bool:
    """Return whether the leader expects another sequence or epoch than the batch has."""
    return error.code in _LOST_SEQUENCE


def is_lost_identity(error: RaftlogError) -> bool:
    """Return whether the leader refuses any next epoch of this producer id: another process uses the id."""
    return error.code in _LOST_IDENTITY


def is_certainly_not_appended(error: RaftlogError) -> bool:
    """Return whether no attempt appended the batch, whatever earlier outcomes: its sequence has other records."""
    return error.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def is_too_large(error: RaftlogError) -> bool:
    """Return whether the batch may be split and sent again."""
    return error.code is ErrorCode.MESSAGE_TOO_LARGE


def refused(batch: Attempted, error: RaftlogError) -> RaftlogError:
    """Return the final error of a batch that the leader refused."""
    if batch.may_be_appended:
        why = f"the batch may be in the log, an attempt had no known outcome: {error.message}"
        return with_request_of(UnknownOutcomeError(why), error)
    return error


def cause(before: RaftlogError | None, error: RaftlogError) -> RaftlogError:
    """Return the cause to report for a batch: a broker's error explains more than a missing answer."""
    if before is None or isinstance(before, _SILENCE) or not isinstance(error, _SILENCE):
        return error
    return error if error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND else before


def timed_out(batch: Attempted, delivery_timeout_ms: int) -> RaftlogError:
    """Return the error of a batch whose delivery timeout passed."""
    why = f"not acknowledged within {delivery_timeout_ms} ms ({batch.attempts} attempts)"
    reason = f"{why}; the cause: {batch.cause.code}: {batch.cause.message}" if batch.cause else why
    if batch.may_be_appended:
        return with_request_of(UnknownOutcomeError(f"{reason}; it may be in the log"), batch.cause)
    failed = RetriableError(f"{reason}; it is not in the log", code=ErrorCode.REQUEST_TIMED_OUT)
    return with_request_of(failed, batch.cause)


def closed(batch: Attempted) -> RaftlogError:
    """Return the error of a batch that has no outcome when its producer is closed."""
    if batch.may_be_appended:
        return UnknownOutcomeError("the producer was closed before an answer came; the batch may be in the log")
    return RetriableError("the producer was closed before the batch was sent; it is not in the log")


def recreated(batch: Attempted, topic_id: TopicId) -> RaftlogError:
    """Return the error of a batch whose topic was recreated."""
    ids = f"the batch was sent to topic id {batch.topic_id}, now it is {topic_id}"
    why = f"the topic was deleted and recreated meanwhile: {ids}"
    if batch.may_be_appended:
        return UnknownOutcomeError(f"{why}; it may have been in the old topic, and is not in the new one")
    return NotFoundError(f"{why}; it is in neither topic", code=ErrorCode.UNKNOWN_TOPIC_ID)


def follows_a_hole(batch: Attempted, *, transactional: bool) -> RaftlogError:
    """Return the error of a batch that followed a failed one in the sequence and cannot be sent again."""
    if batch.may_be_appended:
        return UnknownOutcomeError("an earlier batch failed; this one may be in the log")
    if transactional:
        return TransactionAbortedError("an earlier batch failed, so the transaction can only be aborted")
    return InvalidRequestError(
        "the batch is not in the log, but a later one is: a retry would be out of order",
        code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
