"""Every error raftlog raises, in families that name the caller's duty, with Kafka's code names.

An error crosses the wire as `{"error": {"code", "message", "retriable", "details"}}` with the HTTP status of its
code, and becomes the same class again on the other side (`from_wire`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar


class ErrorCode(StrEnum):
    """Kafka's error names where Kafka has one."""

    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_CONFIG = "INVALID_CONFIG"
    INVALID_TOPIC_EXCEPTION = "INVALID_TOPIC_EXCEPTION"
    INVALID_PARTITIONS = "INVALID_PARTITIONS"
    INVALID_REPLICATION_FACTOR = "INVALID_REPLICATION_FACTOR"
    INVALID_REQUIRED_ACKS = "INVALID_REQUIRED_ACKS"
    INVALID_TIMESTAMP = "INVALID_TIMESTAMP"
    CORRUPT_MESSAGE = "CORRUPT_MESSAGE"
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    INVALID_RECORD = "INVALID_RECORD"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    FOREIGN_ORIGIN = "FOREIGN_ORIGIN"
    NOT_FOUND = "NOT_FOUND"
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    UNKNOWN_TOPIC_ID = "UNKNOWN_TOPIC_ID"
    TOPIC_ALREADY_EXISTS = "TOPIC_ALREADY_EXISTS"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    LEADER_NOT_AVAILABLE = "LEADER_NOT_AVAILABLE"
    NOT_CONTROLLER = "NOT_CONTROLLER"
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH"
    NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    OUT_OF_ORDER_SEQUENCE_NUMBER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    DUPLICATE_SEQUENCE_NUMBER = "DUPLICATE_SEQUENCE_NUMBER"
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"
    UNKNOWN_PRODUCER_ID = "UNKNOWN_PRODUCER_ID"
    PRODUCER_FENCED = "PRODUCER_FENCED"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    INVALID_TRANSACTION_TIMEOUT = "INVALID_TRANSACTION_TIMEOUT"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    TRANSACTION_COORDINATOR_FENCED = "TRANSACTION_COORDINATOR_FENCED"
    TRANSACTION_ABORTABLE = "TRANSACTION_ABORTABLE"
    TRANSACTIONAL_ID_NOT_FOUND = "TRANSACTIONAL_ID_NOT_FOUND"
    KAFKA_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
    INSUFFICIENT_STORAGE = "INSUFFICIENT_STORAGE"
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    NETWORK_EXCEPTION = "NETWORK_EXCEPTION"
    BROKER_NOT_AVAILABLE = "BROKER_NOT_AVAILABLE"
    THROTTLING_QUOTA_EXCEEDED = "THROTTLING_QUOTA_EXCEEDED"
    BUFFER_EXHAUSTED = "BUFFER_EXHAUSTED"
    STALE_BROKER_EPOCH = "STALE_BROKER_EPOCH"
    DUPLICATE_BROKER_REGISTRATION = "DUPLICATE_BROKER_REGISTRATION"
    BROKER_ID_NOT_REGISTERED = "BROKER_ID_NOT_REGISTERED"
    INCONSISTENT_CLUSTER_ID = "INCONSISTENT_CLUSTER_ID"
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
    INELIGIBLE_REPLICA = "INELIGIBLE_REPLICA"
    QUORUM_NOT_AVAILABLE = "QUORUM_NOT_AVAILABLE"
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    INVALID_REPLICA_ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT"
    NO_REASSIGNMENT_IN_PROGRESS = "NO_REASSIGNMENT_IN_PROGRESS"
    RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
    OFFSET_NOT_AVAILABLE = "OFFSET_NOT_AVAILABLE"
    FETCH_SESSION_ID_NOT_FOUND = "FETCH_SESSION_ID_NOT_FOUND"
    INVALID_FETCH_SESSION_EPOCH = "INVALID_FETCH_SESSION_EPOCH"
    COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS"
    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
    NOT_COORDINATOR = "NOT_COORDINATOR"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
    STALE_MEMBER_EPOCH = "STALE_MEMBER_EPOCH"
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
    UNSUPPORTED_ASSIGNOR = "UNSUPPORTED_ASSIGNOR"
    INVALID_REGULAR_EXPRESSION = "INVALID_REGULAR_EXPRESSION"
    INVALID_GROUP_ID = "INVALID_GROUP_ID"
    GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
    NON_EMPTY_GROUP = "NON_EMPTY_GROUP"
    GROUP_SUBSCRIBED_TO_TOPIC = "GROUP_SUBSCRIBED_TO_TOPIC"
    OFFSET_METADATA_TOO_LARGE = "OFFSET_METADATA_TOO_LARGE"
    UNSTABLE_OFFSET_COMMIT = "UNSTABLE_OFFSET_COMMIT"


class RaftlogError(Exception):
    """The root of every error that raftlog raises on purpose."""

    default_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    retriable: ClassVar[bool] = False

    def __init__(self, message: str, *, code: ErrorCode | None = None, details: Mapping[str, Any] | None = None):
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.details = dict(details or {})

    @property
    def http_status(self) -> int:
        return _STATUS.get(self.code, 500)

    def to_wire(self) -> dict[str, Any]:
        """Return the error as the `error` member of a response body."""
        body: dict[str, Any] = {"code": self.code.value, "message": self.message, "retriable": self.retriable}
        if self.details:
            body["details"] = self.details
        return body


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
    """A newer epoch has replaced the caller, who must stop."""

    default_code = ErrorCode.FENCED_LEADER_EPOCH


class TransactionAbortedError(RaftlogError):
    """The transaction was aborted: nothing of it counts. Run it again from its beginning."""

    default_code = ErrorCode.TRANSACTION_ABORTABLE


