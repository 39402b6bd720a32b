"""A disk that fails under a running broker: it ends, says why, and the others go on without a loss."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from pathlib import Path

import pytest
from broker_support import http_to

from raftlog.cli.launcher import Launcher
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster

SHIM = """
import os, sys
real = os.fdatasync
def fdatasync(descriptor):
    if os.path.exists(os.environ["RAFTLOG_TEST_BAD_DISK"]) and descriptor > 2:
        number = int(open(os.environ["RAFTLOG_TEST_BAD_DISK"]).read() or 5)
        raise OSError(number, os.strerror(number))
    return real(descriptor)
os.fdatasync = fdatasync
sys.argv[0] = "raftlog"
from raftlog.entry import main
main()
"""


async def test_a_broker_whose_sync_fails_ends_and_nothing_is_lost(
    tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
):
    """Every node runs with a patched `fdatasync`; only one broker's log folder is then declared bad."""
    bad = tmp_path / "bad"
    shim = tmp_path / "shim.py"
    shim.write_text(SHIM)
    monkeypatch.setenv("RAFTLOG_TEST_BAD_DISK", str(bad))
    launcher = Launcher((sys.executable, str(shim), "server", "start"))
    broken = LocalCluster(tmp_path / "c", controllers=1, port=0, launcher=launcher)
    monkeypatch.setenv("RAFTLOG_TEST_BAD_DISK", str(tmp_path / "never"))
    with LocalCluster(tmp_path / "c", controllers=1, port=0) as cluster:
        async with http_to(cluster.public_url("broker-2")) as http:
            info = await http.create(topic_name)
            leader = f"broker-{info['partitions'][0]['leader']}"
            assert (await http.produce(topic_name, "before")).status == 200
            await asyncio.to_thread(cluster.kill, leader)
            monkeypatch.setenv("RAFTLOG_TEST_BAD_DISK", str(bad))
            await asyncio.to_thread(broken.start_node, leader)
            await asyncio.to_thread(cluster.wait_ready, 30, [leader])
            bad.write_text("")
            other = next(name for name in cluster.brokers if name != leader)
            async with http_to(cluster.public_url(other)) as still:
                async with asyncio.timeout(30):
                    while leader in cluster.running():
                        await still.produce(topic_name, "while it fails")
                        await asyncio.sleep(0.02)
                    while (await still.produce(topic_name, "after")).status != 200:
                        await asyncio.sleep(0.02)
                read = await still("GET", f"/v1/topics/{topic_name}/partitions/0/records?offset=0")

    values = [record["value"] for record in read.json["records"]]
    assert (values[0], values[-1]) == ("before", "after")
    assert "Input/output error" in (tmp_path / "c" / leader / "log.txt").read_text()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
async def test_followers_without_room_for_a_sync_end_and_acknowledge_nothing(
    number: int, tmp_path: Path, topic_name: str, monkeypatch: pytest.MonkeyPatch
):
    """Quotas, NFS and thin volumes report an error at the sync: the unsynced bytes may be lost by then."""
    bad = tmp_path / "bad"
    shim = tmp_path / "shim.py"
    shim.write_text(SHIM)
    never, launcher = str(tmp_path / "never"), Launcher((sys.executable, str(shim), "server", "start"))
    monkeypatch.setenv("RAFTLOG_TEST_BAD_DISK", never)
    with LocalCluster(tmp_path / "c", controllers=1, port=0, launcher=launcher) as cluster:
        async with http_to(cluster.public_url("broker-1")) as http:
            info = await http.create(topic_name, configs={"min_insync_replicas": 2})
        leader = f"broker-{info['partitions'][0]['leader']}"
        followers = [name for name in cluster.brokers if name != leader]
        monkeypatch.setenv("RAFTLOG_TEST_BAD_DISK", str(bad))
        for name in followers:
            await asyncio.to_thread(cluster.kill, name)
            await asyncio.to_thread(cluster.start_node, name)
        await asyncio.to_thread(cluster.wait_ready, 30, followers)
        async with http_to(cluster.public_url(leader)) as http, asyncio.timeout(60):
            while (await http.produce(topic_name, "before")).status != 200:
                await asyncio.sleep(0.05)
            while len((await http("GET", f"/v1/topics/{topic_name}")).json["partitions"][0]["isr"]) < 3:
                await asyncio.sleep(0.05)
            bad.write_text(str(number))
            assert (await http.produce(topic_name, "no follower has it")).status != 200
            while set(followers) & set(cluster.running()):
                await asyncio.sleep(0.05)
    for name in followers:
        assert os.strerror(number) in (tmp_path / "c" / name / "log.txt").read_text()
