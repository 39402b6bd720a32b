"""The rules of a broker whose disk fails, or that ends: its clients go on with another broker."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from mutating import mutant, told_by

from raftlog.partition import readable_replica
from raftlog.partition.readable_replica import ReadableReplica
from raftlog.partition.repair_manager import RepairManager
from raftlog.partition.replica import Replica
from raftlog.serving.connections import AiohttpHandler

ANSWERS = "tests/partition/test_offline_answers.py"
FULL = "tests/partition/test_full_disk.py"
DAMAGED_IN_USE = "tests/partition/test_damaged_in_use.py"


@mutant
def a_producer_loses_what_a_failed_disk_refuses(patch: Any) -> None:
    """Although another broker leads soon."""
    patch.edit(Replica._append_stamped, "except DiskFullError:", "except StorageError:")


@mutant
@told_by(FULL)
def a_partial_write_that_stays_passes_for_none(patch: Any) -> None:
    patch.edit(Replica._append_stamped, "self.log.failure is not failed_before", "False")


@mutant
@told_by(ANSWERS)
def a_log_that_a_failed_disk_keeps_closed_ends_its_readers(patch: Any) -> None:
    patch.edit(RepairManager.error_for, "not isinstance(error, DamagedDataError)", "False")


@mutant
@told_by(ANSWERS)
def a_damaged_log_ends_its_readers_while_another_replica_is_in_sync(patch: Any) -> None:
    patch.edit(RepairManager.error_for, "len(assignment.state.isr) > 1", "False")


@mutant
@told_by(ANSWERS)
def readers_wait_for_a_log_that_only_an_operator_can_restore(patch: Any) -> None:
    patch.edit(RepairManager.error_for, "len(assignment.state.isr) > 1", "True")


@mutant
@told_by(DAMAGED_IN_USE)
def a_broker_without_a_descriptor_ends_its_readers(patch: Any) -> None:
    patch.edit(ReadableReplica.find_verified, "raise _unreadable(", "raise StorageError(")


@mutant
@told_by(DAMAGED_IN_USE)
def batches_that_were_truncated_since_end_their_reader(patch: Any) -> None:
    patch.edit(readable_replica.in_memory, "raise _unreadable(", "raise StorageError(")


@mutant
@told_by("tests/serving/test_aiohttp_connections.py")
def a_closing_server_reports_what_it_no_longer_waits_for(patch: Any) -> None:
    patch(AiohttpHandler, "_handle_request", web.RequestHandler._handle_request)
