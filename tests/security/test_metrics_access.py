"""With access rules, metrics need `describe` on the cluster: on brokers, and on controllers' internal listeners."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from secured_support import basic, caller, proof, secured

from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl

pytestmark = pytest.mark.cluster
DESCRIBE = Acl(principal="ruled", operation="describe", resource_type="cluster", resource_name="cluster")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with secured(tmp_path_factory.mktemp("measured") / "c", brokers=1) as running:
        yield running


async def test_metrics_of_every_node_need_the_right_to_describe_the_cluster(cluster: LocalCluster):
    controller = cluster.node(cluster.controllers[0])
    async with caller(cluster.public_url("broker-1")) as call:
        await call.rules(DESCRIBE)
        for url in (call.url, f"http://{controller.internal}"):
            statuses = [
                (await call("GET", f"{url}/metrics", headers))[0]
                for headers in (None, basic("nobody"), basic("ruled", "wrong-secret"), basic("ruled"), basic("admin"))
            ]
            assert statuses == [401, 403, 401, 200, 200], url
        _, page = await call("GET", "/metrics", basic("admin"))
        refused = next(line for line in page.decode().splitlines() if line.startswith("raftlog_access_refusals_total"))
        own = proof(cluster, "Broker:1", controller.internal)
        status, page = await call("GET", f"http://{controller.internal}/metrics", own)

    assert int(refused.split()[1]) >= 3
    assert (status, b"raftlog_quorum_term" in page) == (200, True)
