"""Logins by password, which is never sent: the broker's part of SCRAM, over HTTP and SASL (docs/adr/0034).

- Nothing is kept between the two requests of a login: the nonce has the time and a MAC, so any broker takes the second.
- Unknown users get a salt and keys that are made from their names. So both answers are the same for every name. Users
  without a verifier of the mechanism count as unknown.
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
from raftlog.model import MIN_SCRAM_ITERATIONS, ScramVerifier, UserCredential
from raftlog.runtime import Clock
from raftlog.security.audit import AuditTrail
from raftlog.security.identity import Peer
from raftlog.security.session_tokens import VALID_S, SessionTokens
from raftlog.serving.rates import Bucket
from raftlog.wire.logins import LoginAnswer, LoginChallenge, LoginRequest
from raftlog.wire.scram import (
    KEY_BYTES,
    SHA_256,
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
        if request.mechanism not in KEY_BYTES:
            raise InvalidRequestError(
                f"mechanism: expected {' or '.join(KEY_BYTES)}, received {request.mechanism!r:.40}"
            )
        first = parse_client_first(request.first or request.message)
        if not _USER.fullmatch(first.user):
            raise InvalidRequestError("message: n=: expected 1 to 128 letters, digits and . _ @ -")
        if request.first:
            return self._finish(first, request, peer.address)
        nonce = first.nonce + self._server_nonce(first)
        verifier, _ = self._verifier_of(first.user, request.mechanism)
        return LoginChallenge(message=_server_first(verifier, nonce).text)

    def _finish(self, first: ClientFirst, request: LoginRequest, address: str) -> LoginAnswer:
        mechanism = request.mechanism
        final = parse_client_final(request.message, first, mechanism)
        self._require_fresh(first, final.nonce.removeprefix(first.nonce))
        now_s = self._clock.monotonic_ms() / 1_000
        failures = self._failures.get(address)
        if failures is not None and failures.wait_s(now_s) > 0:
            raise OverloadedError(f"{address} has sent too many wrong passwords; log in again later")
        verifier, credential = self._verifier_of(first.user, mechanism)
        signed = signed_text(first, _server_first(verifier, final.nonce), final.without_proof)
        is_right = is_proven(bytes.fromhex(verifier.stored_key), signed, final.proof, mechanism)
        if not is_right or credential is None:
            self._count_failure(address, now_s)
            raise AuthenticationError(f"the password of user {first.user}, or the user, is wrong")
        token = self._tokens.issue(credential, self._clock.wall_us() / 1e6)
        if self._audit is not None:
            self._audit.logged_in(f"User:{first.user}", address, METHOD, hashlib.sha256(token.encode()).digest())
        proof = server_final(bytes.fromhex(verifier.server_key), signed, mechanism)
        return LoginAnswer(message=proof, access_token=token, expires_in=VALID_S)

    def _verifier_of(self, user: str, mechanism: str) -> tuple[ScramVerifier, UserCredential | None]:
        """Return a user's verifier with its credential, or None with one of the same form that no password fits."""
        known = self._users().get(user)
        verifier = None if known is None else known.verifiers.get(mechanism)
        if verifier is not None and not verifier.stored_key:
            raise RetriableError(MISSING_VERIFIERS)
        # No user's name has a line break. The salts of a user's two mechanisms differ, as those of known users do.
        named = user if mechanism == SHA_256 else f"{user}\n{mechanism}"
        made = hmac.digest(self._keys.unknown_users, named.encode(), "sha512").hex()
        key = hmac.digest(self._keys.unknown_users, f"{named}\nkey".encode(), "sha512")[: KEY_BYTES[mechanism]].hex()
        unknown = ScramVerifier(iterations=MIN_SCRAM_ITERATIONS, salt=made[:32], stored_key=key, server_key=key)
        is_usable = verifier is not None and _is_valid(verifier, KEY_BYTES[mechanism])
        return (verifier, known) if verifier is not None and is_usable else (unknown, None)

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


def _is_valid(verifier: ScramVerifier, key_bytes: int) -> bool:
    """Return whether a verifier can be used; earlier versions did not check it."""
    try:
        sizes = [len(bytes.fromhex(text)) for text in (verifier.salt, verifier.stored_key, verifier.server_key)]
    except ValueError:
        return False
    return sizes[0] > 0 and sizes[1:] == [key_bytes, key_bytes] and verifier.iterations > 0


def _server_first(verifier: ScramVerifier, nonce: str) -> ServerFirst:
    return ServerFirst(nonce, bytes.fromhex(verifier.salt), verifier.iterations)
