"""Voters that start without a journal: a new cluster, and one whose disk was replaced."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from quorum_support import Cluster

from raftlog.metadata_quorum.quorum_interface import VoterState
from raftlog.metadata_quorum.raft.rejoin import Rejoin, Standing
from simulation.world import World

Ports = Callable[[int], list[int]]


class Log(list[tuple[bytes, int, int]]):
    standing: str = Standing.BLANK


class Named:
    def __init__(self, name: str) -> None:
        self.id = name


class FakeCore:
    """One voter of three, and what it would send."""

    def __init__(self) -> None:
        self.term, self.commit_index, self.time = 0, 1, 0.0
        self.entries = Log([(b"", 1, 0)])
        self.others = [Named("b"), Named("c")]
        self.sent: list[tuple[str, str]] = []
        self.forfeited: list[int] = []

    def log(self) -> Log:
        return self.entries

    def now(self) -> float:
        return self.time

    def voters(self) -> list[Named]:
        return self.others

    def transmit(self, node: Named, message: dict[str, Any]) -> bool:
        self.sent.append((node.id, message["type"]))
        return True

    def forfeit_vote(self, term: int) -> None:
        self.term = term
        self.forfeited.append(term)

    def set_standing(self, standing: Standing) -> None:
        self.entries.standing = standing


def answer(rejoin: Rejoin, voter: str, *, has_log: bool, term: int) -> None:
    rejoin.on_status_ok(Named(voter), {"has_log": has_log, "term": term})


def test_it_asks_until_everybody_has_answered():
    core = FakeCore()
    rejoin = Rejoin(core)
    rejoin.tick()
    rejoin.tick()
    assert core.sent == [("b", "status"), ("c", "status")]
    answer(rejoin, "b", has_log=False, term=0)
    core.time += 1
    rejoin.tick()
    assert core.sent[2:] == [("c", "status")]
    assert rejoin.standing is Standing.BLANK


def test_a_cluster_without_any_log_is_new():
    core = FakeCore()
    rejoin = Rejoin(core)
    answer(rejoin, "b", has_log=False, term=0)
    answer(rejoin, "c", has_log=False, term=2)
    assert (rejoin.standing, core.forfeited) == (Standing.FULL, [2])


def test_a_majority_of_answers_is_not_enough():
    core = FakeCore()
    rejoin = Rejoin(core)
    answer(rejoin, "b", has_log=False, term=0)
    answer(rejoin, "b", has_log=False, term=0)
    assert rejoin.standing is Standing.BLANK


def test_it_catches_up_in_a_new_term_before_it_votes():
    core = FakeCore()
    rejoin = Rejoin(core)
    answer(rejoin, "b", has_log=False, term=7)  # Who asked for votes in term 7: this voter may have given its own.
    answer(rejoin, "c", has_log=True, term=5)
    assert (rejoin.standing, core.forfeited) == (Standing.CATCHING_UP, [8])

    core.term = 9
    core.entries += [(b"old", 2, 5), (b"old", 3, 5), (b"no-op", 4, 9)]
    core.commit_index = 3
    rejoin.on_append(9)
    assert rejoin.standing is Standing.CATCHING_UP  # What earlier leaders committed may be more.
    core.commit_index = 4
    rejoin.on_append(8)
    assert rejoin.standing is Standing.CATCHING_UP
    rejoin.on_append(9)
    assert rejoin.standing is Standing.FULL


def test_alone_there_is_nobody_to_ask():
    core = FakeCore()
    core.others = []
    rejoin = Rejoin(core)
    rejoin.tick()
    assert rejoin.standing is Standing.FULL


LONG_S = 10.0
"""Of simulated time: many election time-outs."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three voters on simulated time and disks, none of them started; nothing goes wrong by itself."""
    world = World(tmp_path, seed=0)
    world.calm()
    assert len(world.names) == 3
    with world.hooked():
        yield world
        world.close()


def run_until(world: World, condition: Callable[[], bool]) -> None:
    for _ in range(100):
        if condition():
            return
        world.run(0.1)
    raise AssertionError("it does not happen")


def leads(world: World) -> Callable[[], bool]:
    return lambda: world.believers() != []


