"""Requests to the routes of topics and records."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any

from openapi_answers_support import DOCUMENT, TOPIC, Checked, leader_of
from openapi_support import faults

from raftlog.record import NewRecord, build_batch
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_frame
from raftlog.wire.data import ProducePartition, ProduceRequest


async def answers_of_topics(ask: Checked) -> None:
    body = {"topic": TOPIC, "partitions": 1, "replication_factor": 1, "configs": {"retention_ms": 3_600_000}}
    await ask("POST", paths.TOPICS, 200, body={**body, "validate_only": True})
    await ask("POST", paths.TOPICS, 201, body=body)
    await ask("POST", paths.TOPICS, 409, body=body)
    await ask("POST", paths.TOPICS, 400, body={"topic": "no spaces"})
    await ask("POST", paths.TOPICS, 400, body={**body, "more": 1})
    await ask("POST", paths.TOPICS, 415, body=body, headers={"Content-Type": "text/csv"})
    for consistency in ("linearizable", "local"):
        query = {"consistency": consistency}
        await ask("GET", paths.TOPICS, 200, query=query)
        await ask("GET", paths.TOPIC, 200, query=query, topic=TOPIC)
        await ask("GET", paths.TOPIC_SETTINGS, 200, query=query, topic=TOPIC)
        await ask("GET", paths.REASSIGNMENTS, 200, query=query)
    page = (await ask("GET", paths.TOPICS, 200, query={"limit": 1, "contains": "LIGHT", "after": "a"})).json
    assert ([one["topic"] for one in page["topics"]], page["matching"], page["next"]) == ([TOPIC], 1, "")
    await ask("GET", paths.TOPICS, 400, query={"limit": 0})
    await ask("GET", paths.TOPIC_SETTINGS, 404, topic="ghost")
    await ask("GET", paths.TOPIC, 404, topic="ghost")
    await ask("GET", paths.TOPIC, 400, topic=TOPIC, query={"consistency": "none"})
    await ask("GET", paths.METADATA, 200, query={"topic": TOPIC})
    await ask("PATCH", paths.TOPIC, 200, topic=TOPIC, body={"configs": {"retention_ms": None}})
    await ask("PATCH", paths.TOPIC, 400, topic=TOPIC, body={"configs": {"nope": 1}})
    await ask("PATCH", paths.TOPIC, 404, topic="ghost", body={"partitions": 2})
    for moved in (2, 1):
        part = {"topic": TOPIC, "partition": 0, "replicas": [moved]}
        await ask("POST", paths.REASSIGNMENTS, 200, body={"partitions": [part]})
        while (await ask("GET", paths.TOPIC, 200, topic=TOPIC)).json["partitions"][0]["replicas"] != [moved]:
            await asyncio.sleep(0.05)
    await ask("POST", paths.REASSIGNMENTS, 400, body={"partitions": [{**part, "replicas": [77]}]})
    await ask("POST", paths.LEADER_ELECTIONS, 200, body={})
    elected = [{"topic": TOPIC, "partition": 0}]
    await ask("POST", paths.LEADER_ELECTIONS, 200, body={"election": "preferred", "partitions": elected})
    await ask("POST", paths.LEADER_ELECTIONS, 400, body={"election": "unclean"})
    await ask("POST", paths.TOPICS, 201, body={"topic": "brief", "partitions": 1, "replication_factor": 1})
    await ask("DELETE", paths.TOPIC, 200, topic="brief")
    await ask("DELETE", paths.TOPIC, 404, topic="brief")


async def answers_of_records(ask: Checked) -> None:
    leader, other = await leader_of(ask, TOPIC)
    part = {"topic": TOPIC, "partition": 0}
    records = {
        "records": [
            {"value": "text", "key": "k", "headers": {"h": "v"}, "timestamp": 1_700_000_000_123},
            {"value": {"any": ["JSON", 1]}, "headers": [{"key": "a", "value": None}, {"key": "a", "value": "b"}]},
            {"value": "/wA=", "value_encoding": "base64", "key": "/wA=", "key_encoding": "base64", "partition": 0},
            {"value": None, "timestamp": "2024-01-02T03:04:05Z"},
        ]
    }
    for acks in ("all", "-1", "1", "0"):
        query = {"acks": acks, "timeout_ms": 10_000}
        await ask("POST", paths.TOPIC_RECORDS, 200, topic=TOPIC, body=records, query=query, url=other)
        await ask("POST", paths.BATCHES, 200, **part, body=batch(), query=query, url=leader)
    await ask("POST", paths.BATCHES, 200, **part, body=batch(), query={"transactional_id": ""}, url=leader)
    await ask("POST", paths.BATCHES, 400, **part, body=batch(), query={"acks": 2}, url=leader)
    await ask("POST", paths.BATCHES, 422, **part, body=batch()[:-1] + b"?", url=leader)
    await ask("POST", paths.BATCHES, 404, topic="ghost", partition=0, body=batch())
    await ask("POST", paths.BATCHES, 307, **part, body=batch(), url=other)
    await ask("POST", paths.TOPIC_RECORDS, 404, topic="ghost", body=records)
    await ask("POST", paths.TOPIC_RECORDS, 400, topic=TOPIC, body={"records": []})
    wrong = {"records": [{"value": "v", "timestamp": 4_102_444_800_000}, {"value": "v"}]}
    refused = await ask("POST", paths.TOPIC_RECORDS, 400, topic=TOPIC, body=wrong)
    assert refused.code == "INVALID_TIMESTAMP"
    assert (await ask("POST", paths.PRODUCE, 200, body=frame(TOPIC), url=leader)).json["partitions"][0]["error"] is None
    assert (await ask("POST", paths.PRODUCE, 200, body=frame("ghost"))).json["partitions"][0]["error"] is not None
    await ask("POST", paths.PRODUCE, 400, body=b"no frame")
    await ask("POST", paths.PRODUCERS, 201)
    await answers_of_reads(ask, leader, other)
    await ask("POST", paths.DELETE_RECORDS, 200, **part, body={"before_offset": 1}, url=leader)
    await ask("POST", paths.DELETE_RECORDS, 200, **part, body={"before_offset": "high_watermark"}, url=leader)
    await ask("POST", paths.DELETE_RECORDS, 416, **part, body={"before_offset": 10**6}, url=leader)
    await ask("POST", paths.DELETE_RECORDS, 307, **part, body={"before_offset": 1}, url=other)
    await ask("POST", paths.DELETE_RECORDS, 404, topic="ghost", partition=0, body={"before_offset": 1})
    await ask("GET", paths.RECORDS, 416, **part, query={"offset": 0}, url=leader)
    await ask("GET", paths.TOPIC_RECORDS, 416, topic=TOPIC, query={"from": "0:0"})


async def answers_of_reads(ask: Checked, leader: str, other: str) -> None:
    part = {"topic": TOPIC, "partition": 0}
    for form in DOCUMENT["paths"][paths.RECORDS]["get"]["responses"]["200"]["content"]:
        reply = await ask("GET", paths.RECORDS, 200, **part, headers={"Accept": form}, url=leader)
        assert reply.headers["Content-Type"] == form
    lines = await ask("GET", paths.RECORDS, 200, **part, headers={"Accept": media.NDJSON}, url=leader)
    require_rows("JsonReadRecord", lines.body)
    await answers_of_each_value(ask, paths.RECORDS, leader, **part)
    await answers_of_each_value(ask, paths.OFFSETS, leader, **part)
    for path in (paths.RECORDS, paths.OFFSETS):
        await ask("GET", path, 307, **part, url=other)
        await ask("GET", path, 404, topic="ghost", partition=0)
        await ask("GET", path, 404, topic=TOPIC, partition="first")
        await ask("GET", path, 400, **part, query={"isolation": "none"}, url=leader)
    await ask("GET", paths.OFFSETS, 400, **part, query={"at": "noon"}, url=leader)
    many = {"partitions": [{"topic": TOPIC, "partitions": [0]}, {"topic": "ghost", "partitions": [7]}]}
    for query in ({"at": "earliest"}, {"isolation": "read_committed"}, {"scope": "cluster"}):
        found = (await ask("POST", paths.MANY_OFFSETS, 200, body=many, query=query, url=other)).json["offsets"]
        assert [one["error"] is None for one in found] == [True, False]
        assert found[1]["error"]["request_id"]
    found = (await ask("POST", paths.MANY_OFFSETS, 200, body=many, query={"scope": "broker"}, url=other)).json[
        "offsets"
    ]
    assert found[0]["error"]["code"] == "NOT_LEADER_OR_FOLLOWER"
    await ask("POST", paths.MANY_OFFSETS, 400, body={"partitions": 2 * many["partitions"]}, url=other)
    await ask("GET", paths.OFFSETS, 200, **part, query={"at": 1_700_000_000_000}, url=leader)
    fetch = {"partitions": [{**part, "offset": 0}, {"topic": "ghost", "partition": 0, "offset": 0}], "max_wait_ms": 0}
    head = head_of((await ask("POST", paths.FETCH, 200, body=fetch, url=leader)).body)
    schema = DOCUMENT["paths"][paths.FETCH]["post"]["responses"]["200"]["content"][media.FRAME]["x-head"]
    assert list(faults(DOCUMENT, schema, head)) == []
    assert [one["error"] is None for one in head["partitions"]] == [True, False]
    await ask("POST", paths.FETCH, 400, body={**fetch, "max_wait_ms": -1})
    await answers_of_each_value(ask, paths.TOPIC_RECORDS, "", topic=TOPIC)
    for name in ("ndjson", "json"):
        every = await ask("GET", paths.TOPIC_RECORDS, 200, topic=TOPIC, query={"format": name}, url=other)
        require_rows("JsonRow", every.body if name == "ndjson" else b"\n".join(map(dumped, every.json)))
    fixed = {"format": "ndjson", "from": "0:0", "until": "0:2"}
    etag = (await ask("GET", paths.TOPIC_RECORDS, 200, topic=TOPIC, query=fixed)).headers["ETag"]
    part_of = {"Range": "bytes=0-9", "If-Range": etag}
    piece = await ask("GET", paths.TOPIC_RECORDS, 206, topic=TOPIC, query=fixed, headers=part_of)
    assert len(piece.body) == 10
    await ask("GET", paths.TOPIC_RECORDS, 416, topic=TOPIC, query=fixed, headers={"Range": "bytes=99999-"})
    zipped = await ask("GET", paths.TOPIC_RECORDS, 200, topic=TOPIC, headers={"Accept-Encoding": "gzip"})
    assert zipped.headers["Content-Encoding"] == "gzip"
    await ask("GET", paths.TOPIC_RECORDS, 404, topic="ghost")
    for path, variables in ((paths.TOPIC_RECORDS, {"topic": TOPIC}), (paths.RECORDS, part)):
        await ask("OPTIONS", path, 204, **variables)
        await ask("OPTIONS", path, 403, **variables, headers={"Origin": "https://evil.example"})


async def answers_of_each_value(ask: Checked, path: str, url: str, **variables: Any) -> None:
    """Send each documented value of a query, and the bounds of numbers; the broker must accept these, and no others."""
    for parameter in DOCUMENT["paths"][path]["get"]["parameters"]:
        if parameter.get("in") != "query":
            continue
        schema = parameter["schema"]
        for value in accepted(parameter):
            query = {parameter["name"]: value}
            if query == {"follow": "true"}:
                ask.named[f"GET {path}"].add("follow")  # The answer would not end: tests/broker/test_topic_stream.py
                continue
            await ask("GET", path, 200, query=query, url=url, **variables)
        for part in schema.get("anyOf", [schema]):
            if part["type"] == "integer":
                for wrong in (part["minimum"] - 1, part["maximum"] + 1, "1.5"):
                    await ask("GET", path, 400, query={parameter["name"]: wrong}, url=url, **variables)
        if "enum" in schema:
            await ask("GET", path, 400, query={parameter["name"]: "another"}, url=url, **variables)


def accepted(parameter: Mapping[str, Any]) -> Iterator[Any]:
    schema = parameter["schema"]
    yield from (schema["default"],) if "default" in schema else ()
    for part in schema.get("anyOf", [schema]):
        yield from part.get("enum", ())
        yield from (part["minimum"],) if part["type"] == "integer" and parameter["name"] != "at" else ()
    if schema == {"type": "string"}:
        yield parameter.get("example", "k")
    if "pattern" in schema:
        yield "0"


def require_rows(schema: str, lines: bytes) -> None:
    rows = [json.loads(line) for line in lines.splitlines()]
    assert len(rows) > 4
    for row in rows:
        assert list(faults(DOCUMENT, DOCUMENT["components"]["schemas"][schema], row)) == []


def dumped(row: Any) -> bytes:
    return json.dumps(row).encode()


def batch() -> bytes:
    return bytes(build_batch([NewRecord(b"v", key=b"k", timestamp=time.time_ns() // 1_000)]))


def frame(topic: str) -> bytes:
    raw = batch()
    head = ProduceRequest(partitions=(ProducePartition(topic=topic, partition=0, length=len(raw)),))
    return b"".join(map(bytes, encode_frame(head, [raw])))


def head_of(raw: bytes) -> Any:
    (length,) = struct.unpack_from("<I", raw)
    return json.loads(raw[4 : 4 + length])
