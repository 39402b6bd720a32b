"""Ids of requests: whose they are, which answers and log lines carry them, and ids that are no ids."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from listener_support import Answer, answer, connected, listening, post

from raftlog.broker.http import errors
from raftlog.broker.lean.routes import LeanRoutes
from raftlog.broker.listener import Listener
from raftlog.broker.raw import RawReply, RawRequest, RawRoute
from raftlog.errors import InvalidRequestError
from raftlog.model import Address
from raftlog.request_marks import RequestMarks, current_marks, current_request_id, is_request_id
from raftlog.runtime import SystemClock, Tasks
from raftlog.serving.admission import Admission
from raftlog.serving.connections import ConnectionLimits, refusal_bytes
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.listener import ListenerLimits
from raftlog.serving.turnstile import Turnstile
from raftlog.serving.workers import in_worker
from raftlog.wire import media

HOSTILE = ["", "a b", 'x"y', "a" * 129, "é", "a,b", "<script>", "x%0Ay", "a\tb", "{}"]
_log = logging.getLogger("raftlog.test")


async def do(request: RawRequest) -> RawReply:
    """Fail as the path says."""
    _log.warning("handling %s", request.match_info["how"])
    if request.match_info["how"] == "well":
        return RawReply.json({"id": current_request_id(), "trace": current_marks.get().traceparent})
    if request.match_info["how"] == "slowly":
        return RawReply.json({"id": await in_worker(current_request_id)})
    if request.match_info["how"] == "badly":
        raise RuntimeError("a bug")
    raise InvalidRequestError("it is wrong")


@asynccontextmanager
async def serving(total: int = 100, **limits: float) -> AsyncIterator[tuple[Address, LeanRoutes]]:
    inflight, turnstile = InflightLimits(max_requests=10, max_bytes=1 << 20), Turnstile()
    settings = RequestLimits(max_body_bytes=1 << 20, **limits)  # type: ignore[arg-type]
    route = RawRoute(path="/do/{how}", form=media.FRAME, handler=do)
    app = web.Application(
        middlewares=[errors, Admission(inflight, settings, turnstile, batches=[route.path]).middleware]
    )
    route.add_to(app)
    lean = LeanRoutes([route], inflight=inflight, turnstile=turnstile, max_json_bytes=1 << 10)
    connections = ConnectionLimits("test", total=total, per_address=100)
    accepted = ListenerLimits(requests=settings, connections=connections)
    listener = Listener(app, lean, limits=accepted, clock=SystemClock(), drain_s=1.0)
    async with listening(listener) as address:
        yield address, lean


async def ask(address: Address, how: str, *fields: str, lean: bool = True) -> Answer:
    """Send one request, over the lean path or aiohttp's."""
    more = () if lean else ("X-Unknown: takes it to aiohttp",)
    async with connected(address) as (reader, writer):
        writer.write(post(f"/do/{how}", b"", *fields, *more))
        return await answer(reader)


def shown(reply: Answer) -> str:
    """Return the id of an answer that reports an error, which its body and its head have."""
    error: Mapping[str, str] = json.loads(reply.body)["error"]
    assert is_request_id(error["request_id"])
    assert reply.fields["x-request-id"] == error["request_id"].lower()
    return error["request_id"]


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize("how", ["wrongly", "badly"])
async def test_an_error_carries_the_clients_id_which_the_log_has(
    lean: bool, how: str, caplog: pytest.LogCaptureFixture
):
    ids = []
    old = logging.getLogRecordFactory()
    logging.setLogRecordFactory(lambda *a, **k: ids.append(current_request_id()) or old(*a, **k))
    try:
        async with serving() as (address, _):
            assert shown(await ask(address, how, "X-Request-Id: order/7:1", lean=lean)) == "order/7:1"
    finally:
        logging.setLogRecordFactory(old)
    assert ids.count("order/7:1") == (2 if how == "badly" else 1)


