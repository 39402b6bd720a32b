"""Quotas on connections, byte by byte: answers at once, mutes, holds, refusals, and what a lost connection frees."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import listener_support
import pytest
import trustme
from aiohttp import web
from listener_support import Answer, answer, listening, post

from raftlog.broker import administration, reassignments
from raftlog.broker.http import errors, plain_bodies
from raftlog.broker.lean.muting import peer_has_disconnected
from raftlog.broker.lean.routes import LeanRoutes
from raftlog.broker.listener import Listener
from raftlog.broker.metrics.throttling import Throttling
from raftlog.broker.quota_middleware import QuotaMiddleware
from raftlog.broker.quotas import QuotaGate
from raftlog.broker.raw import RawReply, RawRequest, RawRoute
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import Address, BrokerRegistration, Quota
from raftlog.runtime import SystemClock
from raftlog.security.identity import Sender
from raftlog.security.principal import Principal
from raftlog.security.quotas import Buckets
from raftlog.serving.admission import Admission, Handler
from raftlog.serving.connection_rates import ConnectionRates
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.listener import ListenerLimits
from raftlog.serving.streams import StreamedResponse, StreamLimits
from raftlog.serving.tls_listener import ListenerTls
from raftlog.serving.turnstile import Turnstile
from raftlog.serving.workers import INLINE_BYTES
from raftlog.tls import TlsContext, TlsFiles, server_context
from raftlog.wire import media, paths

MAX_BODY = 4 << 20
PATHS = [pytest.param((), id="lean"), pytest.param(("X-Trace: 1",), id="aiohttp")]
"""A request with an unknown field goes to aiohttp."""


@dataclass
class Served:
    """A listener that takes and gives bytes, limited by the quotas of an image."""

    address: Address
    listener: Listener
    gate: QuotaGate
    throttling: Throttling
    image: MetadataImage = field(default_factory=MetadataImage)
    served: list[float] = field(default_factory=list)
    limits: list[int | None] = field(default_factory=list)
    answer_bytes: int = 0
    identified: list[float] = field(default_factory=list)
    """When the senders of aiohttp's requests were identified."""
    stream_goes_on: asyncio.Event = field(default_factory=asyncio.Event)
    rates: ConnectionRates = field(default_factory=ConnectionRates)

    async def handle(self, request: RawRequest) -> RawReply:
        self.served.append(time.monotonic())
        self.limits.append(request.max_answer_bytes)
        return RawReply(parts=[b"x" * self.answer_bytes], content_type=media.FRAME)

    def limit(self, *, user: str = "ANONYMOUS", client_id: str = "", **limits: float) -> None:
        quotas = {} if not limits else {(user, client_id): Quota(user=user, client_id=client_id, limits=limits)}
        self.image = replace(self.image, quotas=quotas)


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


@asynccontextmanager
async def serving(tls: TlsContext | None = None) -> AsyncIterator[Served]:
    inflight = InflightLimits(max_requests=50, max_bytes=8 * MAX_BODY)
    settings = RequestLimits(max_body_bytes=MAX_BODY)
    served = Served(Address("127.0.0.1", 0), None, None, Throttling())  # type: ignore[arg-type]
    served.stream_goes_on.set()
    served.gate = QuotaGate(lambda: served.image, 1, served.throttling)
    routes = [
        RawRoute(path=path, form=form, handler=served.handle)
        for path, form in ((paths.PRODUCE, media.FRAME), (paths.FETCH, media.JSON))
    ]
    turnstile, streams = Turnstile(), StreamLimits(10)
    admission = Admission(inflight, settings, turnstile, batches=[paths.PRODUCE])
    quotas = QuotaMiddleware(served.gate)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        served.identified.append(time.monotonic())
        return await handler(request)

    middlewares = [errors, quotas.muting, guard, quotas.middleware, plain_bodies, admission.middleware]
    app = web.Application(middlewares=middlewares)
    app.on_shutdown.append(quotas.close)

    async def stream(request: web.Request) -> web.StreamResponse:
        streams.enter(request.remote or "")

        async def rest() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"y" * 50_000
                await served.stream_goes_on.wait()

        return StreamedResponse(request, (), rest(), headers={}, limits=streams)  # type: ignore[arg-type]

    app.router.add_get("/v1/brokers", hello)
    app.router.add_get(paths.TOPIC_RECORDS, stream)
    for route in routes:
        route.add_to(app)
    lean = LeanRoutes(routes, inflight=inflight, turnstile=turnstile, max_json_bytes=INLINE_BYTES, quotas=served.gate)
    connections = ConnectionLimits("test", total=1_000, per_address=1_000)
    served.listener = Listener(
        app,
        lean,
        limits=ListenerLimits(requests=settings, connections=connections, rates=served.rates),
        clock=SystemClock(),
        drain_s=3.0,
        tls=None if tls is None else ListenerTls(tls, is_required=True),
    )
    async with listening(served.listener) as served.address:
        yield served


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, path: str = paths.PRODUCE, body: bytes = b"", *lines: str) -> None:
        self.writer.write(post(path, body, *lines))

    async def answer(self) -> Answer:
        return await answer(self.reader)

    async def ask(self, path: str = paths.PRODUCE, body: bytes = b"", *lines: str) -> Answer:
        self.send(path, body, *lines)
        return await self.answer()


