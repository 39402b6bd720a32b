"""Every error raftlog raises, in families that name the caller's duty, with Kafka's code names.

An error crosses the wire as `{"error": {"code", "message", "retriable", "details"}}` with the HTTP status of its
code, and becomes the same class again on the other side (`from_wire`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from raftlog.error_codes import HTTP_STATUS, ErrorCode
from raftlog.request_marks import is_request_id

__all__ = [
    "AuthenticationError",
    "AuthorizationError",
    "ConfigError",
    "CorruptBatchError",
    "DamagedDataError",
    "DiskFullError",
    "ErrorCode",
    "FencedError",
    "InvalidRequestError",
    "NotFoundError",
    "OffsetOutOfRangeError",
    "OverloadedError",
    "RaftlogError",
    "RetriableError",
    "StaleRouteError",
    "StorageError",
    "TransactionAbortedError",
    "TransactionInDoubtError",
    "UnknownOutcomeError",
    "UnreachableError",
    "from_wire",
]


MAX_MESSAGE = 8_000
"""Characters of a message. Messages quote names, and a string of Kafka's protocol has at most 32,767 bytes."""
_LAST = 2_000


class RaftlogError(Exception):
    """The root of every error that raftlog raises on purpose.

    Args:
        message: what failed, what was received, and what to do. A very long one is cut in its middle. What has no UTF-8
            is escaped.
        code: the error's code; None: the class's own.
        details: more about it, by name, such as the offsets of an `OffsetOutOfRangeError`.
    """

    default_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, code: ErrorCode | None = None, details: Mapping[str, Any] | None = None):
        message = _cut(message)
        if not message.isascii():  # A byte of a request that is no UTF-8 became a lone surrogate: no response has it.
            message = _cut(message.encode("utf-8", "backslashreplace").decode())
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.details = dict(details or {})
        self.request_id = ""
        """The id of the request that failed, which the node's log shows, too; "": no request, or no id is known."""

    def __str__(self) -> str:
        text = super().__str__()
        return f"{text} [request {self.request_id}]" if self.request_id else text

    @property
    def http_status(self) -> int:
        """Return the status of an answer that carries this error."""
        return HTTP_STATUS.get(self.code, 500)

    def to_wire(self, request_id: str = "") -> dict[str, Any]:
        """Return the error as the `error` member of a response body.

        Args:
            request_id: the id of the request that it answers; "": the body has none.
        """
        body: dict[str, Any] = {"code": self.code.value, "message": self.message, "retriable": self.retriable}
        if self.details:
            body["details"] = self.details
        if request_id:
            body["request_id"] = request_id
        return body


def _cut(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - _LAST - 5]} ... {message[-_LAST:]}"


E = TypeVar("E", bound=RaftlogError)


class InvalidRequestError(RaftlogError):
    """Do not send it again: the request itself is wrong."""

    default_code = ErrorCode.INVALID_REQUEST


class ConfigError(InvalidRequestError):
    """A setting is unknown, malformed or contradicts another one."""

    default_code = ErrorCode.INVALID_CONFIG


class CorruptBatchError(InvalidRequestError):
    """The bytes are not a valid record batch: a checksum, a length or the Arrow payload is wrong."""

    default_code = ErrorCode.CORRUPT_MESSAGE


class NotFoundError(InvalidRequestError):
    """What was named does not exist."""

    default_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class OffsetOutOfRangeError(InvalidRequestError):
    """The offset is below the log start offset or above the log end offset; `details` names both."""

    default_code = ErrorCode.OFFSET_OUT_OF_RANGE


class AuthenticationError(InvalidRequestError):
    """The credentials are missing, malformed or wrong: send valid ones.

    Args:
        challenge: the answer's `WWW-Authenticate`: which credentials the server accepts.
    """

    default_code = ErrorCode.AUTHENTICATION_FAILED

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode | None = None,
        details: Mapping[str, Any] | None = None,
        challenge: str = 'Basic realm="raftlog", charset="UTF-8"',
    ):
        super().__init__(message, code=code, details=details)
        self.challenge = challenge


class AuthorizationError(InvalidRequestError):
    """The sender is known, and no rule allows the operation: an administrator can add one."""

    default_code = ErrorCode.AUTHORIZATION_FAILED


class RetriableError(RaftlogError):
    """Send the same request again, after a backoff."""

    default_code = ErrorCode.BROKER_NOT_AVAILABLE
    retriable = True


class StaleRouteError(RetriableError):
    """Refresh metadata first: this node is no longer the right one. `details` may name the right one."""

    default_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class UnreachableError(RetriableError):
    """The request did not leave this process: no connection to the address tried."""

    default_code = ErrorCode.BROKER_NOT_AVAILABLE


class UnknownOutcomeError(RetriableError):
    """The request may or may not have taken effect: only an idempotent one may be sent again."""

    default_code = ErrorCode.REQUEST_TIMED_OUT


class OverloadedError(RetriableError):
    """A queue is full; nothing was done. Slow down."""

    default_code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class FencedError(RaftlogError):
    """A newer epoch has replaced the caller's, so the caller must stop."""

    default_code = ErrorCode.FENCED_LEADER_EPOCH


class TransactionAbortedError(RaftlogError):
    """The transaction was aborted: none of its records count. Run it again from its beginning."""

    default_code = ErrorCode.TRANSACTION_ABORTABLE


