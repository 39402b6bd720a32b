"""The codes of errors, and the HTTP status of each."""

from __future__ import annotations

from enum import StrEnum


class ErrorCode(StrEnum):
    """What went wrong: Kafka's name of the error, where Kafka has one."""

    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    """The server failed in a way that it did not expect; its log says how."""
    INVALID_REQUEST = "INVALID_REQUEST"
    """The request is malformed, or asks for something that does not exist or is not allowed."""
    INVALID_CONFIG = "INVALID_CONFIG"
    """A setting or an option is unknown, malformed, or contradicts another one."""
    INVALID_TOPIC_EXCEPTION = "INVALID_TOPIC_EXCEPTION"
    """The topic's name is not allowed."""
    INVALID_PARTITIONS = "INVALID_PARTITIONS"
    """The number of partitions is not allowed."""
    INVALID_REPLICATION_FACTOR = "INVALID_REPLICATION_FACTOR"
    """The replication factor is below 1, or above the number of brokers."""
    INVALID_REQUIRED_ACKS = "INVALID_REQUIRED_ACKS"
    """`acks` is none of `all`, `1` and `0`."""
    INVALID_TIMESTAMP = "INVALID_TIMESTAMP"
    """A time is out of bounds: too far from the leader's clock, or probably in another unit."""
    CORRUPT_MESSAGE = "CORRUPT_MESSAGE"
    """A record batch has a wrong checksum, length or payload."""
    MESSAGE_TOO_LARGE = "MESSAGE_TOO_LARGE"
    """A record, a batch or a request is larger than the limit."""
    INVALID_RECORD = "INVALID_RECORD"
    """A record cannot be stored, such as one without a key in a compacted topic."""
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    """The server does not read the request's content type."""
    FOREIGN_ORIGIN = "FOREIGN_ORIGIN"
    """A web page of another origin sent the request."""
    TLS_REQUIRED = "TLS_REQUIRED"
    """The port takes connections with TLS only."""
    AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"
    """The request has no valid credentials, and the server requires them."""
    AUTHORIZATION_FAILED = "AUTHORIZATION_FAILED"
    """No access rule allows the operation, or a rule denies it."""
    NOT_FOUND = "NOT_FOUND"
    """The path, the broker or another named thing does not exist."""
    UNKNOWN_TOPIC_OR_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
    """The topic or the partition does not exist."""
    UNKNOWN_TOPIC_ID = "UNKNOWN_TOPIC_ID"
    """The topic was deleted, or recreated with another id."""
    TOPIC_ALREADY_EXISTS = "TOPIC_ALREADY_EXISTS"
    """A topic with that name exists."""
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    """The offset is below the log start offset, or above the end of the log."""
    NOT_LEADER_OR_FOLLOWER = "NOT_LEADER_OR_FOLLOWER"
    """The broker has no such replica, or does not lead the partition."""
    LEADER_NOT_AVAILABLE = "LEADER_NOT_AVAILABLE"
    """The partition has no leader now."""
    NOT_CONTROLLER = "NOT_CONTROLLER"
    """The controller that received the request is not the active one."""
    FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
    """The request names a leader epoch that a later one has replaced."""
    UNKNOWN_LEADER_EPOCH = "UNKNOWN_LEADER_EPOCH"
    """The request names a leader epoch that the broker does not know yet."""
    NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS"
    """The ISR is smaller than `min_insync_replicas`; nothing was appended."""
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    """The ISR shrank below `min_insync_replicas` after the leader had appended the batch."""
    OUT_OF_ORDER_SEQUENCE_NUMBER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    """A batch's sequence does not follow the producer's last one."""
    DUPLICATE_SEQUENCE_NUMBER = "DUPLICATE_SEQUENCE_NUMBER"
    """Other records are in the log under the batch's sequence numbers."""
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"
    """The request names a producer epoch that a later one has replaced."""
    UNKNOWN_PRODUCER_ID = "UNKNOWN_PRODUCER_ID"
    """The cluster has not given out this producer id."""
    PRODUCER_FENCED = "PRODUCER_FENCED"
    """Another producer has taken over the transactional id."""
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    """The transaction's state does not allow this: it has ended, or has not begun."""
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    """The producer id does not belong to the transactional id."""
    INVALID_TRANSACTION_TIMEOUT = "INVALID_TRANSACTION_TIMEOUT"
    """The transaction's time-out is out of bounds."""
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"
    """The previous transaction's markers are not yet written to every partition."""
    TRANSACTION_COORDINATOR_FENCED = "TRANSACTION_COORDINATOR_FENCED"
    """A later coordinator has replaced the one that wrote the transaction's marker."""
    TRANSACTION_ABORTABLE = "TRANSACTION_ABORTABLE"
    """The transaction cannot be committed: abort it, and begin again."""
    TRANSACTIONAL_ID_NOT_FOUND = "TRANSACTIONAL_ID_NOT_FOUND"
    """The cluster does not know the transactional id."""
    KAFKA_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
    """No replica has these records intact, or a disk failed during an operation on this broker alone."""
    INSUFFICIENT_STORAGE = "INSUFFICIENT_STORAGE"
    """The broker's disk is full; nothing was appended."""
    REQUEST_TIMED_OUT = "REQUEST_TIMED_OUT"
    """No answer came in time; the request may have taken effect."""
    NETWORK_EXCEPTION = "NETWORK_EXCEPTION"
    """The connection broke before the answer; the request may have taken effect."""
    BROKER_NOT_AVAILABLE = "BROKER_NOT_AVAILABLE"
    """The broker cannot be reached, or is not registered yet."""
    THROTTLING_QUOTA_EXCEEDED = "THROTTLING_QUOTA_EXCEEDED"
    """The server has too much to do, or a quota is used up; nothing was done."""
    BUFFER_EXHAUSTED = "BUFFER_EXHAUSTED"
    """The producer's buffer is full; the record was not queued."""
    STALE_BROKER_EPOCH = "STALE_BROKER_EPOCH"
    """The request names a broker epoch that a later registration has replaced."""
    DUPLICATE_BROKER_REGISTRATION = "DUPLICATE_BROKER_REGISTRATION"
    """Another process with this broker id has a live session."""
    BROKER_ID_NOT_REGISTERED = "BROKER_ID_NOT_REGISTERED"
    """No broker is registered with this id."""
    INCONSISTENT_CLUSTER_ID = "INCONSISTENT_CLUSTER_ID"
    """The node belongs to another cluster."""
    INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
    """The partition epoch has changed since the leader proposed the ISR."""
    INELIGIBLE_REPLICA = "INELIGIBLE_REPLICA"
    """A broker of the proposed ISR is fenced, shuts down, or has registered again."""
    QUORUM_NOT_AVAILABLE = "QUORUM_NOT_AVAILABLE"
    """The metadata quorum has no leader, or no majority."""
    UNSUPPORTED_VERSION = "UNSUPPORTED_VERSION"
    """The cluster's feature level and the node's version do not fit."""
    INVALID_REPLICA_ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT"
    """The brokers named for a partition's replicas are not allowed."""
    NO_REASSIGNMENT_IN_PROGRESS = "NO_REASSIGNMENT_IN_PROGRESS"
    """The partition has no reassignment that could be cancelled."""
    RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
    """The user, the broker or another registered thing does not exist."""
    OFFSET_NOT_AVAILABLE = "OFFSET_NOT_AVAILABLE"
    """The broker does not know yet whether the offset may be read: ask the leader, or ask later."""
    FETCH_SESSION_ID_NOT_FOUND = "FETCH_SESSION_ID_NOT_FOUND"
    """The leader does not know the follower's fetch session."""
    INVALID_FETCH_SESSION_EPOCH = "INVALID_FETCH_SESSION_EPOCH"
    """The fetch is late or repeated within its session."""
    COORDINATOR_LOAD_IN_PROGRESS = "COORDINATOR_LOAD_IN_PROGRESS"
    """The coordinator still loads its state."""
    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
    """The partition that the coordinator's state is in has no leader, or does not exist yet."""
    NOT_COORDINATOR = "NOT_COORDINATOR"
    """The broker does not coordinate this group or transactional id."""
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    """The group has no such member: it has left, or its session timed out."""
    FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
    """The group has dropped the member; it must join again."""
    STALE_MEMBER_EPOCH = "STALE_MEMBER_EPOCH"
    """The request names a member epoch that a later one has replaced."""
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    """Another process has taken over the `group_instance_id`."""
    UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
    """Another process with this `group_instance_id` is still a member."""
    UNSUPPORTED_ASSIGNOR = "UNSUPPORTED_ASSIGNOR"
    """The coordinator does not know the assignor."""
    INVALID_REGULAR_EXPRESSION = "INVALID_REGULAR_EXPRESSION"
    """The pattern of topics is not a valid regular expression."""
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    """The group has another generation than the member; it must join again."""
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    """The group rebalances; the member must join again."""
    INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
    """The group's members use another protocol."""
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"
    """The session time-out of a member is out of bounds."""
    INVALID_GROUP_ID = "INVALID_GROUP_ID"
    """The group's id is not allowed."""
    GROUP_MAX_SIZE_REACHED = "GROUP_MAX_SIZE_REACHED"
    """The group has as many members as it may have."""
    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
    """The group does not exist."""
    NON_EMPTY_GROUP = "NON_EMPTY_GROUP"
    """The group has members."""
    GROUP_SUBSCRIBED_TO_TOPIC = "GROUP_SUBSCRIBED_TO_TOPIC"
    """A member of the group reads the topic."""
    OFFSET_METADATA_TOO_LARGE = "OFFSET_METADATA_TOO_LARGE"
    """The text of a committed offset is longer than `group.offset_metadata_max_bytes`."""
    UNSTABLE_OFFSET_COMMIT = "UNSTABLE_OFFSET_COMMIT"
    """An open transaction has committed an offset of the partition; its end decides."""


HTTP_STATUS: dict[ErrorCode, int] = {
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
    ErrorCode.TLS_REQUIRED: 426,
    ErrorCode.AUTHENTICATION_FAILED: 401,
    ErrorCode.AUTHORIZATION_FAILED: 403,
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
    ErrorCode.ILLEGAL_GENERATION: 409,
    ErrorCode.REBALANCE_IN_PROGRESS: 503,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: 409,
    ErrorCode.INVALID_SESSION_TIMEOUT: 400,
    ErrorCode.INVALID_GROUP_ID: 400,
    ErrorCode.GROUP_MAX_SIZE_REACHED: 409,
    ErrorCode.GROUP_ID_NOT_FOUND: 404,
    ErrorCode.NON_EMPTY_GROUP: 409,
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: 409,
    ErrorCode.OFFSET_METADATA_TOO_LARGE: 400,
    ErrorCode.UNSTABLE_OFFSET_COMMIT: 503,
}