@pytest.mark.parametrize("lean", [True, False])
async def test_a_request_without_an_id_gets_one_of_its_own(lean: bool):
    async with serving() as (address, _):
        replies = [await ask(address, "wrongly", lean=lean) for _ in range(20)]
        assert len({shown(reply) for reply in replies}) == 20


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize("hostile", HOSTILE)
async def test_an_id_of_another_form_is_replaced(lean: bool, hostile: str):
    async with serving() as (address, _):
        reply = await ask(address, "wrongly", f"X-Request-Id: {hostile}", lean=lean)
        assert reply.status == 400
        assert shown(reply) != hostile


async def test_of_two_ids_none_counts():
    async with serving() as (address, _):
        reply = await ask(address, "wrongly", "X-Request-Id: a", "x-request-id: b")
        assert shown(reply) not in {"a", "b"}


@pytest.mark.parametrize("lean", [True, False])
async def test_a_success_shows_the_id_that_the_client_sent(lean: bool):
    async with serving() as (address, _):
        reply = await ask(address, "well", "X-Request-Id: mine", "traceparent: 00-01", lean=lean)
        assert reply.fields["x-request-id"] == "mine"
        assert json.loads(reply.body) == {"id": "mine", "trace": "00-01"}
        assert json.loads((await ask(address, "slowly", "X-Request-Id: mine", lean=lean)).body) == {"id": "mine"}


async def test_ids_and_traces_stay_on_the_lean_path_and_leave_its_cache_of_heads_alone():
    async with serving() as (address, lean), connected(address) as (reader, writer):
        for number in range(1_000):
            writer.write(post("/do/well", b"", f"X-Request-Id: {number}", f"traceparent: 00-{number}"))
            reply = await answer(reader)
            assert ("server" in reply.fields, reply.fields["x-request-id"]) == (False, str(number))
        writer.write(post("/do/well"))
        reply = await answer(reader)
        assert "x-request-id" not in reply.fields, "an id of an earlier request of the connection"
        assert json.loads(reply.body)["trace"] == ""
        assert lean._match_repeated.cache_info().misses == 1


async def test_connections_own_refusals_carry_an_id():
    async with serving(total=0) as (address, _), connected(address) as (reader, _writer):
        reply = await answer(reader)
        assert reply.status == 503
        shown(reply)
    async with serving(head_s=0.1) as (address, _), connected(address) as (reader, writer):
        writer.write(b"POST /do/well HTTP/1.1\r\nHos")
        reply = await answer(reader)
        assert reply.status == 408
        shown(reply)
    async with serving(head_s=0.1) as (address, _), connected(address) as (reader, writer):
        writer.write(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")
        shown(await answer(reader))
        writer.write(b"GET / HTTP/1.1\r\nHos")
        shown(await answer(reader))
    async with serving() as (address, _), connected(address) as (reader, writer):
        writer.write(b"NO HTTP AT ALL\r\n\r\n")
        shown(await answer(reader))


async def test_a_body_that_comes_late_is_refused_with_the_requests_id(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(RequestLimits, "body_time_s", lambda *_: 0.1)
    for more in ((), ("X-Unknown: y",)):
        async with serving() as (address, _), connected(address) as (reader, writer):
            writer.write(post("/do/well", b"ab", "X-Request-Id: late", *more, length=10))
            reply = await answer(reader)
            assert (reply.status, shown(reply)) == (408, "late")


def test_refusals_differ():
    error = InvalidRequestError("x")
    assert refusal_bytes(error) != refusal_bytes(error)


async def test_a_task_that_outlives_its_request_has_no_id():
    """A background task that a request starts would log every later event under that request's id."""
    tasks, ids = Tasks("test"), []

    async def note() -> None:
        ids.append(current_request_id())

    with RequestMarks("mine").active():
        await asyncio.gather(tasks.spawn(note(), name="later"), tasks.spawn(note(), name="now", awaited=True))
        assert current_request_id() == "mine"
    assert (ids, current_request_id()) == (["", "mine"], "")
