"""What clients are told, what is remembered of them, and what is noted: no seed looks at it."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.broker import quota_middleware
from raftlog.broker.kafka import audit as kafka_audit
from raftlog.broker.kafka import error_numbers, group_offsets_api, groups_api
from raftlog.coordinator.group import classic_views
from raftlog.partition import consumer_fetch
from raftlog.security import audit, audited_changes
from raftlog.security.authenticators import Authenticators
from raftlog.security.authorizer import Authorizer
from raftlog.serving.admission import Admission

GROUP_VERSIONS = "tests/broker/kafka/test_kafka_group_versions.py"
AUDIT = "tests/security/test_audit.py"
AUTHENTICATORS = "tests/security/test_authenticators.py"


@mutant
@told_by(GROUP_VERSIONS)
def a_heartbeat_is_told_that_its_group_is_loaded(patch: Any) -> None:
    """aiokafka ends at it."""
    patch.edit(groups_api.handle_heartbeat, "KafkaError.NONE if is_loading else number", "number")


@mutant
@told_by(GROUP_VERSIONS)
def a_sync_is_told_that_its_group_is_loaded(patch: Any) -> None:
    patch.edit(groups_api.handle_sync_group, "KafkaError.REBALANCE_IN_PROGRESS if is_loading else number", "number")


@mutant
@told_by(GROUP_VERSIONS)
def a_coordinators_full_disk_ends_old_consumers(patch: Any) -> None:
    patch.edit(group_offsets_api._fetch_number, "KafkaError.NOT_COORDINATOR if is_unexpected else number", "number")


@mutant
@told_by(GROUP_VERSIONS)
def errors_of_a_coordinators_log_are_passed_on(patch: Any) -> None:
    patch.edit(error_numbers.coordinator_number, "OF_COORDINATORS.get(number, number)", "number")


@mutant
@told_by(GROUP_VERSIONS)
def an_error_is_in_no_partition(patch: Any) -> None:
    """aiokafka takes it for a group without offsets, and skips records."""
    patch.edit(
        group_offsets_api.handle_offset_fetch, "    if error:", "    if error and call.api_version < _TOP_ERROR:"
    )


@mutant
@told_by(GROUP_VERSIONS)
def slow_readers_keep_members_from_their_offsets(patch: Any) -> None:
    patch.edit(group_offsets_api._found, "size > _COUNTED_BYTES or", "True or")


@mutant
@told_by("tests/coordinator/test_classic_offsets.py")
def a_transaction_ends_at_a_rebalance(patch: Any) -> None:
    patch.edit(classic_views.require_classic_committer, " and not in_transaction", "")


@mutant
@told_by("tests/partition/test_consumer_and_replica_fetch.py")
def a_fetch_without_memory_sleeps(patch: Any) -> None:
    patch.edit(consumer_fetch.serve_fetch, "if space is not None and not most:", "if False:")


@mutant
@told_by(AUTHENTICATORS)
def a_replaced_password_counts_if_its_check_had_begun(patch: Any) -> None:
    patch.edit(Authenticators._check_password, "(key, credential)", "key")


@mutant
@told_by(AUTHENTICATORS)
def each_spelling_of_credentials_is_remembered(patch: Any) -> None:
    patch.edit(Authenticators._identify, 'f"{scheme} {text}"', "authorization")


@mutant
@told_by(AUDIT)
def each_failure_is_a_line_of_the_audit_log(patch: Any) -> None:
    patch.edit(audited_changes._may_have_effect, 'return outcome == "allowed" or', "return True or")


@mutant
@told_by("tests/broker/kafka/test_kafka_access.py")
def each_failure_of_a_kafka_client_is_a_line_of_the_audit_log(patch: Any) -> None:
    patch.edit(kafka_audit.audited, "has_effect=has_effect", "has_effect=True")


@mutant
@told_by(AUDIT)
def a_reset_vanishes_behind_one_of_another_topic(patch: Any) -> None:
    patch.edit(audit.AuditTrail.changed, "(*key, _topics(command))", "key")


@mutant
@told_by(AUDIT)
def one_principal_takes_the_room_of_all_uses(patch: Any) -> None:
    patch.edit(audit._Uses.add, " and self.topics[principal] < MAX_USES_OF_ONE", "")


@mutant
@told_by("tests/security/test_authorizer.py")
def a_deny_rule_with_another_spelling_of_an_address_denies_nothing(patch: Any) -> None:
    patch.edit(Authorizer._add, "canonical_host(acl.host) or acl.host", "acl.host")


@mutant
@told_by("tests/broker/kafka/test_kafka_access.py")
def logins_share_a_quota(patch: Any) -> None:
    patch.edit(quota_middleware._is_unlimited, " or request.get(OPEN, False)", "")


@mutant
@told_by("tests/serving/test_lost_answers.py")
def a_change_whose_answer_is_lost_was_not_made(patch: Any) -> None:
    patch.edit(Admission._hold_answer, "if request.method in _READS:", "if True:")
