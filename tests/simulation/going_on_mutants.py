"""Background work that ends, or is kept waiting, after an unexpected exception: no seed runs out of memory."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.broker.groups import GroupService
from raftlog.partition import log_maintenance
from raftlog.partition.damage import DamageTracker
from raftlog.partition.group_commit import GroupCommit
from raftlog.partition.log_maintenance import LogMaintenance
from raftlog.partition.scrubber import Scrubber
from raftlog.runtime import Tasks
from raftlog.serving.loop_turns import _FewEvents

GOING_ON = "tests/partition/test_loops_that_go_on.py"


@mutant
@told_by(GOING_ON)
def a_loop_that_failed_does_not_begin_again(patch: Any) -> None:
    patch.edit(Tasks._again_and_again, "await asyncio.sleep(RESTART_S)", "return None")


@mutant
@told_by(GOING_ON)
def damage_is_forgotten_if_its_report_fails(patch: Any) -> None:
    patch.edit(DamageTracker.run, "await self._found.wait()", "await self._found.wait(); self._found.clear()")


@mutant
@told_by(GOING_ON)
def one_log_keeps_others_from_their_retention(patch: Any) -> None:
    patch.edit(LogMaintenance.retain_regularly, "except Exception", "except OSError")


@mutant
@told_by(GOING_ON)
def one_log_keeps_others_from_their_checkpoints(patch: Any) -> None:
    patch.edit(log_maintenance._plan_checkpoint, "except Exception", "except OSError")


@mutant
@told_by(GOING_ON)
def one_log_keeps_others_unchecked(patch: Any) -> None:
    patch.edit(Scrubber._check, "except Exception", "except OSError")


@mutant
@told_by(GOING_ON)
def records_wait_for_the_next_append_if_there_was_no_thread(patch: Any) -> None:
    patch.edit(GroupCommit._run, "except Exception", "except ZeroDivisionError")


@mutant
@told_by("tests/broker/test_broker_limits.py")
def a_coordinator_decides_with_the_topics_of_before(patch: Any) -> None:
    patch.edit(GroupService.know_topics, "self._topics.of(image)", "self._topics")


@mutant
@told_by("tests/serving/test_loop_turns.py")
def one_turn_serves_every_socket(patch: Any) -> None:
    patch.edit(_FewEvents.poll, "min(most, MOST_EVENTS)", "most")
