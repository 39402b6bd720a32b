"""Every error of raftlog has a number of Kafka's, whatever the request is about."""

from __future__ import annotations

from typing import get_args

import pytest

from raftlog import errors
from raftlog.broker.kafka import consumer_groups_api, fetch_api
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.errors import AuthenticationError, AuthorizationError, ErrorCode, RaftlogError, RetriableError
from raftlog.model import AclResource
from raftlog.wire.errors import WireError
from raftlog.wire.kafka.error_codes import KafkaError


def subclasses(of: type[RaftlogError]) -> set[type[RaftlogError]]:
    return {of, *(below for each in of.__subclasses__() for below in subclasses(each))}


@pytest.mark.parametrize("resource", get_args(AclResource))
def test_every_error_and_every_code_has_a_number(resource: AclResource) -> None:
    classes = subclasses(RaftlogError)
    assert {name for name in errors.__all__ if name.endswith("Error")} <= {each.__name__ for each in classes}
    for each in classes:
        error = each.__new__(each)
        RaftlogError.__init__(error, "it failed")  # Some have parameters of their own.
        number = error_number(error, resource)
        assert number != 0
        KafkaError(number)
    for code in ErrorCode:
        assert error_number(RaftlogError("it failed", code=code), resource) in [one.value for one in KafkaError]


def test_no_error_is_zero() -> None:
    assert error_number(None) == 0


@pytest.mark.parametrize("kind", [AuthorizationError, AuthenticationError])
def test_a_refusal_by_rules_names_the_kind_of_resource(kind: type[RaftlogError]) -> None:
    numbers = {resource: error_number(kind("no"), resource) for resource in get_args(AclResource)}
    assert numbers["topic"] == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert numbers["group"] == KafkaError.GROUP_AUTHORIZATION_FAILED
    assert numbers["transactional_id"] == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert numbers["cluster"] == KafkaError.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("code", "in_fetch", "in_heartbeat"),
    [
        (ErrorCode.BROKER_NOT_AVAILABLE, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_OR_FOLLOWER, KafkaError.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.THROTTLING_QUOTA_EXCEEDED, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, None, KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_COORDINATOR, None, KafkaError.NOT_COORDINATOR),
    ],
)
def test_consumers_and_members_get_only_retriable_errors_that_they_know(
    code: ErrorCode, in_fetch: KafkaError | None, in_heartbeat: KafkaError
) -> None:
    """Java's consumer ends at another error of Fetch, by an IllegalStateException, and a member of KIP-848 for good."""
    error = RetriableError("again", code=code)
    if in_fetch is not None:
        assert fetch_api._for_consumer(error_number(error, "topic")) == in_fetch
    assert consumer_groups_api._number(error) == in_heartbeat


def test_an_error_within_a_response_has_the_same_number() -> None:
    known = WireError(code="OFFSET_OUT_OF_RANGE", message="")
    assert error_number(known) == KafkaError.OFFSET_OUT_OF_RANGE
    assert error_number(WireError(code="FROM_A_NEWER_BROKER", message="")) == KafkaError.UNKNOWN_SERVER_ERROR
