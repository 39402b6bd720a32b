"""What a verifier of bearer tokens offers to the chain of authenticators."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from raftlog.security.principal import Principal


class TokenBearer(Protocol):
    """What a token proves."""

    @property
    def principal(self) -> Principal: ...

    @property
    def expires_s(self) -> float:
        """Seconds since 1970 after which the token no longer counts."""
        ...


class TokenVerifier(Protocol):
    """Verifies bearer tokens."""

    def verify(self, token: str) -> TokenBearer | Awaitable[TokenBearer]:
        """Return a token's principal and expiry.

        The principal's name begins with `User:`, the names of its groups with `Group:`.

        Raises:
            AuthenticationError: the token is refused.
            RetriableError: it cannot be checked now.
        """
        ...
