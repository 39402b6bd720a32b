"""The rules of a client's commits and transactions whose answers are late, are none, or are a proxy's page."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.blocking import outbox
from raftlog.blocking.consumer_facade import ConsumerFacade
from raftlog.blocking.producer import Producer
from raftlog.client import coordinator_link, transactions
from raftlog.client.delivery import Delivery, SharedHandle
from raftlog.client.fetching import Fetcher
from raftlog.client.group_commits import GroupCommits
from raftlog.client.group_member import GroupMember
from raftlog.client.transactions import TransactionManager
from raftlog.coordinator.transaction import transitions

TURNS = "tests/client/test_turns_of_commits.py"
DOUBTFUL = "tests/client/test_doubtful_commits.py"
CANCELLED = "tests/client/test_cancelled_commits.py"
MEMBER = "tests/client/test_group_member.py"
OUTBOX = "tests/client/test_outbox.py"
EXPIRED = "tests/coordinator/test_transaction_core.py::test_a_refusal_says_whether_nobody_has_the_id_any_more"


# The commits of a member.


@mutant
@told_by(TURNS)
def a_commit_overtakes_those_in_the_background(patch: Any) -> None:
    patch.edit(GroupCommits._come, "await commit.turn", "pass")


@mutant
@told_by(TURNS)
def a_cancelled_commit_keeps_its_turn(patch: Any) -> None:
    patch.edit(GroupCommits._spawn, "task.add_done_callback(lambda _: self._turns.end(commit.turn))", "pass")


@mutant
@told_by(TURNS)
def a_close_overtakes_the_automatic_commit(patch: Any) -> None:
    patch.edit(GroupCommits.finish, "self._soon | automatic", "self._soon")


@mutant
@told_by(TURNS)
def what_was_committed_counts_while_a_commit_may_move_it_back(patch: Any) -> None:
    patch.edit(GroupCommits._queue, "self._committed.pop(partition, None)", "pass")


@mutant
@told_by(TURNS)
def the_answer_of_an_earlier_commit_counts_while_a_later_one_waits(patch: Any) -> None:
    patch.edit(GroupCommits._attempt, "if self._turns.is_last(commit.turn)", "if True")


@mutant
@told_by(TURNS)
def the_time_of_a_commit_counts_from_its_turn(patch: Any) -> None:
    patch.edit(GroupCommits._come, "asyncio.timeout_at(commit.deadline)", "asyncio.timeout_at(None)")
    patch.edit(GroupCommits._ask, "commit.deadline,", "asyncio.get_running_loop().time() + self._timeout_s,")


@mutant
@told_by(TURNS)
def a_commit_that_nobody_awaits_fails_in_silence(patch: Any) -> None:
    patch.edit(GroupCommits._loudly, "if not self._soon_failed", "if False")


@mutant
@told_by(TURNS)
def each_failure_of_commits_that_nobody_awaits_is_logged(patch: Any) -> None:
    patch.edit(GroupCommits._loudly, "if not self._soon_failed", "if True")


@mutant
@told_by(TURNS)
def only_the_first_failure_of_commits_that_nobody_awaits_is_ever_logged(patch: Any) -> None:
    patch.edit(GroupCommits._loudly, "self._soon_failed = False", "pass")


# The ends of transactions.


@mutant
@told_by(DOUBTFUL)
def a_page_says_what_became_of_a_commit(patch: Any) -> None:
    patch.edit(TransactionManager._end, "distrusted=committed", "distrusted=False")


@mutant
@told_by(DOUBTFUL)
def an_internal_error_says_what_became_of_a_commit(patch: Any) -> None:
    patch.edit(coordinator_link._unknown, " or error.code is ErrorCode.UNKNOWN_SERVER_ERROR", "")


@mutant
@told_by(DOUBTFUL)
def a_refused_commit_counts_as_aborted_whatever_the_coordinator_says(patch: Any) -> None:
    patch.edit(TransactionManager._refused, 'if self._ended == "aborted"', "if True")


@mutant
@told_by(DOUBTFUL)
def a_producer_whose_id_has_expired_is_fenced(patch: Any) -> None:
    patch.edit(TransactionManager._ask, " and not _is_expired(error)", "")


@mutant
@told_by(DOUBTFUL)
def a_producer_whose_id_another_one_has_goes_on(patch: Any) -> None:
    patch.edit(transactions._is_expired, ' and bool(error.details.get("expired"))', "")


@mutant
@told_by(DOUBTFUL)
def a_leader_that_has_forgotten_an_expired_id_ends_the_producer(patch: Any) -> None:
    patch.edit(TransactionManager.explain, "if is_unknown and", "if False and")


@mutant
@told_by(DOUBTFUL)
def a_producer_keeps_the_identity_that_has_expired(patch: Any) -> None:
    patch.edit(TransactionManager._refused, 'self.state = "new"', 'self.state = "ready"')


@mutant
@told_by(EXPIRED)
def a_coordinator_does_not_say_that_an_id_has_expired(patch: Any) -> None:
    patch.edit(transitions.require_producer, '{"expired": True} if current is None else None', "None")


@mutant
@told_by(EXPIRED)
def a_coordinator_says_of_an_id_that_another_has_that_it_has_expired(patch: Any) -> None:
    patch.edit(transitions.require_producer, '{"expired": True} if current is None else None', '{"expired": True}')


@mutant
@told_by(CANCELLED)
def a_loop_repeats_a_transaction_whose_cancelled_commit_is_in_doubt(patch: Any) -> None:
    patch.edit(TransactionManager._in_doubt_error, "TransactionInDoubtError(", "UnknownOutcomeError(")


@mutant
@told_by(CANCELLED)
def the_next_transaction_begins_during_a_cancelled_abort(patch: Any) -> None:
    patch.edit(TransactionManager.begin, "await self._left()", "pass")


@mutant
@told_by(CANCELLED)
def an_id_is_taken_over_during_a_cancelled_abort(patch: Any) -> None:
    patch.edit(TransactionManager.init, "await self._left()", "pass")


@mutant
@told_by(CANCELLED)
def a_cancelled_abort_goes_on_as_long_as_nobody_answers(patch: Any) -> None:
    patch.edit(
        TransactionManager.leave, "asyncio.get_running_loop().call_later(self._hurry_s, self._aborting.cancel)", "pass"
    )


@mutant
@told_by(CANCELLED)
def an_abort_that_is_given_up_leaves_its_transaction_open(patch: Any) -> None:
    patch.edit(TransactionManager.abort, 'self.state = "new"', "pass")


@mutant
@told_by("tests/client/test_record_outcomes.py")
def a_delivery_that_was_cancelled_has_the_outcome_of_its_batch(patch: Any) -> None:
    patch.edit(SharedHandle._settle, "count == self.count and not self._cancelled", "count == self.count")


@mutant
@told_by("tests/client/test_record_outcomes.py")
def the_outcome_of_a_part_is_that_of_the_batch(patch: Any) -> None:
    patch.edit(SharedHandle._settle, "count == self.count and not", "not")


@mutant
@told_by(OUTBOX)
def a_transaction_commits_without_a_record_that_was_refused(patch: Any) -> None:
    patch.edit(
        outbox.Outbox._hand_over,
        "self._producer.was_not_sent(refusal)",
        "_ = is_full and self._producer.was_not_sent(refusal)",
    )


@mutant
@told_by("tests/client/test_odd_arguments.py")
def a_blocking_producer_accepts_a_record_for_no_topic(patch: Any) -> None:
    """The application learns of it from the outcome only, if it looks at that."""
    patch.edit(Producer.send_nowait, "require_topic_name(topic)", "pass")


# Members, fetches and errors.


@mutant
@told_by(MEMBER)
def a_page_ends_a_membership(patch: Any) -> None:
    patch.edit(GroupMember._on_error, " or isinstance(error, transport.PeerAnswerError)", "")


@mutant
@told_by("tests/client/test_fetching.py::test_a_page_in_place_of_records_is_no_error_and_no_busy_loop")
def a_page_ends_a_fetch(patch: Any) -> None:
    patch.edit(
        Fetcher._after_failure, "is_unreadable = isinstance(error, transport.PeerAnswerError)", "is_unreadable = False"
    )


@mutant
@told_by(MEMBER)
def a_join_that_is_cut_off_keeps_its_place(patch: Any) -> None:
    patch.edit(GroupMember._may_be_member.fget, ' or (self.membership.phase == "joining" and self._join_in_doubt)', "")


@mutant
@told_by(MEMBER)
def a_close_that_is_cancelled_does_not_leave_the_group(patch: Any) -> None:
    patch.edit(
        GroupMember.close,
        "self._end_keepalive, partial(self._leave_group, for_good=for_good))",
        "self._end_keepalive)\n        await self._leave_group(for_good=for_good)",
    )


@mutant
@told_by(MEMBER)
def a_join_that_was_refused_is_taken_back(patch: Any) -> None:
    """To close such a consumer would take as long as its coordinator is away."""
    patch.edit(GroupMember._may_be_member.fget, " and self._join_in_doubt", "")


@mutant
@told_by(MEMBER)
def the_error_of_a_membership_grows_each_time_it_is_raised(patch: Any) -> None:
    patch.edit(GroupMember.raise_failure, ".with_traceback(None)", "")


@mutant
@told_by(OUTBOX)
def the_error_of_a_batch_grows_with_its_records(patch: Any) -> None:
    patch.edit(Delivery.result, ".with_traceback(None)", "")


@mutant
@told_by(OUTBOX)
def the_records_of_a_blocking_producer_share_their_error(patch: Any) -> None:
    patch(outbox, "_own", lambda error: error)


@mutant
@told_by("tests/client/test_dropped_facades.py")
def a_rebalance_callback_holds_its_consumer(patch: Any) -> None:
    patch.edit(ConsumerFacade._apart, "inside.add(", "self._in_callbacks.add(")