@asynccontextmanager
async def connected(served: Served) -> AsyncIterator[Client]:
    async with listener_support.connected(served.address) as (reader, writer):
        yield Client(reader, writer)


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def begun() -> Callable[[], float]:
    start = time.monotonic()
    return lambda: time.monotonic() - start


@pytest.mark.parametrize("lines", PATHS)
async def test_a_request_beyond_the_quota_is_answered_at_once_and_the_next_one_later(lines: tuple[str, ...]):
    async with serving() as served, connected(served) as client:
        served.limit(producer_byte_rate=100_000)
        passed = begun()
        first = await client.ask(paths.PRODUCE, b"x" * 110_000, *lines)
        assert (first.status, passed() < 0.3) == (200, True)
        assert 500 < first.throttle_ms <= 601
        second = await client.ask(paths.PRODUCE, b"x", *lines)
        assert (second.status, passed() >= 0.55) == (200, True)
        assert passed() < 2
        assert served.throttling.requests["produce"] >= 1
        assert served.throttling.seconds["produce"] >= 0.5


@pytest.mark.parametrize("lines", PATHS)
async def test_a_reader_pays_after_it_has_read(lines: tuple[str, ...]):
    async with serving() as served, connected(served) as client:
        served.limit(consumer_byte_rate=100_000)
        served.answer_bytes = 110_000
        passed = begun()
        first = await client.ask(paths.FETCH, b"{}", *lines)
        assert (first.status, len(first.body), 500 < first.throttle_ms <= 601) == (200, 110_000, True)
        assert served.limits == [25_000]
        await client.ask(paths.FETCH, b"{}", *lines)
        assert passed() >= 0.55


@pytest.mark.parametrize("lines", PATHS)
async def test_a_client_that_pipelines_is_held(lines: tuple[str, ...]):
    async with serving() as served, connected(served) as client:
        served.limit(producer_byte_rate=100_000)
        passed = begun()
        for _ in range(6):
            client.send(paths.PRODUCE, b"x" * 30_000, *lines)
        answers = [await client.answer() for _ in range(6)]
        assert [one.status for one in answers] == [200] * 6
        assert 0.95 <= passed() < 2.5  # 180 KB, of which 50 KB are free, and the last answer is not waited for.


@pytest.mark.parametrize("lines", PATHS)
async def test_two_connections_share_one_quota(lines: tuple[str, ...]):
    async with serving() as served, connected(served) as one, connected(served) as other:
        served.limit(producer_byte_rate=200_000)
        await one.ask(paths.PRODUCE, b"x" * 140_000, *lines)
        sent, passed = 0, begun()

        async def send_on(client: Client) -> None:
            nonlocal sent
            while passed() < 5:
                assert (await client.ask(paths.PRODUCE, b"x" * 40_000, *lines)).status == 200
                sent += 40_000

        await asyncio.gather(send_on(one), send_on(other))
        assert sent / passed() == pytest.approx(200_000, rel=0.1)


@pytest.mark.parametrize("lines", PATHS)
async def test_a_new_connection_waits_for_what_the_others_owe(lines: tuple[str, ...]):
    async with serving() as served:
        served.limit(producer_byte_rate=100_000)
        passed = begun()
        async with connected(served) as client:
            await client.ask(paths.PRODUCE, b"x" * 130_000, *lines)
        async with connected(served) as client:
            assert (await client.ask(paths.PRODUCE, b"x", *lines)).status == 200
        assert 0.75 <= passed() < 2.5


