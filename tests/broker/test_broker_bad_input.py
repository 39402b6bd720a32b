"""Bad input: each a clear error, nothing half done, the process alive."""

from __future__ import annotations

import io
import resource
from collections.abc import AsyncIterator

import pytest
from broker_support import Http, http_to

from raftlog.cli.local_cluster import LocalCluster
from raftlog.record import NewRecord, build_batch

pytestmark = pytest.mark.cluster
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def http(shared_cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(shared_cluster.public_url("broker-1")) as http:
        yield http


@pytest.fixture
async def topic(http: Http, topic_name: str, shared_cluster: LocalCluster) -> AsyncIterator[str]:
    """Return a topic that holds one record, and check at the end that it still does, and that every node is ready."""
    await http.create(topic_name, partitions=2, configs={"max_message_bytes": 2048})
    assert (await http.produce(topic_name, "kept", partition=0)).status == 200
    yield topic_name
    assert (await http.end(topic_name, 0), await http.end(topic_name, 1)) == (1, 0)
    for broker in shared_cluster.brokers:
        assert (await http("GET", f"{shared_cluster.public_url(broker)}/readyz")).status == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "message"),
    [
        ("GET", "/v1/topics/none", 404, "UNKNOWN_TOPIC_OR_PARTITION", "there is no topic 'none'"),
        ("DELETE", "/v1/topics/none", 404, "UNKNOWN_TOPIC_OR_PARTITION", "there is no topic 'none'"),
        ("GET", "/v1/topics/none/partitions/0/records", 404, "UNKNOWN_TOPIC_OR_PARTITION", "there is no topic"),
        (
            "GET",
            "/v1/topics/T/partitions/2/records",
            404,
            "UNKNOWN_TOPIC_OR_PARTITION",
            "has partitions 0 to 1, received 2",
        ),
        ("GET", "/v1/topics/T/partitions/-1/records", 404, "UNKNOWN_TOPIC_OR_PARTITION", "received '-1'"),
        ("GET", "/v1/topics/T/partitions/x/offsets", 404, "UNKNOWN_TOPIC_OR_PARTITION", "received 'x'"),
        ("GET", "/v1/topics/T/partitions/0/records?offset=soon", 400, "INVALID_REQUEST", "offset: expected an integer"),
        ("GET", "/v1/topics/T/partitions/0/records?offset=-5", 400, "INVALID_REQUEST", "received -5"),
        (
            "GET",
            "/v1/topics/T/partitions/0/records?ofset=1",
            400,
            "INVALID_REQUEST",
            "unknown name 'ofset'; known names",
        ),
        (
            "GET",
            "/v1/topics/T/partitions/0/records?max_wait_ms=9e9",
            400,
            "INVALID_REQUEST",
            "max_wait_ms: expected an",
        ),
        ("GET", "/v1/topics/T/partitions/0/records?max_bytes=0", 400, "INVALID_REQUEST", "max_bytes: expected 1 to"),
        ("GET", "/v1/topics/T/partitions/0/records?isolation=dirty", 400, "INVALID_REQUEST", "received 'dirty'"),
        ("GET", "/v1/topics/T/partitions/0/records?offset=99", 416, "OFFSET_OUT_OF_RANGE", "it holds 0 to 1"),
        ("GET", "/v1/topics/T/partitions/0/offsets?at=noon", 400, "INVALID_TIMESTAMP", "received 'noon'"),
        ("GET", "/v1/nowhere", 404, "NOT_FOUND", "GET /v1/nowhere"),
        ("PUT", "/v1/topics", 405, "INVALID_REQUEST", "Method Not Allowed"),
    ],
)
async def test_bad_paths_and_queries(
    http: Http, topic: str, method: str, path: str, status: int, code: str, message: str
):
    reply = await http(method, path.replace("/T/", f"/{topic}/"))

    assert (reply.status, reply.code) == (status, code)
    assert message in reply.message
    assert reply.json["error"]["retriable"] is False


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"records"', "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[]", "expected an object, received []"),
        (b"{}", "records: missing; it is required"),
        (b'{"records": []}', "records: expected at least 1, received none"),
        (b'{"records": [{"vaule": "x"}]}', "records[0].vaule: unknown name; known names are headers, key"),
        (
            b'{"records": [{"value": "x"}, {"value": "x", "partition": "0"}]}',
            "records[1].partition: expected an integer",
        ),
        (b'{"records": [{"value": "x", "partition": 9}]}', "has partitions 0 to 1, received 9"),
        (
            b'{"records": [{"value": "!", "value_encoding": "base64"}]}',
            "records[0].value: expected base64, received '!'",
        ),
        (
            b'{"records": [{"value": "x", "timestamp": "noon"}]}',
            "records[0].timestamp: expected milliseconds or ISO 8601",
        ),
        (b'{"records": [{"value": "x", "timestamp": -62135596800001}]}', "records[0].timestamp: expected milliseconds"),
        (b'{"records": [{"value": "x", "headers": [{"value": "v"}]}]}', 'records[0].headers[0]: expected {"key": ...'),
    ],
)
async def test_bad_records_append_nothing_of_the_request(http: Http, topic: str, body: bytes, message: str):
    reply = await http("POST", f"/v1/topics/{topic}/records", data=body, headers=JSON)

    assert reply.status in (400, 404)
    assert message in reply.message


