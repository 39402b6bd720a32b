"""The lean path, byte by byte: the requests it takes, those it hands over, its time limits, and what it frees."""

from __future__ import annotations

import asyncio
import base64
import gc
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

import listener_support
import pytest
from aiohttp import web
from listener_support import answer, listening, post

from raftlog.broker.http import errors, plain_bodies
from raftlog.broker.lean.routes import LeanRoutes
from raftlog.broker.listener import Listener
from raftlog.broker.raw import RawReply, RawRequest, RawRoute
from raftlog.errors import InvalidRequestError
from raftlog.model import Acl, Address
from raftlog.runtime import SystemClock
from raftlog.security.access import Access
from raftlog.security.authenticators import Authenticators
from raftlog.security.guard import Guard
from raftlog.security.passwords import scram_credential
from raftlog.security.routes import Right, Route, RouteTable
from raftlog.serving.admission import Admission
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.listener import ListenerLimits
from raftlog.serving.request_metrics import RequestMetrics
from raftlog.serving.turnstile import Turnstile
from raftlog.serving.workers import INLINE_BYTES
from raftlog.wire import media

MAX_BODY = 1 << 20


@dataclass
class Served:
    """A listener whose routes echo, fail, or wait; it notes what it was asked."""

    address: Address
    listener: Listener
    limits: InflightLimits
    bodies: list[bytes] = field(default_factory=list)
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    turnstile: Turnstile = field(default_factory=Turnstile)

    async def echo(self, request: RawRequest) -> RawReply:
        self.bodies.append(bytes(request.body))
        return RawReply(parts=[b"<", bytes(request.body), b">"], content_type=media.FRAME)

    async def wait(self, request: RawRequest) -> RawReply:
        self.waiting.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return RawReply.json({"waited": request.query.get("for", "")})

    async def fail(self, request: RawRequest) -> RawReply:
        if request.match_info["how"] == "known":
            raise InvalidRequestError("it is wrong")
        raise RuntimeError("a bug")


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


Serve = Callable[..., object]


@asynccontextmanager
async def serving(guard: Guard | None = None, **limits: float) -> AsyncIterator[Served]:
    inflight = InflightLimits(max_requests=3, max_bytes=2 * MAX_BODY)
    settings = RequestLimits(max_body_bytes=MAX_BODY, **limits)  # type: ignore[arg-type]
    served = Served(Address("127.0.0.1", 0), None, inflight)  # type: ignore[arg-type]
    routes = [
        RawRoute(path="/echo", form=media.FRAME, handler=served.echo),
        RawRoute(path="/wait", form=media.FRAME, handler=served.wait),
        RawRoute(path="/fail/{how}", form=media.FRAME, handler=served.fail),
    ]
    turnstile = served.turnstile
    admission = Admission(inflight, settings, turnstile, batches=[route.path for route in routes])
    app = web.Application(middlewares=[errors, plain_bodies, admission.middleware])
    app.router.add_get("/hello", hello)
    for route in routes:
        route.add_to(app)
    lean = LeanRoutes(
        routes,
        inflight=inflight,
        turnstile=turnstile,
        max_json_bytes=INLINE_BYTES,
        metrics=served.metrics,
        guard=guard,
    )
    served.connections = ConnectionLimits("test", total=1_000, per_address=1_000)
    served.listener = Listener(
        app,
        lean,
        limits=ListenerLimits(requests=settings, connections=served.connections),
        clock=SystemClock(),
        drain_s=1.0,
    )
    async with listening(served.listener) as served.address:
        yield served


