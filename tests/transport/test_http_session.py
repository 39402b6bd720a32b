"""What a caller may conclude from each failure."""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import AsyncIterator, Callable
from email.utils import parsedate_to_datetime

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from raftlog.errors import (
    InvalidRequestError,
    OffsetOutOfRangeError,
    RaftlogError,
    UnknownOutcomeError,
    UnreachableError,
    from_wire,
)
from raftlog.model import Address
from raftlog.request_marks import RequestMarks, is_request_id
from raftlog.transport import HttpSession
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_frame
from raftlog.wire.data import FetchResponse, FetchResult, ProducerIdResponse

FRAME = FetchResponse(partitions=(FetchResult(topic="t", partition=0, length=3),))


async def refuse(_: web.Request) -> web.Response:
    error = OffsetOutOfRangeError("too far", details={"log_end_offset": 7})
    return web.json_response({"error": error.to_wire()}, status=error.http_status)


async def drop(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def hang(_: web.Request) -> web.Response:
    await asyncio.Event().wait()
    raise AssertionError


async def echo(request: web.Request) -> web.Response:
    assert await request.read() == b"abcdef"
    return web.json_response({"producer_id": int(request.query["id"]), "added_later": True})


async def frame(_: web.Request) -> web.Response:
    return web.Response(body=b"".join(encode_frame(FRAME, [b"abc"])), content_type=media.FRAME)


async def no_error_body(_: web.Request) -> web.Response:
    return web.Response(status=502, text="<html>")


@pytest.fixture
async def address() -> AsyncIterator[Address]:
    app = web.Application()
    for handler in (refuse, drop, hang, frame, no_error_body):
        app.router.add_get(f"/{handler.__name__}", handler)
    app.router.add_post("/echo", echo)
    app.router.add_post(paths.FETCH, frame)
    app.router.add_post(paths.PRODUCE, refuse)
    async with TestServer(app, host="127.0.0.1") as server:
        assert server.port is not None
        yield Address("127.0.0.1", server.port)


@pytest.fixture
async def session() -> AsyncIterator[HttpSession]:
    async with HttpSession() as session:
        yield session


async def test_a_call_sends_pieces_and_ignores_what_newer_peers_add(session: HttpSession, address: Address):
    answer = await session.call(
        ProducerIdResponse, "POST", address, "/echo", timeout_ms=5_000, body=[b"abc", b"def"], query={"id": 5}
    )

    assert answer == ProducerIdResponse(producer_id=5)


async def test_a_frame_comes_back_in_two(session: HttpSession, address: Address):
    head, rest = await session.call_frame(FetchResponse, "GET", address, "/frame", timeout_ms=5_000)

    assert (head, bytes(rest)) == (FRAME, b"abc")


async def test_the_peers_error_arrives_in_its_own_class(session: HttpSession, address: Address):
    with pytest.raises(OffsetOutOfRangeError) as caught:
        await session.request("GET", address, "/refuse", timeout_ms=5_000)

    assert caught.value.details == {"log_end_offset": 7}


async def test_nothing_listens_means_nothing_was_sent(session: HttpSession, free_ports: Callable[[int], list[int]]):
    (port,) = free_ports(1)

    with pytest.raises(UnreachableError, match=f"127.0.0.1:{port}"):
        await session.request("GET", Address("127.0.0.1", port), "/", timeout_ms=5_000)


@pytest.mark.parametrize(("path", "timeout_ms"), [("/drop", 5_000), ("/hang", 50)])
async def test_no_answer_means_unknown(session: HttpSession, address: Address, path: str, timeout_ms: int):
    with pytest.raises(UnknownOutcomeError):
        await session.request("GET", address, path, timeout_ms=timeout_ms)


@pytest.mark.parametrize("cancelled_s", [0.095, 0.105])
async def test_a_cancellation_in_the_same_moment_as_the_timeout_counts(
    session: HttpSession, address: Address, cancelled_s: float
):
    """The event loop blocks when both are due, and finds them together. A task that loses it never ends."""
    loop = asyncio.get_running_loop()
    request = asyncio.create_task(session.request("GET", address, "/hang", timeout_ms=100))
    loop.call_later(cancelled_s, request.cancel)
    loop.call_later(0.07, time.sleep, 0.06)

    with pytest.raises(asyncio.CancelledError):
        await request


async def test_an_answer_without_an_error_body_is_shown(session: HttpSession, address: Address):
    """A proxy gives it while a broker restarts. It may have passed the request on."""
    with pytest.raises(UnknownOutcomeError, match="status 502 without an error body: '<html>'"):
        await session.request("GET", address, "/no_error_body", timeout_ms=5_000)


async def test_an_answer_has_its_date_and_at_most_so_many_bytes(address: Address):
    size = sum(map(len, encode_frame(FRAME, [b"abc"])))
    async with HttpSession(max_answer_bytes=size) as enough, HttpSession(max_answer_bytes=size - 1) as short:
        answer = await enough.request("GET", address, "/frame", timeout_ms=5_000)
        assert parsedate_to_datetime(answer.date)
        with pytest.raises(RaftlogError, match=f"more than {size - 1} bytes"):
            await short.request("GET", address, "/frame", timeout_ms=5_000)


async def test_cookies_of_a_peer_are_neither_kept_nor_sent():
    """A proxy that set one with each answer made all later requests too large."""
    sent = list[str]()

    async def bake(request: web.Request) -> web.Response:
        sent.append(request.headers.get("Cookie", ""))
        answer = web.json_response({})
        answer.set_cookie(f"c{len(sent)}", "x" * 3_000)
        return answer

    app = web.Application()
    app.router.add_get("/", bake)
    async with TestServer(app, host="127.0.0.1") as server, HttpSession() as session:
        assert server.port is not None
        for _ in range(4):
            await session.request("GET", Address("localhost", server.port), "/", timeout_ms=5_000)
    assert sent == [""] * 4


async def test_the_dial_map_replaces_the_address(address: Address):
    async with HttpSession(dial={"broker.example:9400": str(address)}) as session:
        answer = await session.request("GET", Address("broker.example", 9400), "/frame", timeout_ms=5_000)

    assert answer.status == 200


async def test_raw_batches_are_dialled_and_decoded_the_same(address: Address):
    named = Address("broker.example", 9400)
    async with HttpSession(dial={str(named): str(address)}) as session:
        head, rest = await session.call_frame(FetchResponse, "POST", named, paths.FETCH, timeout_ms=5_000, message={})
        with pytest.raises(OffsetOutOfRangeError) as caught:
            await session.request("POST", named, paths.PRODUCE, timeout_ms=5_000, body=b"abc")

    assert (head, bytes(rest)) == (FRAME, b"abc")
    assert caught.value.details == {"log_end_offset": 7}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_a_change_is_sent_once_even_if_a_kept_connection_breaks(method: str):
    received = []

    async def answer_then_drop(request: web.Request) -> web.Response:
        received.append(request.method)
        if len(received) > 1:
            assert request.transport is not None
            request.transport.abort()
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/", answer_then_drop)
    async with TestServer(app, host="127.0.0.1") as server, HttpSession() as session:
        address = Address("127.0.0.1", server.port or 0)
        await session.request("GET", address, "/", timeout_ms=1_000)

        with pytest.raises(UnknownOutcomeError, match="connection lost"):
            await session.request(method, address, "/", timeout_ms=1_000)

    assert received == ["GET", method]


async def test_an_error_shows_the_id_of_its_request(address: Address):
    """Requests of aiohttp have an id in any case; the peer's own counts, if it has another one."""
    async with HttpSession() as session:
        for path in ("/refuse", "/drop"):
            with pytest.raises(RaftlogError) as caught:
                await session.request("GET", address, path, timeout_ms=5_000)
            assert is_request_id(caught.value.request_id)
            assert str(caught.value).endswith(f" [request {caught.value.request_id}]")


async def test_batches_have_an_id_only_after_a_request_without_an_answer():
    seen: list[str] = []
    fails = iter([False, True, True, False, False])

    async def produce(request: web.Request) -> web.Response:
        seen.append(request.headers.get(media.REQUEST_ID, ""))
        if next(fails):
            request.transport.abort()
        return web.json_response({})

    app = web.Application()
    app.router.add_post(paths.PRODUCE, produce)
    async with TestServer(app) as server, HttpSession() as session:
        to = Address("127.0.0.1", server.port)
        failed = []
        for _ in range(5):
            try:
                await session.request("POST", to, paths.PRODUCE, timeout_ms=5_000, body=b"x")
            except UnknownOutcomeError as error:
                failed.append(error.request_id)
    assert [bool(text) for text in seen] == [False, False, True, True, False]
    assert failed == ["", seen[2]]


async def test_a_node_passes_on_the_id_of_the_request_that_it_handles(address: Address):
    with RequestMarks("from-a-client").active():
        async with HttpSession() as session:
            with pytest.raises(OffsetOutOfRangeError) as caught:
                await session.request("POST", address, paths.PRODUCE, timeout_ms=5_000, body=b"x")
    assert caught.value.request_id == "from-a-client"


@pytest.mark.parametrize("hostile", ["a b", "\n", "x" * 129, 7, None, {}])
def test_an_id_of_a_hostile_server_is_not_shown(hostile: object):
    error = from_wire({"code": "INVALID_REQUEST", "message": "why", "request_id": hostile})
    assert (error.request_id, str(error)) == ("", "why")


def test_errors_keep_their_request_when_they_are_copied_between_processes():
    error = from_wire({"code": "INVALID_REQUEST", "message": "why", "request_id": "a-1"})
    assert str(pickle.loads(pickle.dumps(error))) == "why [request a-1]"


@pytest.mark.parametrize("used", [True, False])
async def test_a_closed_session_opens_no_connection_again(address: Address, used: bool):
    """A late request of a task that still ran opened one, which nothing closed."""
    session = HttpSession()
    if used:
        await session.call_frame(FetchResponse, "GET", address, "/frame", timeout_ms=5_000)
    await session.close()
    for method, accept, body in (("GET", media.JSON, None), ("POST", media.FRAME, b"abcdef")):
        with pytest.raises(InvalidRequestError, match="this client is closed, and the request was not sent"):
            await session.request(method, address, "/echo?id=1", timeout_ms=5_000, accept=accept, body=body)
    assert (session._session, session._lean) == (None, None)
