"""The issuer's keys: fetched, rotated, revoked, hostile and unreachable; and what the chain remembers of tokens."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from issuer_support import AUDIENCE, Issuer

from raftlog.config import TokensConfig
from raftlog.errors import AuthenticationError, ConfigError, InvalidRequestError, RetriableError
from raftlog.runtime import SystemClock
from raftlog.security import authenticators, key_sources, token_verifier
from raftlog.security.audit import AuditTrail
from raftlog.security.authenticators import Authenticators, Identified, PlainCredentials
from raftlog.security.identity import Peer
from raftlog.security.public_keys import MAX_DOCUMENT_BYTES
from raftlog.security.token_verifier import TokenIssuer

HERE = Peer("127.0.0.1")
AFAR = Peer("10.0.0.9")


class Clock(SystemClock):
    def __init__(self) -> None:
        self.ahead_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.ahead_ms

    def wall_us(self) -> int:
        return super().wall_us() + 1_000 * self.ahead_ms


class Bench:
    """A chain of authenticators, its clock, and the keys of one issuer."""

    def __init__(self, issuer: Issuer, **settings: Any) -> None:
        self.clock = Clock()
        self.settings = TokensConfig(**({"issuer": issuer.url, "audience": AUDIENCE} | settings))
        self.keys = TokenIssuer(self.settings, self.clock)
        allow_plain = PlainCredentials(tokens=self.settings.allow_plain)
        self.chain = Authenticators(dict, self.clock, tokens=self.keys, allow_plain=allow_plain)

    async def user(self, token: str, peer: Peer = HERE) -> str:
        found = self.chain.identify(peer, f"Bearer {token}")
        return (found if isinstance(found, Identified) else await found).principal.name


@asynccontextmanager
async def bench(issuer: Issuer, **settings: Any) -> AsyncIterator[Bench]:
    made = Bench(issuer, **settings)
    await made.keys.start()
    try:
        yield made
    finally:
        await made.keys.close()


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with Issuer().served() as served:
        yield served


async def test_keys_are_found_by_the_issuers_url_and_fetched_once_for_a_burst(issuer: Issuer):
    async with bench(issuer) as made:
        users = await asyncio.gather(*(made.user(issuer.token(sub=f"u{n}")) for n in range(50)))

    assert users == [f"User:u{n}" for n in range(50)]
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


async def test_a_new_key_counts_at_its_first_token_and_a_withdrawn_one_not_after_the_next_fetch(issuer: Issuer):
    async with bench(issuer, jwks_url=f"{issuer.url}/keys", refresh_s=1) as made:
        old = issuer.token()
        assert await made.user(old)
        made.clock.ahead_ms += 6_000
        issuer.rotate("second")
        assert await made.user(issuer.token(sub="ann")) == "User:ann"

        del issuer.keys["first"]
        while made.keys._keys is None or made.keys._keys.find("first", "ES256"):
            await asyncio.sleep(0.05)
        made.clock.ahead_ms += authenticators.TOKEN_MS
        with pytest.raises(AuthenticationError, match="no key 'first'"):
            await made.user(old)


async def test_invented_key_ids_make_the_issuer_little_work(issuer: Issuer):
    async with bench(issuer, jwks_url=f"{issuer.url}/keys") as made:
        assert await made.user(issuer.token())
        made.clock.ahead_ms += 6_000

        async def attempt(number: int) -> Exception:
            try:
                await made.user(issuer.token(header={"kid": f"invented-{number}"}))
            except (AuthenticationError, RetriableError) as error:
                return error
            raise AssertionError

        at_once = await asyncio.gather(*(attempt(n) for n in range(20)))
        assert all(isinstance(error, AuthenticationError) for error in at_once)
        later = [await attempt(100 + n) for n in range(20)]
        assert all(isinstance(error, RetriableError) for error in later)  # It may be new.
        assert issuer.asked == ["/keys"] * 2
        assert await made.user(issuer.token(sub="ann")) == "User:ann"


def oversized() -> web.Response:
    return web.Response(body=b" " * (10 << 20))


def zipped() -> web.Response:
    return web.Response(body=b"x", headers={"Content-Encoding": "gzip"})


def redirected() -> web.Response:
    return web.Response(status=302, headers={"Location": "http://169.254.169.254/keys"})


def failing() -> web.Response:
    return web.Response(status=500)


def keyless() -> web.Response:
    return web.json_response({"keys": [{"kty": "oct"}]})


def other_issuer() -> web.Response:
    return web.json_response({"issuer": "https://other.test", "jwks_uri": "https://other.test/keys"})


def plain_keys() -> web.Response:
    return web.json_response({"issuer": "?", "jwks_uri": "http://10.0.0.1/keys"})


@pytest.mark.parametrize("answer", [oversized, zipped, redirected, failing, keyless, other_issuer, plain_keys])
async def test_a_hostile_or_broken_issuer_means_try_again_and_its_recovery_is_noticed(answer: Any, issuer: Issuer):
    where = "/.well-known/openid-configuration" if answer in (other_issuer, plain_keys) else "/keys"
    issuer.answers[where] = answer
    async with bench(issuer) as made:
        for _ in range(2):
            with pytest.raises(RetriableError, match="cannot be checked now"):
                await made.user(issuer.token())
        assert len(issuer.asked) <= 2
        issuer.answers.clear()
        made.clock.ahead_ms += 6_000
        assert await made.user(issuer.token())


async def test_keys_still_count_while_the_issuer_is_down_but_not_for_ever(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
):
    async with bench(issuer, refresh_s=1) as made:
        assert await made.user(issuer.token())
        issuer.answers["/keys"] = failing
        await made.keys.reload()
        await made.keys.reload()
        assert caplog.text.count("the previous ones still count") == 1
        issuer.lifetime_s = 1e6
        assert await made.user(issuer.token(sub="ann")) == "User:ann"
        made.clock.ahead_ms += 86_401_000
        with pytest.raises(RetriableError, match="expected status 200, received 500"):
            await made.user(issuer.token(sub="bob"))


async def test_an_issuer_that_never_answers_stops_only_its_own_tokens(issuer: Issuer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(key_sources, "FETCH_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # It accepts no connection; the kernel does.
        port = silent.getsockname()[1]
        async with bench(issuer, jwks_url=f"http://127.0.0.1:{port}/") as made:
            begin = time.monotonic()
            callers = [asyncio.ensure_future(made.user(issuer.token(sub=f"u{n}"))) for n in range(20)]
            await asyncio.sleep(0)
            callers[0].cancel()  # A client that leaves does not end the fetch of the others.
            found = await asyncio.gather(*callers, return_exceptions=True)
            assert isinstance(found[0], asyncio.CancelledError)
            assert all(isinstance(error, RetriableError) for error in found[1:])
            assert time.monotonic() - begin < 5


async def test_a_file_is_loaded_again_when_it_changes_and_a_wrong_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(token_verifier, "FILE_S", 0.05)
    issuer, path = Issuer(), tmp_path / "keys.json"
    with pytest.raises(ConfigError, match="jwks_file"):
        async with bench(issuer, jwks_file=str(path)):
            pass
    path.write_bytes(b"{}")
    with pytest.raises(InvalidRequestError):
        async with bench(issuer, jwks_file=str(path)):
            pass
    path.write_bytes(issuer.jwks)
    async with bench(issuer, jwks_file=str(path)) as made:
        old = issuer.token()
        assert await made.user(old)
        path.write_bytes(b" " * (MAX_DOCUMENT_BYTES + 1))
        while "the previous ones still count" not in caplog.text:
            await asyncio.sleep(0.02)
        assert await made.user(issuer.token(sub="ann"))

        del issuer.keys["first"]
        issuer.rotate("second")
        (tmp_path / "new").write_bytes(issuer.jwks)
        os.replace(tmp_path / "new", path)  # noqa: PTH105
        made.clock.ahead_ms += authenticators.TOKEN_MS
        assert await made.user(issuer.token(sub="ann")) == "User:ann"
        with pytest.raises((AuthenticationError, RetriableError)):
            await made.user(old)


@pytest.mark.parametrize("in_file", [True, False])
async def test_a_withdrawn_key_is_refused_however_often_the_keys_are_refreshed(
    in_file: bool, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A refresh says nothing about keys of later tokens, so the first token of an unknown key has a look of its own."""
    monkeypatch.setattr(token_verifier, "FILE_S", 3_600)
    path = tmp_path / "keys.json"
    path.write_bytes(issuer.jwks)
    async with bench(issuer, **({"jwks_file": str(path)} if in_file else {})) as made:
        assert await made.user(issuer.token())
        for name in ("second", "third"):
            await made.keys.reload()  # As the refresh does.
            with pytest.raises(AuthenticationError, match=f"no key '{name}'"):
                await made.user(issuer.token(header={"kid": name}))
            with pytest.raises(RetriableError, match="asked less than 5 s ago"):
                await made.user(issuer.token(header={"kid": name}))
            made.clock.ahead_ms += 5_001


