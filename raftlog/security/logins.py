"""Logins by password, which is never sent: the broker's part of SCRAM-SHA-256 over HTTP (docs/adr/0034).

- Nothing is kept between the two requests of a login: the nonce has the time and a MAC, so any broker takes the second.
- Unknown users get a salt and keys that are made from their names. So both answers are the same for every name.
- Wrong proofs cost a client 100,000 hashes and this node a few: an address may send `FAILURES_PER_S` of them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from raftlog.errors import AuthenticationError, InvalidRequestError, OverloadedError, RetriableError
from raftlog.model import MIN_SCRAM_ITERATIONS, UserCredential
from raftlog.runtime import Clock
from raftlog.security.audit import AuditTrail
from raftlog.security.identity import Peer
from raftlog.security.session_tokens import VALID_S, SessionTokens
from raftlog.serving.rates import Bucket
from raftlog.wire.logins import LoginAnswer, LoginChallenge, LoginRequest
from raftlog.wire.scram import (
    MECHANISM,
    ClientFirst,
    ScramError,
    ServerFirst,
    is_proven,
    parse_client_final,
    parse_client_first,
    server_final,
    signed_text,
)

NONCE_VALID_S = 60
"""How long after the first request the second may come. Brokers' clocks may differ by as much."""
FAILURES_PER_S = 30.0
"""Wrong proofs of one address: as many as the checks of passwords that one thread runs."""
MAX_ADDRESSES = 10_000
METHOD = "scram"
"""What the audit log calls logins and their tokens."""
_USER = re.compile(r"[\w.@-]{1,128}")
_SERVER_NONCE = re.compile(r"([0-9a-f]{1,12})\.([\w-]{16,64})\.([\w-]{43})", re.ASCII)
MISSING_VERIFIERS = (
    "this broker has not received the verifiers of passwords: set security.cluster_key_file on the controllers, "
    "restart them, then restart this broker"
)


@dataclass(frozen=True, slots=True)
class LoginKeys:
    """Keys that are made from the cluster key."""

    nonces: bytes
    unknown_users: bytes


