"""Listeners with TLS: what they serve, what hostile peers do to them, and certificates that are replaced."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from aiohttp import web
from tls_support import Authority

from raftlog.broker.lean.routes import LeanRoutes
from raftlog.broker.listener import Listener
from raftlog.errors import OverloadedError, RaftlogError, UnreachableError
from raftlog.model import Address
from raftlog.runtime import SystemClock
from raftlog.serving import handshakes, tls_listener
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.listener import AiohttpListener, ListenerLimits
from raftlog.serving.loop_shares import UNPACED, LoopShares
from raftlog.serving.tls_listener import ListenerTls, TlsServer
from raftlog.serving.turnstile import Turnstile
from raftlog.tls import ClientAuth, TlsContext, TlsFiles, client_context, server_context
from raftlog.transport import HttpSession, pacing

LARGE = 3_000_000
LIMITS = RequestLimits(max_body_bytes=1 << 20, max_json_bytes=1 << 20)


async def _hello(_: web.Request) -> web.Response:
    return web.json_response({"hello": "you"})


async def _large(_: web.Request) -> web.Response:
    return web.Response(body=bytes(LARGE))


Serving: TypeAlias = Callable[..., AbstractAsyncContextManager[Address]]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.new(tmp_path / "ca")


def context_of(files: TlsFiles, client_auth: ClientAuth = "none") -> TlsContext:
    return TlsContext(files, partial(server_context, client_auth=client_auth))


def application() -> web.Application:
    app = web.Application()
    app.router.add_get("/", _hello)
    app.router.add_get("/large", _large)
    return app


@asynccontextmanager
async def listening(context: TlsContext, *, is_required: bool = True) -> AsyncIterator[Address]:
    """A controller's listener."""
    listener = AiohttpListener(
        application(),
        limits=LIMITS,
        connections=ConnectionLimits("test", total=100, per_address=100),
        turnstile=Turnstile(LoopShares(UNPACED)),
        drain_s=0.1,
        tls=ListenerTls(context, is_required=is_required),
    )
    await listener.start(Address("127.0.0.1", 0))
    assert listener._listening is not None
    try:
        yield Address("127.0.0.1", listener._listening.sockets[0].getsockname()[1], tls=True)
    finally:
        await listener.close()


@asynccontextmanager
async def broker_listening(context: TlsContext, *, is_required: bool = True) -> AsyncIterator[Address]:
    """A broker's listener. At its end it has forgotten each connection but those that are open."""
    lean = LeanRoutes(
        [],
        inflight=InflightLimits(max_requests=10, max_bytes=1 << 20),
        turnstile=Turnstile(),
        max_json_bytes=1 << 20,
    )
    listener = Listener(
        application(),
        lean,
        limits=ListenerLimits(requests=LIMITS, connections=ConnectionLimits("test", total=100, per_address=100)),
        clock=SystemClock(),
        drain_s=0.1,
        tls=ListenerTls(context, is_required=is_required),
    )
    await listener.start(Address("127.0.0.1", 0))
    assert isinstance(listener._server, TlsServer)
    try:
        yield Address("127.0.0.1", listener._server.sockets[0].getsockname()[1], tls=True)
    finally:
        await listener.close()
        async with asyncio.timeout(5):
            while listener._connections:
                await asyncio.sleep(0.01)


LISTENERS = pytest.mark.parametrize("listener", [listening, broker_listening])


def trusting(authority: Authority, files: TlsFiles | None = None) -> HttpSession:
    return HttpSession(tls=TlsContext(files or TlsFiles(ca_file=authority.ca_file), client_context))


async def ask(session: HttpSession, address: Address, path: str = "/") -> bytes:
    return bytes((await session.request("GET", address, path, timeout_ms=5_000)).body)


async def test_optional_tls_serves_both_on_one_port(authority: Authority):
    async with (
        listening(context_of(authority.issue("node")), is_required=False) as address,
        trusting(authority) as session,
    ):
        assert b"hello" in await ask(session, address)
        assert b"hello" in await ask(session, address._replace(tls=False))
        assert len(await ask(session, address, "/large")) == LARGE