async def test_bad_acks_and_content_type(http: Http, topic: str):
    path = f"/v1/topics/{topic}/records"

    acks = await http("POST", f"{path}?acks=2", json={"records": [{"value": "x"}]})
    form = await http("POST", path, data=b"<x/>", headers={"Content-Type": "text/xml"})
    accept = await http("GET", f"/v1/topics/{topic}/partitions/0/records", headers={"Accept": "text/csv"})

    assert (acks.status, acks.code) == (400, "INVALID_REQUIRED_ACKS")
    assert "expected all, -1, 1 or 0, received '2'" in acks.message
    assert (form.status, form.code) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert "received text/xml" in form.message
    assert (accept.status, accept.code) == (415, "UNSUPPORTED_MEDIA_TYPE")
    assert "application/x-ndjson" in accept.message


async def test_corrupt_and_oversize_batches(http: Http, topic: str):
    good = build_batch([NewRecord(b"x", timestamp=1)])
    damaged = bytearray(good)
    damaged[-1] ^= 1
    path = f"/v1/topics/{topic}/partitions/0/batches"

    replies = [
        await http("POST", path, data=bytes(data))
        for data in (damaged, good[:-8], b"", b"no batch at all", good + good, build_batch([NewRecord(b"x" * 3000)]))
    ]

    assert [(reply.status, reply.code) for reply in replies] == [
        (422, "CORRUPT_MESSAGE"),
        (422, "CORRUPT_MESSAGE"),
        (422, "CORRUPT_MESSAGE"),
        (422, "CORRUPT_MESSAGE"),
        (422, "CORRUPT_MESSAGE"),
        (413, "MESSAGE_TOO_LARGE"),
    ]
    assert "payload checksum is" in replies[0].message
    assert "max_message_bytes is 2048" in replies[5].message


async def test_bodies_that_are_too_large_or_no_frames(http: Http, topic: str):
    assert (
        await http("POST", "/v1/produce", data=b"abc")
    ).message == "a frame starts with a 4-byte length, received 3 bytes"
    assert "claims a head of" in (await http("POST", "/v1/produce", data=b"\xff" * 100)).message
    assert (await http("POST", "/v1/fetch", data=b"{}", headers=JSON)).message == "partitions: missing; it is required"
    assert (await http("POST", "/v1/produce", data=io.BytesIO(bytes(65 << 20)))).status == 413


@pytest.mark.parametrize(
    ("settings", "status", "code", "message"),
    [
        ({"topic": "a b"}, 400, "INVALID_TOPIC_EXCEPTION", "received 'a b'"),
        ({"topic": ".."}, 400, "INVALID_TOPIC_EXCEPTION", "received '..'"),
        ({"topic": "x" * 250}, 400, "INVALID_TOPIC_EXCEPTION", "1 to 249 of the characters"),
        ({"partitions": 0}, 400, "INVALID_PARTITIONS", "expected 1 to 10000, received 0"),
        ({"replication_factor": 4}, 400, "INVALID_REPLICATION_FACTOR", "the number of brokers, 3, received 4"),
        (
            {"configs": {"retention": 1}},
            400,
            "INVALID_CONFIG",
            "retention: unknown name; known names are cleanup_policy",
        ),
        (
            {"configs": {"retention_ms": "long"}},
            400,
            "INVALID_CONFIG",
            "retention_ms: expected an integer, received 'long'",
        ),
        ({"configs": {"min_insync_replicas": 0}}, 400, "INVALID_CONFIG", "expected at least 1, received 0"),
        ({"partition": 3}, 400, "INVALID_REQUEST", "partition: unknown name"),
    ],
)
async def test_bad_topics_are_not_created(
    http: Http, topic_name: str, settings: dict[str, object], status: int, code: str, message: str
):
    before = (await http("GET", "/v1/topics")).json

    reply = await http("POST", "/v1/topics", json={"topic": topic_name, **settings})

    assert (reply.status, reply.code) == (status, code)
    assert message in reply.message
    assert (await http("GET", "/v1/topics")).json == before


async def test_a_topic_is_created_once(http: Http, topic: str):
    again = await http("POST", "/v1/topics", json={"topic": topic})
    if_not_exists = await http("POST", "/v1/topics", json={"topic": topic, "if_not_exists": True})

    assert (again.status, again.code) == (409, "TOPIC_ALREADY_EXISTS")
    assert len(if_not_exists.json["partitions"]) == 2


async def test_a_full_disk_appends_nothing_and_the_broker_goes_on(
    http: Http, topic_name: str, shared_cluster: LocalCluster
):
    """A limit on file sizes makes the kernel refuse the leader's writes half-way, as a full disk does."""
    info = await http.create(topic_name, replication_factor=1)
    leader = f"broker-{info['partitions'][0]['leader']}"
    assert (await http.produce(topic_name, "before")).status == 200
    pid = shared_cluster.pid(leader)
    assert pid is not None
    unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    limit = 8 << 10  # Above every small file of the broker, below its log after the next batch.
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, unlimited[1]))
    try:
        refused = await http.produce(topic_name, "x" * 20_000)
        alive = await http("GET", f"{shared_cluster.public_url(leader)}/livez")
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
    after = await http.produce(topic_name, "after")

    assert (refused.status, refused.code) == (507, "INSUFFICIENT_STORAGE")
    assert "nothing was appended" in refused.message
    assert alive.status == 200
    assert after.json == {"offsets": [{"partition": 0, "offset": 1}]}
    read = await http("GET", f"/v1/topics/{topic_name}/partitions/0/records?offset=0")
    assert [record["value"] for record in read.json["records"]] == ["before", "after"]
