"""Input that costs the broker more than its sender, and a broker alone: bounded, refused, alive all the while."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from broker_support import Http, http_to

from raftlog.broker.broker_node import BrokerNode
from raftlog.broker.json_records import record_from_json
from raftlog.broker.node import serve
from raftlog.broker.render import form_of
from raftlog.cli.local_cluster import LocalCluster
from raftlog.config import BrokerConfig, ListenersConfig, NodeConfig, QuorumConfig, VoterConfig
from raftlog.errors import ConfigError, ErrorCode, InvalidRequestError, RaftlogError, StorageError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import Address
from raftlog.partition.storage.data_dir import DataDir
from raftlog.record import NewRecord, build_batch
from raftlog.wire.data import JsonRecord

JSON = {"Content-Type": "application/json"}
RECORD = b'{"records": [{"value": "x"}]}'


def alone(folder: Path, ports: list[int], **settings: int) -> NodeConfig:
    """Return the configuration of a broker whose only controller does not exist."""
    public, internal, quorum, controller = (Address("127.0.0.1", port) for port in ports)
    return NodeConfig(
        node_id=1,
        roles=("broker",),
        data_dir=str(folder),
        cluster_id="c",
        quorum=QuorumConfig(voters=(VoterConfig(node_id=101, quorum=quorum, internal=controller),)),
        listeners=ListenersConfig(public=public, internal=internal),
        broker=BrokerConfig(**settings),
    )


@contextlib.asynccontextmanager
async def running(config: NodeConfig) -> AsyncIterator[tuple[BrokerNode, Http]]:
    data_dir = DataDir.open(Path(config.data_dir), cluster_id="c", node_id=1)
    node = BrokerNode(config, data_dir)
    await node.start()
    try:
        async with http_to(f"http://{config.public}") as http:
            yield node, http
    finally:
        await node.close()
        data_dir.close()


@pytest.fixture
def config(tmp_path: Path, free_ports: Callable[[int], list[int]]) -> NodeConfig:
    return alone(tmp_path / "data", free_ports(4))


async def test_without_controllers_a_broker_is_alive_but_not_ready(config: NodeConfig):
    async with running(config) as (_, http):
        alive, ready, topics = [await http("GET", path) for path in ("/livez", "/readyz", "/v1/topics")]

    assert alive.status == 200
    assert (ready.status, ready.code, ready.headers["Retry-After"]) == (503, "BROKER_NOT_AVAILABLE", "1")
    assert (topics.status, topics.json["error"]["retriable"]) == (503, True)


async def test_a_broker_that_ends_says_that_it_is_not_ready(config: NodeConfig):
    async with running(config) as (node, http):
        node.lifecycle.refuse(StorageError("cannot fsync"))
        ready = await http("GET", "/readyz")

    assert ready.status == 503
    assert "is ending" in ready.json["error"]["message"]


async def test_sigterm_ends_a_node_at_once_that_never_found_a_controller(config: NodeConfig):
    node = asyncio.create_task(serve(config))
    async with http_to(f"http://{config.public}") as http, asyncio.timeout(10):
        while not await answers(http):
            await asyncio.sleep(0.01)
        started = time.monotonic()
        signal.raise_signal(signal.SIGTERM)
        assert await node is None
    assert time.monotonic() - started < 3


async def answers(http: Http) -> bool:
    with contextlib.suppress(OSError):
        return (await http("GET", "/livez")).status == 200
    return False


async def test_an_address_has_one_share_of_the_loop_for_both_listeners(config: NodeConfig):
    async with running(config) as (node, _):
        public, internal = (listener._lean.turnstile for listener in node._listeners)
        assert public is not internal
        assert public._shares is internal._shares


async def test_a_port_in_use_is_named(config: NodeConfig, tmp_path: Path):
    async with running(config):
        other = DataDir.open(tmp_path / "other", cluster_id="c", node_id=1)
        with pytest.raises(ConfigError, match=rf"cannot listen on {config.public} \(listeners.public\)"):
            await BrokerNode(config, other).start()
        other.close()


async def test_a_broker_whose_metadata_cannot_be_applied_ends(config: NodeConfig, monkeypatch: pytest.MonkeyPatch):
    async def broken(_: object) -> None:
        raise OSError("the disk is gone")

    data_dir = DataDir.open(Path(config.data_dir), cluster_id="c", node_id=1)
    node = BrokerNode(config, data_dir)
    monkeypatch.setattr(node.listener, "run", broken)
    await node.start()
    async with asyncio.timeout(5):
        error = await node.lifecycle.fatal
    await node.close()
    data_dir.close()

    assert "the disk is gone" in error.message


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "rot13"])
async def test_encoded_bodies_are_refused_unread(config: NodeConfig, encoding: str):
    """A bomb and damaged gzip alike: nothing is unpacked, and the connection goes on."""
    async with running(config) as (_, http):
        replies = [
            await http("POST", "/v1/topics/t/records", data=body, headers={**JSON, "Content-Encoding": encoding})
            for body in (gzip.compress(bytes(50 << 20), 1), b"no gzip")
        ]
        again = await http("GET", "/livez")

    assert [(reply.status, reply.code) for reply in replies] == [(415, "UNSUPPORTED_MEDIA_TYPE")] * 2
    assert f"received '{encoding}'" in replies[0].message
    assert again.status == 200


async def test_health_is_answered_and_the_rest_pushed_back_when_full(tmp_path: Path, free_ports):
    config = alone(tmp_path / "data", free_ports(4), max_inflight_requests=0)
    async with running(config) as (_, http):
        full = await http("GET", "/v1/topics")
        health = [(await http("GET", path)).status for path in ("/livez", "/readyz", "/metrics")]

    assert (full.status, full.code, full.headers["Retry-After"]) == (429, "THROTTLING_QUOTA_EXCEEDED", "1")
    assert health == [200, 503, 200]


async def test_bodies_count_as_they_arrive(tmp_path: Path, free_ports):
    async def pieces(count: int) -> AsyncIterator[bytes]:
        for _ in range(count):
            yield RECORD

    config = alone(tmp_path / "data", free_ports(4), max_inflight_bytes=1000, max_request_bytes=100_000)
    async with running(config) as (_, http):
        short = await http("POST", "/v1/topics/t/records", data=pieces(1), headers=JSON)
        long = await http("POST", "/v1/topics/t/records", data=pieces(1001 // len(RECORD) + 1), headers=JSON)
        known = await http("POST", "/v1/topics/t/records", data=RECORD, headers=JSON)

    assert (short.status, long.status, known.status) == (503, 429, 503)  # Let in, or not: there is no metadata yet.


@pytest.fixture
async def http(shared_cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(shared_cluster.public_url("broker-1")) as http:
        yield http


@pytest.fixture
async def topic(http: Http, topic_name: str) -> str:
    await http.create(topic_name)
    return topic_name


@pytest.mark.cluster
async def test_a_deadline_caps_the_wait_of_a_fetch(http: Http, topic: str):
    asked = {"partitions": [{"topic": topic, "partition": 0, "offset": 0}], "max_wait_ms": 20_000}
    path = f"/v1/topics/{topic}/partitions/0/records?offset=0&max_wait_ms=20000"
    deadline = {"Raftlog-Deadline-Ms": "100"}

    started = time.monotonic()
    one = await http("GET", path, headers=deadline)
    several = await http("POST", "/v1/fetch", json=asked, headers=deadline)

    assert (one.status, one.json["records"], several.status) == (200, [], 200)
    assert time.monotonic() - started < 5


@pytest.mark.cluster
@pytest.mark.parametrize("text", ["soon", "-1", "1_0", "9" * 5000, "\u00b2"])
async def test_a_deadline_that_is_no_number_is_refused(http: Http, topic: str, text: str):
    headers = {**JSON, "Raftlog-Deadline-Ms": text}

    reply = await http("POST", f"/v1/topics/{topic}/records", data=RECORD, headers=headers)

    assert (reply.status, reply.code) == (400, "INVALID_REQUEST")
    assert "Raftlog-Deadline-Ms: expected milliseconds, received" in reply.message
    assert await http.end(topic) == 0


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("offsets?at=%C2%B2", "INVALID_TIMESTAMP"),
        ("offsets?at=" + "9" * 5000, "INVALID_TIMESTAMP"),
        ("offsets?at=--5", "INVALID_TIMESTAMP"),
        ("offsets?at=-1", "INVALID_TIMESTAMP"),
        ("offsets?at=-2", "INVALID_TIMESTAMP"),
        ("records?offset=1_0", "INVALID_REQUEST"),
        ("records?offset=" + "9" * 5000, "INVALID_REQUEST"),
        ("records?max_bytes=%D9%A1", "INVALID_REQUEST"),
    ],
)
async def test_numbers_are_plain_decimal(http: Http, topic: str, path: str, code: str):
    reply = await http("GET", f"/v1/topics/{topic}/partitions/0/{path}")

    assert (reply.status, reply.code) == (400, code)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_wait_ms": -5}, "max_wait_ms: expected 0 to 30000, received -5"),
        ({"max_bytes": 0}, "max_bytes: expected 1 to 52428800, received 0"),
        ({"min_bytes": -3}, "min_bytes: expected 0 to 52428800, received -3"),
        ({"max_bytes": 1 << 40}, "max_bytes: expected 1 to 52428800"),
    ],
)
async def test_limits_of_a_fetch(http: Http, topic: str, change: dict[str, int], message: str):
    asked = {"partitions": [{"topic": topic, "partition": 0, "offset": 0}], **change}
    part = {"partitions": [{"topic": topic, "partition": 0, "offset": 0, "max_bytes": -1}]}

    reply, of_partition = await http("POST", "/v1/fetch", json=asked), await http("POST", "/v1/fetch", json=part)

    assert (reply.status, of_partition.status) == (400, 400)
    assert message in reply.message
    assert "partitions[0].max_bytes: expected 1 to" in of_partition.message


@pytest.mark.cluster
async def test_a_misspelt_query_changes_nothing(http: Http, topic: str):
    created = await http("POST", "/v1/topics?if_not_exist=1", json={"topic": f"{topic}-2"})
    deleted = await http("DELETE", f"/v1/topics/{topic}?dry_run=1")

    assert [(reply.status, reply.code) for reply in (created, deleted)] == [(400, "INVALID_REQUEST")] * 2
    assert (await http("GET", f"/v1/topics/{topic}-2")).status == 404
    assert (await http("GET", f"/v1/topics/{topic}")).status == 200


@pytest.mark.cluster
async def test_content_types_of_batches_and_frames(http: Http, topic: str, shared_cluster: LocalCluster):
    batch = bytes(build_batch([NewRecord(b"x", timestamp=1)]))
    path = f"/v1/topics/{topic}/partitions/0/batches"

    wrong = [await http("POST", at, data=batch, headers={"Content-Type": "text/xml"}) for at in (path, "/v1/produce")]
    right = await http("POST", path, data=batch, headers={"Content-Type": "application/vnd.raftlog.batches"})

    assert [(reply.status, reply.code) for reply in wrong] == [(415, "UNSUPPORTED_MEDIA_TYPE")] * 2
    assert "expected application/vnd.raftlog.batches, received text/xml" in wrong[0].message
    assert right.status == 200


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_times_that_milliseconds_could_not_say(text: str):
    with pytest.raises(InvalidRequestError, match="expected a time of the years 1 to 9999") as refused:
        record_from_json(JsonRecord(timestamp=text), number=0, now_us=0)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP


def test_times_keep_their_microseconds():
    record = record_from_json(JsonRecord(timestamp="2024-01-02T03:04:05.678901Z"), number=0, now_us=0)
    assert record.timestamp == 1_704_164_645_678_901


@pytest.mark.cluster
async def test_times_before_1970_are_stored_read_and_found(http: Http, topic: str):
    await http("PATCH", f"/v1/topics/{topic}", json={"configs": {"retention_ms": -1}})
    times = ["1945-05-08T22:01:00Z", -1, "1969-12-31T23:59:59.999999Z", 1]
    records = [{"value": number, "timestamp": time} for number, time in enumerate(times)]
    produced = await http("POST", f"/v1/topics/{topic}/records", json={"records": records})
    assert produced.status == 200, produced.body
    read = await http("GET", f"/v1/topics/{topic}/partitions/0/records?offset=0")
    assert [record["timestamp"] for record in read.json["records"]] == [-777_866_340_000, -1, -1, 1]
    for at, offset in ((-777_866_340_000, 0), (-777_866_339_999, 1), (0, 3)):
        found = await http("GET", f"/v1/topics/{topic}/partitions/0/offsets?at={at}")
        assert found.json["offset"] == offset


def test_what_a_reader_does_not_accept_is_not_chosen():
    assert form_of("application/json;q=0, application/x-ndjson") == "application/x-ndjson"
    with pytest.raises(RaftlogError, match="Accept: expected one of"):
        form_of("application/json; q=0.0")


async def test_groups_know_an_image_s_topics_before_its_logs_are_open(
    config: NodeConfig, monkeypatch: pytest.MonkeyPatch
):
    """A new coordinator decides as soon as its own log leads: with old topics, it would take partitions away again."""
    async with running(config) as (node, _):
        node.replicas.local.broker_epoch = 7
        registered: Any = {1: SimpleNamespace(broker_epoch=7)}
        image = replace(MetadataImage(), brokers=registered, offset=5)
        known = list[bool]()

        async def applied(*_: object, complete: bool) -> None:
            known.append(complete and node.groups._topics._image is image)

        monkeypatch.setattr(node.replicas, "apply", applied)
        await node._on_image(image)
    assert known == [True]


async def test_a_registration_while_assignments_are_made_voids_an_earlier_image(
    config: NodeConfig, monkeypatch: pytest.MonkeyPatch
):
    """Many take several turns of the event loop; the leaderships in the image are those of the registration before."""
    async with running(config) as (node, _):
        node.replicas.local.broker_epoch = 7
        registered: Any = {1: SimpleNamespace(broker_epoch=7)}
        applied = list[object]()

        async def made(_: MetadataImage) -> list[object]:
            node.replicas.local.broker_epoch = 9
            return []

        async def apply(*arguments: object, complete: bool) -> None:
            applied.append((arguments, complete))

        monkeypatch.setattr(node._assignments, "of", made)
        monkeypatch.setattr(node.replicas, "apply", apply)
        await node._on_image(replace(MetadataImage(), brokers=registered, offset=5))
    assert applied == []
