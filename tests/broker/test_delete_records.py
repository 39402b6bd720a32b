"""Deleting records by offset, over HTTP, with Admin and by command line, on a real cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from broker_support import Http, http_to

from raftlog import Admin, Consumer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import NotFoundError, OffsetOutOfRangeError

pytestmark = pytest.mark.cluster


@pytest.fixture
async def http(shared_cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(shared_cluster.public_url("broker-1")) as http:
        yield http


def path(topic: str, rest: str) -> str:
    return f"/v1/topics/{topic}/partitions/0/{rest}"


async def test_readers_below_the_new_start_are_told_so(http: Http, topic_name: str):
    await http.create(topic_name)
    await http.produce(topic_name, *map(str, range(10)))

    deleted = await http("POST", path(topic_name, "delete-records"), json={"before_offset": 4})

    assert deleted.json == {"topic": topic_name, "partition": 0, "log_start_offset": 4}
    below = await http("GET", path(topic_name, "records?offset=3"))
    assert (below.status, below.code) == (416, "OFFSET_OUT_OF_RANGE")
    assert below.json["error"]["details"] == {"log_start_offset": 4, "log_end_offset": 10}
    rest = (await http("GET", path(topic_name, "records?offset=earliest"))).json
    assert [record["value"] for record in rest["records"]] == [str(number) for number in range(4, 10)]
    assert (await http("GET", path(topic_name, "offsets?at=0"))).json["offset"] == 4

    everything = await http("POST", path(topic_name, "delete-records"), json={"before_offset": "high_watermark"})
    assert everything.json["log_start_offset"] == 10
    assert (await http("GET", path(topic_name, "records"))).json["records"] == []
    assert (await http.produce(topic_name, "next")).json["offsets"] == [{"partition": 0, "offset": 10}]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"before_offset": 4}, 416, "OFFSET_OUT_OF_RANGE"),
        ({"before_offset": -1}, 400, "INVALID_REQUEST"),
        ({"before_offset": "latest"}, 400, "INVALID_REQUEST"),
        ({"before": 1}, 400, "INVALID_REQUEST"),
        ({}, 400, "INVALID_REQUEST"),
    ],
)
async def test_a_wrong_offset_deletes_nothing(http: Http, topic_name: str, body: dict, status: int, code: str):
    await http.create(topic_name)
    await http.produce(topic_name, "a", "b", "c")

    refused = await http("POST", path(topic_name, "delete-records"), json=body)

    assert (refused.status, refused.code) == (status, code)
    assert len((await http("GET", path(topic_name, "records"))).json["records"]) == 3


async def test_admin_and_command_line(shared_cluster: LocalCluster, http: Http, topic_name: str):
    await http.create(topic_name)
    await http.produce(topic_name, *map(str, range(10)))
    async with Admin(shared_cluster.bootstrap) as admin:
        assert await admin.delete_records(topic_name, 0, before=3) == 3
        with pytest.raises(OffsetOutOfRangeError, match="at most the high watermark 10, received 11"):
            await admin.delete_records(topic_name, 0, before=11)
        with pytest.raises(NotFoundError):
            await admin.delete_records(topic_name, 7)
    async with Consumer(shared_cluster.bootstrap, topic_name, start="earliest") as consumer:
        assert [record.offset for record in await consumer.fetch()] == list(range(3, 10))
        await consumer.seek(topic_name, 0, 2)
        with pytest.raises(OffsetOutOfRangeError):
            await consumer.fetch(max_wait_ms=20_000)

    def raftlog(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "RAFTLOG_BOOTSTRAP": shared_cluster.bootstrap}
        command = [sys.executable, "-m", "raftlog", "topics", "delete-records", f"{topic_name}-0", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)

    assert raftlog("--before", "5").stdout == f"{topic_name}-0: starts at offset 5\n"
    as_json = json.loads(raftlog("--before", "high_watermark", "--json").stdout)
    assert as_json == [{"topic": topic_name, "partition": 0, "log_start_offset": 10}]
    wrong = raftlog("--before", "yesterday")
    assert (wrong.returncode, "expected an offset or high_watermark" in wrong.stderr) == (2, True)
