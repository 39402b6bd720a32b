"""The quorum on real sockets and files: elections, commits, restarts, snapshots, unknown clients."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from quorum_support import Cluster

from raftlog.errors import ErrorCode, RaftlogError, StaleRouteError, UnknownOutcomeError

Ports = Callable[[int], list[int]]


async def test_a_proposal_is_applied_once_in_order_by_everyone(tmp_path: Path, free_ports: Ports):
    async with Cluster(tmp_path, free_ports(3)) as cluster:
        leader = await cluster.leader()
        indexes = [await cluster.quorums[leader].propose(b"%d" % i, timeout_ms=5_000) for i in range(20)]
        indexes += await asyncio.gather(
            *(cluster.quorums[leader].propose(b"%d" % i, timeout_ms=5_000) for i in range(20, 200))
        )
        await cluster.all_applied(200)

        expected = [(index, b"%d" % i) for i, index in enumerate(indexes)]
        assert sorted(indexes) == indexes
        assert all(cluster.machines[node_id].entries == expected for node_id in (1, 2, 3))
        assert cluster.fatal == []


async def test_only_the_leader_takes_proposals(tmp_path: Path, free_ports: Ports):
    async with Cluster(tmp_path, free_ports(3)) as cluster:
        leader = await cluster.leader()
        standby = next(node_id for node_id in (1, 2, 3) if node_id != leader)

        with pytest.raises(StaleRouteError) as refused:
            await cluster.quorums[standby].propose(b"x", timeout_ms=1_000)
        with pytest.raises(RaftlogError, match="at most"):
            await cluster.quorums[leader].propose(b"x" * (1 << 20), timeout_ms=1_000)

        assert refused.value.code is ErrorCode.NOT_CONTROLLER


async def test_the_leader_knows_what_the_version_of_each_voter_supports(tmp_path: Path, free_ports: Ports):
    cluster = Cluster(tmp_path, free_ports(3))
    cluster.feature_levels = {1: 5, 2: 6, 3: 6}

    async def levels() -> dict[int, int]:
        await cluster.quorums[await cluster.leader()].propose(b"x", timeout_ms=5_000)
        voters = cluster.quorums[await cluster.leader()].status().voters
        return {voter.node_id: voter.max_feature_level for voter in voters}

    async with cluster, asyncio.timeout(20):
        while await levels() != {1: 5, 2: 6, 3: 6}:
            await asyncio.sleep(0.01)
        await cluster.close(1)
        while await levels() != {1: 0, 2: 6, 3: 6}:  # It may come back as an older version.
            await asyncio.sleep(0.01)
        cluster.feature_levels[1] = 6
        await cluster.start(1)
        while await levels() != {1: 6, 2: 6, 3: 6}:
            await asyncio.sleep(0.01)


async def test_a_new_leader_keeps_everything_and_the_old_one_comes_back(tmp_path: Path, free_ports: Ports):
    async with Cluster(tmp_path, free_ports(3)) as cluster:
        committed = []
        for round_number in range(3):
            leader = await cluster.leader()
            payload = b"round %d" % round_number
            committed.append((await cluster.quorums[leader].propose(payload, timeout_ms=5_000), payload))
            started = time.monotonic()
            await cluster.close(leader)
            other = await cluster.leader()
            payload = b"after %d" % round_number
            committed.append((await cluster.quorums[other].propose(payload, timeout_ms=5_000), payload))
            assert time.monotonic() - started < 10
            await cluster.start(leader)
            await cluster.all_applied(len(committed))

        assert all(machine.entries == committed for machine in cluster.machines.values())
        assert cluster.fatal == []


async def test_everything_survives_a_restart_of_all(tmp_path: Path, free_ports: Ports):
    cluster = Cluster(tmp_path, free_ports(3))
    async with cluster:
        leader = await cluster.leader()
        index = await cluster.quorums[leader].propose(b"kept", timeout_ms=5_000)
    async with cluster:
        await cluster.leader()
        await cluster.all_applied(1)

        assert all(machine.entries == [(index, b"kept")] for machine in cluster.machines.values())


async def test_without_a_majority_the_outcome_is_unknown_and_the_leader_steps_down(tmp_path: Path, free_ports: Ports):
    async with Cluster(tmp_path, free_ports(3)) as cluster:
        leader = await cluster.leader()
        for other in [node_id for node_id in (1, 2, 3) if node_id != leader]:
            await cluster.close(other)

        with pytest.raises((UnknownOutcomeError, StaleRouteError)):
            await cluster.quorums[leader].propose(b"x", timeout_ms=300)
        await cluster.machines[leader].until(lambda: cluster.machines[leader].leader is None)


async def test_a_leader_that_steps_down_keeps_nobody_waiting(tmp_path: Path, free_ports: Ports):
    async with Cluster(tmp_path, free_ports(3)) as cluster:
        leader = await cluster.leader()
        for other in [node_id for node_id in (1, 2, 3) if node_id != leader]:
            await cluster.close(other)

        async with asyncio.timeout(10):
            with pytest.raises((UnknownOutcomeError, StaleRouteError)):
                await cluster.quorums[leader].propose(b"lost?", timeout_ms=60_000)


async def test_a_wiped_voter_gets_a_snapshot_and_what_follows(tmp_path: Path, free_ports: Ports):
    async with Cluster(tmp_path, free_ports(3), snapshot_min_entries=30) as cluster:
        leader = await cluster.leader()
        wiped = next(node_id for node_id in (1, 2, 3) if node_id != leader)
        await cluster.close(wiped)
        for i in range(100):
            await cluster.quorums[leader].propose(b"%d" % i, timeout_ms=5_000)
        shutil.rmtree(tmp_path / str(wiped))
        await cluster.start(wiped)
        await cluster.quorums[await cluster.leader()].propose(b"last", timeout_ms=5_000)
        await cluster.all_applied(101)

        assert cluster.machines[wiped].entries == cluster.machines[leader].entries
        assert (tmp_path / str(wiped) / "snapshot").exists()
        assert cluster.fatal == []


async def test_a_voter_with_another_key_is_refused_and_disturbs_nobody(tmp_path: Path, free_ports: Ports):
    cluster = Cluster(tmp_path, free_ports(3))
    for node_id in (1, 2, 3):
        await cluster.start(node_id)
    await cluster.leader()
    await cluster.close(3)
    leader = await cluster.leader()
    await cluster.start(3, key=b"another key that is long enough!")

    for i in range(20):
        await cluster.quorums[leader].propose(b"%d" % i, timeout_ms=5_000)

    assert cluster.machines[3].entries == []
    assert cluster.machines[3].leader is None
    for node_id in (1, 2, 3):
        await cluster.close(node_id)


@pytest.mark.parametrize(
    "hostile",
    [b"", b"\x80\x04\x95", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 4096, b"\x05\x00nobdy" + b"\x00" * 16, b"\x00" * 100],
)
async def test_strangers_get_nothing_and_break_nothing(tmp_path: Path, free_ports: Ports, hostile: bytes):
    async with Cluster(tmp_path, free_ports(1)) as cluster:
        address = cluster.voters[0].quorum
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(hostile)
        writer.write_eof()
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()

        assert len(answer) <= 2 + len(str(address)) + 16  # Its name and a nonce; never a proof.
        assert await cluster.quorums[await cluster.leader()].propose(b"x", timeout_ms=5_000) > 0


async def test_a_pause_of_all_voters_at_once_costs_no_election(tmp_path: Path, free_ports: Ports):
    """As when a machine with all of them stalls: each voter was silent only while the others could not read."""
    async with Cluster(tmp_path, free_ports(3)) as cluster:
        leader = await cluster.leader()
        term = cluster.quorums[leader].status().term
        for number in range(3):
            time.sleep(1.5)  # noqa: ASYNC251  (the pause)
            await cluster.quorums[leader].propose(b"%d" % number, timeout_ms=5_000)
        await cluster.all_applied(3)

        assert (await cluster.leader(), cluster.quorums[leader].status().term) == (leader, term)


async def test_a_leader_outlasts_a_silence_in_which_no_follower_may_be_elected(tmp_path: Path, free_ports: Ports):
    async with Cluster(tmp_path, free_ports(3), election_s=(0.3, 1.5)) as cluster:
        leader = await cluster.leader()
        for other in [node_id for node_id in (1, 2, 3) if node_id != leader]:
            await cluster.close(other)
        closed = time.monotonic()
        await cluster.machines[leader].until(lambda: cluster.machines[leader].leader is None)

        assert time.monotonic() - closed > 1.2
