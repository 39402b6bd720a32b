"""Verifies bearer tokens with the issuer's newest keys, which it fetches in the background.

- One fetch runs at a time. A token whose key is unknown may start one, at most every `UNKNOWN_KEY_S`: invented
  key ids make the issuer little work.
- Without keys, or while it is not known whether a key exists, the answer is a retriable error. Nothing else waits.
- Keys that the issuer no longer publishes are dropped with the next fetch. Keys that could not be fetched again for
  `max_age_s` no longer count.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from raftlog.config import TokensConfig
from raftlog.errors import RaftlogError, RetriableError
from raftlog.runtime import Clock, Tasks
from raftlog.security.key_sources import KeyFile, KeySource, key_source
from raftlog.security.public_keys import PublicKeys
from raftlog.security.tokens import TokenHeader, VerifiedToken, read_header, refused, verify
from raftlog.serving.in_turn import InTurn

_log = logging.getLogger(__name__)
UNKNOWN_KEY_S = 5.0
"""The least time between two fetches that tokens with unknown keys start."""
FILE_S = 5.0
"""How often a file of keys is looked at."""
RETRY_S = (5.0, 60.0)
"""The first and the longest wait after a failed fetch."""


class TokenIssuer:
    """The verifier of one issuer's tokens, on one node.

    Raises:
        ConfigError: a file of the settings cannot be used.
    """

    def __init__(self, settings: TokensConfig, clock: Clock, source: KeySource | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._source = source or key_source(settings)
        self._interval_s = FILE_S if settings.jwks_file else float(settings.refresh_s)
        self._keys: PublicKeys | None = None
        self._loaded_ms = 0
        """When `_keys` were last found to be the newest."""
        self._begun_ms: int | None = None
        """When the last fetch began."""
        self._asked_ms: int | None = None
        """When the last fetch began that a token with an unknown key has started."""
        self._failure = "they have not been fetched yet"
        self._fetching: asyncio.Task[None] | None = None
        self._failures = 0
        self._in_turn = InTurn()
        self._tasks = Tasks("token keys")

    async def start(self) -> None:
        """Load keys from a file, or begin to fetch them; then look for newer ones.

        Raises:
            ConfigError, InvalidRequestError: the file cannot be used. An issuer that does not answer is no error.
        """
        if isinstance(self._source, KeyFile):
            self._accept(await self._source.load())
        else:
            self._fetch()
        self._tasks.keep(self._refresh, name="refresh")

    async def close(self) -> None:
        """Stop fetching."""
        await self._tasks.close()

    async def reload(self) -> None:
        """Fetch now."""
        await asyncio.shield(self._fetch())

    def verify(self, token: str) -> VerifiedToken | Awaitable[VerifiedToken]:
        """Return the principal of a token; an awaitable if its key must be fetched first.

        Raises:
            AuthenticationError: the token is refused.
            RetriableError: the issuer's keys are not known now.
        """
        header = read_header(token, self._settings)
        found = self._with_current_keys(token, header)
        return self._with_fetched_keys(token, header) if found is None else found

    def _with_current_keys(self, token: str, header: TokenHeader) -> VerifiedToken | None:
        """Verify a token; return None if its key is unknown."""
        age_ms = self._clock.monotonic_ms() - self._loaded_ms
        if self._keys is None or age_ms > 1_000 * self._settings.max_age_s:
            return None
        key = self._keys.find(header.key_id, header.algorithm)
        if key is None:
            return None
        return verify(token, header, key, self._settings, self._clock.wall_us() / 1e6)

    async def _with_fetched_keys(self, token: str, header: TokenHeader) -> VerifiedToken:
        if self._fetching is None:
            # The refresh does not count: a file may be looked at as often as unknown keys may.
            before_ms = self._begun_ms if self._failures or self._keys is None else self._asked_ms
            now_ms = self._clock.monotonic_ms()
            if before_ms is not None and now_ms - before_ms < 1_000 * UNKNOWN_KEY_S:
                raise self._unknown(header)
            self._asked_ms = now_ms
        await asyncio.shield(self._fetch())
        await self._in_turn.take()  # After a rotation of keys, every client may wait for this fetch.
        found = self._with_current_keys(token, header)
        if found is not None:
            return found
        if self._failures or self._keys is None:
            raise self._unknown(header)
        named = f"{header.key_id!r:.80}" if header.key_id else f"for {header.algorithm} (the token names none)"
        raise refused(f"the issuer {self._settings.issuer} publishes no key {named}, or several that fit")

    def _unknown(self, header: TokenHeader) -> RetriableError:
        if self._failures or self._keys is None:
            return RetriableError(f"tokens cannot be checked now: the issuer's keys: {self._failure}; send it again")
        return RetriableError(
            f"the token's key {header.key_id!r:.80} is unknown, and the issuer was asked less than "
            f"{UNKNOWN_KEY_S:.0f} s ago; send it again"
        )

    def _fetch(self) -> asyncio.Task[None]:
        """Return the fetch that is under way, or begin one."""
        if self._fetching is None:
            self._begun_ms = self._clock.monotonic_ms()
            self._fetching = self._tasks.spawn(self._load(), name="fetch", awaited=True)
        return self._fetching

    async def _load(self) -> None:
        """Load keys; keep the previous ones if that fails."""
        try:
            self._accept(await self._source.load())
        except Exception as error:  # noqa: BLE001  (whatever an issuer sends, the refresh must go on)
            self._failure = error.message if isinstance(error, RaftlogError) else f"{type(error).__name__}: {error}"
            if not self._failures:
                _log.error("the keys of tokens cannot be loaded; the previous ones still count: %s", self._failure)
            self._failures += 1
        finally:
            self._fetching = None

    def _accept(self, keys: PublicKeys | None) -> None:
        if keys is not None:
            changed = self._keys is None or len(keys) != len(self._keys) or self._failures
            self._keys = keys
            if changed:
                _log.info("loaded %d keys of %s (%d unusable)", len(keys), self._settings.issuer, keys.unusable)
        self._loaded_ms, self._failures = self._clock.monotonic_ms(), 0

    async def _refresh(self) -> None:
        while True:
            if not self._failures:
                await asyncio.sleep(self._interval_s)
            else:
                first, longest = RETRY_S
                backoff_s = min(longest, first * 2 ** min(self._failures - 1, 10))
                await asyncio.sleep(min(self._interval_s, backoff_s))
            await asyncio.shield(self._fetch())