class TransactionInDoubtError(RaftlogError):
    """A transaction was cancelled while it committed: it may be committed or aborted. The producer can continue.

    It takes the place of `CancelledError`, so it is not retriable: a loop that repeats after a `RetriableError` ends.
    """

    default_code = ErrorCode.REQUEST_TIMED_OUT


class StorageError(RaftlogError):
    """A disk operation failed: the process continues, but this replica may not."""

    default_code = ErrorCode.KAFKA_STORAGE_ERROR


class DiskFullError(StorageError):
    """The disk is full; nothing was appended."""

    default_code = ErrorCode.INSUFFICIENT_STORAGE


class DamagedDataError(StorageError):
    """Records on disk are lost or unreadable; `details` has the offset of the first one, if known."""


_FAMILY: dict[ErrorCode, type[RaftlogError]] = {
    ErrorCode.AUTHENTICATION_FAILED: AuthenticationError,
    ErrorCode.AUTHORIZATION_FAILED: AuthorizationError,
    ErrorCode.INVALID_CONFIG: ConfigError,
    ErrorCode.CORRUPT_MESSAGE: CorruptBatchError,
    ErrorCode.NOT_FOUND: NotFoundError,
    ErrorCode.RESOURCE_NOT_FOUND: NotFoundError,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: NotFoundError,
    ErrorCode.UNKNOWN_TOPIC_ID: StaleRouteError,
    ErrorCode.OFFSET_OUT_OF_RANGE: OffsetOutOfRangeError,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: StaleRouteError,
    ErrorCode.LEADER_NOT_AVAILABLE: StaleRouteError,
    ErrorCode.NOT_CONTROLLER: StaleRouteError,
    ErrorCode.UNKNOWN_LEADER_EPOCH: StaleRouteError,
    ErrorCode.NOT_ENOUGH_REPLICAS: RetriableError,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: UnknownOutcomeError,
    ErrorCode.REQUEST_TIMED_OUT: UnknownOutcomeError,
    ErrorCode.NETWORK_EXCEPTION: UnknownOutcomeError,
    ErrorCode.BROKER_NOT_AVAILABLE: RetriableError,
    ErrorCode.QUORUM_NOT_AVAILABLE: RetriableError,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: OverloadedError,
    ErrorCode.BUFFER_EXHAUSTED: OverloadedError,
    ErrorCode.FENCED_LEADER_EPOCH: FencedError,
    ErrorCode.INVALID_PRODUCER_EPOCH: FencedError,
    ErrorCode.PRODUCER_FENCED: FencedError,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: FencedError,
    ErrorCode.CONCURRENT_TRANSACTIONS: RetriableError,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: NotFoundError,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAbortedError,
    ErrorCode.STALE_BROKER_EPOCH: FencedError,
    ErrorCode.KAFKA_STORAGE_ERROR: StorageError,
    ErrorCode.INSUFFICIENT_STORAGE: DiskFullError,
    ErrorCode.OFFSET_NOT_AVAILABLE: RetriableError,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: RetriableError,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: RetriableError,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: RetriableError,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: StaleRouteError,
    ErrorCode.NOT_COORDINATOR: StaleRouteError,
    ErrorCode.UNKNOWN_MEMBER_ID: FencedError,
    ErrorCode.FENCED_MEMBER_EPOCH: FencedError,
    ErrorCode.STALE_MEMBER_EPOCH: FencedError,
    ErrorCode.FENCED_INSTANCE_ID: FencedError,
    ErrorCode.ILLEGAL_GENERATION: FencedError,
    ErrorCode.REBALANCE_IN_PROGRESS: RetriableError,
    ErrorCode.GROUP_ID_NOT_FOUND: NotFoundError,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: RetriableError,
    ErrorCode.UNKNOWN_SERVER_ERROR: RaftlogError,
}


def with_request_of(error: E, cause: RaftlogError | None) -> E:
    """Return an error with the request id of another error, which is its cause."""
    error.request_id = error.request_id or (cause.request_id if cause is not None else "")
    return error


def from_wire(body: Any) -> RaftlogError:
    """Rebuild the error that a peer answered; an unknown code or shape becomes a plain `RaftlogError`.

    Args:
        body: the decoded response body, `{"error": {...}}`, or its `error` member alone.
    """
    error = body.get("error", body) if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        return RaftlogError("the peer answered an error without a description")
    rebuilt = _rebuilt(error)
    request_id = error.get("request_id")
    if isinstance(request_id, str) and is_request_id(request_id):
        rebuilt.request_id = request_id
    return rebuilt


def _rebuilt(error: Mapping[str, Any]) -> RaftlogError:
    name, message, details = error.get("code"), error.get("message"), error.get("details")
    name, message = (text if isinstance(text, str) else "" for text in (name, message))
    try:
        code = ErrorCode(name)
    except ValueError:
        return RaftlogError(f"{name or 'the peer names no code of the error'}: {message}")
    family = _FAMILY.get(code, InvalidRequestError)
    details = details if isinstance(details, Mapping) else {}
    if details.get("appended") and issubclass(family, RetriableError):
        family = UnknownOutcomeError  # Such as NOT_COORDINATOR from a coordinator replaced after its append.
    return family(message, code=code, details=details)
