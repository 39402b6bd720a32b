"""Requests of brokers to brokers with as many entries as a body has space for: none holds the event loop."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from broker_support import http_to

from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster
from raftlog.wire import paths
from raftlog.wire.codec import decode_frame
from raftlog.wire.replication import ReplicaFetchResponse
from tests.broker.stall_support import require_no_stall_each_time

pytestmark = pytest.mark.cluster
MARKER = {"producer_id": 1, "producer_epoch": 1, "coordinator_epoch": 0, "committed": True}
MOST = 10_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with LocalCluster(tmp_path_factory.mktemp("internal"), controllers=1, brokers=1, port=0) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.find_coordinator("transaction", "x")  # Afterwards there is a topic with transactions.
        yield cluster


async def post(cluster: LocalCluster, path: str, message: object) -> tuple[int, bytes]:
    async with http_to(cluster.bootstrap) as http:
        body = io.BytesIO(orjson.dumps(message))
        url = f"http://{cluster.node('broker-1').internal}{path}"
        reply = await http("POST", url, data=body, headers={"Content-Type": "application/json"})
        return reply.status, reply.body


def named(count: int) -> list[dict[str, Any]]:
    return [{"topic": "t", "partition": number, "topic_id": "00"} for number in range(count)]


@pytest.mark.parametrize("field", ["partitions", "groups"])
@pytest.mark.parametrize("path", [paths.WRITE_MARKERS, paths.JOIN_TRANSACTION])
def test_more_than_a_transaction_has_is_refused(cluster: LocalCluster, stall_file: Path, path: str, field: str):
    names: dict[str, object] = {"partitions": named(100_000), "groups": list(map(str, range(500_000)))}
    sender = {"marker": MARKER, "transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
    known = ("marker",) if path == paths.WRITE_MARKERS else ("transactional_id", "producer_id", "producer_epoch")
    message = {name: sender[name] for name in known} | {field: names[field]}

    def send() -> None:
        status, body = asyncio.run(post(cluster, path, message))
        assert status == 400, body
        assert f"{field}: expected at most {MOST}" in body.decode()

    require_no_stall_each_time(stall_file, send)


def test_as_many_markers_as_a_transaction_has_hold_no_event_loop(cluster: LocalCluster, stall_file: Path):
    message = {"marker": MARKER, "partitions": named(MOST)}

    def send() -> None:
        status, body = asyncio.run(post(cluster, paths.WRITE_MARKERS, message))
        assert status == 200, body
        errors = orjson.loads(body)["errors"]
        assert len(errors) == MOST
        assert all(error["request_id"] for error in errors)

    require_no_stall_each_time(stall_file, send)


def test_a_fetch_of_thousands_of_partitions_without_a_session_holds_no_event_loop(
    cluster: LocalCluster, stall_file: Path
):
    with Admin(cluster.bootstrap) as admin:
        (broker,) = admin.brokers()
    position = {"topic_id": "00", "leader_epoch": 0, "fetch_offset": 0, "last_fetched_epoch": -1}
    message = {
        "replica_id": broker.broker_id,
        "broker_epoch": broker.broker_epoch,
        "max_wait_ms": 0,
        "partitions": [{**position, "partition": number} for number in range(20_000)],
    }

    def send() -> None:
        status, body = asyncio.run(post(cluster, paths.REPLICA_FETCH, message))
        assert status == 200, body
        response, _ = decode_frame(ReplicaFetchResponse, body)
        assert len(response.partitions) == 20_000
        assert all(result.error is not None for result in response.partitions)

    require_no_stall_each_time(stall_file, send)