async def test_a_plain_request_to_a_port_with_required_tls_is_sent_again_with_tls(authority: Authority):
    async with listening(context_of(authority.issue("node"))) as address, trusting(authority) as session:
        assert b"hello" in await ask(session, address._replace(tls=False))
        body = bytes(5_000_000)
        with pytest.raises(RaftlogError, match=r"Method Not Allowed|Not Found"):
            await session.request("POST", address._replace(tls=False), "/none", body=body, timeout_ms=5_000)


async def test_a_plain_client_is_told_that_the_port_speaks_tls(authority: Authority):
    async with listening(context_of(authority.issue("node"))) as address:
        reader, writer = await asyncio.open_connection(*address[:2])
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n" + bytes(3_000_000))
        writer.write_eof()
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 426 ")
    assert b"this port speaks TLS only: use https://" in answer


@pytest.mark.parametrize(
    ("identities", "days", "message"),
    [
        (("another.example",), None, "is for another host"),
        ((), -1, "is not valid now"),
    ],
)
async def test_a_client_says_what_is_wrong_with_a_certificate(
    authority: Authority, identities: tuple[str, ...], days: int | None, message: str
):
    files = authority.issue("node", *identities, days=days)
    async with listening(context_of(files)) as address, trusting(authority) as session:
        with pytest.raises(UnreachableError, match=message):
            await ask(session, address)


async def test_a_client_must_show_a_certificate_where_one_is_required(authority: Authority, tmp_path: Path):
    other = Authority.new(tmp_path / "other", "other")
    async with listening(context_of(authority.issue("node"), "required")) as address:
        async with trusting(authority, authority.issue("client")) as known:
            assert b"hello" in await ask(known, address)
        stranger = TlsFiles(
            cert_file=other.issue("client").cert_file,
            key_file=other.issue("client").key_file,
            ca_file=authority.ca_file,
        )
        for session in (trusting(authority), trusting(authority, stranger)):
            async with session:
                with pytest.raises(RaftlogError):
                    await ask(session, address)


HOSTILE = {
    "nothing": b"",
    "half of a hello": bytes.fromhex("1603010200010001fc0303"),
    "a hello of zeros": b"\x16\x03\x01\x40\x00" + bytes(16_384),
    "only the first byte": b"\x16",
    "an alert": b"\x15\x03\x03\x00\x02\x02\x28",
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "an endless head": b"GET / HTTP/1.1\r\nX: " + b"x" * 60_000,
}


