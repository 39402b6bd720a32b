"""Fetch sessions over real HTTP, with many partitions: what is sent, and that replication goes on without them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import replication_support
from replication_support import World

from raftlog.model import NO_LEADER_EPOCH, PartitionAssignment, TopicIdPartition
from raftlog.partition import replica_fetch_server
from raftlog.partition.replica_fetch_server import ReplicaFetchServer
from raftlog.record import NewRecord, build_batch
from raftlog.wire.replication import NEW_SESSION, ReplicaFetchPartition, ReplicaFetchRequest


class Many(World):
    """Broker 1 leads many partitions that 2 and 3 follow."""

    partitions = 20

    async def push(self, *, to: set[int] | None = None, complete: bool = False) -> None:
        assignments = [
            PartitionAssignment(topic="t", topic_id=self.topic_id, partition=n, state=self.state, configs=self.configs)
            for n in range(self.partitions)
        ]
        for broker in sorted(self.running & (to or self.running)):
            await self.brokers[broker].manager.apply(assignments, self.registrations(), complete=complete)

    async def send(self, partition: int, value: str, *, broker: int = 1) -> None:
        """Produce with acks=all: both followers hold it when this returns."""
        batch = build_batch([NewRecord(value.encode(), timestamp=1)])
        await self.brokers[broker].manager.produce("t", partition, batch, acks=-1, timeout_ms=10_000)

    def ends(self, broker: int) -> list[int]:
        replicas = self.brokers[broker].manager.replicas
        return [r.log.log_end_offset for r in sorted(replicas, key=lambda r: r.assignment.partition)]

    def opened(self) -> int:
        return self.brokers[1].manager.followers.sessions._opened


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ReplicaFetchRequest]:
    """Return a list of all requests that leaders are sent."""
    seen: list[ReplicaFetchRequest] = []
    real = ReplicaFetchServer.serve

    async def serve(self: ReplicaFetchServer, request: ReplicaFetchRequest):
        seen.append(request)
        return await real(self, request)

    monkeypatch.setattr(ReplicaFetchServer, "serve", serve)
    return seen


async def test_after_the_first_request_only_what_changed_is_named(tmp_path: Path, requests: list[ReplicaFetchRequest]):
    async with Many(tmp_path) as world:
        await world.send(0, "all are followed")
        requests.clear()
        for number in range(world.partitions):
            await world.send(number, "x")

        assert world.ends(2) == world.ends(3) == [2] + [1] * (world.partitions - 1)
        assert world.opened() == 2
        named = [len(request.partitions) for request in requests]
        assert max(named) <= 3
        assert sum(named) <= 5 * world.partitions


async def test_replication_goes_on_when_the_leader_has_forgotten_every_session(tmp_path: Path):
    async with Many(tmp_path) as world:
        await world.send(3, "before")
        world.brokers[1].manager.followers.sessions.close()
        await world.send(3, "after")
        await world.send(4, "another")

        assert world.ends(2)[3:5] == world.ends(3)[3:5] == [2, 1]
        assert world.opened() == 4


async def test_replication_goes_on_when_the_leader_restarts(tmp_path: Path):
    async with Many(tmp_path) as world:
        await world.send(3, "before")
        await world.stop(1)
        world.epochs[1] += 10
        world.state = replace(world.state, leader_epoch=1, partition_epoch=world.state.partition_epoch + 1)
        await world.start(1)
        await world.push()
        await world.send(3, "after")

        assert world.ends(2)[3] == world.ends(3)[3] == 2


async def test_new_partitions_start_at_once_in_the_session_that_is_there(tmp_path: Path):
    async with Many(tmp_path) as world:
        await world.send(0, "x")
        for more in range(3):
            world.partitions += 1
            await world.push()
            async with asyncio.timeout(5):
                await world.send(world.partitions - 1, f"in new partition {more}")

        # A request that is given up before the leader has read it costs a session; they are not opened each time.
        assert world.opened() < 2 + 2 * 3
        assert world.ends(3)[-3:] == [1, 1, 1]


async def test_a_look_examines_some_partitions_and_the_others_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A look at 10,000 partitions, each with a record, was one turn of the leader's event loop."""
    looks, examined = list[int](), 0
    look, result = ReplicaFetchServer._look, ReplicaFetchServer._result

    async def counted_look(self: ReplicaFetchServer, *arguments: Any) -> Any:
        nonlocal examined
        examined = 0
        found = await look(self, *arguments)
        looks.append(examined)
        return found

    def counted_result(self: ReplicaFetchServer, *arguments: Any) -> Any:
        nonlocal examined
        examined += 1
        return result(self, *arguments)

    monkeypatch.setattr(replica_fetch_server, "_MANY", 4)
    monkeypatch.setattr(ReplicaFetchServer, "_look", counted_look)
    monkeypatch.setattr(ReplicaFetchServer, "_result", counted_result)
    async with Many(tmp_path) as world:
        await asyncio.gather(*(world.send(number, "x") for number in range(world.partitions)))
        assert world.ends(2) == world.ends(3) == [1] * world.partitions
        for replica in world.brokers[1].manager.replicas:
            replica.data_notifier.fire()  # Nothing has changed in them.
        await world.send(world.partitions - 1, "y")
        assert world.ends(2)[-1] == world.ends(3)[-1] == 2
    assert max(looks) == 4


