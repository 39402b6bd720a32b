"""The newest bearer token of a client: requested before the old one expires, and again when a server refuses it.

One request for a token runs at a time, and no request of a client with a valid token waits for it.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

import orjson

from raftlog.errors import ConfigError, RaftlogError, RetriableError
from raftlog.model import Address
from raftlog.runtime import Tasks
from raftlog.wire.codec import Buffer

_log = logging.getLogger(__name__)
TokenProvider: TypeAlias = Callable[[], "str | Awaitable[str]"]
"""Returns a bearer token that is valid now. A function that may block runs in a thread."""
MAX_TOKEN = 8_100
"""Characters of a token: servers take credentials of 8,192."""
LEAST_AGE_S = 1.0
"""A newer token is not requested again: the clocks differ, or the server refuses it for another reason."""
RETRY_S = 5.0
"""After a failed call while the old token is still valid, the next call comes so much later."""
_EARLY = 0.2
"""The part of a token's lifetime, at most `_EARLIEST_S`, that is left when the next token is requested."""
_EARLIEST_S = 60.0


def expiry_of(token: str) -> float:
    """Return when a token expires, in seconds since 1970, as it says itself; infinity: it does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return math.inf
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return math.inf
    expiry = claims.get("exp") if isinstance(claims, dict) else None
    return float(expiry) if isinstance(expiry, int | float) and not isinstance(expiry, bool) else math.inf


def require_token(token: object, name: str) -> str:
    """Return a bearer token that may be sent.

    Args:
        name: the option that it is from.

    Raises:
        ConfigError: it is empty, too long, or not printable ASCII; the message does not show it.
    """
    if not isinstance(token, str):
        raise ConfigError(f"{name}: expected a token as str, received {type(token).__name__}")
    if not token or not token.isascii() or not token.isprintable() or " " in token or len(token) > MAX_TOKEN:
        raise ConfigError(
            f"{name}: expected a token of 1 to {MAX_TOKEN} printable ASCII characters without spaces, received "
            f"{len(token)} characters"
        )
    return token


class Server(NamedTuple):
    """The server that a request goes to, where a login gets its token."""

    address: Address
    post: Callable[[str, bytes, int], Awaitable[Buffer]]
    """Sends JSON to a path without credentials, within milliseconds; returns the answer's body."""


class RenewedToken(ABC):
    """The newest token of a client, whatever it comes from. It belongs to one event loop.

    Args:
        name: what it comes from, in errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._token = ""
        self._usable_until_s = self._renew_at_s = -math.inf
        """Seconds since 1970."""
        self._received_s = -math.inf
        """When the newest token came, or a call failed; monotonic."""
        self._call: asyncio.Task[None] | None = None
        self._tasks = Tasks("tokens")

    @property
    def authorization(self) -> str:
        """The field `Authorization` with the newest token; "": there is none yet."""
        return f"Bearer {self._token}" if self._token else ""

    async def current(self, timeout_ms: int, server: Server | None = None) -> str:
        """Return the field `Authorization` with a token that is valid now; wait for one if need be.

        Args:
            server: where the request goes to.

        Raises:
            RetriableError: there is no token before the timeout.
            ConfigError: what was received is not a token.
            AuthenticationError: the client's password is wrong, or the server is an impostor.
        """
        now_s = time.time()
        if now_s < self._renew_at_s:
            return self.authorization
        if now_s < self._usable_until_s:
            if not self._is_calling and time.monotonic() - self._received_s >= RETRY_S:
                self._begin(timeout_ms, server).add_done_callback(self._warn)
            return self.authorization
        return await self._next(timeout_ms, server)

    async def after_refusal(self, refused: str, timeout_ms: int, server: Server | None = None) -> str | None:
        """Return the field with another token than one that was refused; None: there is none now.

        Args:
            refused: the field that was sent.
            server: where it was refused.

        Raises:
            RetriableError, ConfigError, AuthenticationError: see `current`.
        """
        if refused == self.authorization:
            if not self._is_calling and time.monotonic() - self._received_s < LEAST_AGE_S:
                return None
            await self._next(timeout_ms, server)
        return self.authorization if self.authorization != refused else None

    async def close(self) -> None:
        """Cancel a call that is under way."""
        await self._tasks.close()

    @abstractmethod
    async def _obtain(self, timeout_ms: int, server: Server | None) -> tuple[str, float]:
        """Return a new token, and for how many seconds it is valid."""

    async def _next(self, timeout_ms: int, server: Server | None) -> str:
        call = self._begin(timeout_ms, server)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await asyncio.shield(call)
        except TimeoutError:
            raise RetriableError(f"{self._name}: no token within {timeout_ms} ms") from None
        return self.authorization

    def _begin(self, timeout_ms: int, server: Server | None) -> asyncio.Task[None]:
        if self._call is None or not self._is_calling:
            self._call = self._tasks.spawn(self._provide(timeout_ms, server), name=self._name, awaited=True)
        return self._call

    @property
    def _is_calling(self) -> bool:
        """Whether a call is under way. With eager tasks it may have ended before `_begin` knows of it."""
        return self._call is not None and not self._call.done()

    async def _provide(self, timeout_ms: int, server: Server | None) -> None:
        try:
            token, valid_s = await self._obtain(timeout_ms, server)
        except Exception:
            self._received_s = time.monotonic()
            raise
        self._received_s, now_s = time.monotonic(), time.time()
        self._token = token
        self._usable_until_s = now_s + max(valid_s, LEAST_AGE_S)
        self._renew_at_s = now_s + max(valid_s - min(_EARLIEST_S, _EARLY * valid_s), LEAST_AGE_S)

    def _warn(self, call: asyncio.Task[None]) -> None:
        if not call.cancelled() and (error := call.exception()) is not None:
            _log.warning("the next token is not available; the old one is still valid: %s", error)


class TokenSource(RenewedToken):
    """The tokens of a provider."""

    def __init__(self, provider: TokenProvider, name: str = "token_provider") -> None:
        super().__init__(name)
        self._provider = provider

    async def _obtain(self, timeout_ms: int, server: Server | None) -> tuple[str, float]:  # noqa: ARG002
        try:
            token = require_token(await self._called(), self._name)
        except RaftlogError:
            raise
        except Exception as error:
            raise RetriableError(f"{self._name} failed: {type(error).__name__}: {error!s:.200}") from error
        return token, expiry_of(token) - time.time()

    async def _called(self) -> object:
        call = self._provider
        if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None)):  # noqa: B004
            returned: object = call()
        else:
            returned = await asyncio.to_thread(call)
        return await returned if inspect.isawaitable(returned) else returned