@pytest.mark.parametrize("lines", PATHS)
async def test_a_request_that_would_be_held_for_long_is_refused_and_nothing_is_done(lines: tuple[str, ...]):
    async with serving() as served, connected(served) as one, connected(served) as other:
        served.limit(producer_byte_rate=10_000)
        await one.ask(paths.PRODUCE, b"x" * 300_000, *lines)
        passed = begun()
        refused = await other.ask(paths.PRODUCE, b"x" * 50_000, *lines)
        assert (refused.status, b"THROTTLING_QUOTA_EXCEEDED" in refused.body) == (429, True)
        assert 20_000 < refused.throttle_ms < 30_000
        assert passed() < 0.5
        assert len(served.served) == 1
        again = await other.ask(paths.PRODUCE, b"x" * 50_000, *lines)
        assert (again.status, passed() >= 0.9) == (429, True)  # At most one refusal a second.
        assert served.throttling.refused == 2
        served.limit()
        assert (await other.ask(paths.PRODUCE, b"x" * 50_000, *lines)).status == 200


@pytest.mark.parametrize("lines", PATHS)
async def test_a_refused_client_that_waits_has_its_turn_beside_greedy_ones(lines: tuple[str, ...]):
    """Five connections always owe three seconds together: without a place in the queue, a sixth never begins."""
    async with serving() as served, connected(served) as modest:
        served.limit(producer_byte_rate=100_000)
        stop = asyncio.Event()

        async def send_on() -> None:
            async with connected(served) as greedy:
                while not stop.is_set():
                    assert (await greedy.ask(paths.PRODUCE, b"x" * 60_000, *lines)).status in (200, 429)

        senders = [asyncio.ensure_future(send_on()) for _ in range(5)]
        await until(lambda: len(served.served) >= 5)
        passed, waited, answered = begun(), 0.0, None
        while answered is None or answered.status == 429:
            answered = await modest.ask(paths.PRODUCE, b"x" * 10_000, *lines)
            waited += answered.throttle_ms / 1000 if answered.status == 429 else 0
            await asyncio.sleep(answered.throttle_ms / 1000 if answered.status == 429 else 0)
            assert passed() < 8
        assert waited > 2
        again = await modest.ask(paths.PRODUCE, b"x" * 10_000, *lines)  # From now on it waits for its own charges.
        assert (again.status, passed() < 12) == (200, True)
        stop.set()
        for sender in senders:
            sender.cancel()
        await asyncio.gather(*senders, return_exceptions=True)


@pytest.mark.parametrize("lines", PATHS)
async def test_a_refused_client_that_does_not_wait_gains_nothing(lines: tuple[str, ...]):
    """Its place in the queue is that of its first attempt: more attempts neither lose it nor hasten it."""
    async with serving() as served, connected(served) as one, connected(served) as other:
        served.limit(producer_byte_rate=50_000)
        await one.ask(paths.PRODUCE, b"x" * 200_000, *lines)
        passed, statuses = begun(), []
        while not statuses or statuses[-1] == 429:
            statuses.append((await other.ask(paths.PRODUCE, b"x" * 1_000, *lines)).status)
        assert (statuses[0], statuses[-1]) == (429, 200)
        assert 3.3 <= passed() < 6  # 200 KB take 4 s, of which half a second was free.
        assert len(statuses) <= 5


@pytest.mark.parametrize("lines", PATHS)
async def test_a_quota_that_is_raised_or_removed_frees_muted_connections_within_a_second(lines: tuple[str, ...]):
    async with serving() as served, connected(served) as client:
        for change in ({"producer_byte_rate": 1e9}, {}):
            served.limit(producer_byte_rate=1_000)
            answered = await client.ask(paths.PRODUCE, b"x" * 50_000, *lines)
            assert answered.throttle_ms > 40_000
            passed = begun()
            client.send(paths.PRODUCE, b"x", *lines)
            await asyncio.sleep(0.1)
            served.limit(**change)
            assert (await client.answer()).status == 200
            assert passed() < 1.5


