"""The rules of unclean elections' costs: only worlds that have such elections show them."""

from __future__ import annotations

from typing import Any

from mutating import mutant

from raftlog.metadata_quorum.controller import elections
from raftlog.partition import consumer_fetch


@mutant
def a_topic_that_may_elect_anybody_always_does(patch: Any) -> None:
    """Even if a replica in sync is alive."""
    patch.edit(
        elections.with_new_leader,
        "leader = choose_leader(state, may_lead)",
        "leader = NO_LEADER if settings(topic).unclean_leader_election_enable else choose_leader(state, may_lead)",
    )


@mutant
def readers_are_not_told_that_their_log_was_cut(patch: Any) -> None:
    """KIP-320: they continue in the log of another history."""
    patch(consumer_fetch, "_diverging", lambda replica, asked: None)
