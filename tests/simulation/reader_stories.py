"""Readers of followers while leaders change, and readers of a topic that was created again."""

from __future__ import annotations

import asyncio

import pytest
from telling import story

import raftlog
from raftlog.errors import OffsetOutOfRangeError
from simulation.cluster.loop import Process
from simulation.cluster.nodes import PUBLIC
from simulation.cluster.script import Script


@story(racks=True, longest_delay_s=0.02, producers_per_partition=3)
async def scenario_10_a_reader_of_followers_never_sees_what_is_not_committed(script: Script) -> None:
    """KIP-392: it reads one follower after another, while leaders that are cut off append uncommitted records."""
    for broker in script.world.brokers:
        script.world.clients.tail(rack=broker.config.rack)
    await script.acknowledged(5)
    for _ in range(3):
        leader, followers = script.leader(), script.followers()
        read = len(script.world.history.reads)
        script.hold(leader, followers[0])  # It answers readers with its last high watermark.
        await script.pass_time(0.5)
        script.isolate(leader)
        await script.until(lambda leader=leader: script.state().leader not in (leader.node_id, -1), "another leader")
        await script.acknowledged(3)
        script.release(leader, followers[0])
        script.mend(leader)
        await script.in_sync()
        await script.until(lambda read=read: len(script.world.history.reads) > read, "readers go on")
    marks = {node.name: replica.high_watermark for node in script.followers() if (replica := script.replica(node))}
    assert all(marks.values()), marks


@story()
async def scenario_13_nobody_takes_a_recreated_topic_for_its_past(script: Script) -> None:
    """Topic ids fence it: an old position is an error, not another record, and an old log is no replica."""
    world, topic = script.world, "u"
    cut_off = script.followers()[0]
    others = [f"http://{node.host}:{PUBLIC}" for node in world.brokers if node is not cut_off]

    async def create_and_fill(admin: raftlog.Admin, values: list[bytes]) -> None:
        await admin.create_topic(topic, partitions=1, replication_factor=3)
        async with raftlog.Producer(others, linger_ms=0) as producer:
            for value in values:
                await producer.send(topic, value=value, partition=0)

    async def work() -> None:
        old, new = [b"old-%d" % n for n in range(4)], [b"new-%d" % n for n in range(9)]
        async with raftlog.Admin(others) as admin:
            await create_and_fill(admin, old)
            async with (
                raftlog.Consumer(world.bootstrap, topic, start="earliest") as strict,
                raftlog.Consumer(world.bootstrap, topic, start="earliest", on_out_of_range="earliest") as lenient,
            ):
                assert await _read(strict, 4) == await _read(lenient, 4) == old
                script.isolate(cut_off)  # It keeps the old log, and learns of nothing.
                await admin.delete_topic(topic)
                await create_and_fill(admin, new)
                script.mend(cut_off)
                assert await _read(lenient, 9) == new
                with pytest.raises(OffsetOutOfRangeError, match="recreated"):
                    await _read(strict, 1)

    await world.loop.create_task(work(), context=Process("operator", "10.0.5.1").context)
    await script.until(lambda: _ends(script, topic) == [9, 9, 9], "all replicas hold the new topic, and nothing else")


async def _read(consumer: raftlog.Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with asyncio.timeout(30):
        while len(found) < count:
            found += [record.value for record in await consumer.fetch()]
    return found


def _ends(script: Script, topic: str) -> list[int]:
    replicas = [replica for node in script.world.brokers for replica in node.replicas]
    return [replica.log.log_end_offset for replica in replicas if replica.assignment.topic == topic]
