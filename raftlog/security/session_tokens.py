"""Session tokens: what a login by password returns. Any node checks one, and keeps nothing (docs/adr/0034). Pure.

`raftlog-session.<payload>.<MAC>`, both in Base64: the payload is JSON with the user, the expiry, and a fingerprint of
the user's stored credential. The key is made from the cluster key.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import NamedTuple

import orjson

from raftlog.errors import AuthenticationError
from raftlog.model import UserCredential

PREFIX = "raftlog-session."
VALID_S = 3_600
"""How long a token is valid."""
_CHALLENGE = 'Bearer realm="raftlog", error="invalid_token"'


class Session(NamedTuple):
    """What a token proves."""

    user: str
    credential: UserCredential
    """The user's stored credential."""
    expires_s: float
    """Seconds since 1970."""


class SessionTokens:
    """Makes and checks tokens.

    Args:
        key: from `NodeProofs.derived`.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def issue(self, credential: UserCredential, now_s: float) -> str:
        """Return a token of a user that has logged in.

        Args:
            now_s: seconds since 1970.
        """
        claims = {"sub": credential.user, "exp": int(now_s) + VALID_S, "cred": self._fingerprint(credential)}
        payload = _base64(orjson.dumps(claims))
        return f"{PREFIX}{payload}.{_base64(self._mac(payload))}"

    def verify(self, token: str, users: Mapping[str, UserCredential], now_s: float) -> Session:
        """Return what a token proves.

        Raises:
            AuthenticationError: it is of another cluster, has expired, or its user was deleted or has another password.
        """
        payload, _, mac = token.removeprefix(PREFIX).partition(".")
        if not token.isascii() or not hmac.compare_digest(_base64(self._mac(payload)), mac):
            raise AuthenticationError("the session token is not of this cluster: log in again", challenge=_CHALLENGE)
        claims = orjson.loads(_decoded(payload))  # Written by a node of this cluster.
        user, expires_s = claims["sub"], float(claims["exp"])
        if now_s >= expires_s:
            raise AuthenticationError(f"the session of user {user} has expired: log in again", challenge=_CHALLENGE)
        credential = users.get(user)
        if credential is None or self._fingerprint(credential) != claims["cred"]:
            raise AuthenticationError(
                f"the session of user {user} has ended: the user was deleted, or its password has changed",
                challenge=_CHALLENGE,
            )
        return Session(user, credential, expires_s)

    def _fingerprint(self, credential: UserCredential) -> str:
        parts = [credential.salt, str(credential.iterations), credential.stored_key, credential.server_key]
        if (other := credential.sha512) is not None:  # Tokens of users without it are those of earlier versions.
            parts += [other.salt, str(other.iterations), other.stored_key, other.server_key]
        return _base64(self._mac("\n".join(("credential", credential.user, *parts)))[:16])

    def _mac(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), "sha256")


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
