"""The broker's part of a login by password, and session tokens: hostile clients, other brokers, changed users."""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import secrets
import time
import tracemalloc
from dataclasses import replace

import pytest

from raftlog.errors import AuthenticationError, InvalidRequestError, OverloadedError, RetriableError
from raftlog.metadata_quorum.image_codec import without_verifiers
from raftlog.model import UserCredential
from raftlog.runtime import SystemClock
from raftlog.security import logins as subject
from raftlog.security.audit import AuditTrail, Line
from raftlog.security.authenticators import Authenticators, Identified
from raftlog.security.identity import Peer
from raftlog.security.logins import LoginKeys, Logins
from raftlog.security.node_proof import NodeProofs
from raftlog.security.passwords import is_password_of, scram_credential
from raftlog.security.principal import Principal
from raftlog.security.session_tokens import PREFIX, VALID_S, SessionTokens
from raftlog.wire import scram
from raftlog.wire.logins import LoginAnswer, LoginChallenge, LoginRequest
from raftlog.wire.scram import ClientFirst

HERE, AFAR = Peer("127.0.0.1"), Peer("10.0.0.9")
SALT = b"s" * 16
ROUNDS = 4_096
PASSWORD = "secret-1"


class TestClock(SystemClock):
    __test__ = False

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + int(1_000 * self.ahead_s)

    def wall_us(self) -> int:
        return super().wall_us() + int(1_000_000 * self.ahead_s)


class Broker:
    """A broker's logins and authenticators. Brokers of one cluster share `users` and the key."""

    def __init__(
        self, users: dict[str, UserCredential] | None = None, key: bytes = b"k" * 32, **options: object
    ) -> None:
        ann = scram_credential("ann", PASSWORD, SALT, iterations=ROUNDS)
        self.users = {"ann": ann} if users is None else users
        self.clock, self.lines = TestClock(), list[Line]()
        proofs = NodeProofs(key, "c", "Broker:1", ())
        tokens = SessionTokens(proofs.derived("session-tokens"))
        audit = AuditTrail("broker-1", self.lines.append, self.clock.wall_us)
        keys = LoginKeys(proofs.derived("login-nonces"), proofs.derived("unknown-users"))
        self.logins = Logins(lambda: self.users, self.clock, keys=keys, tokens=tokens, audit=audit, **options)  # type: ignore[arg-type]
        self.chain = Authenticators(lambda: self.users, self.clock, sessions=tokens, audit=audit)

    def begin(self, first: ClientFirst, peer: Peer = HERE) -> str:
        answer = self.logins.answer(LoginRequest(message=first.text), peer)
        assert isinstance(answer, LoginChallenge)
        return answer.message

    def finish(self, first: ClientFirst, message: str, peer: Peer = HERE) -> LoginAnswer:
        answer = self.logins.answer(LoginRequest(message=message, first=first.text), peer)
        assert isinstance(answer, LoginAnswer)
        return answer

    def find(self, token: str, peer: Peer = HERE) -> Identified:
        found = self.chain.identify(peer, f"Bearer {token}")
        assert isinstance(found, Identified)
        return found


def first_of(user: str = "ann") -> ClientFirst:
    return ClientFirst(user, secrets.token_urlsafe(18))


def final_of(first: ClientFirst, challenge: str, password: str = PASSWORD) -> tuple[str, str]:
    answer = scram.parse_server_first(challenge, first.nonce)
    return scram.client_final(first, answer, scram.salted_password(password, answer.salt, answer.iterations))


def log_in(broker: Broker, user: str = "ann", password: str = PASSWORD, *, second: Broker | None = None) -> str:
    first = first_of(user)
    message, expected = final_of(first, broker.begin(first), password)
    answer = (second or broker).finish(first, message)
    assert answer.message == expected
    assert (answer.token_type, answer.expires_in) == ("Bearer", VALID_S)
    return answer.access_token


def test_a_login_at_two_brokers_gives_a_token_that_a_third_accepts():
    one = Broker()
    two, three = Broker(one.users), Broker(one.users)
    token = log_in(one, second=two)
    assert token.startswith(PREFIX)
    found = three.find(token)
    assert found.principal == Principal("User:ann")
    assert abs(found.expires_s - time.time() - VALID_S) < 2
    assert three.find(token) is found  # Remembered: no second check.