async def test_quiet_partitions_stay_in_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    limits = replace(replication_support.FAST, replica_silence_max_ms=700)
    monkeypatch.setattr(replication_support, "FAST", limits)
    async with Many(tmp_path) as world:
        await world.send(0, "x")
        loop = asyncio.get_running_loop()
        until = loop.time() + 3 * limits.replica_silence_max_ms / 1000
        while loop.time() < until:
            await world.send(0, "only this one is written to")

        replicas = world.brokers[1].manager.replicas
        assert {replica.state.isr for replica in replicas} == {(1, 2, 3)}
        assert world.brokers[1].manager.isr.shrinks == 0


def fetch(partition: ReplicaFetchPartition | None, **fields: object) -> ReplicaFetchRequest:
    """Return a request of broker 2."""
    plain = {
        "replica_id": 2,
        "broker_epoch": 12,
        "max_wait_ms": 50,
        "max_bytes": 1 << 20,
        "partition_max_bytes": 1 << 20,
        "partitions": (partition,) if partition else (),
    }
    return ReplicaFetchRequest(**{**plain, **fields})


@pytest.mark.parametrize("first_error", ["the partition is not open", "an older leader epoch"])
async def test_a_position_that_the_leader_could_not_take_counts_once_it_can(tmp_path: Path, first_error: str):
    """The first answer was an error, and it was lost: the follower has gone on to another request."""
    async with World(tmp_path) as world:
        await world.stop(2)
        await world.stop(3)
        await world.stop(1)
        world.epochs[1] += 10
        await world.start(1)
        epoch = 0 if first_error == "the partition is not open" else 1
        if epoch == 1:
            await world.push()  # In epoch 0.
        else:
            await world.brokers[1].manager.apply([], world.registrations())
        leader, key = world.brokers[1].manager, TopicIdPartition(world.topic_id, 0)
        position = ReplicaFetchPartition(
            topic_id=key.topic_id,
            partition=0,
            leader_epoch=epoch,
            fetch_offset=0,
            last_fetched_epoch=NO_LEADER_EPOCH,
            log_start_offset=0,
        )
        answer, _ = await leader.replica_fetch(fetch(position, session_epoch=NEW_SESSION))
        assert answer.partitions[0].error is not None

        state = world.state
        world.state = replace(state, leader_epoch=epoch, partition_epoch=state.partition_epoch + 1, isr=(1, 2))
        await world.push()
        core = world.brokers[1].replica.core
        assert core is not None
        again = fetch(None, session_id=answer.session_id, session_epoch=1, answers_lost=True)
        told, _ = await leader.replica_fetch(again)
        assert [result.error for result in told.partitions] == [None]
        assert core.followers[2].end_offset == 0

        parked = asyncio.create_task(
            leader.replica_fetch(fetch(None, session_id=answer.session_id, session_epoch=2, max_wait_ms=10_000))
        )
        await asyncio.sleep(0)
        batch = build_batch([NewRecord(b"x", timestamp=1)])
        await leader.produce("t", 0, batch, acks=1, timeout_ms=5_000)
        async with asyncio.timeout(5):
            woken, _ = await parked
        assert [result.length > 0 for result in woken.partitions] == [True]