@pytest.mark.parametrize("sent", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("is_required", [True, False])
@LISTENERS
async def test_a_peer_that_does_not_complete_the_handshake_is_closed(
    authority: Authority, sent: bytes, is_required: bool, listener: Serving, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tls_listener, "HANDSHAKE_S", 0.3)
    async with (
        listener(context_of(authority.issue("node")), is_required=is_required) as address,
        trusting(authority) as session,
    ):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(sent)
        assert b"hello" in await ask(session, address)
        if is_required or not sent or sent[0] == 0x16:
            async with asyncio.timeout(5):
                with suppress(ConnectionError):
                    await reader.read()
        writer.close()
        assert b"hello" in await ask(session, address)


class Greeter:
    """A raw connection whose TLS is done by hand."""

    def __init__(self, authority: Authority) -> None:
        self._loop = asyncio.get_running_loop()
        self._received, self._sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = client_context(TlsFiles(ca_file=authority.ca_file))
        self._tls = context.wrap_bio(self._received, self._sent, server_hostname="localhost")
        self.socket = socket.socket()
        self.socket.setblocking(False)

    def step(self) -> tuple[bytes, bool]:
        """Return what is to be sent next, and whether the handshake is complete."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return self._sent.read(), False
        return self._sent.read(), True

    async def receive(self) -> bytes:
        received = await self._loop.sock_recv(self.socket, 65_536)
        self._received.write(received)
        return received

    async def complete(self, address: Address) -> None:
        await self._loop.sock_connect(self.socket, address[:2])
        is_complete = False
        while not is_complete:
            sent, is_complete = self.step()
            await self._loop.sock_sendall(self.socket, sent)
            if not is_complete:
                await self.receive()


async def test_handshakes_that_go_on_at_the_same_moment_share_no_turn_of_the_loop(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
):
    """200 of them held the loop for 77 ms, with the cheapest kind of key."""
    monkeypatch.setattr(handshakes, "TURN_S", 0.0)
    loop, turns, is_over, steps = asyncio.get_running_loop(), 0, False, list[int]()
    do_handshake = ssl.SSLObject.do_handshake

    def noted(tls: ssl.SSLObject) -> None:
        if tls.server_side:
            steps.append(turns)
        do_handshake(tls)

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not is_over:
            loop.call_soon(turn)

    monkeypatch.setattr(ssl.SSLObject, "do_handshake", noted)
    async with asyncio.timeout(30), broker_listening(context_of(authority.issue("node"))) as address:
        greeters = [Greeter(authority) for _ in range(30)]
        hellos = [each.step()[0] for each in greeters]
        for each, hello in zip(greeters, hellos, strict=True):
            await loop.sock_connect(each.socket, address[:2])
            await loop.sock_sendall(each.socket, hello[:7])
        while len(steps) < 2 * len(greeters):  # Each has begun, and has looked at these bytes.
            await asyncio.sleep(0.01)
        steps.clear()
        turn()
        for each, hello in zip(greeters, hellos, strict=True):
            each.socket.send(hello[7:])
        for each in greeters:
            assert await each.receive()
            each.socket.close()
        is_over = True
    assert len(set(steps)) == len(greeters)


@LISTENERS
async def test_a_refused_connection_ends_although_its_peer_does_not_end_it(
    authority: Authority, listener: Serving, monkeypatch: pytest.MonkeyPatch
):
    """Nothing counts such connections, so they must not wait for their peers: TLS does so for 30 s."""
    enter = ConnectionLimits.enter

    def full(limits: ConnectionLimits, address: str) -> None:
        if limits._name == "test":
            raise OverloadedError("there are too many")
        enter(limits, address)

    monkeypatch.setattr(ConnectionLimits, "enter", full)
    async with listener(context_of(authority.issue("node"))) as address:
        refused = Greeter(authority)
        async with asyncio.timeout(15):
            await refused.complete(address)
            with suppress(ConnectionError):
                while await refused.receive():
                    pass
        refused.socket.close()


@LISTENERS
async def test_many_silent_connections_and_resets_leave_an_honest_client_served(
    authority: Authority, listener: Serving, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tls_listener, "MAX_HANDSHAKES", 64)
    monkeypatch.setattr(tls_listener, "HANDSHAKE_S", 1.0)
    async with listener(context_of(authority.issue("node"))) as address, trusting(authority) as session:
        assert b"hello" in await ask(session, address)
        silent = [socket.create_connection(address[:2]) for _ in range(40)]
        for _ in range(200):
            reset = socket.create_connection(address[:2])
            reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            reset.close()
            await asyncio.sleep(0)
        async with trusting(authority) as fresh:
            for attempt in range(200):  # Half of all handshakes may be of one address; the resets leave in time.
                with suppress(UnreachableError):
                    assert b"hello" in await ask(fresh, address)
                    break
                await asyncio.sleep(0.05)
                assert attempt < 199
        for each in silent:
            each.close()


async def test_certificates_are_replaced_under_load_without_a_failed_request(authority: Authority):
    files = authority.issue("node")
    context = context_of(files)
    stop, served = asyncio.Event(), 0

    async def load() -> None:
        nonlocal served
        while not stop.is_set():
            async with trusting(authority) as session:
                for _ in range(3):
                    assert b"hello" in await ask(session, address)
                    served += 1

    async with listening(context) as address, asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(load())
        for _ in range(100):
            authority.issue("node")
            assert context.reload()
            before = served
            while served == before:
                await asyncio.sleep(0)
        stop.set()
    assert served > 100


def exchange_key(files: TlsFiles, other: TlsFiles) -> None:
    Path(files.key_file).write_bytes(Path(other.key_file).read_bytes())


async def test_a_pair_that_does_not_match_leaves_the_previous_one_in_force(
    authority: Authority, caplog: pytest.LogCaptureFixture
):
    files = authority.issue("node")
    context = context_of(files)
    exchange_key(files, authority.issue("other"))

    assert not context.reload()
    assert not context.reload()
    assert [record.message for record in caplog.records if "stay in force" in record.message] != []
    assert sum("does not belong to the certificate" in record.message for record in caplog.records) == 1
    async with listening(context) as address, trusting(authority) as session:
        assert b"hello" in await ask(session, address)

    authority.issue("node")
    assert context.reload()


@LISTENERS
async def test_a_dial_that_is_cancelled_closes_no_descriptor_under_its_transport(
    authority: Authority, listener: Callable[..., AbstractAsyncContextManager[Address]]
):
    """The next connection has the same descriptor: it would be refused, or stop reading later."""
    client = client_context(TlsFiles(ca_file=authority.ca_file))
    loop = asyncio.get_running_loop()

    class Made(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)
            if steps == 0:
                dialling.cancel()  # The handshake has ended, and the dial has not returned yet.

    made: list[asyncio.BaseTransport] = []
    async with listener(context_of(authority.issue("node"))) as address:
        for steps in range(100):
            made.clear()
            dialling = asyncio.ensure_future(
                pacing.connect(Made, address.host, address.port, client, server_name=address.host)
            )
            if steps == 0:
                await asyncio.wait([dialling])
            for _ in range(steps):
                await asyncio.sleep(0)
            dialling.cancel()
            await asyncio.wait([dialling])
            with ExitStack() as stack:
                for _ in range(5):
                    other = stack.enter_context(socket.socket())
                    other.setblocking(False)
                    await loop.sock_connect(other, (address.host, address.port))
            if not dialling.cancelled():
                made[0].close()
                break
        else:
            pytest.fail("the dial never ended by itself")


@pytest.mark.parametrize("is_loopback", [True, False])
async def test_a_dial_that_is_cancelled_leaves_no_connection(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, is_loopback: bool
):
    """The server waits for a handshake that does not come; to the client nothing shows that the connection exists."""
    monkeypatch.setattr(pacing, "is_loopback", lambda host: is_loopback)
    client = client_context(TlsFiles(ca_file=authority.ca_file))
    ended: asyncio.Queue[None] = asyncio.Queue()
    accepted = 0

    async def until_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
        ended.put_nowait(None)

    server = await asyncio.start_server(until_end, "127.0.0.1", 0)
    async with server, asyncio.timeout(20):
        for steps in range(60):
            port = server.sockets[0].getsockname()[1]
            dialling = asyncio.ensure_future(pacing.connect(asyncio.Protocol, "127.0.0.1", port, client, "127.0.0.1"))
            for _ in range(steps):
                await asyncio.sleep(0)
            dialling.cancel()
            await asyncio.wait([dialling])
            assert dialling.cancelled()
        while ended.qsize() < accepted or accepted < 30:
            await asyncio.sleep(0.01)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_old_versions_and_weak_ciphers_are_refused(authority: Authority):
    async with listening(context_of(authority.issue("node"))) as address:
        for weaken in (_old_version, _weak_cipher):
            client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            client.load_verify_locations(authority.ca_file)
            weaken(client)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection(*address[:2], ssl=client, server_hostname="localhost")


def _old_version(client: ssl.SSLContext) -> None:
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    client.maximum_version = ssl.TLSVersion.TLSv1_1


def _weak_cipher(client: ssl.SSLContext) -> None:
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    client.set_ciphers("AES128-SHA")


async def test_small_answers_are_sent_at_once(authority: Authority):
    """With Nagle's algorithm each answer in two pieces waits 40 ms for the client's acknowledgement."""
    made: asyncio.Future[asyncio.BaseTransport] = asyncio.get_running_loop().create_future()

    class Served(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.set_result(transport)

    server = tls_listener.TlsServer(Served, ListenerTls(context_of(authority.issue("node")), is_required=True))
    await server.start(Address("127.0.0.1", 0))
    client = client_context(TlsFiles(ca_file=authority.ca_file))
    _, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), ssl=client, server_hostname="localhost")
    served = await made
    assert served.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    served.abort()  # type: ignore[attr-defined]
    with suppress(ConnectionError, ssl.SSLError):
        writer.close()
        await writer.wait_closed()
    server.close()