def connected(served: Served) -> AbstractAsyncContextManager[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    return listener_support.connected(served.address)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


async def test_a_request_is_answered_whatever_pieces_it_comes_in():
    request = post("/echo", b"abcdef")
    async with serving() as served, connected(served) as (reader, writer):
        for cut in range(1, len(request), 7):
            writer.write(request[:cut])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(request[cut:])
            reply = await answer(reader)
            assert (reply.status, reply.body, reply.fields["content-type"]) == (200, b"<abcdef>", media.FRAME)
            assert "date" in reply.fields
    assert set(served.bodies) == {b"abcdef"}
    assert served.metrics.counts == {("/echo", 200): len(served.bodies)}


async def test_large_bodies_are_received_into_a_buffer_that_shows_nothing_of_the_one_before():
    async with serving() as served, connected(served) as (reader, writer):
        for length, byte in ((MAX_BODY, b"a"), (300_000, b"b"), (MAX_BODY - 1, b"c"), (0, b"d")):
            writer.write(post("/echo", byte * length))
            assert (await answer(reader)).body == b"<" + byte * length + b">"
        assert served.limits.bytes == served.limits.requests == 0


async def test_pipelined_requests_are_answered_in_order():
    async with serving() as served, connected(served) as (reader, writer):
        many = [post("/echo", b"%d" % number * 5_000) for number in range(10)]
        writer.write(b"".join([post("/wait?for=it"), *many, b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"]))
        await served.waiting.wait()
        assert served.bodies == []
        served.release.set()
        assert (await answer(reader)).body == b'{"waited":"it"}'
        for number in range(10):
            assert (await answer(reader)).body == b"<" + b"%d" % number * 5_000 + b">"
        assert (await answer(reader)).body == b"hello"


async def test_another_request_takes_its_connection_to_aiohttp_where_all_paths_are_served():
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(post("/echo", b"lean"))
        assert "server" not in (await answer(reader)).fields
        writer.write(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await answer(reader)).body == b"hello"
        writer.write(post("/echo", b"copied"))
        reply = await answer(reader)
        assert (reply.status, reply.body) == (200, b"<copied>")
        assert "aiohttp" in reply.fields["server"]
        writer.write(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await answer(reader)).status == 404


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        ("Transfer-Encoding: chunked\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"<abc>"),
        ("Content-Length: 3\r\nContent-Encoding: identity\r\n", b"abc", b"<abc>"),
        ("Content-Length: 3\r\nX-Unknown: x\r\n", b"abc", b"<abc>"),
        ("Content-Length: 3\r\nConnection: close\r\n", b"abc", b"<abc>"),
    ],
)
async def test_unusual_requests_are_aiohttps(head: str, body: bytes, expected: bytes):
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(f"POST /echo HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode() + body)
        reply = await answer(reader)
        assert (reply.status, reply.body) == (200, expected)
        assert not served.metrics.counts


async def test_expect_continue_is_answered_before_the_body():
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(post("/echo", b"", "Expect: 100-continue", length=3))
        assert (await answer(reader)).status == 100
        writer.write(b"abc")
        assert (await answer(reader)).body == b"<abc>"


SMUGGLED = post("/echo", b"smuggled")


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: 3, 3\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length: 0x3\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length : 3\r\n",
        b"Content-Length: 3\r\n folded\r\n",
        b"Content-Length: 3\r\nX: a\rb\r\n",
        b"Content-Length: 3\r\nX: \0\r\n",
        b"Content-Length: 3\r\nNo colon\r\n",
    ],
)
async def test_a_request_whose_end_is_in_doubt_is_refused(fields: bytes):
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\nabc" + SMUGGLED)
        received = await reader.read(1 << 16)
        assert received.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
        while more := await reader.read(1 << 16):
            received += more
        assert b"smuggled" not in received
        assert served.bodies == []


async def test_a_head_without_an_end_is_refused():
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000)
        assert (await reader.read(1 << 16)).split()[1] == b"400"
        assert served.bodies == []


@pytest.mark.parametrize(
    "sent", [b"P", post("/echo", b"abc", length=4), post("/echo", b"abc", length=500_000), post("/echo")[:-1]]
)
async def test_who_sends_slowly_is_not_waited_for(sent: bytes):
    async with (
        serving(head_s=0.1, body_s=0.1, body_bytes_per_s=1 << 30) as served,
        connected(served) as (reader, writer),
    ):
        writer.write(sent)
        reply = await answer(reader)
        assert (reply.status, reply.fields["connection"]) == (408, "close")
        assert b"took too long to arrive" in reply.body
        assert served.limits.requests == served.limits.bytes == 0
        writer.write_eof()
        assert await reader.read() == b""


async def test_one_byte_now_and_then_does_not_help():
    async with serving(head_s=0.2) as served, connected(served) as (reader, writer):
        reading = asyncio.create_task(answer(reader))
        for byte in post("/echo"):
            if reading.done():
                break
            writer.write(bytes([byte]))
            await asyncio.sleep(0.01)
        assert (await reading).status == 408


async def test_idle_connections_are_closed():
    async with serving(idle_s=1.0) as served, connected(served) as (reader, writer):
        writer.write(post("/echo", b"abc"))
        assert (await answer(reader)).status == 200
        assert await reader.read() == b""


async def test_a_body_that_is_too_large_is_refused_before_it_comes():
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(post("/echo", b"abc", length=MAX_BODY + 1))
        reply = await answer(reader)
        assert (reply.status, reply.fields["connection"]) == (413, "close")
        assert b"MESSAGE_TOO_LARGE" in reply.body
        assert str(MAX_BODY).encode() in reply.body
        assert served.metrics.counts == {("/echo", 413): 1}


async def test_who_sends_all_of_a_body_that_is_too_large_reads_the_answer():
    body = bytes(8 * MAX_BODY)
    async with serving() as served, connected(served) as (reader, writer):
        reading = asyncio.create_task(answer(reader))
        writer.write(post("/echo", body))
        await writer.drain()
        assert (await reading).status == 413
        assert await reader.read() == b""
        assert served.bodies == []


async def test_beyond_the_limit_requests_are_refused_and_their_connections_go_on():
    async with serving() as served, connected(served) as (reader, writer), connected(served) as (_, first):
        first.write(post("/wait", bytes(MAX_BODY)))
        await served.waiting.wait()
        writer.write(post("/echo", bytes(MAX_BODY)))
        assert (await answer(reader)).status == 200  # There is room for two.
        async with connected(served) as (_, second):
            second.write(post("/wait", bytes(MAX_BODY)))
            await until(lambda: served.limits.requests == 2)
            writer.write(post("/echo", bytes(MAX_BODY)))
            refused = await answer(reader)
            assert (refused.status, refused.fields["retry-after"]) == (429, "1")
            assert b"THROTTLING_QUOTA_EXCEEDED" in refused.body
        await until(lambda: served.limits.requests == 1)
        writer.write(post("/echo", b"again"))
        assert (await answer(reader)).body == b"<again>"


@pytest.mark.parametrize("half", [True, False])
async def test_who_hangs_up_is_forgotten(half: bool):
    async with serving() as served, connected(served) as (_, writer):
        writer.write(post("/wait", b"abc"))
        await served.waiting.wait()
        assert served.limits.bytes == 3
        if half:
            writer.write_eof()
        else:
            writer.transport.abort()
        await served.cancelled.wait()
        await until(lambda: served.limits.requests == served.limits.bytes == 0)
        assert served.listener._connections == {}


async def test_who_hangs_up_amid_a_body_is_forgotten():
    async with serving() as served, connected(served) as (_, writer):
        writer.write(post("/echo", b"abc", length=1_000))
        await until(lambda: served.limits.bytes == 3)  # What has arrived.
        writer.transport.abort()
        await until(lambda: served.limits.bytes == served.limits.requests == 0)
        assert served.bodies == []


async def test_who_reads_nothing_is_not_waited_for():
    async with serving(write_s=0.1) as served, connected(served) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(40):  # More than all buffers between hold.
            writer.write(post("/echo", bytes(MAX_BODY)))
        await until(lambda: not served.listener._connections)
        assert 0 < len(served.bodies) < 40


@pytest.mark.parametrize(("how", "status", "text"), [("known", 400, b"it is wrong"), ("bug", 500, b"its log says why")])
async def test_what_a_handler_raises_is_answered(how: str, status: int, text: bytes, caplog: pytest.LogCaptureFixture):
    async with serving() as served, connected(served) as (reader, writer):
        writer.write(post(f"/fail/{how}"))
        reply = await answer(reader)
        assert reply.status == status
        assert text in reply.body
        assert served.metrics.counts == {("/fail/{how}", status): 1}
        writer.write(post("/echo", b"on"))
        assert (await answer(reader)).body == b"<on>"
    assert ("a bug" in caplog.text) == (how == "bug")


async def test_a_listener_that_closes_lets_requests_end():
    async with serving() as served, connected(served) as (reader, writer), connected(served) as (idle, _):
        writer.write(post("/wait"))
        await served.waiting.wait()
        closing = asyncio.create_task(served.listener.close())
        assert await idle.read() == b""
        served.release.set()
        assert (await answer(reader)).status == 200
        assert await reader.read() == b""
        await closing
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncio.open_connection(served.address.host, served.address.port)


async def test_a_connection_for_aiohttp_waits_for_its_turn_and_may_end_meanwhile():
    async with serving() as served, connected(served) as (reader, writer), connected(served) as (_, gone):
        served.turnstile.mark_active("192.0.2.1")
        served.turnstile.charge("127.0.0.1", 0.25)
        asked_at = asyncio.get_running_loop().time()
        for each in (writer, gone):
            each.write(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n" * 3)
        await until(lambda: len(served.turnstile._waiting.get("127.0.0.1", ())) == 2)
        gone.transport.abort()
        await until(lambda: served.connections.size == 1)
        for _ in range(3):
            assert (await answer(reader)).body == b"hello"
        assert asyncio.get_running_loop().time() - asked_at > 0.2
    await until(lambda: served.connections.size == 0)


async def test_a_supervisor_waits_for_no_turn():
    async with serving() as served, connected(served) as (reader, writer):
        served.turnstile.mark_active("192.0.2.1")
        served.turnstile.charge("127.0.0.1", 0.4)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(0.2):
            assert (await answer(reader)).status == 404  # There is none here, and nobody waited to say so.


async def test_requests_for_what_is_not_there_leave_nothing_to_the_garbage_collector():
    async with serving() as served, connected(served) as (reader, writer):
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                writer.write(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n")
                assert (await answer(reader)).status == 404
            assert sum(isinstance(each, web.Request) for each in gc.get_objects()) <= 1
        finally:
            gc.enable()


async def until_nothing_counts(served: Served) -> None:
    async with asyncio.timeout(10):
        await until(lambda: (served.connections.size, served.limits.requests, served.limits.bytes) == (0, 0, 0))


@pytest.mark.parametrize("way", ["lean", "aiohttp"])
async def test_what_is_answered_and_closed_counts_no_longer(way: str):
    chunked = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
    async with serving() as served:
        async with connected(served) as (reader, writer):
            writer.write(post("/echo", b"abcde") if way == "lean" else chunked)
            assert (await answer(reader)).body == b"<abcde>"
            assert served.connections.size == 1
        await until_nothing_counts(served)


async def test_a_request_that_is_handled_for_longer_than_its_head_may_take_is_answered():
    head_s = 0.05
    async with serving(head_s=head_s) as served, connected(served) as (reader, writer):
        writer.write(b"POST /wait?for=it HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        await served.waiting.wait()
        asyncio.get_running_loop().call_later(2 * head_s, served.release.set)
        reply = await answer(reader)
        assert (reply.status, reply.body) == (200, b'{"waited":"it"}')


def basic(user: str = "ann", password: str = "secret-1") -> str:
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@contextmanager
def guarding(rule: str = "x") -> Iterator[Guard]:
    """Yield a guard that lets `ann` send to /echo, to /wait, and to /fail/<rule>."""
    right = Right(operation="write", resource="topic", variable="how")
    routes = [
        Route(method="POST", path="/echo"),
        Route(method="POST", path="/wait"),
        Route(method="POST", path="/fail/{how}", rights=(right,)),
    ]
    users = {name: scram_credential(name, "secret-1", b"s" * 16, iterations=1) for name in ("ann", "bob")}
    rules = (Acl(principal="ann", operation="write", resource_type="topic", resource_name=rule),)
    access = Access("acl", lambda: rules)
    yield Guard(RouteTable(routes), Authenticators(lambda: users, SystemClock()), access, cluster_id="c")


@pytest.mark.parametrize(
    "field", [basic(), basic().replace("A", "a", 1), "Authorization: ", "Authorization: Bearer ~~"]
)
async def test_a_request_with_credentials_stays_lean(field: str):
    async with serving() as served, connected(served) as (reader, writer):
        for _ in range(2):
            writer.write(post("/echo", b"abc", field))
            reply = await answer(reader)
            assert (reply.status, reply.body) == (200, b"<abc>")
            assert "server" not in reply.fields


async def test_pipelined_requests_wait_for_the_check_of_a_password():
    with guarding() as guard:
        async with serving(guard) as served, connected(served) as (reader, writer):
            requests = [post("/echo", b"%d" % number * 9_000, basic()) for number in range(10)]
            writer.write(b"".join(requests))
            for number in range(10):
                reply = await answer(reader)
                assert reply.body == b"<" + b"%d" % number * 9_000 + b">"
                assert "server" not in reply.fields


async def test_credentials_of_each_request_count_and_refused_bodies_are_discarded():
    with guarding("known") as guard:
        async with serving(guard) as served, connected(served) as (reader, writer):
            for line, path, status in [
                ((basic(),), "/echo", 200),
                ((), "/echo", 401),
                ((basic("bob"),), "/echo", 200),
                ((basic("bob"),), "/fail/known", 403),
                ((basic("bob", "wrong"),), "/echo", 401),
                ((basic("bob", "wrong"),), "/echo", 401),
                ((basic(),), "/fail/known", 400),
                ((basic(),), "/fail/other", 403),
                ((basic(), "Raftlog-On-Behalf-Of: h,User:root"), "/echo", 403),
                ((basic(),), "/echo", 200),
            ]:
                writer.write(post(path, b"x" * 300_000, *line))
                reply = await answer(reader)
                assert reply.status == status, (path, line, reply.body)
                assert "server" not in reply.fields
                assert ("www-authenticate" in reply.fields) == (status == 401)
            assert served.limits.bytes == served.limits.requests == 0


@pytest.mark.parametrize("end", ["client", "listener"])
async def test_a_connection_may_end_during_the_check_of_its_password(end: str, monkeypatch: pytest.MonkeyPatch):
    begun, gate = threading.Event(), threading.Event()

    def check(*_: object) -> bool:
        begun.set()
        return gate.wait(10) and end == "listener"

    monkeypatch.setattr("raftlog.security.authenticators.is_password_of", check)
    with guarding() as guard:
        async with serving(guard) as served, connected(served) as (reader, writer):
            writer.write(post("/echo", b"abc", basic()))
            await until(begun.is_set)
            if end == "client":
                writer.transport.abort()
                with suppress(ConnectionError):
                    await writer.wait_closed()
                gate.set()  # Nothing is read during the check, so the broker sees the end after it.
                await until(lambda: not served.connections.size)
            else:
                closing = asyncio.ensure_future(served.listener.close())
                await asyncio.sleep(0)
                gate.set()
                await closing
                assert await reader.read() == b""
        assert served.bodies == []
        assert served.limits.bytes == served.limits.requests == 0
