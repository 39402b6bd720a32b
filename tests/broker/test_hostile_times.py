"""Impossible timestamps: refused on every route, so that retention and lookups by time still work."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from broker_support import Http, Reply, http_to

from raftlog import Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.record import NewRecord, build_batch
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_frame
from raftlog.wire.data import ProducePartition, ProduceRequest

pytestmark = pytest.mark.cluster
HOUR_MS = 3_600_000
NEVER_US = 2**62
LAST_US = 253_402_300_799_999_999
"""The end of the year 9999: later ones do not leave a client."""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def _raw(http: Http, leader: str, topic: str, timestamp_us: int) -> Reply:
    body = bytes(build_batch([NewRecord(b"x", None, timestamp_us)]))
    path = f"{leader}/v1/topics/{topic}/partitions/0/batches"
    return await http("POST", path, data=body, headers={"Content-Type": media.BATCHES})


async def _frame(http: Http, leader: str, topic: str, timestamp_us: int) -> Reply:
    batch = build_batch([NewRecord(b"x", None, timestamp_us)])
    head = ProduceRequest(partitions=(ProducePartition(topic=topic, partition=0, length=len(batch)),))
    reply = await http(
        "POST",
        f"{leader}{paths.PRODUCE}",
        data=b"".join(encode_frame(head, [batch])),
        headers={"Content-Type": media.FRAME},
    )
    (result,) = reply.json["partitions"]
    return Reply(400, reply.headers, orjson.dumps({"error": result["error"]})) if result.get("error") else reply


async def _as_json(http: Http, leader: str, topic: str, timestamp_us: int) -> Reply:
    return await http.produce(topic, "x", timestamp=min(timestamp_us // 1_000, 253_402_300_799_999))


Route = Callable[[Http, str, str, int], Awaitable[Reply]]


def _leader(cluster: LocalCluster, info: dict[str, Any]) -> str:
    return f"http://{cluster.node('broker-' + str(info['partitions'][0]['leader'])).public}"


@pytest.mark.parametrize("route", [_raw, _frame, _as_json])
async def test_a_time_ahead_of_the_broker_s_clock_is_refused(
    shared_cluster: LocalCluster, topic_name: str, route: Route
):
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as http:
        info = await http.create(topic_name, replication_factor=3)
        leader = _leader(shared_cluster, info)
        for ahead_us in (NEVER_US, (now_ms() + HOUR_MS + 60_000) * 1_000):
            refused = await route(http, leader, topic_name, ahead_us)
            assert (refused.status, refused.code) == (400, "INVALID_TIMESTAMP"), refused.body
            for told in ("message_timestamp_after_max_ms", str(HOUR_MS), "nothing was appended"):
                assert told in refused.message
        assert await http.end(topic_name) == 0
        accepted = await route(http, leader, topic_name, (now_ms() + HOUR_MS - 60_000) * 1_000)
        assert accepted.status == 200, accepted.body
        assert await http.end(topic_name) == 1


@pytest.mark.parametrize("route", [_raw, _frame, _as_json])
async def test_a_topic_says_what_times_it_takes(shared_cluster: LocalCluster, topic_name: str, route: Route):
    limits = {"message_timestamp_before_max_ms": HOUR_MS, "message_timestamp_after_max_ms": -1}
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as http:
        info = await http.create(topic_name, replication_factor=3, configs=limits)
        leader = _leader(shared_cluster, info)
        refused = await route(http, leader, topic_name, (now_ms() - HOUR_MS - 60_000) * 1_000)
        assert (refused.status, refused.code) == (400, "INVALID_TIMESTAMP"), refused.body
        assert "message_timestamp_before_max_ms" in refused.message
        for accepted_ms in (now_ms() - HOUR_MS + 60_000, now_ms() + 1_000 * HOUR_MS):
            assert (await route(http, leader, topic_name, accepted_ms * 1_000)).status == 200


async def test_a_producer_names_the_limit_and_goes_on(shared_cluster: LocalCluster, topic_name: str):
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as http:
        await http.create(topic_name, replication_factor=3)
    async with Producer(shared_cluster.bootstrap) as producer:
        await producer.send(topic_name, b"before")
        with pytest.raises(InvalidRequestError, match="message_timestamp_after_max_ms") as refused:
            await producer.send(topic_name, b"x", timestamp=LAST_US)
        assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
        assert (await producer.send(topic_name, b"after")).offset == 1
    async with Producer(shared_cluster.bootstrap, transactional_id=topic_name) as producer:
        with pytest.raises(InvalidRequestError, match="message_timestamp_after_max_ms"):
            async with producer.transaction():
                await producer.send(topic_name, b"x", timestamp=LAST_US)
        async with producer.transaction():
            await producer.send(topic_name, b"y")


async def test_a_producer_says_once_that_records_are_older_than_the_retention(
    shared_cluster: LocalCluster, topic_name: str, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "raftlog.client")
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as http:
        await http.create(topic_name, replication_factor=3)
    async with Producer(shared_cluster.bootstrap) as producer:
        await producer.send(topic_name, b"new")
        assert not caplog.messages
        for _ in range(3):
            await producer.send(topic_name, b"old", timestamp=datetime.fromtimestamp(1, UTC))
    (said,) = caplog.messages
    assert topic_name in said
    assert "retention_ms (604800000)" in said
    command = ["produce", topic_name, "--bootstrap", shared_cluster.bootstrap, "--format", "json"]
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "raftlog", *command],
        input=b'{"value": "old", "timestamp": 1000}\n' * 3,
        capture_output=True,
        check=True,
    )
    assert done.stderr.decode().count("retention_ms (604800000)") == 1
