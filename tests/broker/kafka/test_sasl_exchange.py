"""The exchanges of one connection, with the real checks behind them, and none of the network."""

from __future__ import annotations

import asyncio
import math
import secrets
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.broker.kafka.call import ClosesConnectionError, KafkaCall, KafkaConnectionState
from raftlog.broker.kafka.sasl import SaslServer, SaslState, SaslStateError
from raftlog.broker.kafka.sasl_api import FAILURE_DELAY_S, authenticate, handshake
from raftlog.config import SecurityConfig
from raftlog.errors import AuthenticationError, OverloadedError, RetriableError
from raftlog.model import UserCredential
from raftlog.runtime import SystemClock
from raftlog.security.access import Access
from raftlog.security.authenticators import NOTHING_PLAIN, Authenticators, PlainCredentials
from raftlog.security.guard import Guard
from raftlog.security.identity import Peer
from raftlog.security.logins import LoginKeys, Logins
from raftlog.security.passwords import scram_credential
from raftlog.security.principal import Principal
from raftlog.security.routes import PUBLIC, RouteTable
from raftlog.security.session_tokens import SessionTokens
from raftlog.wire import scram
from raftlog.wire.kafka.error_codes import KafkaError as K
from raftlog.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from raftlog.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest

PRIVATE, PUBLIC_PEER, TLS = Peer("127.0.0.1"), Peer("203.0.113.5"), Peer("203.0.113.5", True)
SCRAM, SCRAM_512 = scram.SHA_256, scram.SHA_512
USERS = {
    name: scram_credential(name, f"{name}-secret", b"s" * 16, b"t" * 16, iterations=5_000) for name in ("alice", "bob")
}


@dataclass
class Token:
    principal: Principal
    expires_s: float


class Tokens:
    """Verifies tokens such as `alice 100`, whose number is when they expire."""

    def __init__(self) -> None:
        self.is_down = False
        self.revoked = False

    def verify(self, token: str) -> Token:
        if self.is_down:
            raise RetriableError("the issuer's keys are not known")
        name, _, expires = token.partition(".")
        if self.revoked or not expires:
            raise AuthenticationError("the token is refused")
        return Token(Principal(f"User:{name}"), float(expires))


class World:
    """A server with users, tokens and an authorizer."""

    def __init__(self, *, mode: str = "acl", plain: PlainCredentials = NOTHING_PLAIN) -> None:
        self.users: dict[str, UserCredential] = dict(USERS)
        self.clock, self.tokens = SystemClock(), Tokens()
        sessions = SessionTokens(b"k" * 32)
        chain = Authenticators(lambda: self.users, self.clock, tokens=self.tokens, sessions=sessions, allow_plain=plain)
        access = Access(mode, super_users=("User:admin",))  # type: ignore[arg-type]
        guard = Guard(RouteTable(PUBLIC), chain, access, cluster_id="c", listener="public")
        self.guard = None if mode == "off" else guard
        self.logins: Logins | None = Logins(
            lambda: self.users, self.clock, keys=LoginKeys(b"n" * 32, b"u" * 32), tokens=sessions
        )
        tokens = SimpleNamespace(allow_plain=plain.tokens)
        self.settings: Any = SimpleNamespace(tokens=tokens, allow_plain_passwords=plain.passwords)

    @property
    def server(self) -> SaslServer:
        return SaslServer(self.guard, self.logins, self.settings)

    def state(self, peer: Peer = PRIVATE) -> SaslState:
        return SaslState(self.server, peer)

    def call(self, connection: KafkaConnectionState) -> KafkaCall:
        context = SimpleNamespace(
            logins=self.logins, clock=self.clock, config=SimpleNamespace(security=self.settings), access=None
        )
        services: Any = SimpleNamespace(context=context, guard=self.guard)
        return KafkaCall(services=services, connection=connection)


async def by_scram(state: SaslState, user: str, password: str, mechanism: str = SCRAM) -> Any:
    state.begin(mechanism)
    first = scram.ClientFirst(user, secrets.token_urlsafe(18))
    step = await state.answer(first.text.encode())
    answer = scram.parse_server_first(step.message.decode(), first.nonce)
    salted = scram.salted_password(password, answer.salt, answer.iterations, mechanism)
    message, expected = scram.client_final(first, answer, salted, mechanism)
    done = await state.answer(message.encode())
    assert done.message.decode() == expected
    return done


