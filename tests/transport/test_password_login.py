"""A client's logins by password: one for many requests, renewed and repeated; and servers that lie or do not answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from raftlog.client.security import Security
from raftlog.errors import (
    AuthenticationError,
    ConfigError,
    ErrorCode,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    RaftlogError,
    RetriableError,
    UnreachableError,
)
from raftlog.model import Address, UserCredential
from raftlog.runtime import SystemClock
from raftlog.security.authenticators import Authenticators
from raftlog.security.identity import Peer
from raftlog.security.logins import LoginKeys, Logins
from raftlog.security.passwords import scram_credential
from raftlog.security.session_tokens import SessionTokens
from raftlog.transport import HttpSession, PeerAnswerError, token_source
from raftlog.transport import password_login as subject
from raftlog.transport.password_login import PasswordLogin
from raftlog.transport.session_credentials import SessionCredentials
from raftlog.wire import paths
from raftlog.wire.codec import encode_json
from raftlog.wire.logins import LoginRequest

WAIT_MS = 10_000
HERE = Peer("127.0.0.1")
PASSWORD = "planted-Pa55word"


class Cluster:
    """What brokers share: users and keys."""

    def __init__(self) -> None:
        self.tokens = SessionTokens(b"t" * 32)
        self.users: dict[str, UserCredential] = {}
        self.put("ann", PASSWORD)

    def put(self, user: str, password: str, *, salt: bytes = b"s" * 16, rounds: int = 4_096) -> None:
        self.users = self.users | {user: scram_credential(user, password, salt, iterations=rounds)}


class Broker:
    """A server with a broker's logins, which answers `{}` to other requests with a valid token."""

    def __init__(self, cluster: Cluster) -> None:
        keys = LoginKeys(b"n" * 32, b"u" * 32)
        self.logins = Logins(lambda: cluster.users, SystemClock(), keys=keys, tokens=cluster.tokens)
        self.chain = Authenticators(lambda: cluster.users, SystemClock(), sessions=cluster.tokens)
        self.steps: list[LoginRequest] = []
        self.requests: list[str] = []
        self.received = bytearray()
        """All heads and bodies."""
        self.lie: Callable[[dict[str, Any]], Any] = lambda answer: answer
        """Changes the answers of logins."""
        self.hang: asyncio.Event | None = None
        self.error: RaftlogError | None = None
        self.address = Address("", 0)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.received += repr(request.raw_headers).encode() + body
        try:
            if request.path == paths.LOGIN:
                return web.json_response(await self._log_in(body))
            self.requests.append(request.headers["Authorization"])
            self.chain.identify(HERE, request.headers["Authorization"])
            return web.json_response({})
        except RaftlogError as error:
            return web.json_response({"error": error.to_wire()}, status=error.http_status)

    async def _log_in(self, body: bytes) -> Any:
        step = LoginRequest(**orjson.loads(body))
        self.steps.append(step)
        if self.hang is not None:
            await self.hang.wait()
        if self.error is not None:
            raise self.error
        return self.lie(orjson.loads(encode_json(self.logins.answer(step, HERE))))


