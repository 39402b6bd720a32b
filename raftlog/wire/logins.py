"""Logins by password over HTTP: two requests to `paths.LOGIN` (docs/adr/0034)."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.wire.scram import MECHANISM


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginRequest:
    """JSON sent to `POST paths.LOGIN`. The second request repeats the client's first message."""

    message: str
    """The client's message."""
    first: str = ""
    """The client's first message, in the second request."""
    mechanism: str = MECHANISM


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginChallenge:
    """Answer of the first request."""

    message: str
    """The server's first message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginAnswer:
    """Answer of the second request."""

    message: str
    """The server's last message, which proves that it knows the user."""
    access_token: str
    """A token for `Authorization: Bearer`, at each node of the cluster."""
    expires_in: int
    """Seconds until the token expires."""
    token_type: str = "Bearer"  # noqa: S105  (a scheme)
