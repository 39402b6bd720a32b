"""The newest token of a client: renewed before it expires and when a server refuses it; providers fail and hang."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from raftlog.client.security import Security, read_token
from raftlog.errors import AuthenticationError, ConfigError, RetriableError
from raftlog.model import Address
from raftlog.transport import HttpSession
from raftlog.transport import token_source as subject
from raftlog.transport.session_credentials import SessionCredentials
from raftlog.transport.token_source import TokenSource, expiry_of

WAIT_MS = 5_000


def jwt(name: str, expires_in_s: float) -> str:
    claims = orjson.dumps({"sub": name, "exp": time.time() + expires_in_s})
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.{name}"


class Provider:
    """Returns numbered tokens, or fails."""

    def __init__(self, lifetime_s: float) -> None:
        self.lifetime_s = lifetime_s
        self.calls = 0
        self.error: Exception | None = None

    async def __call__(self) -> str:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return jwt(f"t{self.calls}", self.lifetime_s)


async def name(source: TokenSource) -> str:
    return (await source.current(WAIT_MS)).rpartition(".")[2]


async def test_a_burst_gets_one_token_and_a_valid_one_is_kept():
    provider = Provider(3_600)
    source = TokenSource(provider)
    assert source.authorization == ""
    assert set(await asyncio.gather(*(name(source) for _ in range(50)))) == {"t1"}
    assert await name(source) == "t1"
    assert provider.calls == 1
    assert source.authorization.startswith("Bearer e30.")
    await source.close()


async def test_a_token_is_renewed_in_the_background_before_it_expires(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "RETRY_S", 0.0)
    provider = Provider(6)
    source = TokenSource(provider)
    now = time.time()
    assert await name(source) == "t1"
    monkeypatch.setattr(time, "time", lambda: now + 5)
    assert await name(source) == "t1"  # No request waits.
    while provider.calls < 2 or source._is_calling:
        await asyncio.sleep(0.01)
    assert await name(source) == "t2"
    await source.close()


def eagerly(work: Coroutine[Any, Any, None], **_: Any) -> asyncio.Future[None]:
    """Run a task that never waits as `asyncio.eager_task_factory` does: it has ended when it is returned."""
    with suppress(StopIteration):
        work.send(None)
    ended = asyncio.get_running_loop().create_future()
    ended.set_result(None)
    return ended


async def test_a_token_is_renewed_with_eager_tasks_as_well(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "LEAST_AGE_S", 0.0)
    source, now = TokenSource(Provider(6)), time.time()
    monkeypatch.setattr(source._tasks, "spawn", eagerly)
    assert await name(source) == "t1"
    monkeypatch.setattr(time, "time", lambda: now + 10)
    assert await name(source) == "t2"
    refused = source.authorization
    assert await source.after_refusal(refused, WAIT_MS) == source.authorization != refused
    await source.close()


async def test_an_expired_token_is_not_sent(monkeypatch: pytest.MonkeyPatch):
    provider = Provider(6)
    source = TokenSource(provider)
    now = time.time()
    assert await name(source) == "t1"
    monkeypatch.setattr(time, "time", lambda: now + 7)
    assert await name(source) == "t2"
    await source.close()


async def test_while_the_provider_fails_a_valid_token_is_used_and_an_expired_one_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(subject, "RETRY_S", 0.0)
    provider = Provider(60)
    source = TokenSource(provider)
    now = time.time()
    assert await name(source) == "t1"
    provider.error = OSError("the issuer is down")
    monkeypatch.setattr(time, "time", lambda: now + 55)
    assert await name(source) == "t1"
    while "the old one is still valid" not in caplog.text:
        await asyncio.sleep(0.01)
    monkeypatch.setattr(time, "time", lambda: now + 61)
    with pytest.raises(RetriableError, match="the issuer is down"):
        await name(source)
    provider.error = None
    assert (await name(source)).startswith("t")
    await source.close()


async def test_a_provider_that_hangs_is_called_once_and_waited_for_within_the_deadline():
    gate, calls = threading.Event(), list[int]()

    def provide() -> str:
        calls.append(threading.get_ident())
        gate.wait(20)
        return "opaque"

    source = TokenSource(provide)
    for _ in range(3):
        with pytest.raises(RetriableError, match="within 30 ms"):
            await source.current(30)
    gate.set()
    assert await source.current(WAIT_MS) == "Bearer opaque"
    assert len(calls) == 1
    assert calls != [threading.get_ident()]
    await source.close()


async def test_a_caller_that_leaves_does_not_end_the_call_of_others():
    provider = Provider(60)
    source = TokenSource(provider)
    callers = [asyncio.ensure_future(name(source)) for _ in range(3)]
    await asyncio.sleep(0)
    callers[0].cancel()
    assert (await asyncio.gather(*callers, return_exceptions=True))[1:] == ["t1", "t1"]
    await source.close()


@pytest.mark.parametrize("returned", [None, 7, "", "a b", "a\nb", "ü", "x" * 9_000, b"bytes"])
async def test_what_is_no_token_is_refused_without_being_shown(returned: Any):
    source = TokenSource(lambda: returned)
    with pytest.raises(ConfigError, match="token_provider") as refused:
        await source.current(WAIT_MS)
    if isinstance(returned, str) and returned:
        assert returned not in str(refused.value)
    await source.close()


async def test_a_refused_token_is_replaced_once_and_a_new_one_that_is_refused_is_not(monkeypatch: pytest.MonkeyPatch):
    provider = Provider(3_600)
    source = TokenSource(provider)
    old = await source.current(WAIT_MS)
    assert await source.after_refusal(old, WAIT_MS) is None  # It has just come.
    monkeypatch.setattr(subject, "LEAST_AGE_S", 0.0)
    new = await source.after_refusal(old, WAIT_MS)
    assert new is not None
    assert new != old
    assert await source.after_refusal(old, WAIT_MS) == new  # Another request has renewed it.
    assert provider.calls == 2
    await source.close()


async def test_the_client_clock_may_be_ahead(monkeypatch: pytest.MonkeyPatch):
    """Each token seems to have expired: it is sent, and the provider is not called for every request."""
    provider = Provider(-3_600)
    source = TokenSource(provider)
    assert {await name(source) for _ in range(20)} == {"t1"}
    assert provider.calls == 1
    await source.close()


@pytest.mark.parametrize("text", ["", "a", "a.b.c", "a.!!.c", "a.W10.c", "a.eyJleHAiOiJ4In0.c", "a.eyJleHAiOnRydWV9.c"])
def test_a_token_that_does_not_say_when_it_expires_never_does(text: str):
    assert expiry_of(text) == float("inf")


@pytest.fixture
async def server() -> AsyncIterator[tuple[Address, list[str], set[str]]]:
    """Yield the address of a server, the credentials that it received, and those that it refuses."""
    received, refuses = list[str](), set[str]()

    async def handle(request: web.Request) -> web.Response:
        await request.read()
        sent = request.headers["Authorization"]
        received.append(sent)
        if sent not in refuses:
            return web.json_response({})
        return web.json_response({"error": AuthenticationError("refused").to_wire()}, status=401)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield Address("127.0.0.1", runner.addresses[0][1]), received, refuses
    await runner.cleanup()


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/topics"), ("POST", "/v1/produce"), ("PUT", "/v1/x")])
async def test_a_request_whose_token_is_refused_is_sent_again_with_a_new_one(
    server: Any, method: str, path: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(subject, "LEAST_AGE_S", 0.0)
    address, received, refuses = server
    tokens: Callable[[], str] = iter([f"t{number}" for number in range(10)]).__next__
    async with HttpSession(credentials=SessionCredentials(tokens=TokenSource(tokens))) as session:
        body = None if method == "GET" else b"body"
        await session.request(method, address, path, timeout_ms=WAIT_MS, body=body)
        refuses |= {"Bearer t0"}
        await session.request(method, address, path, timeout_ms=WAIT_MS, body=body)
        refuses |= {f"Bearer t{number}" for number in range(10)}
        with pytest.raises(AuthenticationError):
            await session.request(method, address, path, timeout_ms=WAIT_MS, body=body)
    assert received == ["Bearer t0", "Bearer t0", "Bearer t1", "Bearer t1", "Bearer t2"]


def test_a_token_file_holds_a_token_or_the_document_of_a_login(tmp_path: Path):
    path = tmp_path / "token"
    path.write_text("plain-token\n")
    assert read_token(str(path)) == "plain-token"
    path.write_text('{"access_token": "from-login", "refresh_token": "r"}')
    assert read_token(str(path)) == "from-login"
    for wrong in ("", "{", "{}", '{"access_token": 7}', "two words", "x" * 100_000):
        path.write_text(wrong)
        with pytest.raises(ConfigError, match="token_file"):
            read_token(str(path))
    path.unlink()
    with pytest.raises(ConfigError, match="raftlog login"):
        read_token(str(path))


def test_one_kind_of_credentials_is_chosen():
    for options in (
        {"token": "t", "token_file": "f"},
        {"token": "t", "username": "u", "password": "p"},
        {"token_file": "f", "token_provider": str},
    ):
        with pytest.raises(ConfigError, match="expected one of them"):
            Security(**options)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="token_provider: expected a function"):
        Security(token_provider="token")  # type: ignore[arg-type]
    assert "secret" not in repr(Security(token_provider=lambda: "secret"))
    assert Security.from_environment({"RAFTLOG_TOKEN_FILE": "f"}).token_file == "f"
