"""The chain that finds the principal of a request: node proof, password, session token, token, certificate.

A principal that was found is remembered under a keyed hash of the credentials, which are not kept. A password counts
until its user changes; wrong credentials are refused for a few seconds without a new check.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from raftlog.errors import AuthenticationError, InvalidRequestError, RetriableError
from raftlog.model import MIN_SCRAM_ITERATIONS, UserCredential
from raftlog.runtime import Clock
from raftlog.security.audit import AuditTrail
from raftlog.security.bearer_tokens import TokenVerifier
from raftlog.security.identity import Peer
from raftlog.security.logins import METHOD, MISSING_VERIFIERS
from raftlog.security.node_proof import SCHEME as NODE_SCHEME
from raftlog.security.node_proof import NodeProofs
from raftlog.security.password_checks import PasswordChecks
from raftlog.security.passwords import is_password_of
from raftlog.security.principal import ANONYMOUS, Principal
from raftlog.security.session_tokens import PREFIX as SESSION_PREFIX
from raftlog.security.session_tokens import SessionTokens
from raftlog.wire.saslprep import prepared

MAX_CREDENTIALS = 8_192
"""Characters of an `Authorization` header: tokens with many claims are long."""
MAX_REMEMBERED = 10_000
REFUSED_MS = 5_000
"""How long wrong credentials are refused without a check."""
TOKEN_MS = 10_000
"""The longest that a token's principal is remembered: then its key may have been revoked. Never after its expiry."""
MAX_REFUSED_TOKENS = 1_000
"""Tokens that are remembered as refused. They never displace credentials that were accepted."""
FOREVER = float("inf")
_MAX_SCHEME = 16
_SESSION = "session token"
"""In place of the scheme of a session token. No header has this scheme: it has a space."""
_METHODS = {"basic": "password", "bearer": "token", _SESSION: METHOD, NODE_SCHEME.lower(): "node"}
"""What the audit log calls the schemes."""
_USER = re.compile(r"[\w.@-]{1,128}")
Users = Mapping[str, UserCredential]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCredentials:
    """Which credentials are accepted without TLS from other machines."""

    passwords: bool = False
    """Passwords, and session tokens, which logins by password return."""
    tokens: bool = False


NOTHING_PLAIN = PlainCredentials()


