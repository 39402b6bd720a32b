"""The rules of a coordinator's ticks: what is examined when, how much becomes a batch, and when the next tick comes."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.coordinator.group import classic_leaving, time_outs
from raftlog.coordinator.group.classic_state import ClassicTimes
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.runtime.runtime import CoordinatorRuntime
from raftlog.coordinator.runtime.shard import Shard

TICKS = "tests/coordinator/test_ticks.py"
CLASSIC_REBALANCES = "tests/coordinator/test_classic_rebalances.py"
CLASSIC_HISTORIES = "tests/coordinator/test_classic_histories.py"


@mutant
@told_by(TICKS)
def a_tick_decides_for_all_groups_that_are_due(patch: Any) -> None:
    """The log refuses a batch that is too large, at each tick again."""
    patch.edit(time_outs.time_outs, "len(batch) >= ENOUGH_RECORDS or size >= ENOUGH_BYTES or ", "")


@mutant
@told_by(TICKS)
def a_tick_decides_for_many_groups_with_long_records(patch: Any) -> None:
    patch.edit(time_outs.time_outs, "size >= ENOUGH_BYTES or ", "")


@mutant
@told_by(TICKS)
def a_group_as_large_as_a_batch_goes_with_others(patch: Any) -> None:
    patch.edit(time_outs.time_outs, "and size > MAX_BYTES", "and False")


@mutant
@told_by(TICKS)
def a_group_whose_records_are_refused_stays_the_first(patch: Any) -> None:
    patch.edit(time_outs.time_outs, "due_ms = now_ms  #", "due_ms = check[0] - 1  #")


@mutant
@told_by(TICKS)
def a_group_whose_records_are_refused_is_forgotten(patch: Any) -> None:
    patch.edit(time_outs.time_outs, "due_ms = now_ms  #", "pass  #")


@mutant
@told_by(TICKS)
def a_tick_expels_all_members_of_a_group(patch: Any) -> None:
    patch.edit(time_outs._examine, "islice(silent, MAX_EXPELLED)", "silent")


@mutant
@told_by(TICKS)
def a_tick_that_the_log_refuses_comes_again_soon(patch: Any) -> None:
    refused = "self._tick_refused = True\n        return "
    patch.edit(Shard.tick, f"{refused}False", f"{refused}True")


@mutant
@told_by(TICKS)
def the_rest_waits_for_the_usual_tick(patch: Any) -> None:
    patch.edit(CoordinatorRuntime._tick, "SOON_MS if is_behind else TICK_MS", "TICK_MS")


@mutant
@told_by(TICKS)
def each_tick_examines_each_classic_group(patch: Any) -> None:
    patch.edit(classic_leaving.examine_classic, "return [], due_ms", "return [], now.monotonic_ms + 1")


@mutant
@told_by(CLASSIC_REBALANCES, CLASSIC_HISTORIES)
def the_end_of_a_round_is_not_checked(patch: Any) -> None:
    patch.edit(ClassicTimes.due_ms, "return min(due_ms, self.deadline_ms)\n    if", "return due_ms\n    if")


@mutant
@told_by(TICKS)
def the_session_of_a_member_that_left_stays(patch: Any) -> None:
    patch.edit(GroupsState.replay, "self.checks.soon((group_id, record.key[1]))", "pass")


@mutant
@told_by(TICKS)
def a_session_that_begins_is_not_checked(patch: Any) -> None:
    patch.edit(GroupsState.hurry_session, "self.checks.by((group_id, member_id), session.due_ms)", "pass")
    patch.edit(GroupsState.begin_session, "self.checks.soon(key)", "pass")


@mutant
@told_by("tests/coordinator/test_classic_joining.py")
def a_round_waits_for_a_promise_that_has_expired(patch: Any) -> None:
    patch.edit(time_outs.time_outs, "checks.soon((group_id, None))", "pass")
