"""The public HTTP API on a real cluster: every form of records, long polls, redirects, retention, health."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator

import orjson
import pyarrow as pa
import pytest
from broker_support import Http, http_to

from raftlog.cli.local_cluster import LocalCluster
from raftlog.record import NewRecord, build_batch, read_records

pytestmark = pytest.mark.cluster


@pytest.fixture
async def http(shared_cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(shared_cluster.public_url("broker-2")) as http:
        yield http


async def test_one_read_in_every_form(http: Http, topic_name: str):
    await http.create(topic_name)
    records = [
        {"key": "k", "value": "text", "headers": {"h": "v"}, "timestamp": 1_700_000_000_123},
        {"value": {"any": ["JSON", 1]}},
        {"value": base64.b64encode(b"\xff\x00").decode(), "value_encoding": "base64"},
        {"key": "tombstone", "timestamp": "2024-01-02T03:04:05Z"},
    ]
    produced = await http("POST", f"/v1/topics/{topic_name}/records", json={"records": records})
    assert produced.json == {"offsets": [{"partition": 0, "offset": offset} for offset in range(4)]}
    path = f"/v1/topics/{topic_name}/partitions/0/records?offset=1"

    as_json = await http("GET", path)
    lines = await http("GET", path, headers={"Accept": "application/x-ndjson"})
    stream = await http("GET", path, headers={"Accept": "application/vnd.apache.arrow.stream"})
    raw = await http("GET", path, headers={"Accept": "application/vnd.raftlog.batches"})

    body = as_json.json
    assert (body["next_offset"], body["high_watermark"], body["log_start_offset"]) == (4, 4, 0)
    assert [record["value"] for record in body["records"]] == ['{"any":["JSON",1]}', "/wA=", None]
    assert body["records"][1]["value_encoding"] == "base64"
    assert body["records"][2]["timestamp"] == 1_704_164_645_000
    assert [orjson.loads(line) for line in lines.body.splitlines()] == body["records"]
    table = pa.ipc.open_stream(stream.body).read_all()
    assert table.column("offset").to_pylist() == [1, 2, 3]
    assert table.column("value").to_pylist() == [b'{"any":["JSON",1]}', b"\xff\x00", None]
    stored = read_records(raw.body, topic=topic_name, partition=0)
    assert (stored[0].key, stored[0].timestamp) == (b"k", 1_700_000_000_123_000)
    assert stored[0].headers == (("h", b"v"),)
    for reply in (as_json, lines, stream, raw):
        marks = {
            name: reply.headers[f"Raftlog-{name}"] for name in ("High-Watermark", "Log-Start-Offset", "Next-Offset")
        }
        assert marks == {"High-Watermark": "4", "Log-Start-Offset": "0", "Next-Offset": "4"}


async def test_a_long_poll_is_woken_by_a_record_and_bounded_without(http: Http, topic_name: str):
    await http.create(topic_name)
    path = f"/v1/topics/{topic_name}/partitions/0/records?offset=0&max_wait_ms="

    waiting = asyncio.create_task(http("GET", f"{path}20000"))
    assert (await http.produce(topic_name, "wake up")).status == 200
    started = time.monotonic()
    woken = await waiting
    assert time.monotonic() - started < 5
    empty = await http("GET", f"/v1/topics/{topic_name}/partitions/0/records?offset=1&max_wait_ms=50")

    assert [record["value"] for record in woken.json["records"]] == ["wake up"]
    assert empty.json["records"] == []
    assert empty.json["next_offset"] == 1


async def test_other_brokers_redirect_to_the_leader(http: Http, topic_name: str, shared_cluster: LocalCluster):
    info = await http.create(topic_name, partitions=3)
    other = next(part for part in info["partitions"] if part["leader"] != 2)
    path = f"/v1/topics/{topic_name}/partitions/{other['partition']}"
    batch = bytes(build_batch([NewRecord(b"raw", timestamp=5)]))

    refused = await http("POST", f"{path}/batches?acks=1", data=batch, follow=False)
    produced = await http("POST", f"{path}/batches?acks=1", data=batch)
    read = await http("GET", f"{path}/records?offset=earliest&max_wait_ms=10000")

    leader = shared_cluster.public_url(f"broker-{other['leader']}")
    assert (refused.status, refused.code) == (307, "NOT_LEADER_OR_FOLLOWER")
    assert refused.headers["Location"] == f"{leader}{path}/batches?acks=1"
    assert produced.json["base_offset"] == 0
    assert read.json["records"][0]["value"] == "raw"


async def test_repeated_and_out_of_order_batches_of_a_producer(http: Http, topic_name: str):
    await http.create(topic_name)
    producer_id = (await http("POST", "/v1/producers")).json["producer_id"]

    async def send(sequence: int) -> tuple[int, object]:
        batch = build_batch(
            [NewRecord(b"x", timestamp=1)] * 2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence
        )
        reply = await http("POST", f"/v1/topics/{topic_name}/partitions/0/batches", data=bytes(batch))
        return reply.status, reply.json["base_offset"] if reply.status == 200 else reply.code

    assert [await send(sequence) for sequence in (0, 2, 2, 0, 6, 4)] == [
        (200, 0),
        (200, 2),
        (200, 2),
        (200, 0),
        (409, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (200, 4),
    ]


async def test_offsets_by_time(http: Http, topic_name: str):
    await http.create(topic_name)
    for timestamp in (1_000, 2_000, 3_000):
        assert (await http.produce(topic_name, "x", timestamp=timestamp)).status == 200

    async def at(text: str) -> int:
        return int((await http("GET", f"/v1/topics/{topic_name}/partitions/0/offsets?at={text}")).json["offset"])

    assert [await at(text) for text in ("earliest", "latest", "0", "1001", "3000", "3001")] == [0, 3, 0, 1, 2, 3]


async def test_keys_decide_the_partition_and_records_keep_their_order(http: Http, topic_name: str):
    await http.create(topic_name, partitions=3)
    records = [{"key": f"k{number % 7}", "value": str(number)} for number in range(50)]

    produced = await http("POST", f"/v1/topics/{topic_name}/records", json={"records": records})

    partition_of: dict[str, int] = {}
    for record, place in zip(records, produced.json["offsets"], strict=True):
        assert partition_of.setdefault(record["key"], place["partition"]) == place["partition"]
    for partition in range(3):
        read = await http("GET", f"/v1/topics/{topic_name}/partitions/{partition}/records?offset=0")
        expected = [
            r["value"] for r, p in zip(records, produced.json["offsets"], strict=True) if p["partition"] == partition
        ]
        assert [record["value"] for record in read.json["records"]] == expected


async def test_a_deleted_topic_is_gone_and_a_new_one_of_its_name_is_empty(http: Http, topic_name: str):
    first = await http.create(topic_name)
    await http.produce(topic_name, "old")
    assert (await http("DELETE", f"/v1/topics/{topic_name}")).json == {"topic": topic_name, "deleted": True}
    assert (await http("GET", f"/v1/topics/{topic_name}")).status == 404

    second = await http.create(topic_name)

    assert second["topic_id"] != first["topic_id"]
    assert await http.end(topic_name) == 0


async def test_the_cluster_describes_itself(http: Http, shared_cluster: LocalCluster):
    cluster = (await http("GET", "/v1/cluster")).json
    metrics = (await http("GET", "/metrics")).body.decode()

    assert cluster["cluster_id"] == shared_cluster.cluster_id
    assert [broker["broker_id"] for broker in cluster["brokers"]] == [1, 2, 3]
    assert cluster["controller"]["controller_id"] in (101, 102, 103)
    controller = (await http("GET", "/v1/controller")).json
    assert controller.pop("metadata_offset") >= cluster["controller"].pop("metadata_offset")
    assert controller == cluster["controller"]
    assert (await http("GET", "/v1/brokers")).json["brokers"] == cluster["brokers"]
    assert (await http("GET", "/livez")).status == 200
    assert "# TYPE raftlog_records_in_total counter" in metrics
    assert 'raftlog_requests_total{route="/v1/cluster",status="200"}' in metrics


async def test_retention_drops_old_segments(http: Http, topic_name: str, shared_cluster: LocalCluster, tmp_path):
    """Segments of 4 KiB and a size limit: what is too much disappears from the front, without a gap."""
    configs = {"segment_bytes": 4096, "retention_bytes": 8192}
    with LocalCluster(
        tmp_path / "c", brokers=1, controllers=1, port=0, extra={"*": {"broker": {"retention_check_interval_ms": 50}}}
    ) as small:
        async with http_to(small.public_url("broker-1")) as alone:
            await alone.create(topic_name, configs=configs)
            for number in range(30):
                assert (await alone.produce(topic_name, f"{number}" + "x" * 1000)).status == 200
            async with asyncio.timeout(20):
                while (start := await earliest(alone, topic_name)) == 0:
                    await asyncio.sleep(0.02)
            read = await alone("GET", f"/v1/topics/{topic_name}/partitions/0/records?offset=earliest")
            gone = await alone("GET", f"/v1/topics/{topic_name}/partitions/0/records?offset=0")

    offsets = [record["offset"] for record in read.json["records"]]
    assert offsets[0] >= start
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    assert (gone.status, gone.code) == (416, "OFFSET_OUT_OF_RANGE")


async def earliest(http: Http, topic: str) -> int:
    return int((await http("GET", f"/v1/topics/{topic}/partitions/0/offsets?at=earliest")).json["offset"])
