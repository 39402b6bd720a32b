"""Transactions that end as one: stories of tasks, drivers and zombies, and random histories under a model."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transaction_support import Shard

from raftlog.wire.transactions import set_of


def under_way(shard: Shard, *names: str) -> dict[str, tuple[int, int]]:
    """Begin transactions, each in a partition of its own; return under which identities."""
    began = {}
    for number, name in enumerate(names):
        began[name] = shard.init(name)
        assert shard.join(began[name], number, name=name) == "joined"
    return began


def phases(shard: Shard) -> dict[str, str]:
    return {name: known.phase for name, known in sorted(shard.state.by_id.items())}


def test_what_is_listed_commits_and_everything_else_of_the_set_is_aborted():
    shard = Shard()
    under_way(shard, "s::0.0", "s::1.0", "s::1.1", "t", "t::0.0")
    assert shard.end_set("s::0.0", "s::1.1", number=4) == ("r", 4)
    assert phases(shard) == {
        "s::0.0": "committing", "s::1.0": "aborting", "s::1.1": "committing", "t": "ongoing", "t::0.0": "ongoing",
    }  # fmt: skip
    assert list(shard.state.ending) == ["s::0.0", "s::1.1", "s::1.0"]


def test_one_that_cannot_commit_keeps_all_of_them_from_it():
    shard = Shard()
    began = under_way(shard, "s::0", "s::1")
    shard.init("s::2")
    before = phases(shard)
    assert shard.end_set("s::0", "s::2") == "INVALID_TXN_STATE"
    assert shard.end_set("s::0", "s::9") == "INVALID_PRODUCER_ID_MAPPING"
    late = {"s::1": (began["s::1"][0], began["s::1"][1] - 1)}
    assert shard.end_set("s::0", "s::1", stale=late) == "INVALID_PRODUCER_EPOCH"
    assert phases(shard) == before
    shard.tick(1_000)
    assert shard.end_set("s::0", "s::1", stale=began) == "TRANSACTION_ABORTABLE"
    assert (shard.state.sets, set(phases(shard).values())) == ({}, {"aborting", "empty"})


def test_a_number_that_was_committed_is_not_committed_again():
    """A driver that dies after the commit has its batch done again by the next one."""
    shard = Shard()
    first = under_way(shard, "s::0")
    assert shard.end_set("s::0", number=7) == ("r", 7)
    assert shard.end_set("s::0", number=7, stale=first) == ("r", 7)
    shard.complete("s::0")
    shard.fail_over()

    under_way(shard, "s::0", "s::1")
    assert shard.end_set("s::0", "s::1", number=7) == ("r", 7)
    assert phases(shard) == {"s::0": "aborting", "s::1": "aborting"}
    shard.complete("s::0")
    shard.complete("s::1")
    under_way(shard, "s::0", "s::1")
    assert (shard.end_set("s::0", number=6), phases(shard)["s::0"]) == (("r", 7), "aborting")
    assert shard.end_set("s::1", stale={"s::1": (1, 1)}, number=8) == "INVALID_PRODUCER_ID_MAPPING"


def test_another_run_counts_anew():
    shard = Shard()
    under_way(shard, "s::0")
    shard.end_set("s::0", number=7)
    shard.complete("s::0")
    under_way(shard, "s::0")
    assert (shard.end_set("s::0", run="another", number=0), phases(shard)) == (("another", 0), {"s::0": "committing"})


def test_an_abort_ends_what_is_under_way_and_touches_nothing_that_was_decided():
    """Spark calls `abort` when `commit` raised, whatever had come of it."""
    shard = Shard()
    under_way(shard, "s::0")
    shard.end_set("s::0", number=7)
    under_way(shard, "s::1")
    assert (shard.end_set(number=7, committed=False), phases(shard)) == (
        ("r", 7), {"s::0": "committing", "s::1": "aborting"},
    )  # fmt: skip
    assert Shard().end_set(number=0, committed=False) == ("", -1)


def test_members_of_a_passing_set_are_forgotten_once_they_have_ended():
    shard = Shard()
    began = under_way(shard, "s::0", "s::1")
    shard.end_set("s::0", passing=True)
    for name in began:
        shard.complete(name)
    assert (phases(shard), shard.join(began["s::1"], 1, name="s::1")) == ({}, "INVALID_PRODUCER_ID_MAPPING")
    assert shard.end_set("s::0", stale=began) == ("r", 0)
    assert (shard.tick(100_000), shard.state.sets) == (1, {})


@pytest.mark.parametrize(("names", "number"), [(["t::0"], 0), (["s"], 0), (["s::0", "s::0"], 0), ([], -1)])
def test_members_and_numbers_that_are_not_allowed(names: list[str], number: int):
    assert Shard().end_set(*names, number=number) == "INVALID_REQUEST"


def test_all_of_a_set_go_where_it_goes():
    assert {set_of(name) for name in ("s", "s::", "s::0", "s::0::1")} == {"s"}
    assert set_of("a:b") == "a:b"


@dataclass
class History:
    """Two drivers do the same numbered batches with two tasks each; either may be a zombie at any time."""

    shard: Shard = field(default_factory=Shard)
    number: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    done: dict[int, dict[str, tuple[int, int]]] = field(default_factory=lambda: {0: {}, 1: {}})
    committed: dict[int, dict[str, tuple[int, int]]] = field(default_factory=dict)

    def task(self, driver: int, task: int) -> None:
        name = f"s::{task}"
        if isinstance(began := self.shard.init(name), tuple) and self.shard.join(began, task, name=name) == "joined":
            self.done[driver][name] = began

    def commit(self, driver: int, _: int) -> None:
        if len(self.done[driver]) < 2:
            return
        number, before = self.number[driver], self.shard.state.sets.get("s")
        answer = self.shard.end_set(*self.done[driver], number=number, stale=self.done[driver])
        if isinstance(answer, str):
            return
        assert answer >= ("r", number)
        if before is None or before.number < number:
            assert number not in self.committed, "a number was committed twice"
            self.committed[number] = dict(self.done[driver])
        self.number[driver], self.done[driver] = answer[1] + 1, {}

    def abort(self, driver: int, _: int) -> None:
        self.shard.end_set(number=self.number[driver], committed=False)
        self.done[driver] = {}

    def complete(self, _: int, __: int) -> None:
        for name in list(self.shard.state.ending):
            known = self.shard.state.by_id[name]
            mine = (known.marker_id, known.marker_epoch - 1)
            winners = [members for members in self.committed.values() if members.get(name) == mine]
            assert bool(winners) == (known.phase == "committing"), "part of a batch counts"
            self.shard.complete(name)


STEPS = {
    "task": History.task,
    "commit": History.commit,
    "abort": History.abort,
    "complete": History.complete,
    "tick": lambda history, *_: history.shard.tick(400),
    "fail over": lambda history, *_: history.shard.fail_over(),
}


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 1), st.integers(0, 1)), max_size=60))
def test_no_history_commits_a_number_twice_or_a_part_of_one(steps: list[tuple[str, int, int]]):
    history = History()
    for kind, driver, task in steps:
        STEPS[kind](history, driver, task)
