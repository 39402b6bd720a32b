"""Bytes that change on a disk: nothing acknowledged is lost, nothing wrong is served, and the replica heals."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from broker_support import Http, http_to

from raftlog import Consumer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.record import iter_batches

pytestmark = pytest.mark.cluster
VALUES = [f"value {number}" for number in range(20)]


def folder_of(cluster: LocalCluster, broker: str, topic: str) -> Path:
    partitions = cluster.node(broker).folder / "data" / "partitions"
    (found,) = [path for path in partitions.glob(f"{topic}-0-*") if ".quarantined-" not in path.name]
    return found


def flip(cluster: LocalCluster, broker: str, topic: str, *, batch: int, at: int) -> None:
    """Change one byte of the batch with this number."""
    (log,) = folder_of(cluster, broker, topic).glob("*.log")
    content, position = bytearray(log.read_bytes()), 0
    for number, (header, _) in enumerate(iter_batches(bytes(content))):
        if number == batch:
            with log.open("r+b") as file:
                file.seek(position + at)
                file.write(bytes([content[position + at] ^ 0x10]))
            return
        position += header.batch_length
    raise AssertionError(f"there is no batch {batch}")


async def metric(cluster: LocalCluster, broker: str, name: str) -> int:
    async with http_to(cluster.public_url(broker)) as http:
        lines = (await http("GET", "/metrics")).body.decode().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


async def state_of(http: Http, topic: str) -> dict:
    return (await http("GET", f"/v1/topics/{topic}?consistency=local")).json["partitions"][0]


async def fill(http: Http, topic: str, values: list[str] = VALUES, **settings: object) -> str:
    """Create a topic with a batch for each value; return its leader."""
    info = await http.create(topic, **settings)
    for value in values:
        assert (await http.produce(topic, value)).status == 200
    return f"broker-{info['partitions'][0]['leader']}"


async def read_values(cluster: LocalCluster, topic: str, count: int = len(VALUES)) -> list[str]:
    values: list[str] = []
    async with asyncio.timeout(30), Consumer(cluster.bootstrap, topic, start="earliest") as consumer:
        while len(values) < count:
            values += [(record.value or b"").decode() for record in await consumer.fetch()]
    return values


async def until_healed(cluster: LocalCluster, broker: str, topic: str) -> None:
    """Wait until the broker is in sync again, and its log is, byte for byte, the leader's."""
    async with asyncio.timeout(60):
        while await metric(cluster, broker, "raftlog_corrupt_replicas"):
            await asyncio.sleep(0.05)
        other = next(name for name in cluster.brokers if name != broker)
        async with http_to(cluster.public_url(other)) as http:
            while len((await state_of(http, topic))["isr"]) < 3:
                await asyncio.sleep(0.05)
    logs = [sorted(folder_of(cluster, name, topic).glob("*.log")) for name in cluster.brokers]
    assert len({tuple(path.read_bytes() for path in paths) for paths in logs}) == 1


@pytest.mark.parametrize("at", [76, 4], ids=["payload", "header"])
async def test_a_leader_whose_disk_changed_is_repaired_and_stays_leader(
    shared_cluster: LocalCluster, topic_name: str, at: int
):
    cluster = shared_cluster
    async with http_to(cluster.public_url("broker-1")) as http:
        leader = await fill(http, topic_name, replication_factor=3)
        flip(cluster, leader, topic_name, batch=7, at=at)

        assert await read_values(cluster, topic_name) == VALUES
        await until_healed(cluster, leader, topic_name)
        state = await state_of(http, topic_name)
        assert (f"broker-{state['leader']}", state["leader_epoch"]) == (leader, 0)
        assert await metric(cluster, leader, "raftlog_repaired_batches_total") > 0
        assert (await http.produce(topic_name, "after")).status == 200
    assert await read_values(cluster, topic_name, len(VALUES) + 1) == [*VALUES, "after"]