async def by_scram_512(state: SaslState, user: str, password: str) -> Any:
    return await by_scram(state, user, password, SCRAM_512)


async def by_password(state: SaslState, user: str, password: str) -> Any:
    state.begin("PLAIN")
    return await state.answer(f"\0{user}\0{password}".encode())


async def by_token(state: SaslState, token: str) -> Any:
    state.begin("OAUTHBEARER")
    return await state.answer(f"n,,\x01auth=Bearer {token}\x01\x01".encode())


class TestMechanisms:
    @pytest.mark.parametrize(
        ("peer", "plain", "accepted"),
        [
            (PRIVATE, NOTHING_PLAIN, (SCRAM_512, SCRAM, "OAUTHBEARER", "PLAIN")),
            (TLS, NOTHING_PLAIN, (SCRAM_512, SCRAM, "OAUTHBEARER", "PLAIN")),
            (PUBLIC_PEER, NOTHING_PLAIN, (SCRAM_512, SCRAM)),
            (PUBLIC_PEER, PlainCredentials(passwords=True), (SCRAM_512, SCRAM, "PLAIN")),
            (PUBLIC_PEER, PlainCredentials(tokens=True), (SCRAM_512, SCRAM, "OAUTHBEARER")),
        ],
    )
    async def test_secrets_need_tls(self, peer: Peer, plain: PlainCredentials, accepted: Any):
        world = World(plain=plain)
        assert world.server.mechanisms(peer) == accepted
        for mechanism in {"PLAIN", "OAUTHBEARER"} - {*accepted}:
            with pytest.raises(AuthenticationError, match="SASL_SSL"):
                world.state(peer).begin(mechanism)

    @pytest.mark.parametrize("mechanism", ["", "GSSAPI", "SCRAM-SHA-1", "scram-sha-512", "plain", "x" * 30_000])
    async def test_others_are_refused(self, mechanism: str):
        with pytest.raises(AuthenticationError, match="SCRAM-SHA-512, SCRAM-SHA-256") as caught:
            World().state().begin(mechanism)
        assert len(caught.value.message) < 300

    async def test_scram_needs_the_cluster_key_and_tokens_an_issuer(self):
        world = World()
        world.logins, world.settings.tokens = None, None
        assert world.server.mechanisms(PRIVATE) == ("PLAIN",)

    @pytest.mark.parametrize("how", [by_scram, by_scram_512])
    async def test_a_login_in_clear_from_another_machine_says_why_it_is_refused(self, how: Any):
        with pytest.raises(AuthenticationError, match="without TLS"):
            await how(World().state(PUBLIC_PEER), "alice", "alice-secret")