async def test_a_token_is_never_remembered_beyond_its_expiry(issuer: Issuer):
    async with bench(issuer, leeway_s=0) as made:
        found = made.chain.identify(HERE, f"Bearer {issuer.token(exp=time.time() + 2)}")
        assert not isinstance(found, Identified)
        identified = await found
        made.clock.ahead_ms += 1_500
        assert made.chain.is_current(identified)
        made.clock.ahead_ms += 600
        assert not made.chain.is_current(identified)

        long = await made.chain.identify(HERE, f"Bearer {issuer.token()}")  # type: ignore[misc]
        made.clock.ahead_ms += authenticators.TOKEN_MS
        assert not made.chain.is_current(long)


async def test_tokens_need_tls_or_the_same_machine(issuer: Issuer):
    async with bench(issuer) as made:
        token = issuer.token()
        assert await made.user(token)
        with pytest.raises(AuthenticationError, match="a token was sent without TLS"):
            await made.user(token, AFAR)  # Although it is remembered.
        assert await made.user(token, Peer("10.0.0.9", is_tls=True))
    async with bench(issuer, allow_plain=True) as made:
        assert await made.user(issuer.token(), AFAR)


async def test_refused_tokens_are_remembered_shortly_and_displace_no_accepted_one(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
):
    async with bench(issuer) as made:
        good = issuer.token()
        assert await made.user(good)
        verified: list[str] = []
        real = made.keys.verify
        monkeypatch.setattr(made.keys, "verify", lambda token: verified.append(token) or real(token))
        wrong = issuer.token(aud="other")
        for _ in range(3):
            with pytest.raises(AuthenticationError, match="aud"):
                await made.user(wrong)
        assert len(verified) == 1
        for number in range(authenticators.MAX_REFUSED_TOKENS + 10):
            with pytest.raises(AuthenticationError):
                await made.user(f"a.b.{number}")
        verified.clear()
        assert await made.user(good)
        assert verified == []
        made.clock.ahead_ms += authenticators.REFUSED_MS
        with pytest.raises(AuthenticationError):
            await made.user(wrong)
        assert verified == [wrong]


@pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
async def test_a_check_takes_less_than_a_millisecond_of_the_event_loop(issuer: Issuer, algorithm: str):
    issuer.rotate("second", algorithm)
    async with bench(issuer) as made:
        await made.user(issuer.token())
        times = []
        for number in range(30):
            token = issuer.token(sub=f"u{number}")
            begin = time.perf_counter()
            made.keys.verify(token)
            times.append(time.perf_counter() - begin)
        assert min(times) < 0.001


async def identified(chain: Authenticators, text: str) -> Identified:
    found = chain.identify(HERE, text)
    return found if isinstance(found, Identified) else await found


async def test_the_audit_log_shows_a_token_once_and_never_its_text(issuer: Issuer):
    lines: list[dict[str, object]] = []
    async with bench(issuer) as made:
        trail = AuditTrail("broker-1", lines.append, made.clock.wall_us)
        chain = made.chain = Authenticators(dict, made.clock, tokens=made.keys, audit=trail)
        good, wrong = issuer.token(), issuer.token(aud="other")
        for _ in range(3):
            await made.user(good)
            made.clock.ahead_ms += authenticators.TOKEN_MS  # It is checked again.
            with pytest.raises(AuthenticationError):
                await made.user(wrong)
        for text in (good, f"Bearer {good}x y", f"Basic {good}", good.replace("e", "E")):
            with pytest.raises(AuthenticationError):
                await identified(chain, text)
    logins = [(line["principal"], line["method"], line["outcome"]) for line in lines]
    assert logins[:2] == [("User:ruled", "token", "allowed"), ("", "token", "denied")]
    assert logins.count(("User:ruled", "token", "allowed")) == 1
    assert not any(part in repr(lines) for text in (good, wrong) for part in text.split("."))
