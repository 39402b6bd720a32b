"""The rules of transactions, each broken once: the scenario that is named with it must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from transaction_stories import play_transactions

from raftlog.coordinator.transaction import core, transitions
from raftlog.coordinator.transaction.state import Transactions
from raftlog.errors import RaftlogError
from raftlog.partition.readable_replica import ReadableReplica
from raftlog.partition.replica import Replica
from simulation.cluster import simulate
from simulation.cluster.watch import BrokenPromiseError


def late_requests_are_believed() -> Any:
    """The coordinator does not check the epoch of a request."""
    real = transitions.require_producer

    def gullible(state: Transactions, name: str, producer_id: int, epoch: int) -> Any:
        return state.by_id.get(name) or real(state, name, producer_id, epoch)

    return mock.patch.object(core, "require_producer", gullible)


def leaders_do_not_ask() -> Any:
    """A partition accepts a transaction's first batch without asking its coordinator."""

    async def hasty(*_: Any) -> None:
        return None

    return mock.patch.object(Replica, "_admit", hasty)


def epochs_stay() -> Any:
    """The next transaction uses the epoch of the one before, as before KIP-890."""
    real = transitions.prepare_end

    def lazy(known: Any, *arguments: Any, **how: Any) -> Any:
        return replace(real(known, *arguments, **how), producer_epoch=known.producer_epoch)

    return mock.patch.object(core, "prepare_end", lazy)


MUTANTS: dict[str, tuple[Callable[[], Any], str]] = {
    "late requests are believed": (
        late_requests_are_believed,
        "scenario_11_an_end_that_comes_late_does_not_touch_the_next_transaction",
    ),
    "leaders do not ask": (leaders_do_not_ask, "scenario_11_a_batch_that_comes_late_is_not_left_hanging"),
    "epochs stay": (epochs_stay, "scenario_11_a_marker_that_comes_late_does_not_touch_the_next_transaction"),
}


def play_broken(name: str, folder: Path) -> bool:
    """Play the scenario with a rule broken; return whether it passed all the same."""
    broken, scenario = MUTANTS[name]
    with broken():
        try:
            play_transactions(scenario, 0, folder)
        except (AssertionError, RaftlogError, BrokenPromiseError):
            return False
    return True


def undecided_records_are_shown() -> Any:
    """Readers of committed records get all replicated records."""
    shown = property(lambda replica: replica.high_watermark)
    return mock.patch.object(ReadableReplica, "last_stable_offset", shown)


def play_seed_with_undecided_records_shown(seed: int, folder: Path) -> str:
    """Run a seed with that rule broken; return what it broke."""
    with undecided_records_are_shown():
        try:
            simulate(seed, folder)
        except BrokenPromiseError as broken:
            return str(broken)
    return ""