class TestExchanges:
    async def test_a_password_a_login_and_a_token_are_of_the_same_principal(self):
        world = World()
        soon = world.clock.wall_us() / 1e6 + 60
        found = [
            await by_password(world.state(), "alice", "alice-secret"),
            await by_scram(world.state(), "alice", "alice-secret"),
            await by_scram_512(world.state(), "alice", "alice-secret"),
            await by_token(world.state(), f"alice.{soon}"),
        ]
        assert [step.identified.principal.name for step in found] == ["User:alice"] * 4
        assert [step.expires_s for step in found] == [math.inf, math.inf, math.inf, soon]

    @pytest.mark.parametrize(("user", "password"), [("alice", "bob-secret"), ("nobody", "x"), ("alice", "")])
    async def test_a_wrong_password_is_refused(self, user: str, password: str):
        world = World()
        for how in (by_password, by_scram, by_scram_512):
            state = world.state()
            with pytest.raises(AuthenticationError, match="is wrong"):
                await how(state, user, password)
            assert not state.is_done

    async def test_a_message_that_does_not_belong_there_is_refused(self):
        world = World()
        state = world.state()
        with pytest.raises(SaslStateError):
            await state.answer(b"\0alice\0alice-secret")
        state.begin("PLAIN")
        with pytest.raises(SaslStateError):
            state.begin("PLAIN")
        with pytest.raises(AuthenticationError, match="PLAIN: expected"):
            await state.answer(b"\xff" * 100_000)

    @pytest.mark.parametrize(
        "message", [b"", b"n,,", b"n,,n=alice,r=short", b"p=x,,n=alice,r=abcdefgh", b"\xff", b"x" * 9_000]
    )
    @pytest.mark.parametrize("mechanism", [SCRAM, SCRAM_512])
    async def test_a_malformed_login_is_refused(self, message: bytes, mechanism: str):
        state = World().state()
        state.begin(mechanism)
        with pytest.raises(AuthenticationError):
            await state.answer(message)

    @pytest.mark.parametrize("mechanisms", [(SCRAM, SCRAM), (SCRAM_512, SCRAM_512), (SCRAM, SCRAM_512)])
    async def test_the_proof_of_another_exchange_is_refused(self, mechanisms: tuple[str, str]):
        world = World()
        first, second = world.state(), world.state()
        for state, mechanism in zip((first, second), mechanisms, strict=True):
            state.begin(mechanism)
        one, two = (scram.ClientFirst("alice", secrets.token_urlsafe(18)) for _ in range(2))
        step = await first.answer(one.text.encode())
        await second.answer(two.text.encode())
        answer = scram.parse_server_first(step.message.decode(), one.nonce)
        salted = scram.salted_password("alice-secret", answer.salt, answer.iterations, mechanisms[0])
        message, _ = scram.client_final(one, answer, salted, mechanisms[0])
        with pytest.raises(AuthenticationError):
            await second.answer(message.encode())

    @pytest.mark.parametrize(("has", "other"), [(SCRAM, SCRAM_512), (SCRAM_512, SCRAM)])
    async def test_a_user_logs_in_only_by_the_mechanisms_that_it_has(self, has: str, other: str):
        world, alice = World(), USERS["alice"]
        world.users["alice"] = UserCredential.of("alice", {has: alice.verifiers[has]})
        assert (await by_scram(world.state(), "alice", "alice-secret", has)).is_done
        assert (await by_password(world.state(), "alice", "alice-secret")).is_done
        messages = []
        for user in ("alice", "nobody"):
            with pytest.raises(AuthenticationError) as caught:
                await by_scram(world.state(), user, "alice-secret", other)
            messages.append(caught.value.message.replace(user, "USER"))
        assert messages[0] == messages[1]
        with pytest.raises(AuthenticationError, match="is wrong"):
            await by_password(world.state(), "alice", "bob-secret")

    async def test_a_tokens_user_must_be_the_one_that_is_named(self):
        world = World()
        soon = world.clock.wall_us() / 1e6 + 60
        state = world.state()
        state.begin("OAUTHBEARER")
        with pytest.raises(AuthenticationError, match="authorization id"):
            await state.answer(f"n,a=bob,\x01auth=Bearer alice.{soon}\x01\x01".encode())


class TestLater:
    async def test_authentication_again_must_be_of_the_same_principal(self):
        world = World()
        state = world.state()
        await by_password(state, "alice", "alice-secret")
        await by_scram(state, "alice", "alice-secret")
        await by_scram_512(state, "alice", "alice-secret")
        with pytest.raises(AuthenticationError, match="use another one"):
            await by_password(state, "bob", "bob-secret")

    @pytest.mark.parametrize("how", [by_password, by_scram, by_scram_512])
    async def test_a_password_counts_until_its_user_changes(self, how: Any):
        world = World()
        state = world.state()
        step = await how(state, "alice", "alice-secret")
        assert world.guard is not None
        assert world.guard.is_current(step.identified)
        world.users["alice"] = scram_credential("alice", "another-secret", b"s" * 16, iterations=5_000)
        assert not world.guard.is_current(step.identified)
        with pytest.raises(AuthenticationError, match="connect again"):
            await state.again()

    async def test_a_token_is_looked_at_again(self):
        world = World()
        state = world.state()
        await by_token(state, f"alice.{world.clock.wall_us() / 1e6 + 60}")
        assert (await state.again()).principal.name == "User:alice"
        world.tokens.revoked = True
        state = world.state()
        with pytest.raises(AuthenticationError):
            await by_token(state, f"alice.{world.clock.wall_us() / 1e6 + 61}")