def decide(world: World, count: int) -> None:
    """Have the leader acknowledge some commands."""
    wanted = len(world.promises.acknowledged) + count
    for _ in range(count):
        world.propose(world.believers()[0])
    run_until(world, lambda: len(world.promises.acknowledged) == wanted)


def test_a_new_cluster_waits_for_its_last_voter(world: World):
    *early, last = world.names
    for name in early:
        world.start(name)
    world.run(LONG_S)
    assert world.promises.leaders == {}
    assert world.not_full == set(world.names)

    world.start(last)
    run_until(world, leads(world))
    assert world.not_full == set()


def test_a_wiped_voter_elects_nobody_before_it_has_caught_up(world: World):
    """One is behind, another is wiped while the leader is down: they must not go on without the leader's entries."""
    for name in world.names:
        world.start(name)
    run_until(world, leads(world))
    (leader,) = world.believers()
    behind, wiped = sorted(set(world.names) - {leader})
    decide(world, 1)
    world.crash(behind, power=False)
    decide(world, 5)
    world.wipe(wiped)
    world.crash(leader, power=False)
    terms = set(world.promises.leaders)

    world.start(behind)
    world.start(wiped)
    world.run(LONG_S)
    assert set(world.promises.leaders) == terms
    assert world.not_full == {wiped}

    world.start(leader)
    run_until(world, leads(world))
    run_until(world, lambda: world.not_full == set())
    decide(world, 1)
    run_until(world, lambda: len(world.machines[wiped].entries) == 7)
    world.promises.kept_everywhere(world.machines)


async def wipe(cluster: Cluster, node_id: int) -> None:
    await cluster.close(node_id)
    shutil.rmtree(cluster.folder / str(node_id))


@pytest.mark.parametrize("snapshot", [False, True])
async def test_a_wiped_voter_becomes_a_full_one_again(tmp_path: Path, free_ports: Ports, snapshot: bool):
    async with Cluster(tmp_path, free_ports(3), snapshot_min_entries=50 if snapshot else 20_000) as cluster:
        leader = await cluster.leader()
        wiped = min({1, 2, 3} - {leader})
        await wipe(cluster, wiped)
        for i in range(150):
            await cluster.quorums[leader].propose(b"%d" % i, timeout_ms=5_000)
        await cluster.start(wiped)
        await cluster.machines[wiped].until(lambda: len(cluster.machines[wiped].entries) == 150)
        state = await described(cluster, await cluster.leader(), wiped, "follower")
        assert state.last_heard_ms < 1_000

        # It votes: with the leader gone, the other voter needs it.
        await cluster.close(await cluster.leader())
        assert await cluster.leader() in (1, 2, 3)
        assert cluster.fatal == []


async def described(cluster: Cluster, leader: int, node_id: int, role: str) -> VoterState:
    """Wait until the leader sees a voter in a role, with nothing missing."""
    async with asyncio.timeout(10):
        while True:
            status = cluster.quorums[leader].status()
            (state,) = (voter for voter in status.voters if voter.node_id == node_id)
            if (state.role, state.log_end_offset) == (role, status.log_end_offset):
                return state
            await asyncio.sleep(0.02)


async def test_the_leader_describes_its_voters(tmp_path: Path, free_ports: Ports):
    async with Cluster(tmp_path, free_ports(3)) as cluster:
        leader = await cluster.leader()
        index = await cluster.quorums[leader].propose(b"x", timeout_ms=5_000)
        gone = min({1, 2, 3} - {leader})
        own = await described(cluster, leader, leader, "leader")
        other = await described(cluster, leader, 6 - leader - gone, "follower")
        assert own.log_end_offset == other.log_end_offset == index + 1

        await cluster.close(gone)
        await cluster.quorums[leader].propose(b"y", timeout_ms=5_000)
        async with asyncio.timeout(10):
            while (voter := voter_of(cluster, leader, gone)).role != "unreachable":
                await asyncio.sleep(0.02)
        assert voter.log_end_offset == index + 1


def voter_of(cluster: Cluster, leader: int, node_id: int) -> VoterState:
    (voter,) = (voter for voter in cluster.quorums[leader].status().voters if voter.node_id == node_id)
    return voter