@pytest.mark.parametrize("password", ["wrong-1", PASSWORD + " ", ""])
def test_a_wrong_password_and_an_unknown_user_get_the_same_answers(password: str):
    broker = Broker()
    for user in ("ann", "no.one"):
        with pytest.raises(AuthenticationError) as refused:
            log_in(broker, user, password)
        assert refused.value.message == f"the password of user {user}, or the user, is wrong"
    shapes = []
    for user in ("ann", "bob"):
        broker.users = {"ann": scram_credential("ann", PASSWORD, SALT)}
        first = first_of(user)
        answer = scram.parse_server_first(broker.begin(first), first.nonce)
        assert answer.salt == scram.parse_server_first(broker.begin(first), first.nonce).salt  # Each time the same.
        shapes.append((len(answer.salt), answer.iterations, len(answer.nonce)))
    assert shapes[0] == shapes[1]


def test_salts_of_unknown_users_differ_between_users_and_clusters():
    one, two = Broker(), Broker(key=b"x" * 32)
    salts = {
        scram.parse_server_first(broker.begin(first), first.nonce).salt
        for broker in (one, two)
        for first in (first_of("bob"), first_of("eve"))
    }
    assert len(salts) == 4


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("", "begins with n,,"),
        ("p=tls-unique,,n=ann,r=abcdefgh", "channel binding"),
        ("n,,n=a b,r=abcdefgh", "letters, digits"),
        ("n,,n=" + "a" * 129 + ",r=abcdefgh", "letters, digits"),
        ("n,,n=ann,r=abc", "8 to 256"),
    ],
)
def test_malformed_messages_are_refused_and_not_quoted(message: str, why: str):
    broker = Broker()
    for request in (LoginRequest(message=message), LoginRequest(message="c=biws,r=x,p=y", first=message or "x")):
        with pytest.raises(InvalidRequestError, match=why):
            broker.logins.answer(request, HERE)


def first_answer(broker: Broker, user: str, mechanism: str) -> scram.ServerFirst:
    first = first_of(user)
    answer = broker.logins.answer(LoginRequest(message=first.text, mechanism=mechanism), HERE)
    assert isinstance(answer, LoginChallenge)
    return scram.parse_server_first(answer.message, first.nonce)


def test_users_with_and_without_a_mechanism_and_unknown_users_get_the_same_answers():
    """A client must not learn from an answer which users exist, or which mechanisms a user has."""
    broker, salts = Broker(), (os.urandom(16), os.urandom(16))
    both = scram_credential("both", PASSWORD, *salts)
    broker.users = {"both": both}
    for mechanism, verifier in both.verifiers.items():
        broker.users[mechanism] = UserCredential.of(mechanism, {mechanism: verifier})
    shapes, found = set(), list[bytes]()
    for user in (*broker.users, "no.one"):
        for mechanism in (scram.SHA_256, scram.SHA_512):
            answer = first_answer(broker, user, mechanism)
            assert answer.salt == first_answer(broker, user, mechanism).salt  # Each time the same.
            shapes.add((len(answer.salt), answer.iterations, len(answer.nonce)))
            found.append(answer.salt)
    assert len(shapes) == 1
    assert len(set(found)) == 8 - 2  # Those of `both` are also in the two users that have one mechanism each.


@pytest.mark.parametrize("mechanism", [scram.SHA_256, scram.SHA_512])
def test_a_session_ends_when_any_verifier_of_its_user_changes(mechanism: str):
    broker = Broker()
    broker.users = {"ann": scram_credential("ann", PASSWORD, SALT, SALT, iterations=ROUNDS)}
    token = log_in(broker)
    assert broker.find(token)
    others = scram_credential("ann", "other-1", SALT, SALT, iterations=ROUNDS).verifiers
    changed = broker.users["ann"].verifiers | {mechanism: others[mechanism]}
    broker.users = {"ann": UserCredential.of("ann", changed)}
    with pytest.raises(AuthenticationError, match="its password has changed"):
        broker.find(token)


def test_a_session_of_an_earlier_version_goes_on():
    """The fingerprint of a user without SCRAM-SHA-512 is that of versions which did not know it."""
    ann = UserCredential(user="ann", iterations=100_000, salt="00" * 16, stored_key="11" * 32, server_key="22" * 32)
    assert SessionTokens(b"k" * 32)._fingerprint(ann) == "jhGRTveSDdH0vfX9ZjmrpQ"


def test_another_mechanism_is_refused():
    with pytest.raises(InvalidRequestError, match="expected SCRAM-SHA-256 or SCRAM-SHA-512, received 'PLAIN'"):
        Broker().logins.answer(LoginRequest(mechanism="PLAIN", message="x"), HERE)


def test_a_client_that_could_bind_channels_logs_in_and_cannot_hide_it():
    broker, first = Broker(), replace(first_of(), header="y,,")
    message, expected = final_of(first, broker.begin(first))
    assert broker.finish(first, message).message == expected
    with pytest.raises(InvalidRequestError, match="header of the first message"):
        broker.finish(replace(first, header="n,,"), message)