class TransactionInDoubtError(UnknownOutcomeError):
    """A transaction was cancelled while it committed: all of it may count, or nothing. The producer can go on."""


class StorageError(RaftlogError):
    """A disk refused: the process goes on, but this replica may not."""

    default_code = ErrorCode.KAFKA_STORAGE_ERROR


class DiskFullError(StorageError):
    """The disk is full; nothing was appended."""

    default_code = ErrorCode.INSUFFICIENT_STORAGE


class DamagedDataError(StorageError):
    """Records that were on disk are gone or unreadable; `details` names the offset at which they begin, if known."""


_STATUS: dict[ErrorCode, int] = {
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.INVALID_CONFIG: 400,
    ErrorCode.INVALID_TOPIC_EXCEPTION: 400,
    ErrorCode.INVALID_PARTITIONS: 400,
    ErrorCode.INVALID_REPLICATION_FACTOR: 400,
    ErrorCode.INVALID_REQUIRED_ACKS: 400,
    ErrorCode.INVALID_TIMESTAMP: 400,
    ErrorCode.CORRUPT_MESSAGE: 422,
    ErrorCode.MESSAGE_TOO_LARGE: 413,
    ErrorCode.INVALID_RECORD: 422,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE: 415,
    ErrorCode.FOREIGN_ORIGIN: 403,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: 404,
    ErrorCode.UNKNOWN_TOPIC_ID: 404,
    ErrorCode.TOPIC_ALREADY_EXISTS: 409,
    ErrorCode.OFFSET_OUT_OF_RANGE: 416,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: 421,
    ErrorCode.LEADER_NOT_AVAILABLE: 503,
    ErrorCode.NOT_CONTROLLER: 421,
    ErrorCode.FENCED_LEADER_EPOCH: 409,
    ErrorCode.UNKNOWN_LEADER_EPOCH: 409,
    ErrorCode.NOT_ENOUGH_REPLICAS: 503,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: 503,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: 409,
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: 409,
    ErrorCode.INVALID_PRODUCER_EPOCH: 409,
    ErrorCode.UNKNOWN_PRODUCER_ID: 409,
    ErrorCode.PRODUCER_FENCED: 409,
    ErrorCode.INVALID_TXN_STATE: 409,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: 409,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: 400,
    ErrorCode.CONCURRENT_TRANSACTIONS: 503,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: 409,
    ErrorCode.TRANSACTION_ABORTABLE: 409,
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: 404,
    ErrorCode.KAFKA_STORAGE_ERROR: 500,
    ErrorCode.INSUFFICIENT_STORAGE: 507,
    ErrorCode.REQUEST_TIMED_OUT: 504,
    ErrorCode.NETWORK_EXCEPTION: 502,
    ErrorCode.BROKER_NOT_AVAILABLE: 503,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: 429,
    ErrorCode.BUFFER_EXHAUSTED: 503,
    ErrorCode.STALE_BROKER_EPOCH: 409,
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: 409,
    ErrorCode.BROKER_ID_NOT_REGISTERED: 409,
    ErrorCode.INCONSISTENT_CLUSTER_ID: 409,
    ErrorCode.INVALID_UPDATE_VERSION: 409,
    ErrorCode.INELIGIBLE_REPLICA: 409,
    ErrorCode.QUORUM_NOT_AVAILABLE: 503,
    ErrorCode.UNSUPPORTED_VERSION: 409,
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: 400,
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: 409,
    ErrorCode.RESOURCE_NOT_FOUND: 404,
    ErrorCode.OFFSET_NOT_AVAILABLE: 503,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: 409,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: 409,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: 503,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: 503,
    ErrorCode.NOT_COORDINATOR: 421,
    ErrorCode.UNKNOWN_MEMBER_ID: 409,
    ErrorCode.FENCED_MEMBER_EPOCH: 409,
    ErrorCode.STALE_MEMBER_EPOCH: 409,
    ErrorCode.FENCED_INSTANCE_ID: 409,
    ErrorCode.UNRELEASED_INSTANCE_ID: 409,
    ErrorCode.UNSUPPORTED_ASSIGNOR: 400,
    ErrorCode.INVALID_REGULAR_EXPRESSION: 400,
    ErrorCode.INVALID_GROUP_ID: 400,
    ErrorCode.GROUP_MAX_SIZE_REACHED: 409,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: 409,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: 400,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: 503,
}

_FAMILY: dict[ErrorCode, type[RaftlogError]] = {
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
    ErrorCode.GROUP_ID_NOT_FOUND: NotFoundError,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: RetriableError,
    ErrorCode.UNKNOWN_SERVER_ERROR: RaftlogError,
}


def from_wire(body: Any) -> RaftlogError:
    """Rebuild the error that a peer answered; an unknown code or shape becomes a plain `RaftlogError`.

    Args:
        body: the decoded response body, `{"error": {...}}`, or its `error` member alone.
    """
    error = body.get("error", body) if isinstance(body, Mapping) else None
    if not isinstance(error, Mapping):
        return RaftlogError("the peer answered an error without a description")
    name, message, details = error.get("code"), error.get("message"), error.get("details")
    name, message = (text if isinstance(text, str) else "" for text in (name, message))
    try:
        code = ErrorCode(name)
    except ValueError:
        return RaftlogError(f"{name or 'the peer names no code of the error'}: {message}")
    family = _FAMILY.get(code, InvalidRequestError)
    details = details if isinstance(details, Mapping) else {}
    if details.get("appended") and issubclass(family, RetriableError):
        family = UnknownOutcomeError  # Such as NOT_COORDINATOR from one that was it until it had written.
    return family(message, code=code, details=details)