async def test_three_replicas_damaged_in_three_places_end_readable(shared_cluster: LocalCluster, topic_name: str):
    cluster = shared_cluster
    async with http_to(cluster.public_url("broker-1")) as http:
        await fill(http, topic_name, replication_factor=3)
        for number, broker in enumerate(cluster.brokers):
            flip(cluster, broker, topic_name, batch=3 + number, at=76)
            flip(cluster, broker, topic_name, batch=11 + number, at=4)

        assert await read_values(cluster, topic_name) == VALUES
        assert len((await state_of(http, topic_name))["isr"]) == 3


async def test_a_leader_whose_readers_check_large_batches_learns_of_its_disk_from_them(
    shared_cluster: LocalCluster, topic_name: str
):
    values = [f"{number:06}" * 50_000 for number in range(6)]
    async with http_to(shared_cluster.public_url("broker-1")) as http:
        leader = await fill(http, topic_name, values, replication_factor=3)
        flip(shared_cluster, leader, topic_name, batch=3, at=100_000)

        table, wanted = [], len(values)
        async with asyncio.timeout(30), Consumer(shared_cluster.bootstrap, topic_name, start="earliest") as consumer:
            while len(table) < wanted:
                table += (await consumer.fetch_arrow()).column("value").to_pylist()
        assert [value.decode() for value in table] == values
        await until_healed(shared_cluster, leader, topic_name)
        assert (await state_of(http, topic_name))["leader_epoch"] == 0


async def test_the_last_replica_serves_what_is_sound_and_invents_nothing(shared_cluster: LocalCluster, topic_name: str):
    async with http_to(shared_cluster.public_url("broker-1")) as http:
        leader = await fill(http, topic_name, replication_factor=1)
        flip(shared_cluster, leader, topic_name, batch=7, at=76)
        path = f"/v1/topics/{topic_name}/partitions/0/records?offset="
        before, damaged, after = [await http("GET", f"{path}{offset}") for offset in (0, 7, 8)]
        async with asyncio.timeout(20):
            while damaged.status == 503:  # Nobody knows yet that it is lost.
                damaged = await http("GET", f"{path}7")
        appended = await http.produce(topic_name, "still served")

        assert [record["value"] for record in before.json["records"]] == VALUES[:7]
        assert (before.json["next_offset"], damaged.status, damaged.code) == (7, 500, "KAFKA_STORAGE_ERROR")
        assert "no replica has it intact" in damaged.message
        assert await metric(shared_cluster, leader, "raftlog_lost_batches") == 1
        assert [record["value"] for record in after.json["records"]] == VALUES[8:]
        assert appended.status == 200
        assert await metric(shared_cluster, leader, "raftlog_corrupt_replicas") == 1
        await http("DELETE", f"/v1/topics/{topic_name}")
        async with asyncio.timeout(20):
            while await metric(shared_cluster, leader, "raftlog_corrupt_replicas"):
                await asyncio.sleep(0.02)


async def test_a_log_that_cannot_be_opened_for_its_damage_is_repaired(tmp_path: Path, topic_name: str):
    with LocalCluster(tmp_path / "c", controllers=1, brokers=3, port=0) as cluster:
        async with http_to(cluster.public_url("broker-1")) as http:
            leader = await fill(http, topic_name, replication_factor=3)
            follower = next(name for name in cluster.brokers if name not in (leader, "broker-1"))
            await asyncio.to_thread(cluster.kill, follower, signal.SIGTERM, timeout_s=20)
            flip(cluster, follower, topic_name, batch=3, at=4)
            await asyncio.to_thread(cluster.start_node, follower)
            await asyncio.to_thread(cluster.wait_ready, 30, [follower])

            await until_healed(cluster, follower, topic_name)
            assert await metric(cluster, follower, "raftlog_quarantined_logs") == 0
        assert await read_values(cluster, topic_name) == VALUES
