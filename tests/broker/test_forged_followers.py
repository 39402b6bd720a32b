"""Internal requests that contradict the cluster's metadata: from an unauthenticated client, or a late node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from broker_support import http_to

from raftlog import Admin
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.processes import ProcessIdentity
from raftlog.metadata_quorum.image_codec import image_from_plain
from raftlog.schema import from_plain
from raftlog.wire import paths
from raftlog.wire.packed_fetch import pack_request
from raftlog.wire.replication import NEW_SESSION, ReplicaFetchRequest

pytestmark = pytest.mark.cluster


def fetch(topic_id: str, offset: int, **who: int) -> dict[str, Any]:
    return {
        "max_wait_ms": 0,
        "max_bytes": 1 << 20,
        "partition_max_bytes": 1 << 20,
        "session_epoch": -1,
        "partitions": [
            {
                "topic_id": topic_id,
                "partition": 0,
                "leader_epoch": 0,
                "fetch_offset": offset,
                "last_fetched_epoch": 0,
                "log_start_offset": 0,
            }
        ],
        **who,
    }


@pytest.fixture
def frozen(shared_cluster: LocalCluster):
    """Return a function that freezes brokers; they go on in the end."""
    names: list[str] = []

    def freeze(name: str) -> ProcessIdentity | None:
        names.append(name)
        shared_cluster.pause(name)
        return shared_cluster.process(name)

    yield freeze
    for name in names:
        shared_cluster.resume(name)


async def test_a_forged_fetch_acknowledges_nothing_and_shuts_no_follower_out(
    shared_cluster: LocalCluster, topic_name: str, frozen: Any
):
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as http, Admin(shared_cluster.bootstrap) as admin:
        info = await http.create(topic_name, replication_factor=3)
        leader, *followers = info["partitions"][0]["replicas"]
        url = f"http://{shared_cluster.node(f'broker-{leader}').internal}{paths.REPLICA_FETCH}"
        epochs = {broker.broker_id: broker.broker_epoch for broker in await admin.brokers()}
        assert (await http.produce(topic_name, "held by all")).status == 200
        for broker_id in followers:
            for who in (
                {"replica_id": broker_id, "broker_epoch": 2**62},
                {"replica_id": broker_id, "broker_epoch": epochs[broker_id] + 1},
                {"replica_id": broker_id, "broker_epoch": epochs[broker_id] - 1},
                {"replica_id": broker_id, "broker_epoch": -1},
                {"replica_id": 77, "broker_epoch": epochs[broker_id]},
                {"replica_id": -1, "broker_epoch": 0},
            ):
                forged = fetch(info["topic_id"], 1, **who)
                packed = pack_request(from_plain(ReplicaFetchRequest, {**forged, "session_epoch": NEW_SESSION}))
                for reply in (await http("POST", url, json=forged), await http("POST", url, data=packed)):
                    assert reply.status in {409, 503}, (who, reply.status, reply.body)
        # The real followers go on counting.
        assert (await http.produce(topic_name, "held by all, too")).status == 200

        leader_url = shared_cluster.public_url(f"broker-{leader}")
        for broker_id in followers:
            frozen(f"broker-{broker_id}")
        produced = asyncio.ensure_future(
            http(
                "POST",
                f"{leader_url}/v1/topics/{topic_name}/records?timeout_ms=1500",
                json={"records": [{"value": "held by the leader alone"}]},
            )
        )
        for _ in range(10):
            for broker_id in followers:
                forged = fetch(info["topic_id"], 3, replica_id=broker_id, broker_epoch=2**62)
                assert (await http("POST", url, json=forged)).status == 503
            await asyncio.sleep(0.05)
        assert (await produced).status != 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"broker_id": -5, "incarnation_id": "ghost"}, "broker_id: expected a whole number from 0"),
        ({"internal": "127.0.0.1:9"}, "internal"),
        ({"public": "127.0.0.1:9"}, "public"),
        ({"storage_id": "another"}, "storage_id"),
        ({"incarnation_id": "another process"}, "has a session"),
    ],
    ids=str,
)
async def test_a_registration_that_contradicts_a_living_broker_is_refused(
    shared_cluster: LocalCluster, change: dict[str, Any], message: str
):
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as http, Admin(shared_cluster.bootstrap) as admin:
        before = await admin.brokers()
        controller = await admin.controller()
        node = shared_cluster.node(f"controller-{controller.controller_id}")
        newest = await http("GET", f"http://{node.internal}{paths.METADATA_WATCH}?after_offset=-1&max_wait_ms=0")
        mine = image_from_plain(newest.json["snapshot"]).brokers[1]
        request = {
            "broker_id": 1,
            "cluster_id": shared_cluster.cluster_id,
            "incarnation_id": mine.incarnation_id,
            "public": str(mine.public),
            "internal": str(mine.internal),
            "storage_id": mine.storage_id,
            "max_feature_level": mine.max_feature_level,
        }
        reply = await http("POST", f"http://{node.internal}{paths.REGISTER_BROKER}", json={**request, **change})
        assert reply.status in {400, 409}, reply.body
        assert message in reply.message
        assert await admin.brokers() == before
