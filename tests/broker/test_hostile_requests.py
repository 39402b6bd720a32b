"""Requests that are large, slow, deep or endless: refused in time and in bounded memory, and others are served."""

from __future__ import annotations

import asyncio
import io
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from broker_support import Http, http_to

from raftlog import Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.serving.limits import MAX_JSON_BYTES
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_frame
from raftlog.wire.data import ProducePartition, ProduceRequest
from tests.broker.stall_support import require_no_stall_each_time

pytestmark = pytest.mark.cluster
JSON = {"Content-Type": "application/json"}
ELSEWHERE = ("127.0.0.2", 0)
"""Honest clients connect from another address than hostile ones."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("strangers"), port=0, controllers=1, brokers=1) as cluster:
        yield cluster


@pytest.fixture
async def http(cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(cluster.bootstrap) as http:
        yield http


@pytest.fixture
async def topic(http: Http, topic_name: str) -> str:
    await http.create(topic_name, replication_factor=1)
    return topic_name


def memory_mb(cluster: LocalCluster) -> float:
    lines = Path(f"/proc/{cluster.pid('broker-1')}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return int(fields["VmRSS"].split()[0]) / 1024


@asynccontextmanager
async def served_meanwhile(cluster: LocalCluster, topic: str) -> AsyncIterator[list[float]]:
    """Send and read as an honest client does, all the while; yield how many seconds each round took."""
    took: list[float] = []
    ended = asyncio.Event()

    async def go_on(session: aiohttp.ClientSession) -> None:
        url = f"{cluster.bootstrap}/v1/topics/{topic}"
        while not ended.is_set():
            started = time.monotonic()
            async with session.post(f"{url}/records", json={"records": [{"value": 1}]}) as answer:
                assert answer.status == 200, await answer.text()
                offset = (await answer.json())["offsets"][0]["offset"]
            async with session.get(f"{url}/partitions/0/records?offset={offset}") as answer:
                assert answer.status == 200, await answer.text()
                assert (await answer.json())["records"][0]["offset"] == offset
            took.append(time.monotonic() - started)

    connector = aiohttp.TCPConnector(local_addr=ELSEWHERE)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        group.create_task(go_on(session))
        while not took:
            await asyncio.sleep(0.01)
        try:
            yield took
        finally:
            ended.set()
    assert took


def connect(cluster: LocalCluster, stack: ExitStack, internal: bool = False) -> socket.socket:
    node = cluster.node("broker-1")
    address = node.internal if internal else node.public
    assert address is not None
    return stack.enter_context(socket.create_connection(tuple(address)[:2], timeout=5))


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


@pytest.mark.parametrize(
    "request_head",
    [
        head("POST", "/v1/topics/T/records", "Transfer-Encoding: chunked", "Content-Type: application/json"),
        head("POST", "/v1/topics/T/records", "Content-Length: 2000000", "Content-Type: application/json"),
        head("POST", "/v1/topics/T/partitions/0/batches", "Content-Length: 67108864"),
        head("POST", "/v1/topics/T/partitions/0/batches", "Content-Length: 67108864", "X-Unknown: 1"),
        head("POST", "/v1/fetch", "Content-Length: 2000000"),
    ],
    ids=["chunked", "json", "batches", "batches by aiohttp", "fetch"],
)
async def test_bodies_that_never_come_keep_nobody_out_and_take_no_memory(
    cluster: LocalCluster, topic: str, request_head: bytes
):
    before = memory_mb(cluster)
    with ExitStack() as stack:
        async with served_meanwhile(cluster, topic) as took:
            for _ in range(1_200):  # More than there may be requests at once.
                connect(cluster, stack).sendall(request_head.replace(b"/T/", f"/{topic}/".encode()) + b"2\r\n{")
            seen = len(took)
            while len(took) < seen + 10:
                await asyncio.sleep(0.01)
            grown = memory_mb(cluster) - before
    # A connection takes some 70 kB, whatever it announces.
    assert grown < 150, f"{grown:.0f} MB"


async def test_readers_that_take_nothing_hold_no_answers(cluster: LocalCluster, topic: str):
    async with Producer(cluster.bootstrap) as producer:
        for _ in range(30):
            await asyncio.gather(*(producer.send(topic, os.urandom(500_000)) for _ in range(4)))
    before = memory_mb(cluster)
    reading = f"/v1/topics/{topic}/partitions/0/records?offset=0&max_bytes=50000000"
    with ExitStack() as stack:
        async with served_meanwhile(cluster, topic) as took:
            for accept in ("application/json", "application/vnd.raftlog.batches"):
                for _ in range(24):
                    stranger = connect(cluster, stack)
                    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                    stranger.sendall(head("GET", reading, f"Accept: {accept}"))
            seen = len(took)
            while len(took) < seen + 20:
                await asyncio.sleep(0.01)
            grown = memory_mb(cluster) - before
    assert grown < 400, f"{grown:.0f} MB"


async def test_many_large_heads_at_the_internal_listener_take_no_memory(cluster: LocalCluster, topic: str):
    before = memory_mb(cluster)
    with ExitStack() as stack:
        async with served_meanwhile(cluster, topic):
            for path in ("/internal/v1/fetch", "/internal/v1/repair", "/internal/v1/transactions/markers"):
                for _ in range(24):
                    stranger = connect(cluster, stack, internal=True)
                    stranger.sendall(head("POST", path, "Content-Length: 67108864"))
                    stranger.sendall(bytes(1_000))
        grown = memory_mb(cluster) - before
    assert grown < 100, f"{grown:.0f} MB"


DEEP = b"[" * 990 + b"]" * 990


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/fetch", b"[" + b"[]," * (20 << 20) + b"0]", 413),
        ("POST", "/v1/fetch", b"[" + b"[]," * (MAX_JSON_BYTES // 3 - 1) + b"0]", 400),
        ("POST", "/v1/fetch", b'{"partitions":[' + b'{"topic":"t","partition":0,"offset":0},' * 50_000 + b"0]}", 400),
        ("POST", "/v1/topics", b'{"topic":[' + b"1," * 900_000 + b"1]}", 400),
        ("POST", "/v1/topics/T/records", b'{"records":[' + b'{"value":1},' * 150_000 + b'{"value":1}]}', 400),
        ("POST", "/v1/topics/T/records", b'{"records":[{"value":' + DEEP + b"}]}", 400),
        ("POST", "/v1/topics/T/records", b'{"records":[{"value":' + DEEP[990 - 255 : 990 + 255] + b"}]}", 400),
        ("POST", "/v1/topics", DEEP, 400),
        ("POST", "/v1/topics", b'{"topic":' + DEEP + b"}", 400),
        ("POST", "/v1/topics", b"[" * 100_000, 400),
        ("POST", "/v1/topics/T/records", '{"records":[{"value":"\u00b2","value_encoding":"base64"}]}'.encode(), 400),
        ("PATCH", "/v1/topics/T", '{"configs":{"retention_ms":"\u00b2"}}'.encode(), 400),
        ("PATCH", "/v1/topics/T", b'{"configs":{"retention_ms":"' + b"9" * 5_000 + b'"}}', 400),
        ("PATCH", "/v1/topics/T", b'{"configs":{"retention_ms":' + b"9" * 5_000 + b"}}", 400),
        ("GET", "/v1/topics/T/partitions/0/offsets?at=-9223372036854775808", b"", 400),
        ("GET", "/v1/topics/T/partitions/0/offsets?at=9223372036854775807", b"", 400),
        ("POST", "/v1/groups/g/heartbeat", b'{"member_id":' + DEEP + b"}", 400),
        ("POST", "/v1/acls", b'{"acls":[' + b"[]," * 600_000 + b"0]}", 400),
    ],
)
async def test_what_is_large_deep_or_odd_is_refused_in_a_line(
    cluster: LocalCluster, http: Http, topic: str, method: str, path: str, body: bytes, status: int
):
    before = memory_mb(cluster)
    reply = await http(method, path.replace("/T", f"/{topic}"), data=io.BytesIO(body), headers=JSON)
    assert (reply.status, reply.headers["Content-Type"]) == (status, "application/json"), reply.body[:1_000]
    assert len(reply.message) < 1_000
    assert memory_mb(cluster) - before < 150


@pytest.mark.parametrize(
    ("item", "count", "says"),
    [
        (b"[],", 1_000_000, "values"),
        (b'{"topic":"t","partition":0,"length":0},', 20_000, "partitions"),
        (b'"a",', 100_000, "partitions"),
    ],
)
async def test_a_large_head_of_a_frame_is_refused_in_a_line(
    cluster: LocalCluster, http: Http, item: bytes, count: int, says: str
):
    head = b'{"partitions":[' + item * count + item[:-1] + b"]}"
    before = memory_mb(cluster)
    for _ in range(3):
        frame = io.BytesIO(len(head).to_bytes(4, "little") + head)
        reply = await http("POST", paths.PRODUCE, data=frame, headers={"Content-Type": media.FRAME})
        assert reply.status == 400, reply.body[:1_000]
        assert says in reply.message
        assert len(reply.message) < 1_000
    assert memory_mb(cluster) - before < 150


async def test_ten_thousand_records_of_json_are_stored_while_others_are_served(
    cluster: LocalCluster, http: Http, topic: str, topic_name: str
):
    many = b'{"records":[' + b",".join(b'{"key":"%d","value":{"n":%d}}' % (n, n) for n in range(20_000)) + b"]}"
    async with served_meanwhile(cluster, topic):
        await http.create(f"{topic_name}-many", partitions=3, replication_factor=1)
        replies = await asyncio.gather(
            *(http("POST", f"/v1/topics/{topic_name}-many/records", data=many, headers=JSON) for _ in range(4))
        )
        assert [(reply.status, len(reply.json["offsets"])) for reply in replies] == [(200, 20_000)] * 4
        read = await http("GET", f"/v1/topics/{topic_name}-many/partitions/0/records?offset=0&max_bytes=50000000")
        assert [record["offset"] for record in read.json["records"]] == list(range(read.json["next_offset"]))


@pytest.mark.parametrize(
    "records",
    [[{"key": "a" * 900_000, "value": 1}] * 2, [{"value": 1, "headers": [["h", "v"]] * 100_000}]],
    ids=["long keys", "many headers"],
)
async def test_few_large_records_of_json_hold_no_loop(http: Http, topic: str, records: list[object]):
    """Keys are hashed and headers encoded in a worker thread (`event_loops_keep_turning`)."""
    body = json.dumps({"records": records}).encode()
    for _ in range(3):
        reply = await http("POST", f"/v1/topics/{topic}/records", data=io.BytesIO(body), headers=JSON)
        assert reply.status in (200, 400), reply.body


def test_half_a_million_assignments_hold_the_loop_of_no_node(cluster: LocalCluster, stall_file: Path, topic_name: str):
    body = b'{"topic":"%s","assignments":[' % topic_name.encode() + b"[1]," * 499_000 + b"[1]]}"

    async def create() -> None:
        async with http_to(cluster.bootstrap) as http:
            reply = await http("POST", "/v1/topics", data=io.BytesIO(body), headers=JSON)
        assert reply.status == 400, reply.body
        assert "expected at most 10000 partitions" in reply.message

    require_no_stall_each_time(stall_file, lambda: asyncio.run(create()))


async def test_a_request_of_thousands_of_empty_batches_holds_no_loop(http: Http, topic: str):
    entries = tuple(ProducePartition(topic=topic, partition=0, length=0) for _ in range(10_000))
    frame = b"".join(encode_frame(ProduceRequest(acks="all", timeout_ms=10_000, partitions=entries)))
    for _ in range(3):
        reply = await http("POST", paths.PRODUCE, data=io.BytesIO(frame), headers={"Content-Type": media.FRAME})
        assert reply.status == 200, reply.body
        assert len(reply.json["partitions"]) == 10_000


async def test_a_host_that_is_no_utf_8_is_refused_by_every_node(cluster: LocalCluster):
    nodes = [cluster.node(name) for name in (*cluster.controllers, *cluster.brokers)]
    for address in [one for node in nodes for one in (node.public, node.internal) if one is not None]:
        with socket.create_connection((address.host, address.port), timeout=10) as stranger:
            stranger.sendall(
                b"GET / HTTP/1.1\r\nHost: \x80\r\nOrigin: http://evil.example\r\nConnection: close\r\n\r\n"
            )
            said = b""
            while more := await asyncio.to_thread(stranger.recv, 65_536):
                said += more
        assert said.startswith(b"HTTP/1.1 403 "), said
        assert b'"code":"FOREIGN_ORIGIN"' in said


EXPECT_NO_UTF_8 = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nExpect: \xff\r\nConnection: close\r\n\r\n"


async def test_an_expect_that_is_no_utf_8_is_refused_by_every_node(cluster: LocalCluster):
    nodes = [cluster.node(name) for name in (*cluster.controllers, *cluster.brokers)]
    for address in [one for node in nodes for one in (node.public, node.internal) if one is not None]:
        with socket.create_connection((address.host, address.port), timeout=10) as stranger:
            stranger.sendall(EXPECT_NO_UTF_8)
            said = b""
            while more := await asyncio.to_thread(stranger.recv, 65_536):
                said += more
        assert said.startswith(b"HTTP/1.1 417 "), said
        assert b'{"error":{"code":"INVALID_REQUEST"' in said, said
    logs = {name: cluster.log_tail(name, 1_000) for name in (*cluster.controllers, *cluster.brokers)}
    assert not [name for name, log in logs.items() if "Traceback" in log]


async def test_what_is_no_http_is_answered_in_our_form(cluster: LocalCluster):
    for garbage in (
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nA b\r\n\r\n",
        head("GET", "/v1/topics", "Expect: 110-continue", "Connection: close"),
        head("POST", "/v1/nowhere", "Expect: nothing", "Content-Length: 0", "Connection: close"),
        EXPECT_NO_UTF_8,
        head("GET", "/v1/topics", *(f"X-{number}: {'x' * 1_000}" for number in range(40))),
    ):
        with ExitStack() as stack:
            stranger = connect(cluster, stack)
            stranger.sendall(garbage)
            said = b""
            while more := await asyncio.to_thread(stranger.recv, 65_536):
                said += more
            assert b'{"error":{"code":"INVALID_REQUEST"' in said, said


async def test_a_head_that_never_ends_is_closed(cluster: LocalCluster):
    """The lean path gives a head up after 10 s; one that is too long for it goes to aiohttp, which must, too."""
    with ExitStack() as stack:
        strangers = [connect(cluster, stack) for _ in range(2)]
        strangers[0].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        strangers[1].sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"x" * 900) for n in range(20))
        )
        for stranger in strangers:
            stranger.settimeout(20)
            said = await asyncio.to_thread(stranger.recv, 65_536)
            assert said.startswith(b"HTTP/1.1 408 "), said