class TestWithoutRules:
    async def test_nothing_is_checked_as_with_http(self):
        world = World(mode="off")
        assert world.server.mechanisms(PUBLIC_PEER) == (SCRAM_512, SCRAM, "OAUTHBEARER", "PLAIN")
        step = await by_password(world.state(), "anybody", "anything")
        assert (step.is_done, step.identified) == (True, None)
        assert (await by_token(world.state(), "t")).is_done

    async def test_a_login_is_still_proven_to_the_client(self):
        for how in (by_scram, by_scram_512):
            step = await how(World(mode="off").state(), "alice", "alice-secret")
            assert (step.is_done, step.identified) == (True, None)

    async def test_log_only_serves_a_wrong_password_as_none(self):
        step = await by_password(World(mode="log-only").state(), "alice", "wrong-secret")
        assert step.identified.principal.name == "User:ANONYMOUS"


class TestHandlers:
    async def exchange(
        self, world: World, mechanism: str, message: bytes, peer: Peer = PRIVATE
    ) -> tuple[Any, KafkaCall]:
        connection = KafkaConnectionState(peer=peer)
        begun = await handshake(world.call(connection), SaslHandshakeRequest(mechanism=mechanism))
        assert begun.error_code == 0
        call = world.call(connection)
        return await authenticate(call, SaslAuthenticateRequest(auth_bytes=message)), call

    async def test_the_principal_is_the_connections(self):
        answer, call = await self.exchange(World(), "PLAIN", b"\0alice\0alice-secret")
        assert (answer.error_code, answer.session_lifetime_ms, call.ends_because) == (0, 0, "")
        assert call.connection.identified is not None
        assert call.connection.identified.principal.name == "User:alice"

    async def test_the_lifetime_of_a_token_is_reported(self):
        world = World()
        message = f"n,,\x01auth=Bearer alice.{world.clock.wall_us() / 1e6 + 60}\x01\x01".encode()
        answer, _ = await self.exchange(world, "OAUTHBEARER", message)
        assert 50_000 < answer.session_lifetime_ms <= 60_000

    async def test_a_failed_attempt_is_slow_and_ends_the_connection(self):
        began = asyncio.get_running_loop().time()
        answer, call = await self.exchange(World(), "PLAIN", b"\0alice\0wrong-secret")
        assert asyncio.get_running_loop().time() - began >= 0.9 * FAILURE_DELAY_S
        assert answer.error_code == K.SASL_AUTHENTICATION_FAILED
        assert "is wrong" in answer.error_message
        assert call.ends_because
        assert call.connection.identified is None

    async def test_credentials_that_cannot_be_checked_now_close_the_connection_without_an_error(self):
        world = World()
        world.tokens.is_down = True
        with pytest.raises(ClosesConnectionError, match="keys"):
            await self.exchange(world, "OAUTHBEARER", b"n,,\x01auth=Bearer x.1\x01\x01")

    async def test_a_message_without_a_handshake_is_illegal(self):
        connection = KafkaConnectionState(peer=PRIVATE)
        call = World().call(connection)
        answer = await authenticate(call, SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"))
        assert answer.error_code == K.ILLEGAL_SASL_STATE
        assert call.ends_because
        assert connection.identified is None

    async def test_a_mechanism_that_is_not_accepted_ends_the_connection(self):
        world = World()
        call = world.call(KafkaConnectionState(peer=PUBLIC_PEER))
        answer = await handshake(call, SaslHandshakeRequest(mechanism="PLAIN"))
        assert (answer.error_code, answer.mechanisms) == (K.UNSUPPORTED_SASL_MECHANISM, [SCRAM_512, SCRAM])
        assert "SASL_SSL" in call.ends_because

    async def test_a_flood_of_wrong_passwords_is_limited(self):
        world = World()

        async def attempt(number: int) -> bool:
            try:
                answer, _ = await self.exchange(world, "PLAIN", f"\0alice\0wrong-{number}".encode())
            except ClosesConnectionError:
                return False
            return bool(answer.error_code)

        done = await asyncio.gather(*(attempt(number) for number in range(100)))
        assert 0 < sum(done) < 100


def test_the_settings_have_the_names_that_are_used():
    assert {"tokens", "allow_plain_passwords"} <= {*SecurityConfig.__slots__}
    assert issubclass(OverloadedError, RetriableError)
