"""Forged transaction markers: refused, and no log, broker or transaction is harmed by them."""

from __future__ import annotations

from typing import Any

import pytest
from broker_support import http_to

from raftlog import Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.wire import paths

pytestmark = pytest.mark.cluster
LAST = 2**31 - 1


@pytest.mark.parametrize(
    "numbers",
    [
        {"producer_id": -1, "producer_epoch": -1},
        {"producer_id": -1},
        {"producer_epoch": -1},
        {"producer_epoch": 32_768},
        {"producer_id": 2**63},
        {"coordinator_epoch": -1},
        {"coordinator_epoch": 2**31},
        {"coordinator_epoch": LAST},
    ],
    ids=str,
)
async def test_a_marker_that_no_coordinator_writes_is_refused(
    shared_cluster: LocalCluster, topic_name: str, numbers: dict[str, Any]
):
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as http:
        info = await http.create(topic_name, replication_factor=3)
        async with Producer(shared_cluster.bootstrap, transactional_id=topic_name) as producer:
            async with producer.transaction():
                sent = await producer.send(topic_name, b"before")
            known = {"producer_id": 77, "producer_epoch": 1, "coordinator_epoch": 0, "committed": True}
            forged = {
                "marker": {**known, **numbers},
                "partitions": [{"topic": topic_name, "partition": 0, "topic_id": info["topic_id"]}],
            }
            leader = shared_cluster.node(f"broker-{info['partitions'][0]['leader']}")
            reply = await http("POST", f"http://{leader.internal}{paths.WRITE_MARKERS}", json=forged)
            assert reply.status in {400, 503}, reply.body
            (name,) = (set(numbers) & {"coordinator_epoch"}) or [next(iter(numbers))]
            assert f"marker.{name}" in reply.message

            async with producer.transaction():
                again = await producer.send(topic_name, b"after")
        assert again.offset == sent.offset + 2  # Its own marker, and nothing else, is between them.
    async with Consumer(shared_cluster.bootstrap, topic_name, start="earliest", isolation="read_committed") as consumer:
        values = [(await anext(consumer)).value for _ in range(2)]
    assert values == [b"before", b"after"]
    assert set(shared_cluster.running()) == set(shared_cluster.names)