@asynccontextmanager
async def serving(cluster: Cluster) -> AsyncIterator[Broker]:
    broker, app = Broker(cluster), web.Application()
    app.router.add_route("*", "/{path:.*}", broker.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    broker.address = Address("127.0.0.1", runner.addresses[0][1])
    try:
        yield broker
    finally:
        await runner.cleanup()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def broker(cluster: Cluster) -> AsyncIterator[Broker]:
    async with serving(cluster) as one:
        yield one


def session_of(password: str | Callable[[], str] = PASSWORD) -> HttpSession:
    login = PasswordLogin("ann", password if callable(password) else lambda: password)
    return HttpSession(credentials=SessionCredentials(tokens=login))


async def ask(session: HttpSession, broker: Broker, path: str = "/v1/topics", **more: Any) -> None:
    await session.request("GET", broker.address, path, **{"timeout_ms": WAIT_MS} | more)


def tasks_of_logins() -> Sequence[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("tokens:")]


async def test_many_requests_at_the_start_do_one_login_and_the_password_is_not_sent(broker: Broker):
    async with session_of() as session:
        await asyncio.gather(*(ask(session, broker, f"/v1/{number}") for number in range(50)))
        await session.request("POST", broker.address, paths.FETCH, timeout_ms=WAIT_MS, body=b"{}")
        await session.request("PUT", broker.address, "/v1/x", timeout_ms=WAIT_MS, body=b"{}")
    assert len(broker.steps) == 2
    assert len(broker.requests) == 52
    assert {*broker.requests} == {session.authorization}
    assert PASSWORD.encode() not in broker.received


async def test_a_token_of_one_broker_is_used_at_another(cluster: Cluster, broker: Broker):
    async with serving(cluster) as other, session_of() as session:
        await ask(session, broker)
        await ask(session, other)
        assert (len(other.steps), len(other.requests)) == (0, 1)


async def test_a_session_logs_in_again_when_its_token_is_refused_and_gets_the_new_password(
    cluster: Cluster, broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(token_source, "LEAST_AGE_S", 0.0)
    passwords = [PASSWORD]
    async with session_of(lambda: passwords[-1]) as session:
        await ask(session, broker)
        cluster.put("ann", "another-Pa55word")
        for _ in range(2):  # It does not loop.
            before = len(broker.steps), len(broker.requests)
            with pytest.raises(AuthenticationError, match="the password of user ann, or the user, is wrong"):
                await ask(session, broker)
            assert (len(broker.steps), len(broker.requests)) == (before[0] + 2, before[1] + 1)
        passwords.append("another-Pa55word")
        await ask(session, broker)
        cluster.users = {}
        with pytest.raises(AuthenticationError, match="or the user, is wrong"):
            await ask(session, broker)


async def test_a_wrong_password_is_one_error_for_all_that_wait(broker: Broker):
    async with session_of("wrong-Pa55word") as session:
        asking = (ask(session, broker) for _ in range(20))
        errors = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(error) for error in errors} == {AuthenticationError}
    assert len(broker.steps) == 2
    assert broker.requests == []
    assert all("wrong-Pa55word" not in str(error) for error in errors)


async def test_a_later_login_does_not_derive_the_key_again(
    cluster: Cluster, broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(token_source, "LEAST_AGE_S", 0.0)
    derived = list[int]()
    real = subject.salted_password
    monkeypatch.setattr(subject, "salted_password", lambda *source: derived.append(source[2]) or real(*source))
    async with session_of() as session:
        for _ in range(3):
            session._tokens._usable_until_s = session._tokens._renew_at_s = 0.0  # type: ignore[union-attr]
            await ask(session, broker)
        assert len(broker.steps) == 6
        assert derived == [4_096]
        cluster.put("ann", PASSWORD, salt=b"t" * 16, rounds=5_000)
        await ask(session, broker)
    assert derived == [4_096, 5_000]


async def test_a_token_is_renewed_in_the_background_by_the_time_of_the_client(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    """The token's own expiry does not matter: the clocks may differ."""
    monkeypatch.setattr(token_source, "RETRY_S", 0.0)
    broker.lie = lambda answer: answer | ({"expires_in": 100} if "expires_in" in answer else {})
    now = time.time()
    async with session_of() as session:
        await ask(session, broker)
        monkeypatch.setattr(time, "time", lambda: now + 85)
        broker.hang = asyncio.Event()
        await ask(session, broker)  # It does not wait for the login.
        while len(broker.steps) < 3:
            await asyncio.sleep(0.01)
        broker.hang.set()
        while tasks_of_logins():
            await asyncio.sleep(0.01)
        await ask(session, broker)
    assert (len(broker.steps), len(broker.requests)) == (4, 3)


@pytest.mark.parametrize("expires_in", [0, -5])
async def test_a_server_whose_tokens_expire_at_once_is_not_asked_for_each_request(broker: Broker, expires_in: int):
    broker.lie = lambda answer: answer | ({"expires_in": expires_in} if "expires_in" in answer else {})
    async with session_of() as session:
        for _ in range(20):
            await ask(session, broker)
    assert len(broker.steps) <= 4


def first_answer(change: Callable[[str], str]) -> Callable[[dict[str, Any]], Any]:
    return lambda answer: answer if "expires_in" in answer else {"message": change(answer["message"])}


def last_answer(**changed: object) -> Callable[[dict[str, Any]], Any]:
    return lambda answer: answer | changed if "expires_in" in answer else answer


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (last_answer(message="v=" + "A" * 43 + "="), "cannot prove that it knows user ann: it may be an impostor"),
        (last_answer(message=""), "it may be an impostor"),
        (last_answer(message="e=other-error"), "it may be an impostor"),
        (last_answer(message="v=é"), "it may be an impostor"),
        (last_answer(message="v" * 1_000_000), "it may be an impostor"),
        (first_answer(lambda text: "r=" + "x" * 60 + text[text.index(",s=") :]), "the client's nonce"),
        (first_answer(lambda text: text[:30] + text[text.index(",s=") :]), "at least 8 more characters"),
        (first_answer(lambda text: text.replace("i=4096", "i=10000001")), "4,096 to 10,000,000 rounds"),
        (first_answer(lambda text: text.replace("i=4096", "i=1")), "4,096 to 10,000,000 rounds"),
        (first_answer(lambda text: "m=x," + text), "m=: this extension is not supported"),
        (first_answer(lambda text: text * 1_000), "at most 2048 characters"),
        (first_answer(lambda _: ""), "expected the attributes"),
    ],
)
async def test_a_hostile_server_gets_neither_a_request_nor_a_derived_key(
    broker: Broker, lie: Callable[[dict[str, Any]], Any], why: str
):
    broker.lie = lie
    async with session_of() as session:
        with pytest.raises(AuthenticationError, match=why) as refused:
            await ask(session, broker)
        assert session.authorization == ""
    assert broker.requests == []
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "lie", [lambda _: [], lambda _: "text", lambda _: {"message": 7}, lambda _: {}, last_answer(access_token=None)]
)
async def test_an_answer_that_is_none_is_an_error_of_the_server(broker: Broker, lie: Callable[[Any], Any]):
    broker.lie = lie
    async with session_of() as session:
        with pytest.raises(PeerAnswerError):
            await ask(session, broker)