class Logins:
    """The logins of one broker.

    Args:
        users: returns the users of the newest image; raises `RetriableError` while there is none.
        tokens: makes session tokens.
        allow_plain: accept logins without TLS from other machines, which can read the token.
        audit: notes logins; None: there is no audit log.
    """

    def __init__(
        self,
        users: Callable[[], Mapping[str, UserCredential]],
        clock: Clock,
        *,
        keys: LoginKeys,
        tokens: SessionTokens,
        allow_plain: bool = False,
        audit: AuditTrail | None = None,
    ) -> None:
        self._users = users
        self._clock = clock
        self._keys = keys
        self._tokens = tokens
        self._allow_plain = allow_plain
        self._audit = audit
        self._failures: dict[str, Bucket] = {}

    def answer(self, request: LoginRequest, peer: Peer) -> LoginChallenge | LoginAnswer:
        """Answer one request of a login.

        Raises:
            InvalidRequestError: a message is malformed.
            AuthenticationError: the password, the user or the nonce is wrong, or the connection is plain.
            OverloadedError: the address has sent too many wrong proofs.
            RetriableError: there is no metadata yet.
        """
        try:
            return self._answer(request, peer)
        except ScramError as error:
            raise InvalidRequestError(f"message: {error}") from None
        except AuthenticationError as error:
            if self._audit is not None:
                self._audit.login_failed(peer.address, METHOD, error.message)
            raise

    def _answer(self, request: LoginRequest, peer: Peer) -> LoginChallenge | LoginAnswer:
        if not (peer.is_private or self._allow_plain):
            raise AuthenticationError("a login without TLS would show its token to others: use https")
        if request.mechanism != MECHANISM:
            raise InvalidRequestError(f"mechanism: expected {MECHANISM}, received {request.mechanism!r:.40}")
        first = parse_client_first(request.first or request.message)
        if not _USER.fullmatch(first.user):
            raise InvalidRequestError("message: n=: expected 1 to 128 letters, digits and . _ @ -")
        if request.first:
            return self._finish(first, request.message, peer.address)
        nonce = first.nonce + self._server_nonce(first)
        return LoginChallenge(message=_server_first(self._credential_of(first.user), nonce).text)

    def _finish(self, first: ClientFirst, message: str, address: str) -> LoginAnswer:
        final = parse_client_final(message, first)
        self._require_fresh(first, final.nonce.removeprefix(first.nonce))
        now_s = self._clock.monotonic_ms() / 1_000
        failures = self._failures.get(address)
        if failures is not None and failures.wait_s(now_s) > 0:
            raise OverloadedError(f"{address} has sent too many wrong passwords; log in again later")
        credential = self._credential_of(first.user)
        signed = signed_text(first, _server_first(credential, final.nonce), final.without_proof)
        is_right = is_proven(bytes.fromhex(credential.stored_key), signed, final.proof)
        if not is_right or credential is not self._users().get(first.user):
            self._count_failure(address, now_s)
            raise AuthenticationError(f"the password of user {first.user}, or the user, is wrong")
        token = self._tokens.issue(credential, self._clock.wall_us() / 1e6)
        if self._audit is not None:
            self._audit.logged_in(f"User:{first.user}", address, METHOD, hashlib.sha256(token.encode()).digest())
        proof = server_final(bytes.fromhex(credential.server_key), signed)
        return LoginAnswer(message=proof, access_token=token, expires_in=VALID_S)

    def _credential_of(self, user: str) -> UserCredential:
        """Return a user's credential, or one of the same form that no password fits."""
        known = self._users().get(user)
        if known is not None and not known.stored_key:
            raise RetriableError(MISSING_VERIFIERS)
        made = hmac.digest(self._keys.unknown_users, user.encode(), "sha512").hex()
        unknown = UserCredential(
            user=user, iterations=MIN_SCRAM_ITERATIONS, salt=made[:32], stored_key=made[64:], server_key=made[64:]
        )
        return known if known is not None and _is_valid(known) else unknown

    def _server_nonce(self, first: ClientFirst) -> str:
        """Return this side's part of a nonce: the time, a random part, and a MAC of both and the client's message."""
        begun = f"{self._clock.wall_us() // 1_000_000:x}.{secrets.token_urlsafe(18)}"
        return f"{begun}.{self._nonce_mac(first, begun)}"

    def _require_fresh(self, first: ClientFirst, server_nonce: str) -> None:
        found = _SERVER_NONCE.fullmatch(server_nonce)
        mac = "" if found is None else self._nonce_mac(first, f"{found[1]}.{found[2]}")
        if found is None or not hmac.compare_digest(mac, found[3]):
            raise AuthenticationError("the login was not begun at this cluster, or for another user: begin again")
        age_s = self._clock.wall_us() // 1_000_000 - int(found[1], 16)
        if abs(age_s) > NONCE_VALID_S:
            raise AuthenticationError(
                f"the login was begun {age_s:+} s ago by this node's clock, expected at most {NONCE_VALID_S} s: "
                "begin again"
            )

    def _nonce_mac(self, first: ClientFirst, begun: str) -> str:
        mac = hmac.digest(self._keys.nonces, f"{begun}\n{first.text}".encode(), "sha256")
        return base64.urlsafe_b64encode(mac).decode().rstrip("=")

    def _count_failure(self, address: str, now_s: float) -> None:
        bucket = self._failures.get(address)
        if bucket is None:
            if len(self._failures) >= MAX_ADDRESSES:
                del self._failures[next(iter(self._failures))]
            bucket = self._failures[address] = Bucket(FAILURES_PER_S, now_s)
        bucket.charge(1.0, now_s)


def _is_valid(credential: UserCredential) -> bool:
    """Return whether a credential can be used; earlier versions did not check it."""
    try:
        sizes = [len(bytes.fromhex(text)) for text in (credential.salt, credential.stored_key, credential.server_key)]
    except ValueError:
        return False
    return sizes[0] > 0 and sizes[1:] == [32, 32] and credential.iterations > 0


def _server_first(credential: UserCredential, nonce: str) -> ServerFirst:
    return ServerFirst(nonce, bytes.fromhex(credential.salt), credential.iterations)