@dataclass(frozen=True, slots=True)
class Identified:
    """A principal, and how long its credentials are good without another look."""

    principal: Principal
    until_ms: float = FOREVER
    """By the clock's monotonic time."""
    user: str = ""
    """The user whose password was sent; empty: none was."""
    credential: UserCredential | None = None
    """The user's stored credential at that time."""
    expires_s: float = FOREVER
    """When a token expires, in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class _Refused:
    error: AuthenticationError
    until_ms: float
    user: str
    credential: UserCredential | None


_NOBODY = Identified(ANONYMOUS)


class Authenticators:
    """Finds principals.

    Args:
        users: returns the users of the newest image; raises `RetriableError` while there is none.
        proofs: checks the proofs of nodes; None: this node has no cluster key.
        tokens: verifies bearer tokens; None: they are refused.
        sessions: verifies session tokens; None: they are refused.
        allow_plain: the credentials that are accepted without TLS from other machines.
        audit: notes logins; None: there is no audit log.
    """

    def __init__(
        self,
        users: Callable[[], Users],
        clock: Clock,
        *,
        proofs: NodeProofs | None = None,
        tokens: TokenVerifier | None = None,
        sessions: SessionTokens | None = None,
        allow_plain: PlainCredentials = NOTHING_PLAIN,
        audit: AuditTrail | None = None,
    ) -> None:
        self._users = users
        self._audit = audit
        self._clock = clock
        self._proofs = proofs
        self._tokens = tokens
        self._sessions = sessions
        self._allow_plain = {
            "basic": allow_plain.passwords,
            _SESSION: allow_plain.passwords,
            "bearer": allow_plain.tokens,
        }
        self._checks = PasswordChecks()
        self._key = secrets.token_bytes(32)
        self._known = _Remembered(MAX_REMEMBERED)
        self._refused_tokens = _Remembered(MAX_REFUSED_TOKENS)
        self._unknown_users = UserCredential(
            user="", iterations=MIN_SCRAM_ITERATIONS, salt=secrets.token_hex(16), stored_key="00" * 32, server_key=""
        )
        """The credential that passwords of unknown users are checked against, so that they take as long."""

    def identify(self, peer: Peer, authorization: str | None) -> Identified | Awaitable[Identified]:
        """Return the principal at once if the credentials are known, else an awaitable.

        Raises:
            AuthenticationError: the credentials are malformed, wrong, or not accepted on this connection. The
                awaitable raises it, too.
        """
        if self._audit is None:
            return self._identify(peer, authorization)
        try:
            found = self._identify(peer, authorization)
        except AuthenticationError as error:
            self._note_failure(peer, authorization, error)
            raise
        return found if isinstance(found, Identified) else self._noted(found, peer, authorization)

    def _identify(self, peer: Peer, authorization: str | None) -> Identified | Awaitable[Identified]:
        if authorization is None:
            return _NOBODY if peer.certificate is None else self._certified(peer, peer.certificate)
        if len(authorization) > MAX_CREDENTIALS:
            raise AuthenticationError(
                f"Authorization: expected at most {MAX_CREDENTIALS} characters, received {len(authorization)}"
            )
        scheme, text = _scheme_and_text(authorization)
        if not (peer.is_private or self._allow_plain.get(scheme, True)):
            sent = "password" if scheme == "basic" else "token"
            raise AuthenticationError(
                f"a {sent} was sent without TLS, where others can read it: change it, and use https"
            )
        # Each spelling of a scheme would take a place of its own, and push out what other senders need.
        key = hmac.digest(self._key, f"{scheme} {text}".encode("utf-8", "surrogateescape"), "sha256")
        known = self._known.get(key) or self._refused_tokens.get(key)
        if known is not None and self.is_current(known):
            if isinstance(known, _Refused):
                raise AuthenticationError(known.error.message, challenge=known.error.challenge)
            return known
        if scheme == "basic":
            return self._check_password(key, peer.address, *self._user_and_password(text))
        if scheme == NODE_SCHEME.lower() and (node := self._check_node(key, peer, text)) is not None:
            return node
        if scheme == _SESSION:
            return self._check_session(key, peer.address, text)
        if scheme == "bearer" and self._tokens is not None:
            return self._check_token(key, peer.address, text)
        accepted = [name for name, has in (("Basic", True), ("Bearer", self._tokens is not None)) if has]
        # What is not a scheme may be a secret, which the audit log must not show.
        received = repr(scheme) if scheme.isalpha() and len(scheme) <= _MAX_SCHEME else "another text"
        raise AuthenticationError(f"Authorization: expected {' or '.join(accepted)}, received {received}")

    def _check_node(self, key: bytes, peer: Peer, text: str) -> Identified | None:
        """Return the node that a proof is of, or that a certificate names; None: there is no key to check a proof."""
        if self._proofs is not None:
            principal, valid_s = self._proofs.verify(text, self._clock.wall_us() / 1e6)
            self._note_login(principal, peer.address, "node")
            return self._remember(key, Identified(principal, self._clock.monotonic_ms() + 1_000 * valid_s))
        # Other nodes have the cluster key already, or still.
        return None if peer.certificate is None else self._certified(peer, peer.certificate)

    def is_current(self, known: Identified | _Refused) -> bool:
        """Return whether what was found still counts: it has not expired, and its user has not changed."""
        if known.until_ms != FOREVER and self._clock.monotonic_ms() >= known.until_ms:
            return False
        if not known.user:
            return True
        now = self._users().get(known.user)
        return now is known.credential or now == known.credential

    def _remember(self, key: bytes, found: Identified) -> Identified:
        self._known.keep(key, found)
        return found

    def _certified(self, peer: Peer, principal: Principal) -> Identified:
        self._note_login(principal, peer.address, "certificate")
        return Identified(principal)

    def _note_login(self, principal: Principal, address: str, method: str, key: bytes = b"") -> None:
        if self._audit is not None:
            self._audit.logged_in(principal.name, address, method, key)

    def _note_failure(self, peer: Peer, authorization: str | None, error: AuthenticationError) -> None:
        assert self._audit is not None
        scheme, _ = _scheme_and_text(authorization or "")
        self._audit.login_failed(peer.address, _METHODS.get(scheme, "other"), error.message)

    async def _noted(self, found: Awaitable[Identified], peer: Peer, authorization: str | None) -> Identified:
        try:
            return await found
        except AuthenticationError as error:
            self._note_failure(peer, authorization, error)
            raise

    def _user_and_password(self, text: str) -> tuple[str, str]:
        try:
            user, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise AuthenticationError("Authorization: expected Base64 of user:password in UTF-8") from None
        if not colon or not _USER.fullmatch(user):
            raise AuthenticationError(
                "Authorization: expected user:password; a user's name has letters, digits and . _ @ -"
            )
        try:
            prepared(password)
        except InvalidRequestError as error:
            raise AuthenticationError(error.message) from None
        return user, password

    async def _check_password(self, key: bytes, address: str, user: str, password: str) -> Identified:
        credential = self._users().get(user)
        if credential is not None and not all(one.stored_key for one in credential.verifiers.values()):
            raise RetriableError(MISSING_VERIFIERS)
        check = partial(is_password_of, credential or self._unknown_users, password)
        # A check under way may be of the password that an administrator has just replaced.
        fits = await self._checks.run((key, credential), address, check)
        if fits and credential is not None:
            principal = Principal(f"User:{user}")
            self._note_login(principal, address, "password", key)
            return self._remember(key, Identified(principal, user=user, credential=credential))
        error = AuthenticationError(f"the password of user {user}, or the user, is wrong")
        self._known.keep(key, _Refused(error, self._clock.monotonic_ms() + REFUSED_MS, user, credential))
        raise error

    def _check_session(self, key: bytes, address: str, token: str) -> Identified:
        if self._sessions is None:
            raise AuthenticationError("session tokens need security.cluster_key_file, which is not set on this node")
        now_s = self._clock.wall_us() / 1e6
        found = self._sessions.verify(token, self._users(), now_s)
        principal = Principal(f"User:{found.user}")
        self._note_login(principal, address, METHOD, hashlib.sha256(token.encode()).digest())
        until_ms = self._clock.monotonic_ms() + 1_000 * (found.expires_s - now_s)
        return self._remember(key, Identified(principal, until_ms, found.user, found.credential, found.expires_s))

    async def _check_token(self, key: bytes, address: str, token: str) -> Identified:
        assert self._tokens is not None
        try:
            verified = self._tokens.verify(token)
            bearer = await verified if isinstance(verified, Awaitable) else verified
            principal = bearer.principal
            # A token must make its bearer neither a node nor, by a group's name, another user.
            if not principal.name.startswith("User:") or not all(map(_is_group, principal.groups)):
                raise AuthenticationError(f"the token's principal is {principal!r:.200}, expected a user and groups")
        except AuthenticationError as error:
            until_ms = self._clock.monotonic_ms() + REFUSED_MS
            self._refused_tokens.keep(key, _Refused(error, until_ms, user="", credential=None))
            raise
        self._note_login(principal, address, "token", key)
        left_ms = 1_000 * bearer.expires_s - self._clock.wall_us() / 1_000
        kept_ms = self._clock.monotonic_ms() + min(left_ms, TOKEN_MS)
        return self._remember(key, Identified(principal, kept_ms, expires_s=bearer.expires_s))


def _scheme_and_text(authorization: str) -> tuple[str, str]:
    """Return the scheme in lower case, or `_SESSION`, and what follows it."""
    scheme, _, text = authorization.partition(" ")
    scheme, text = scheme.lower(), text.strip()
    return _SESSION if scheme == "bearer" and text.startswith(SESSION_PREFIX) else scheme, text


def _is_group(name: str) -> bool:
    return name.startswith("Group:")


class _Remembered:
    """What was found for credentials, by a keyed hash; the oldest is dropped first.

    Args:
        most: how many entries are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[bytes, Identified | _Refused] = {}
        self.get = self._found.get

    def keep(self, key: bytes, found: Identified | _Refused) -> None:
        """Remember what was found; it replaces what was found before."""
        self._found.pop(key, None)
        if len(self._found) >= self._most:
            del self._found[next(iter(self._found))]
        self._found[key] = found