async def test_a_token_that_cannot_be_sent_is_refused(broker: Broker):
    broker.lie = last_answer(access_token="a b\r\n")
    async with session_of() as session:
        with pytest.raises(ConfigError, match="the login at"):
            await ask(session, broker)


async def test_a_server_without_the_route_is_explained(broker: Broker):
    broker.error = NotFoundError("POST /v1/login: Not Found", code=ErrorCode.NOT_FOUND)
    async with session_of() as session:
        with pytest.raises(ConfigError, match=r'a broker of an earlier version; .* \(login = "basic"\)'):
            await ask(session, broker)


async def test_the_password_is_never_used_on_a_plain_connection_to_another_machine():
    async with session_of() as session:
        with pytest.raises(ConfigError, match="over https:// only"):
            await session.request("GET", Address("192.0.2.1", 9400), "/v1/topics", timeout_ms=WAIT_MS)


async def test_a_password_with_control_characters_is_refused(broker: Broker):
    async with session_of("a\0b") as session:
        for _ in range(2):
            with pytest.raises(InvalidRequestError, match="no control characters"):
                await ask(session, broker)


async def test_a_broker_that_does_not_answer_delays_no_other(cluster: Cluster, broker: Broker):
    """Requests that go elsewhere wait for a login that is under way, and then log in at their own broker."""
    broker.hang = asyncio.Event()
    async with serving(cluster) as other, session_of() as session:
        stuck = asyncio.create_task(ask(session, broker, timeout_ms=300))
        while not broker.steps:
            await asyncio.sleep(0.01)
        await ask(session, other)
        with pytest.raises(UnreachableError, match="cannot log in"):
            await stuck
    assert len(other.steps) == 2
    assert broker.requests == []


