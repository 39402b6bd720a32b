"""Where an issuer's public keys come from: a file, or the issuer's own server. What comes may be hostile."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

import aiohttp
import orjson

from raftlog.config import TokensConfig, is_safe_url
from raftlog.errors import ConfigError, RetriableError
from raftlog.security.public_keys import MAX_DOCUMENT_BYTES, PublicKeys, read_keys
from raftlog.tls import TlsContext, TlsFiles, client_context, explain

FETCH_S = 5.0
"""How long the issuer may take for one answer."""
DISCOVERY = "/.well-known/openid-configuration"


class KeySource(Protocol):
    """Loads keys."""

    async def load(self) -> PublicKeys | None:
        """Return the keys; None: they have not changed since the last call.

        Raises:
            RaftlogError: they cannot be loaded now.
        """
        ...


class KeyFile:
    """Keys in a file."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._stamp: tuple[int, int, int] | None = None

    async def load(self) -> PublicKeys | None:
        """Return the keys; None: the file has not changed.

        Raises:
            ConfigError: it cannot be read.
            InvalidRequestError: it holds no keys.
        """
        return await asyncio.to_thread(self._load)

    def _load(self) -> PublicKeys | None:
        try:
            stat = self._path.stat()
            stamp = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if stamp == self._stamp:
                return None
            with self._path.open("rb") as file:
                content = file.read(MAX_DOCUMENT_BYTES + 1)
        except OSError as error:
            raise ConfigError(f"security.tokens.jwks_file: cannot read {self._path}: {error.strerror}") from error
        keys = read_keys(content)
        self._stamp = stamp
        return keys


class KeyServer:
    """Keys from a URL, or from the one that the issuer's own description names."""

    def __init__(self, settings: TokensConfig) -> None:
        self._settings = settings
        self._tls = TlsContext(TlsFiles(ca_file=settings.ca_file), client_context)

    async def load(self) -> PublicKeys:
        """Return the keys.

        Raises:
            RetriableError: the issuer does not answer, or its answer is not what was expected.
            InvalidRequestError: the answer holds no keys.
        """
        connector = aiohttp.TCPConnector(limit=1, force_close=True)
        # No time limit of aiohttp's own, which may lose a cancellation: `_get` has one.
        async with aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False, trust_env=False
        ) as session:
            url = self._settings.jwks_url or await self._discovered(session)
            content = await self._get(session, url)
        return await asyncio.to_thread(read_keys, content)

    async def _discovered(self, session: aiohttp.ClientSession) -> str:
        issuer = self._settings.issuer
        where = issuer.rstrip("/") + DISCOVERY
        try:
            description = orjson.loads(await self._get(session, where))
        except orjson.JSONDecodeError as error:
            raise RetriableError(f"{where}: expected JSON: {error}") from None
        if not isinstance(description, dict) or description.get("issuer") != issuer:
            raise RetriableError(f"{where}: it does not describe the issuer {issuer} (security.tokens.issuer)")
        url = description.get("jwks_uri")
        if not isinstance(url, str) or not is_safe_url(url):
            raise RetriableError(f"{where}: jwks_uri: expected an https:// URL, received {url!r:.200}")
        return url

    async def _get(self, session: aiohttp.ClientSession, url: str) -> bytes:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        try:
            async with (
                asyncio.timeout(FETCH_S),
                session.get(url, headers=headers, allow_redirects=False, ssl=self._tls.fresh()) as answer,
            ):
                if answer.status != 200:
                    raise RetriableError(f"{url}: expected status 200, received {answer.status}")
                if (encoding := answer.headers.get("Content-Encoding", "identity")) != "identity":
                    raise RetriableError(f"{url}: expected an answer without encoding, received {encoding!r:.40}")
                body = bytearray()
                async for piece in answer.content.iter_any():
                    body += piece
                    if len(body) > MAX_DOCUMENT_BYTES:
                        raise RetriableError(f"{url}: the answer has more than {MAX_DOCUMENT_BYTES} bytes")
                return bytes(body)
        except TimeoutError:
            raise RetriableError(f"{url}: no answer within {FETCH_S:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RetriableError(f"{url}: {explain(error) or str(error) or repr(error):.300}") from error


def key_source(settings: TokensConfig) -> KeySource:
    """Return the source of an issuer's keys.

    Raises:
        ConfigError: the CA file cannot be used.
    """
    return KeyFile(settings.jwks_file) if settings.jwks_file else KeyServer(settings)
