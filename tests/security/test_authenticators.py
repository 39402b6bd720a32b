"""The chain of authenticators: what is remembered, what is not, and what a flood does to others."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from raftlog.broker.lean.head_fields import split_head
from raftlog.errors import AuthenticationError, InvalidRequestError, OverloadedError, RetriableError
from raftlog.model import Address, UserCredential
from raftlog.runtime import SystemClock
from raftlog.security import authenticators as subject
from raftlog.security.access import Access
from raftlog.security.authenticators import Authenticators, Identified, PlainCredentials
from raftlog.security.bearer_tokens import TokenBearer
from raftlog.security.guard import Guard
from raftlog.security.identity import Peer, Sender, sender_of_forwarded
from raftlog.security.node_proof import SCHEME, NodeProofs
from raftlog.security.password_checks import PasswordChecks
from raftlog.security.passwords import scram_credential
from raftlog.security.principal import ANONYMOUS, Principal
from raftlog.security.routes import PUBLIC, RouteTable

HERE = Peer("127.0.0.1")
AFAR = Peer("10.0.0.9")
SALT = b"s" * 16


class TestClock(SystemClock):
    __test__ = False

    def __init__(self) -> None:
        self.ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms


class Chain:
    """A chain with cheap credentials."""

    def __init__(self, **options: object) -> None:
        self.users = {"ann": scram_credential("ann", "secret-1", SALT, iterations=1)}
        self.clock = TestClock()
        self.chain = Authenticators(lambda: self.users, self.clock, **options)  # type: ignore[arg-type]

    async def find(self, text: str | None, peer: Peer = HERE) -> Principal:
        found = self.chain.identify(peer, text)
        return (found if isinstance(found, Identified) else await found).principal

    def at_once(self, text: str, peer: Peer = HERE) -> bool:
        found = self.chain.identify(peer, text)
        if isinstance(found, Identified):
            return True
        asyncio.ensure_future(found).cancel()
        return False


def basic(user: str = "ann", password: str = "secret-1") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def test_a_password_is_checked_once_until_its_user_changes():
    bench = Chain()
    assert await bench.find(basic()) == Principal("User:ann")
    assert bench.at_once(basic())
    bench.users = dict(bench.users)  # Another image with the same users.
    assert bench.at_once(basic())
    bench.users = {"ann": scram_credential("ann", "secret-2", SALT, iterations=1)}
    with pytest.raises(AuthenticationError):
        await bench.find(basic())
    assert await bench.find(basic(password="secret-2")) == Principal("User:ann")
    bench.users = {}
    with pytest.raises(AuthenticationError):
        await bench.find(basic(password="secret-2"))


async def test_a_wrong_password_is_refused_for_seconds_without_a_check(monkeypatch: pytest.MonkeyPatch):
    bench, checks = Chain(), []
    real = subject.is_password_of
    monkeypatch.setattr(subject, "is_password_of", lambda *given: checks.append(1) or real(*given))
    for _ in range(3):
        with pytest.raises(AuthenticationError, match="the password of user ann"):
            await bench.find(basic(password="wrong-1"))
    assert len(checks) == 1
    bench.clock.ahead_ms += subject.REFUSED_MS
    with pytest.raises(AuthenticationError):
        await bench.find(basic(password="wrong-1"))
    assert len(checks) == 2


async def test_a_password_that_is_replaced_while_it_is_checked_is_refused_from_then_on(monkeypatch: pytest.MonkeyPatch):
    """A second request joined the check against the earlier password, and was remembered with the new credential."""
    bench, gate, real, begun = Chain(), threading.Event(), subject.is_password_of, asyncio.Event()
    loop = asyncio.get_running_loop()

    def slow(credential: UserCredential, password: str) -> bool:
        loop.call_soon_threadsafe(begun.set)
        return gate.wait(10) and real(credential, password)

    monkeypatch.setattr(subject, "is_password_of", slow)
    first = asyncio.ensure_future(bench.find(basic()))
    await begun.wait()
    bench.users = {"ann": scram_credential("ann", "secret-2", SALT, iterations=1)}
    second = asyncio.ensure_future(bench.find(basic()))
    await asyncio.sleep(0)
    gate.set()
    await asyncio.wait([first, second])
    for later in (second, bench.find(basic())):
        with pytest.raises(AuthenticationError, match="the password of user ann"):
            await later


async def test_spellings_of_credentials_push_out_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "MAX_REMEMBERED", 3)
    bench = Chain()
    bench.users |= {"bob": scram_credential("bob", "secret-1", SALT, iterations=1)}
    for user in ("ann", "bob"):
        await bench.find(basic(user))
    for number in range(10):
        await bench.find(f"bAsIc{' ' * (number + 1)}{basic('bob')[6:]}")
    assert bench.at_once(basic("ann"))


async def test_a_user_that_is_created_after_a_refusal_can_log_in_at_once():
    bench = Chain()
    with pytest.raises(AuthenticationError):
        await bench.find(basic("bob"))
    bench.users = bench.users | {"bob": scram_credential("bob", "secret-1", SALT, iterations=1)}
    assert await bench.find(basic("bob")) == Principal("User:bob")


async def test_passwords_of_unknown_users_take_as_many_rounds(monkeypatch: pytest.MonkeyPatch):
    bench, seen = Chain(), list[UserCredential]()
    monkeypatch.setattr(subject, "is_password_of", lambda credential, _: seen.append(credential) or False)
    with pytest.raises(AuthenticationError):
        await bench.find(basic("no.one"))
    assert seen[0].iterations == 100_000


async def test_passwords_need_tls_or_the_same_machine():
    bench = Chain()
    await bench.find(basic())
    with pytest.raises(AuthenticationError, match="without TLS"):
        await bench.find(basic(), AFAR)  # Although it is remembered.
    assert await bench.find(basic(), replace(AFAR, is_tls=True)) == Principal("User:ann")
    assert await Chain(allow_plain=PlainCredentials(passwords=True)).find(basic(), AFAR) == Principal("User:ann")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Basic",
        "Basic ",
        "Basic ~~~~",
        "Basic YW5u",
        "Basic " + base64.b64encode(b"ann\0:secret-1").decode(),
        "Basic " + base64.b64encode(b":secret-1").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
        "Basic " + base64.b64encode(b"ann:a\0b").decode(),
        "Basic " + base64.b64encode(b"ann:" + b"x" * 2_000).decode(),
        "Basic " + "A" * 10_000,
        "Bearer abc",
        "Digest username=ann",
        "Raftlog-Node Broker:1",
        "\udcff\udcfe",
    ],
)
async def test_malformed_credentials_are_refused(text: str):
    with pytest.raises(AuthenticationError):
        await Chain().find(text)


@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(), st.builds("{} {}".format, st.sampled_from(["Basic", "bearer", SCHEME]), st.text())))
def test_any_header_is_refused_and_never_an_internal_error(text: str):
    bench = Chain(proofs=NodeProofs(b"k" * 32, "c", "Broker:1", ()))
    with suppress(AuthenticationError):
        found = bench.chain.identify(HERE, text)
        assert isinstance(found, Awaitable)  # A well-formed user and password, which are not checked here.
        found.close()  # type: ignore[attr-defined]


@settings(deadline=None, max_examples=300)
@given(st.text())
def test_any_forwarded_sender_is_a_user_or_refused(text: str):
    with suppress(InvalidRequestError):
        assert sender_of_forwarded(text).principal.name.startswith("User:")


@given(
    st.binary(max_size=200), st.sampled_from([b"\r\nAuthorization: ", b"\r\nauthorization: ", b"\r\nAUTHORIZATION:"])
)
def test_a_head_without_its_credentials_is_the_rest_of_it(value: bytes, name: bytes):
    assume(b"traceparent" not in value and b"request-id" not in value.lower())  # Other fields that are cut out.
    before, after = b"POST / HTTP/1.1\r\nHost: x", b"\r\nAccept: y\r\n\r\n"
    head = before + name + value + after
    rest, credentials, _ = split_head(head)
    if credentials is None:
        assert rest == head
    else:
        assert b"\r" not in credentials.encode()
        assert len(rest) < len(head)
        assert rest.startswith(before)


async def test_no_credentials_mean_the_certificate_or_nothing():
    bench = Chain()
    assert await bench.find(None) == ANONYMOUS
    assert await bench.find(None, replace(HERE, certificate=Principal("Broker:1"))) == Principal("Broker:1")
    assert await bench.find(basic(), replace(HERE, certificate=Principal("Broker:1"))) == Principal("User:ann")


async def test_a_nodes_proof_is_remembered_until_it_expires():
    address = Address("127.0.0.1", 9410)
    proofs = NodeProofs(b"k" * 32, "c", "Broker:1", {str(address)})
    bench = Chain(proofs=proofs)
    text = proofs.headers(address, bench.clock.wall_us() / 1e6)["Authorization"]
    found = bench.chain.identify(AFAR, text)
    assert isinstance(found, Identified)
    assert bench.chain.identify(AFAR, text) is found
    bench.clock.ahead_ms += 301_000
    assert not bench.chain.is_current(found)


@dataclass(frozen=True)
class Bearer:
    principal: Principal
    expires_s: float = 1e12


class Tokens:
    def verify(self, token: str) -> TokenBearer | Awaitable[TokenBearer]:
        if token == "slow":
            return asyncio.sleep(0, Bearer(Principal("User:slow")))
        if token == "node":
            return Bearer(Principal("Broker:1"))
        if token == "group":
            return Bearer(Principal("User:slow", ("User:admin",)))
        raise AuthenticationError("expired", challenge='Bearer error="invalid_token"')


async def test_a_token_never_makes_a_node():
    bench = Chain(tokens=Tokens())
    assert await bench.find("Bearer slow") == Principal("User:slow")
    assert bench.at_once("bearer  slow"), "the same token in another spelling"
    assert bench.at_once("Bearer slower") is False
    assert bench.at_once("Bearer slow")
    for wrong in ("node", "group"):
        with pytest.raises(AuthenticationError, match="expected a user"):
            await bench.find(f"Bearer {wrong}")
    with pytest.raises(AuthenticationError) as refused:
        await bench.find("Bearer x")
    assert refused.value.challenge.startswith("Bearer")


async def test_a_flood_of_one_address_delays_another_by_one_check():
    checks, order = PasswordChecks(), list[str]()

    def check(name: str) -> bool:
        order.append(name)
        return True

    flood = [asyncio.ensure_future(checks.run(b"%d" % n, "bad", lambda: check("bad"))) for n in range(8)]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError):
        await checks.run(b"9", "bad", lambda: check("bad"))
    assert await checks.run(b"good", "good", lambda: check("good"))
    assert order.index("good") <= 2
    await asyncio.gather(*flood)
    assert len(order) == 9
    assert checks._counts == {}


async def test_equal_checks_run_once_and_outlive_callers_that_leave():
    checks, gate, runs = PasswordChecks(), threading.Event(), list[int]()

    def check() -> bool:
        runs.append(1)
        return gate.wait(10)

    callers = [asyncio.ensure_future(checks.run(b"same", "a", check)) for _ in range(20)]
    await asyncio.sleep(0)
    for caller in callers[:10]:
        caller.cancel()
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*callers[10:]) == [True] * 10
    assert runs == [1]


async def test_a_check_that_raises_lets_the_next_one_run():
    checks = PasswordChecks()

    def broken() -> bool:
        raise ZeroDivisionError

    first = asyncio.ensure_future(checks.run(b"1", "a", broken))
    second = asyncio.ensure_future(checks.run(b"2", "a", lambda: True))
    with pytest.raises(ZeroDivisionError):
        await first
    assert await second


class TestLogOnly:
    def test_refusals_are_logged_once_and_allowed(self, caplog: pytest.LogCaptureFixture):
        access, ann = Access("log-only"), Sender(Principal("User:ann"), "h")
        for _ in range(3):
            access.require(ann, "read", "topic", "t")
            access.require_node(ann)
            access.require_broker(ann, 1)
            access.require_login(Sender())
        assert access.sees(ann, "topic", "t")
        assert len(caplog.records) == 4
        assert "User:ann may not read topic 't'" in caplog.text
        assert access.refused == 12

    async def test_wrong_credentials_are_served_as_none(self, caplog: pytest.LogCaptureFixture):
        guard = Guard(RouteTable(PUBLIC), Chain().chain, Access("log-only"), cluster_id="c")
        assert guard.excused(HERE, AuthenticationError("wrong")).principal == ANONYMOUS
        assert "wrong" in caplog.text
        assert guard.excused(HERE, RetriableError("the issuer is down")).principal == ANONYMOUS
        with pytest.raises(OverloadedError):
            guard.excused(HERE, OverloadedError("later"))


async def test_those_that_wait_for_one_check_continue_one_after_another():
    """After a restart, a thousand connections of one application may wait for the check of its password."""
    checks, loop, turns, seen = PasswordChecks(), asyncio.get_running_loop(), 0, list[int]()
    release = threading.Event()

    def turn() -> None:
        nonlocal turns
        turns += 1
        if len(seen) < 50:
            loop.call_soon(turn)

    async def one() -> None:
        assert await checks.run(b"key", "10.0.0.1", release.wait)
        seen.append(turns)

    async with asyncio.timeout(10):
        waiting = [asyncio.ensure_future(one()) for _ in range(50)]
        await asyncio.sleep(0)
        turn()
        release.set()
        await asyncio.gather(*waiting)
    assert len(set(seen)) == 50