async def test_client_ids_that_change_with_each_request_do_not_free_a_connection():
    async with serving() as served, connected(served) as client:
        served.limit(user="", client_id="*", producer_byte_rate=100_000)
        passed = begun()
        for number in range(3):
            await client.ask(paths.PRODUCE, b"x" * 100_000, f"Raftlog-Client-Id: c{number}")
        assert 0.9 <= passed() < 3


@pytest.mark.parametrize("lines", PATHS)
async def test_a_client_beside_is_not_slowed(lines: tuple[str, ...]):
    async with serving() as served, connected(served) as slow, connected(served) as quick:
        served.limit(user="", client_id="slow", producer_byte_rate=1_000)
        await slow.ask(paths.PRODUCE, b"x" * 100_000, "Raftlog-Client-Id: slow", *lines)
        slow.send(paths.PRODUCE, b"x" * 100_000, "Raftlog-Client-Id: slow", *lines)
        passed = begun()
        for _ in range(50):
            assert (await quick.ask(paths.PRODUCE, b"x" * 100_000, *lines)).throttle_ms == 0
        assert passed() < 3
        assert len(served.served) == 51


@pytest.mark.parametrize("lines", PATHS)
@pytest.mark.parametrize("pipelined", [0, 20_000, 60_000])
async def test_a_muted_connection_that_closes_frees_everything(lines: tuple[str, ...], pipelined: int):
    async with serving() as served:
        served.limit(producer_byte_rate=1_000)
        async with connected(served) as client:
            await client.ask(paths.PRODUCE, b"x" * 50_000, *lines)
            if pipelined:
                client.send(paths.PRODUCE, b"x" * pipelined, *lines)
                await asyncio.sleep(0.1)
        passed = begun()
        await until(lambda: served.listener.connections.size == 0)
        assert passed() < 1.5
        assert len(served.served) == 1


@pytest.mark.parametrize("lines", PATHS)
@pytest.mark.parametrize("held", [False, True])
async def test_the_listener_does_not_wait_for_muted_connections(lines: tuple[str, ...], held: bool):
    async with serving() as served, connected(served) as client, connected(served) as other:
        served.limit(producer_byte_rate=100_000)
        await client.ask(paths.PRODUCE, b"x" * 240_000, *lines)
        client.send(paths.PRODUCE, b"x", *lines)
        if held:
            other.send(paths.PRODUCE, b"x", *lines)
        await asyncio.sleep(0.1)
        passed = begun()
        await served.listener.close()
        assert passed() < 0.8
        assert len(served.served) == 1


async def test_requests_a_second_and_computing_time_are_limited():
    async with serving() as served, connected(served) as client:
        served.limit(request_rate=4)
        passed = begun()
        for _ in range(7):
            answered = await client.ask(paths.FETCH, b"{}")
        assert 0.9 <= passed() < 3
        assert answered.throttle_ms > 100
        served.limit(request_percentage=0.01)
        while (await client.ask(paths.FETCH, b"{}")).throttle_ms == 0:
            pass
        assert served.throttling.requests["time"] == 1


