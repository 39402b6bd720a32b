"""A bit flips on the disk of a killed broker: what it holds is repaired from others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from broker_support import http_to

from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster


async def test_a_leader_whose_log_was_damaged_while_it_was_down_is_repaired(tmp_path: Path, topic_name: str):
    with LocalCluster(tmp_path / "c", controllers=1, port=0) as cluster:
        async with http_to(cluster.public_url("broker-2")) as http:
            info = await http.create(topic_name)
            leader = f"broker-{info['partitions'][0]['leader']}"
            for number in range(5):
                assert (await http.produce(topic_name, f"record {number}")).status == 200
            await asyncio.to_thread(cluster.kill, leader)
            (segment,) = (tmp_path / "c" / leader).glob(f"data/partitions/{topic_name}-0-*/*.log")
            content = bytearray(segment.read_bytes())
            content[200] ^= 1
            segment.write_bytes(content)
            (segment.parent / "checkpoint.json").unlink(missing_ok=True)
            await asyncio.to_thread(cluster.start_node, leader)
            await asyncio.to_thread(cluster.wait_ready, 30, [leader])
            async with asyncio.timeout(30):
                async with http_to(cluster.public_url(leader)) as back:
                    while True:
                        (partition,) = (await back("GET", f"/v1/topics/{topic_name}")).json["partitions"]
                        if len(partition["isr"]) == 3:
                            break
                        await asyncio.sleep(0.05)
                    metrics = (await back("GET", "/metrics")).body.decode()
            copies = [path.read_bytes() for path in (tmp_path / "c").glob(f"*/data/partitions/{topic_name}-0-*/*.log")]

    assert "raftlog_quarantined_logs 0" in metrics
    assert "raftlog_repaired_batches_total 1" in metrics
    assert "raftlog_offline_replicas{" not in metrics
    assert [copies.count(copy) for copy in copies] == [3, 3, 3]
