"""Kafka's error numbers of raftlog's errors, where the number depends on what the request was about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from raftlog.errors import ErrorCode, RaftlogError
from raftlog.model import AclResource
from raftlog.wire.errors import WireError
from raftlog.wire.kafka.error_codes import KafkaError, number_of

_DENIED: Final[Mapping[AclResource, KafkaError]] = {
    "topic": KafkaError.TOPIC_AUTHORIZATION_FAILED,
    "group": KafkaError.GROUP_AUTHORIZATION_FAILED,
    "transactional_id": KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "cluster": KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    "user": KafkaError.CLUSTER_AUTHORIZATION_FAILED,
}
OF_COORDINATORS: Final[Mapping[int, KafkaError]] = {
    KafkaError.THROTTLING_QUOTA_EXCEEDED: KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.KAFKA_STORAGE_ERROR: KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_ENOUGH_REPLICAS: KafkaError.COORDINATOR_NOT_AVAILABLE,
}
"""Kafka's coordinators translate errors of their log, too."""
_ACCESS: Final = (ErrorCode.AUTHORIZATION_FAILED, ErrorCode.AUTHENTICATION_FAILED)


def error_number(error: RaftlogError | WireError | None, resource: AclResource = "cluster") -> int:
    """Return Kafka's number of an error; 0 for None.

    Args:
        resource: what the request, or one entry of it, is about. A refusal by access rules has a number for each kind.
            A sender without credentials gets the same one: SASL_AUTHENTICATION_FAILED is only for SASL.
    """
    if error is None:
        return KafkaError.NONE
    code = error.code if isinstance(error, RaftlogError) else _code_of(error.code)
    return _DENIED[resource].value if code in _ACCESS else number_of(code)


def coordinator_number(error: RaftlogError | None) -> int:
    """Return the number of an error of a group's coordinator: clients end at one that they do not expect from it."""
    number = error_number(error, "group")
    return OF_COORDINATORS.get(number, number)


def _code_of(text: str) -> ErrorCode:
    """Return a code of another broker, which may be newer."""
    try:
        return ErrorCode(text)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def error_text(error: RaftlogError | WireError | None) -> str | None:
    """Return the text of an error, for versions that have a field for it."""
    return None if error is None else error.message