async def test_a_stream_is_sent_at_the_pace_of_the_quota():
    async with serving() as served, connected(served) as client:
        served.limit(consumer_byte_rate=400_000)
        client.writer.write(b"GET /v1/topics/t/records HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        passed = begun()
        received = await client.reader.read()
        assert received.count(b"y") >= 1_000_000
        assert 1.8 <= passed() < 3.5


@pytest.mark.parametrize("before", [{}, {"consumer_byte_rate": 1e9}], ids=["none", "another"])
async def test_a_quota_that_is_set_applies_to_streams_under_way(before: dict[str, float]):
    async with serving() as served, connected(served) as client:
        served.limit(**before)
        served.stream_goes_on.clear()
        client.writer.write(b"GET /v1/topics/t/records HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await client.reader.readuntil(b"yyyy")
        served.limit()
        assert not served.gate.is_active
        served.limit(consumer_byte_rate=400_000)
        passed = begun()
        served.stream_goes_on.set()
        await client.reader.read()
        assert 1.5 <= passed() < 3.5


async def test_a_sender_that_has_waited_is_identified_afterwards():
    """It may be deleted, or lose its rights, while its connection is muted."""
    lines = ("X-Trace: 1",)
    async with serving() as served, connected(served) as client:
        served.limit(producer_byte_rate=100_000)
        throttled_s = (await client.ask(paths.PRODUCE, b"x" * 100_000, *lines)).throttle_ms / 1000
        assert (await client.ask(paths.PRODUCE, b"x", *lines)).status == 200
        first, second = served.identified
        assert second - first > throttled_s - 0.1 > 0.2


async def test_other_requests_count_too_and_health_checks_do_not():
    async with serving() as served, connected(served) as client:
        served.limit(request_rate=2)
        for _ in range(3):
            client.writer.write(b"GET /v1/brokers HTTP/1.1\r\nHost: x\r\n\r\n")
            answered = await client.answer()
        assert (answered.status, answered.throttle_ms > 400) == (200, True)


@pytest.mark.parametrize("lines", PATHS)
async def test_requests_of_brokers_have_no_limit(lines: tuple[str, ...]):
    async with serving() as served, connected(served) as client:
        served.limit(user="*", producer_byte_rate=1_000)
        quotas = served.image.quotas
        broker = BrokerRegistration(
            broker_id=1, incarnation_id="secret", broker_epoch=1, public=served.address, internal=served.address
        )
        served.image = replace(served.image, brokers={1: broker}, quotas=quotas)
        (own,) = served.gate.node_header().items()
        passed = begun()
        for _ in range(5):
            assert (await client.ask(paths.PRODUCE, b"x" * 100_000, ": ".join(own), *lines)).throttle_ms == 0
        assert passed() < 1
        for wrong in ("1:guess", "2:secret", "1", "x:secret", "99999999999999:secret", ":secret"):
            async with connected(served) as stranger:
                served.limit(user="*", producer_byte_rate=1_000)
                served.image = replace(served.image, brokers={1: broker})
                answered = await stranger.ask(paths.PRODUCE, b"x" * 1_000, f"Raftlog-Node: {wrong}", *lines)
                assert answered.status == 429 or answered.throttle_ms > 0


def announced(length: int, *lines: str) -> bytes:
    """Return the head of a request with a body of `length` bytes."""
    fields = ["Host: x", f"Content-Type: {media.FRAME}", f"Content-Length: {length}", *lines]
    return "\r\n".join([f"POST {paths.PRODUCE} HTTP/1.1", *fields, "", ""]).encode()


async def test_a_broker_names_itself_when_it_asks_others_what_they_know():
    """Without that they would count its requests as those of clients without credentials."""
    own, other = {media.NODE: "1:i"}, Address("127.0.0.1", 1)
    context = Mock()
    context.quotas.node_header.return_value = own
    context.session.call = AsyncMock(return_value=Mock(metadata_offset=9, partitions=()))
    await administration._until_known(context, other, 9)
    assert await reassignments._ask(context, other) == ()
    assert [call.kwargs["fields"] for call in context.session.call.await_args_list] == [own, own]


@pytest.mark.parametrize("lines", PATHS)
@pytest.mark.parametrize("length", [MAX_BODY + 1, 10**15])
async def test_a_body_that_is_refused_by_its_length_is_not_charged(lines: tuple[str, ...], length: int):
    async with serving() as served:
        served.limit(producer_byte_rate=1_000)
        async with connected(served) as client:
            client.writer.write(announced(length, *lines))
            assert (await client.answer()).status == 413
        async with connected(served) as client:
            assert (await client.ask(paths.PRODUCE, b"x", *lines)).status == 200


@pytest.mark.parametrize("lines", PATHS)
async def test_a_body_that_does_not_arrive_is_charged_as_far_as_it_came(lines: tuple[str, ...]):
    async with serving() as served:
        served.limit(producer_byte_rate=1_000)
        bucket = served.gate.buckets_of(Sender(Principal("User:ANONYMOUS"), "127.0.0.1"), "", "127.0.0.1", "produce")
        assert bucket is not None
        for _ in range(3):
            async with connected(served) as client:
                client.writer.write(announced(1_000_000, *lines) + b"x" * 100)
                await until(lambda: bucket["produce"].wait_s(served.gate.now()) > 500)
            await until(lambda: bucket["produce"].wait_s(served.gate.now()) < 1)
        async with connected(served) as client:
            assert (await client.ask(paths.PRODUCE, b"x", *lines)).status == 200


def test_quotas_go_by_the_user_without_its_kind_and_nodes_have_none():
    image = MetadataImage(quotas={("*", ""): Quota(user="*", limits={"request_rate": 5})})
    gate = QuotaGate(lambda: image, 1, Throttling())

    def found(principal: str) -> Buckets | None:
        return gate.buckets_of(Sender(Principal(principal)), "app", "10.0.0.1", "fetch")

    assert found("User:ann") is found("User:ann") is not None
    assert found("User:ann") != found("User:bob")
    assert found("Broker:1") is found("Controller:101") is None


async def test_invented_client_ids_do_not_leave_the_limit():
    async with serving() as served:
        served.limit(user="", client_id="*", producer_byte_rate=1_000)

        async def once(number: int) -> int:
            async with connected(served) as client:
                return (await client.ask(paths.PRODUCE, b"x" * 20_000, f"Raftlog-Client-Id: c{number}")).status

        statuses = [await once(number) for number in range(200)]
        assert 64 <= statuses.count(200) <= 66
        assert statuses.count(429) == 200 - statuses.count(200)
        assert served.throttling.buckets() <= 65


@pytest.mark.parametrize("name", ["*", "a" * 129, "a b\tc", "ü", "a\x00b", "-- ;", "(a)"])
async def test_client_ids_of_another_form_are_refused(name: str):
    async with serving() as served, connected(served) as client:
        answered = await client.ask(paths.PRODUCE, b"x", f"Raftlog-Client-Id: {name}")
        assert answered.status == 400
        assert served.served == []


async def test_without_quotas_nothing_is_counted():
    async with serving() as served, connected(served) as client:
        for _ in range(3):
            assert (await client.ask(paths.PRODUCE, b"x" * 1_000_000)).throttle_ms == 0
        assert (served.throttling.requests, served.throttling.buckets()) == ({}, 0)


async def test_many_held_connections_take_turns_and_each_is_served_once():
    async with serving() as served:
        served.limit(producer_byte_rate=1_000_000)
        clients = [await asyncio.open_connection(served.address.host, served.address.port) for _ in range(40)]
        passed = begun()
        for reader, writer in clients:
            Client(reader, writer).send(paths.PRODUCE, b"x" * 50_000)
        answers = await asyncio.gather(*(Client(*pair).answer() for pair in clients))
        assert [one.status for one in answers] == [200] * 40
        assert 1.3 <= passed() < 3  # 2 MB, of which 0.5 MB are free.
        assert len(served.served) == 40
        for _, writer in clients:
            writer.close()


def two_ends(folder: Path) -> tuple[TlsContext, ssl.SSLContext]:
    """Return the TLS of a server, and of a client that trusts it."""
    authority, client = trustme.CA(), ssl.create_default_context()
    authority.configure_trust(client)
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(folder / "both.pem")
    files = TlsFiles(cert_file=str(folder / "both.pem"), key_file=str(folder / "both.pem"))
    return TlsContext(files, partial(server_context, client_auth="none")), client


@pytest.mark.parametrize("with_tls", [False, True])
async def test_connections_that_begin_too_often_wait_and_then_are_refused(with_tls: bool, tmp_path: Path):
    tls, client_tls = two_ends(tmp_path) if with_tls else (None, None)
    async with serving(tls) as served:
        served.rates.limit(total=None, per_address=4)

        async def once() -> float | None:
            passed = begun()
            try:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", served.address.port, ssl=client_tls, server_hostname="localhost" if with_tls else None
                )
                answered = await Client(reader, writer).ask(paths.PRODUCE, b"x")
                writer.close()
            except (OSError, asyncio.IncompleteReadError):
                return None
            return passed() if answered.status == 200 else None

        took = await asyncio.gather(*(once() for _ in range(20)))
        served_after = sorted(one for one in took if one is not None)
        assert 8 <= len(served_after) <= 13  # Some at once, and those of two seconds.
        assert served_after[-1] > 1.4
        assert served_after[1] < 1.0
        served.rates.limit(total=None, per_address=None)
        assert await once() is not None


def test_a_connection_whose_socket_is_closed_has_lost_its_peer():
    closed = socket.socket()
    closed.close()
    transport = Mock(get_extra_info=lambda _: closed)

    assert peer_has_disconnected(transport)