def test_the_second_message_belongs_to_the_user_the_nonce_and_the_cluster_of_the_first():
    broker, first = Broker(), first_of()
    broker.users["bob"] = scram_credential("bob", PASSWORD, SALT, iterations=ROUNDS)
    challenge = broker.begin(first)
    message, _ = final_of(first, challenge)
    begun_again = "not begun at this cluster, or for another user"
    with pytest.raises(AuthenticationError, match=begun_again):
        broker.finish(replace(first, user="bob"), final_of(replace(first, user="bob"), challenge)[0])
    with pytest.raises(AuthenticationError, match=begun_again):
        Broker(broker.users, key=b"x" * 32).finish(first, message)
    answer = scram.parse_server_first(challenge, first.nonce)
    for nonce in (answer.nonce[:-1], answer.nonce + "A", first.nonce + "A" * 40, first.nonce):
        forged = answer._replace(nonce=nonce)
        salted = scram.salted_password(PASSWORD, answer.salt, answer.iterations)
        with pytest.raises(AuthenticationError, match=begun_again):
            broker.finish(first, scram.client_final(first, forged, salted)[0])
    with pytest.raises(InvalidRequestError, match="r=: expected the nonce"):
        broker.finish(replace(first, nonce="another-nonce"), message)
    assert broker.finish(first, message)


@pytest.mark.parametrize("ahead_s", [-62, 62, 3_600])
def test_a_login_that_takes_too_long_must_begin_again(ahead_s: int):
    broker, first = Broker(), first_of()
    message, _ = final_of(first, broker.begin(first))
    broker.clock.ahead_s = ahead_s
    with pytest.raises(AuthenticationError, match="expected at most 60 s: begin again"):
        broker.finish(first, message)
    broker.clock.ahead_s = ahead_s / abs(ahead_s) * 58
    assert broker.finish(first, message)


def test_logins_and_tokens_need_tls_or_the_same_machine():
    broker, secure = Broker(), replace(AFAR, is_tls=True)
    first = first_of()
    for request in (LoginRequest(message=first.text), LoginRequest(message="x", first=first.text)):
        with pytest.raises(AuthenticationError, match="without TLS"):
            broker.logins.answer(request, AFAR)
    token = broker.finish(first, final_of(first, broker.begin(first, secure))[0], secure).access_token
    assert broker.find(token, secure)
    with pytest.raises(AuthenticationError, match="without TLS"):
        broker.find(token, AFAR)  # Although it is remembered.
    assert Broker(allow_plain=True).begin(first, AFAR)


def test_a_token_ends_with_its_hour_its_user_and_its_password():
    broker = Broker()
    token = log_in(broker)
    kept, ann = broker.find(token), broker.users["ann"]
    broker.users = dict(broker.users)  # Another image with the same users.
    assert broker.chain.is_current(kept)

    for users in ({}, {"ann": scram_credential("ann", PASSWORD, b"t" * 16, iterations=ROUNDS)}):
        broker.users = users
        assert not broker.chain.is_current(kept)
        with pytest.raises(AuthenticationError, match="the user was deleted, or its password has changed"):
            broker.find(token)
    broker.users = {"ann": ann}
    broker.clock.ahead_s = VALID_S + 1
    assert not broker.chain.is_current(kept)
    with pytest.raises(AuthenticationError, match="the session of user ann has expired"):
        broker.find(token)


def test_forged_tokens_are_refused():
    broker = Broker()
    broker.users["bob"] = scram_credential("bob", PASSWORD, SALT, iterations=ROUNDS)
    token = log_in(broker)
    payload, _, mac = token.removeprefix(PREFIX).partition(".")
    claims = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    changed = base64.urlsafe_b64encode(claims.replace(b"ann", b"bob")).decode().rstrip("=")
    others = log_in(Broker(broker.users, key=b"x" * 32))
    junk = ["", ".", f"{payload}.", f"{payload}.{mac}A", f"{payload}{mac}", f"{changed}.{mac}", "é.é", "A" * 8_000]
    for wrong in [*(PREFIX + text for text in junk), others, f"{token}.x", f"{PREFIX}{token}"]:
        with pytest.raises(AuthenticationError, match="not of this cluster"):
            broker.find(wrong)
    for header in (f"session token {token}", f"scram {token}", f"Basic {token}"):
        with pytest.raises(AuthenticationError, match="Authorization: expected"):
            broker.chain.identify(HERE, header)
    assert broker.find(token)


def test_tokens_are_refused_by_a_node_without_the_cluster_key():
    chain = Authenticators(dict, SystemClock())
    with pytest.raises(AuthenticationError, match="which is not set on this node"):
        chain.identify(HERE, f"Bearer {log_in(Broker())}")


