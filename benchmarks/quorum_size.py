"""The cost of 15,500 partitions of three replicas: memory, snapshots, failover.

Their brokers are fakes: the figures are about metadata, and no process opens 46,500 logs. A real broker joins at the
end. It hosts no replica, but its metadata image contains all partitions.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path

from benchmarks.clusters import ControllerClient, Controllers, Fakes, caught_up, fake_brokers, running
from benchmarks.quorum_failover import fail_controllers
from benchmarks.report import Bound, Effort, Figure, console, repeat
from raftlog.cli.local_cluster import LocalCluster
from raftlog.config import BrokerConfig, ControllerConfig
from raftlog.metadata_quorum.active_controller import Controller
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import image_to_plain
from raftlog.metadata_quorum.raft.journal import RaftJournal
from raftlog.metadata_quorum.raft.snapshots import Snapshots
from raftlog.runtime import SystemClock
from raftlog.wire.codec import encode_json
from raftlog.wire.metadata import CreateTopicRequest

_TOPICS = 2
_PARTITIONS = 7_750
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / (1 << 20)
_BROKER = "broker-1"


def many_partitions(effort: Effort) -> list[Figure]:
    """Create the partitions, then measure their cost."""
    with running(Controllers, controllers=3, brokers=1) as cluster:
        return asyncio.run(_measure(cluster, effort))


async def _measure(cluster: LocalCluster, effort: Effort) -> list[Figure]:
    before = [_rss_mb(cluster, name) for name in cluster.controllers]
    async with fake_brokers(cluster) as fakes:
        image, created = await _create(cluster, fakes)
        written = await asyncio.to_thread(_snapshots_ms, image, effort.pick(20, quick=5))
        fenced = await _fence(fakes)
        after = [_rss_mb(cluster, name) for name in cluster.controllers]
        failovers = await fail_controllers(cluster, times=effort.kill_count(20, quick=5))
        await asyncio.to_thread(cluster.start_node, _BROKER)
        await asyncio.to_thread(cluster.wait_ready, names=[_BROKER])
        broker = _rss_mb(cluster, _BROKER)
    memory = (Bound(statistic="max", at_most=150),)
    return [
        Figure(name="create_7750_partitions_ms", samples=created),
        Figure(name="controller_rss_before_mb", samples=before),
        Figure(name="controller_rss_mb", samples=after, bounds=memory),
        Figure(name="broker_rss_mb", samples=[broker], bounds=memory),
        Figure(name="snapshot_ms", samples=written, bounds=(Bound(statistic="median", at_most=100),)),
        Figure(name="fence_15500_ms", samples=fenced),
        Figure(name="failover_15500_ms", samples=failovers, bounds=(Bound(statistic="max", at_most=1_000),)),
    ]


async def _create(cluster: LocalCluster, fakes: Fakes) -> tuple[MetadataImage, list[float]]:
    """Create the topics; return the image that contains them, and each topic's ms."""
    taken = []
    async with ControllerClient(cluster) as client:
        active = await client.active()
        for number in repeat(_TOPICS, f"topics of {_PARTITIONS:,} partitions"):
            request = CreateTopicRequest(topic=f"large-{number}", partitions=_PARTITIONS, replication_factor=3)
            started = time.perf_counter()
            await client.create_topic([active], request)
            taken.append((time.perf_counter() - started) * 1000)
        image = await client.image(active)
        await caught_up(fakes, image.offset)
    assert sum(1 for _ in image.partitions()) == _TOPICS * _PARTITIONS
    console.print(f"  the image has {len(encode_json(image_to_plain(image))) / 1e6:.1f} MB as JSON")
    return image, taken


async def _fence(fakes: Fakes) -> list[float]:
    """Stop each broker once, a replica of every partition; return the ms until the other brokers received the change.

    No fake rejoins an ISR, so a second stop would change nothing.
    """
    taken = []
    for number in repeat(len(fakes), "brokers fenced"):
        victim, other = fakes[number], fakes[(number + 1) % len(fakes)]
        before, started = other.offset, time.perf_counter()
        await fakes.end(victim)
        await caught_up([other], before + 1)
        taken.append((time.perf_counter() - started) * 1000)
        fakes.start(victim)
        await fakes.until_unfenced()
        await asyncio.sleep(2)  # Changes of its restart must not count for the next fence.
    return taken


def _snapshots_ms(image: MetadataImage, times: int) -> list[float]:
    """Write the image as a controller does, which blocks meanwhile: encoded, checksummed, synced, renamed."""
    machine = Controller(
        node_id=1, cluster_id="", config=ControllerConfig(), broker_defaults=BrokerConfig(), clock=SystemClock()
    )
    machine.image = image
    taken = []
    with tempfile.TemporaryDirectory(dir="build", prefix="snapshot-") as folder:
        journal = RaftJournal(Path(folder) / "raft.journal")
        snapshots = Snapshots(Path(folder) / "snapshot", machine=machine, journal=journal, fatal=_fail)
        for number in repeat(times, "snapshots"):
            started = time.perf_counter()
            snapshots.serialize((None, (b"", 2, 1), (b"", 1, 1), None), number)
            taken.append((time.perf_counter() - started) * 1000)
        journal.close()
    return taken


def _fail(reason: str) -> None:
    raise RuntimeError(reason)


def _rss_mb(cluster: LocalCluster, name: str) -> float:
    """Return a process' resident memory."""
    pages = Path(f"/proc/{cluster.pid(name)}/statm").read_text().split()[1]
    return int(pages) * _PAGE_MB
