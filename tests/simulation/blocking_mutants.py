"""The rules of the blocking client's threads. No simulated cluster runs them: tests of their own find each."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.blocking import consumer_facade, exits, facade, outbox, stepping

# Iteration.


@mutant
@told_by("tests/client/test_blocking_pauses.py")
def a_commit_in_the_background_is_a_call_that_takes_long(patch: Any) -> None:
    """The iteration goes on, and gets each record from the loop's thread."""
    patch.edit(consumer_facade.ConsumerFacade._begin_soon, "self._steps.end_other(other)", "pass")


@mutant
@told_by("tests/client/test_blocking_pauses.py")
def an_iteration_spins_during_another_call(patch: Any) -> None:
    patch.edit(stepping.SteppedConsumer.prepare, "if steps.has_others", "if False")


# Exits in callbacks.


@mutant
@told_by("tests/client/test_blocking_exits.py")
def an_exit_in_a_callback_ends_the_loop(patch: Any) -> None:
    patch(exits, "run_until_stopped", lambda loop: loop.run_forever())


@mutant
@told_by("tests/client/test_blocking_exits.py")
def an_exit_makes_the_loop_forget_that_it_was_stopped(patch: Any) -> None:
    patch(exits, "stop", lambda loop: (loop.stop(), loop.call_soon(exits._stopped.add, loop)))


@mutant
@told_by("tests/client/test_outbox.py")
def an_exit_in_a_records_callback_ends_the_queue(patch: Any) -> None:
    patch.edit(outbox.Outbox._settle, "log_exit(error)", "raise")


@mutant
@told_by("tests/client/test_blocking_callbacks.py")
def an_exit_in_a_groups_callback_reaches_the_caller_as_another_error(patch: Any) -> None:
    patch(exits, "ExitError", lambda error: RuntimeError(repr(error)))


@mutant
@told_by("tests/client/test_blocking_exits.py")
def a_client_whose_thread_has_ended_keeps_others_from_closing_at_exit(patch: Any) -> None:
    patch.edit(facade.Facade._begin_exit, "if not self._thread.is_alive()", "if False")