def test_users_without_verifiers_are_reported_as_in_a_check_of_a_password():
    broker = Broker()
    broker.users = {"ann": without_verifiers(scram_credential("ann", PASSWORD, SALT, SALT, iterations=ROUNDS))}
    for mechanism in (scram.SHA_256, scram.SHA_512):
        with pytest.raises(RetriableError, match="verifiers of passwords"):
            first_answer(broker, "ann", mechanism)


@pytest.mark.parametrize("change", [{"salt": "zz"}, {"stored_key": "00"}, {"server_key": "x"}, {"iterations": 0}])
def test_credentials_that_earlier_versions_did_not_check_fit_no_password(change: dict[str, object]):
    broker = Broker()
    broker.users = {"ann": replace(broker.users["ann"], **change)}  # type: ignore[arg-type]
    with pytest.raises(AuthenticationError, match="or the user, is wrong"):
        log_in(broker)


def test_the_audit_log_has_logins_and_failures_and_no_message():
    broker, first = Broker(), first_of()
    token = log_in(broker)
    broker.find(token)
    with pytest.raises(AuthenticationError):
        log_in(broker, password="wrong-1")
    message, _ = final_of(first, broker.begin(first))
    with pytest.raises(AuthenticationError):
        broker.finish(replace(first, user="bob"), message)
    with pytest.raises(AuthenticationError):
        broker.find(token + "x")
    lines = [(line["principal"], line["method"], line["outcome"]) for line in broker.lines]
    assert lines == [("User:ann", "scram", "allowed"), *[("", "scram", "denied")] * 3]
    text = repr(broker.lines)
    for secret in (token, message, first.nonce, "biws", broker.users["ann"].stored_key):
        assert secret not in text


def test_an_address_with_many_wrong_passwords_waits_and_others_do_not():
    broker = Broker()
    first = first_of()
    right, _ = final_of(first, broker.begin(first))
    wrong, _ = final_of(first, broker.begin(first), "wrong-1")
    errors = list[type[Exception]]()
    for _ in range(200):
        with pytest.raises((AuthenticationError, OverloadedError)) as refused:
            broker.finish(first, wrong)
        errors.append(refused.type)
    assert 10 <= errors.count(AuthenticationError) <= 60
    assert errors[-1] is OverloadedError
    with pytest.raises(OverloadedError):
        broker.finish(first, right)
    assert broker.finish(first, right, Peer("127.0.0.2"))
    broker.clock.ahead_s += 1
    assert broker.finish(first, right)


def test_the_addresses_that_are_counted_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(subject, "MAX_ADDRESSES", 10)
    broker, first = Broker(), first_of()
    wrong, _ = final_of(first, broker.begin(first), "wrong-1")
    for number in range(50):
        with pytest.raises(AuthenticationError):
            broker.finish(first, wrong, Peer(f"127.0.0.{number}"))
    assert len(broker.logins._failures) == 10


async def test_ten_thousand_first_messages_keep_nothing_and_hold_no_loop():
    broker = Broker()
    broker.begin(first_of())
    gc.collect()
    tracemalloc.start()
    try:
        before, longest, begun = tracemalloc.get_traced_memory()[0], 0.0, time.perf_counter()
        for number in range(10_000):
            one = time.thread_time()
            broker.begin(ClientFirst(f"user-{number}", "client-nonce"))
            longest = max(longest, time.thread_time() - one)
            await asyncio.sleep(0)
        took, grown = time.perf_counter() - begun, tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown < 100_000
    assert longest < 0.1
    assert took < 20


def test_a_wrong_proof_costs_a_thousandth_of_the_check_of_a_password():
    """The fastest of several rounds: other processes run on this machine."""
    credential = scram_credential("ann", PASSWORD, SALT)
    broker, first = Broker({"ann": credential}), first_of()
    wrong, _ = final_of(first, broker.begin(first), "wrong-1")

    def finish() -> None:
        broker.clock.ahead_s += 0.1  # The address has sent too many otherwise.
        with pytest.raises(AuthenticationError):
            broker.finish(first, wrong)

    def seconds(work: object, rounds: int) -> float:
        took = []
        for _ in range(rounds):
            begun = time.perf_counter()
            work()  # type: ignore[operator]
            took.append(time.perf_counter() - begun)
        return min(took)

    proof_s, check_s = seconds(finish, 300), seconds(lambda: is_password_of(credential, "wrong-1"), 5)
    print(f"a wrong proof {1e6 * proof_s:.0f} us, a check of a password {1e6 * check_s:.0f} us")
    assert proof_s < check_s / 50
