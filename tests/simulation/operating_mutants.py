"""The rules of what operators do: stops, new controllers, elections by command, defaults. No seed draws them."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.broker.lifecycle import BrokerLifecycle
from raftlog.config import topic
from raftlog.metadata_quorum.active_controller import Controller
from raftlog.metadata_quorum.controller import leadership, reassignment
from raftlog.partition.storage import data_dir

LIFECYCLE = "tests/metadata_quorum/test_broker_lifecycle.py"
ELECTIONS = "tests/metadata_quorum/test_elections.py"


@mutant
@told_by("tests/metadata_quorum/test_active_controller.py")
def a_node_that_stops_fences_those_whom_it_does_not_hear(patch: Any) -> None:
    async def goes_on(_: Controller) -> None:
        return None

    patch(Controller, "stop_fencing", goes_on)


@mutant
@told_by(LIFECYCLE)
def brokers_follow_controllers_that_have_started_over(patch: Any) -> None:
    patch.edit(BrokerLifecycle._register, "response.broker_epoch < self._data_dir.broker_epoch", "False")


@mutant
@told_by(LIFECYCLE)
def a_broker_that_was_replaced_waits_for_a_controller(patch: Any) -> None:
    patch.edit(BrokerLifecycle._give_up, "self._may_stop.set()", "pass")


@mutant
@told_by("tests/partition/storage/test_log_dirs.py")
def folders_have_the_whole_name_of_their_topic(patch: Any) -> None:
    patch(data_dir, "MAX_SHOWN", 1_000)


@mutant
@told_by("tests/config/test_config.py")
def internal_topics_take_every_default(patch: Any) -> None:
    patch.edit(topic.topic_config, "if topic in INTERNAL_TOPICS", "if False")


@mutant
@told_by(ELECTIONS)
def an_unclean_election_may_choose_a_log_that_cannot_be_opened(patch: Any) -> None:
    patch.edit(leadership._elect_unclean, "broker not in eligible and ", "")


@mutant
@told_by(ELECTIONS)
def a_move_to_a_replica_that_is_elected_uncleanly_never_ends(patch: Any) -> None:
    patch(leadership, "with_reassignment_completed", lambda _, __, ___, after: after)


@mutant
@told_by(ELECTIONS)
def a_move_without_a_replica_in_sync_cannot_be_cancelled(patch: Any) -> None:
    patch.edit(reassignment._cancel, "if state.isr or state.elr", "if True")