async def test_a_login_without_an_answer_means_that_the_request_was_not_sent(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
):
    """Also before the request's own timeout: then it is sent to another broker, whatever it would do."""
    monkeypatch.setattr(subject, "STEP_MS", 100)
    broker.hang = asyncio.Event()
    async with session_of() as session:
        with pytest.raises(UnreachableError, match=r"cannot log in: .* no answer within 100 ms"):
            await session.request("POST", broker.address, "/v1/x", timeout_ms=WAIT_MS, body=b"{}")
    assert broker.requests == []


async def test_brokers_that_refuse_connections_and_those_that_are_busy_fail_as_for_any_request(broker: Broker):
    async with session_of() as session:
        with pytest.raises(UnreachableError):
            await session.request("GET", Address("127.0.0.1", 1), "/v1/topics", timeout_ms=WAIT_MS)
        for error in (OverloadedError("later"), RetriableError("no metadata")):
            broker.error = error
            with pytest.raises(type(error), match=error.message):
                await ask(session, broker)
        broker.error = None
        await ask(session, broker)


async def test_cancelled_requests_leave_no_login_and_the_next_request_begins_one(broker: Broker):
    broker.hang = asyncio.Event()
    async with session_of() as session:
        asking = [asyncio.create_task(ask(session, broker)) for _ in range(3)]
        while not broker.steps:
            await asyncio.sleep(0.01)
        asking[0].cancel()
        await asyncio.sleep(0)
        assert tasks_of_logins()
        broker.hang = None
        for task in asking:
            task.cancel()
        await asyncio.create_task(ask(session, broker))  # At once: it does not get the others' cancellation.
        assert tasks_of_logins() == []
        await asyncio.gather(*asking, return_exceptions=True)


async def test_a_close_in_the_middle_of_a_login_leaves_nothing(broker: Broker):
    broker.hang = asyncio.Event()
    session = session_of()
    asking = asyncio.create_task(ask(session, broker))
    while not broker.steps:
        await asyncio.sleep(0.01)
    await session.close()
    assert tasks_of_logins() == []
    await asyncio.gather(asking, return_exceptions=True)


async def test_the_event_loop_is_free_while_the_key_is_derived(cluster: Cluster, broker: Broker):
    cluster.put("ann", PASSWORD, rounds=1_000_000)
    async with session_of() as session:
        asking, longest = asyncio.create_task(ask(session, broker)), 0.0
        while not asking.done():
            begun = time.thread_time()  # The derivation takes 0.3 s of a processor.
            await asyncio.sleep(0.001)
            longest = max(longest, time.thread_time() - begun)
        await asking
    assert longest < 0.15


def test_the_option_login_chooses_how_a_password_is_used(tmp_path: Any):
    own = Security(username="ann", password=PASSWORD)
    assert (own.login, own.authorization) == ("scram", "")
    assert isinstance(own.token_source(), PasswordLogin)
    basic = Security(username="ann", password=PASSWORD, login="basic")
    assert basic.authorization.startswith("Basic ")
    assert basic.token_source() is None
    with pytest.raises(ConfigError, match="login: expected scram or basic, received 'plain'"):
        Security(login="plain")
    with pytest.raises(ConfigError, match="cannot read"):
        Security(username="ann", password_file=str(tmp_path / "missing")).token_source()
    assert Security.from_environment({"RAFTLOG_LOGIN": "basic"}).login == "basic"
    assert Security.from_environment({}).login == "scram"
