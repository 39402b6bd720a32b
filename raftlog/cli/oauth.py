"""Tokens from an issuer (OAuth 2.0): client credentials (RFC 6749), device code (RFC 8628), and refresh."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote

import aiohttp
import orjson

from raftlog.config import is_safe_url
from raftlog.errors import AuthenticationError, ConfigError, RetriableError
from raftlog.tls import TlsContext, TlsFiles, client_context, explain
from raftlog.transport.token_source import require_token

ANSWER_WITHIN_S = 10.0
_MAX_ANSWER_BYTES = 64 << 10
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_LONGEST_LOGIN_S = 1_800
"""How long a user may take to agree, whatever the issuer says."""


@dataclass(frozen=True, slots=True)
class Client:
    """The program that requests tokens, as the issuer knows it."""

    client_id: str
    secret: str = ""
    """"": a public client."""
    scope: str = ""
    audience: str = ""

    def form(self, **fields: str) -> dict[str, str]:
        """Return the fields of a request."""
        named = {"scope": self.scope, "audience": self.audience, **fields}
        if not self.secret:
            named["client_id"] = self.client_id
        return {name: value for name, value in named.items() if value}

    def headers(self) -> dict[str, str]:
        """Return the header fields of a request."""
        if not self.secret:
            return {}
        pair = f"{quote(self.client_id, safe='')}:{quote(self.secret, safe='')}"
        return {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


class _RefusedError(AuthenticationError):
    """The issuer answered an error.

    Args:
        reason: its code, such as `invalid_client`.
    """

    def __init__(self, url: str, reason: str, description: object) -> None:
        more = f" ({description:.300})" if isinstance(description, str) and description else ""
        super().__init__(f"{url}: the issuer refuses the login: {reason:.80}{more}")
        self.reason = reason


class IssuerSession:
    """Requests to one issuer. Use it as an async context manager.

    Args:
        ca_file: PEM file of the CAs that its certificate is checked against; "": those of the system.
    """

    def __init__(self, issuer: str, *, ca_file: str = "") -> None:
        self._issuer = issuer.rstrip("/")
        self._tls = TlsContext(TlsFiles(ca_file=ca_file), client_context)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(trust_env=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()

    async def with_secret(self, client: Client) -> dict[str, Any]:
        """Return the answer with a token of the client itself.

        Raises:
            AuthenticationError: the issuer refuses it.
            RetriableError: the issuer does not answer.
        """
        return await self._token(client, grant_type="client_credentials")

    async def with_refresh_token(self, client: Client, refresh_token: str) -> dict[str, Any]:
        """Return the answer with the next token of an earlier login; see `with_secret`."""
        return await self._token(client, grant_type="refresh_token", refresh_token=refresh_token)

    async def with_device(self, client: Client, show: Callable[[str, str], None]) -> dict[str, Any]:
        """Return the answer with a token of a user that agrees in a browser; see `with_secret`.

        Args:
            show: is called with the URL to open, and the code to enter there.
        """
        url = await self._endpoint("device_authorization_endpoint")
        answer = await self._ask(url, client.form(), client.headers())
        code, user_code = (str(answer.get(name, "")) for name in ("device_code", "user_code"))
        show(str(answer.get("verification_uri_complete") or answer.get("verification_uri", "")), user_code)
        interval_s = _seconds(answer, "interval", 5)
        try:
            async with asyncio.timeout(min(_seconds(answer, "expires_in", 600), _LONGEST_LOGIN_S)):
                while True:
                    await asyncio.sleep(interval_s)
                    try:
                        return await self._token(client, grant_type=_DEVICE_GRANT, device_code=code)
                    except _RefusedError as error:
                        if error.reason == "slow_down":
                            interval_s += 5
                        elif error.reason != "authorization_pending":
                            raise
        except TimeoutError:
            raise AuthenticationError("the login was not confirmed in time; run raftlog login again") from None

    async def _token(self, client: Client, **fields: str) -> dict[str, Any]:
        url = await self._endpoint("token_endpoint")
        answer = await self._ask(url, client.form(**fields), client.headers())
        require_token(answer.get("access_token"), f"{url}: access_token")
        return answer

    async def _endpoint(self, name: str) -> str:
        where = f"{self._issuer}/.well-known/openid-configuration"
        if not is_safe_url(where):
            raise ConfigError(f"--issuer: expected https://HOST/PATH, received {self._issuer!r:.200}")
        url = (await self._ask(where)).get(name)
        if not isinstance(url, str) or not is_safe_url(url):
            raise ConfigError(f"{where}: {name}: expected an https:// URL, received {url!r:.200}")
        return url

    async def _ask(
        self, url: str, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        assert self._session is not None
        method = "GET" if form is None else "POST"
        fields = {"Accept": "application/json", **(headers or {})}
        try:
            async with (
                asyncio.timeout(ANSWER_WITHIN_S),
                self._session.request(
                    method, url, data=form, headers=fields, allow_redirects=False, ssl=self._tls.fresh()
                ) as answer,
            ):
                content = await answer.content.read(_MAX_ANSWER_BYTES)
                while len(content) < _MAX_ANSWER_BYTES and (more := await answer.content.read(_MAX_ANSWER_BYTES)):
                    content += more
                status = answer.status
        except TimeoutError:
            raise RetriableError(f"{url}: no answer within {ANSWER_WITHIN_S:.0f} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RetriableError(f"{url}: {explain(error) or error!s:.300}") from error
        return _decoded(url, status, content)


def _decoded(url: str, status: int, content: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise RetriableError(f"{url}: expected JSON, received status {status} and another text")
    if status != 200:
        reason = document.get("error")
        raise _RefusedError(
            url, reason if isinstance(reason, str) else f"status {status}", document.get("error_description")
        )
    return document


def _seconds(answer: Mapping[str, Any], name: str, default: int) -> float:
    value = answer.get(name, default)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if is_number else float(default)
