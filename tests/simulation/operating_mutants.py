"""The rules of what operators do: stops, new controllers, elections by command, defaults. No seed draws them."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.broker.lifecycle import BrokerLifecycle
from raftlog.broker.listener import Listener
from raftlog.config import topic
from raftlog.metadata_quorum.active_controller import Controller
from raftlog.metadata_quorum.controller import cluster_settings, leadership, reassignment, topics
from raftlog.metadata_quorum.decision_writer import DecisionWriter
from raftlog.metadata_quorum.quorum import PySyncObjQuorum
from raftlog.metadata_quorum.raft import engine
from raftlog.metadata_quorum.raft.journal import RaftJournal
from raftlog.metadata_quorum.raft.snapshots import Snapshots
from raftlog.metadata_quorum.sessions import Sessions
from raftlog.partition.damaged_logs import DamagedClosedLog
from raftlog.partition.log_maintenance import LogMaintenance
from raftlog.partition.repair_manager import RepairManager
from raftlog.partition.replica import Replica
from raftlog.partition.storage import data_dir
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.epochs import EpochTable
from raftlog.partition.storage.log_files import LogFiles

LIFECYCLE = "tests/metadata_quorum/test_broker_lifecycle.py"
SNAPSHOTS = "tests/metadata_quorum/raft/test_snapshots.py"
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


@mutant
@told_by("tests/metadata_quorum/test_controller_decisions.py")
def a_broker_that_restarts_gets_no_replicas(patch: Any) -> None:
    patch.edit(topics._new_partitions, "if each[0] not in active", "if False")


@mutant
@told_by("tests/metadata_quorum/test_admin_decisions.py")
def a_feature_level_may_end_controllers(patch: Any) -> None:
    patch.edit(cluster_settings.decide_features, "highest < level", "False")


@mutant
@told_by("tests/partition/storage/test_log_disk_errors.py")
def a_log_that_starts_over_does_not_say_so(patch: Any) -> None:
    patch.edit(Checkpoint.save, "if not self.restarts", "if True")


@mutant
@told_by("tests/partition/storage/test_log_disk_errors.py")
def a_log_that_has_started_over_would_start_over_again(patch: Any) -> None:
    patch.edit(LogFiles._begin, "if self._checkpoint.restarts", "if False")


@mutant
@told_by("tests/partition/storage/test_retention.py")
def retention_goes_on_without_a_leader(patch: Any) -> None:
    patch.edit(LogMaintenance.retain_regularly, "replica.state.leader == NO_LEADER", "False")


@mutant
@told_by("tests/broker/test_late_connections.py")
def connections_begin_after_their_listener_has_closed(patch: Any) -> None:
    patch.edit(Listener._remember, "if self._closing", "if False")


@mutant
@told_by("tests/partition/test_damage_with_syncs.py")
def a_leader_never_finishes_starting_over(patch: Any) -> None:
    patch.edit(Replica._append_stamped, "self.finish_starting_over()", "pass")


@mutant
@told_by("tests/partition/test_replica_manager_roles.py")
def a_log_without_room_to_be_opened_ends_consumers(patch: Any) -> None:
    patch.edit(RepairManager.error_for, "isinstance(error, DiskFullError)", "False")


@mutant
@told_by("tests/partition/test_replica_manager_roles.py")
def the_epoch_of_the_last_deleted_record_is_forgotten(patch: Any) -> None:
    """A follower that has everything starts over without its producers, and appends repeats (seed 14367)."""
    patch.edit(EpochTable.assign, "entry[1] < start_offset", "entry[1] + 1 < start_offset")


@mutant
@told_by("tests/partition/test_repair.py")
def damage_among_deleted_records_keeps_a_log_closed(patch: Any) -> None:
    """Seed 14718."""
    patch(DamagedClosedLog, "drop_deleted", lambda *_: False)


@mutant
@told_by(LIFECYCLE)
def brokers_follow_controllers_that_have_less_metadata(patch: Any) -> None:
    patch.edit(BrokerLifecycle._register, " or response.metadata_offset < applied", "")


@mutant
@told_by("tests/metadata_quorum/test_grouped_decisions.py")
def reads_that_follow_each_other_keep_changes_from_being_decided(patch: Any) -> None:
    patch.edit(DecisionWriter._confirm, "urgent=not self._waiting", "urgent=True")


@mutant
@told_by("tests/metadata_quorum/test_active_controller.py")
def a_controller_that_was_blocked_fences_those_whom_it_did_not_hear(patch: Any) -> None:
    patch(Sessions, "extend", lambda *_: None)


@mutant
@told_by(SNAPSHOTS)
def what_a_full_disk_took_of_a_snapshot_stays(patch: Any) -> None:
    patch.edit(Snapshots._replace, "temporary.unlink(missing_ok=True)", "pass")


@mutant
@told_by("tests/metadata_quorum/raft/test_raft_journal.py")
def what_a_full_disk_took_of_a_journal_stays(patch: Any) -> None:
    patch.edit(RaftJournal._rewrite, "temporary.unlink(missing_ok=True)", "pass")


@mutant
@told_by(SNAPSHOTS)
def what_a_process_left_unfinished_fills_the_disk(patch: Any) -> None:
    patch.edit(engine._open_journal, "unfinished.unlink(missing_ok=True)", "pass")


@mutant
@told_by("tests/metadata_quorum/raft/test_raft_quorum.py")
def the_level_of_a_silent_voter_counts(patch: Any) -> None:
    patch.edit(PySyncObjQuorum.status, "if now - last_response <= UNREACHABLE_S else 0", "")
