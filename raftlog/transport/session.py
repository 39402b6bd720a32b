"""The HTTP client of brokers, controllers and clients.

`UnreachableError` means that nothing was sent; `UnknownOutcomeError` that the peer may have acted on the request. Only
after the first may any request be sent again.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple, Self, TypeVar

import aiohttp
import orjson

from raftlog.errors import (
    AuthenticationError,
    ConfigError,
    ErrorCode,
    InvalidRequestError,
    RaftlogError,
    UnknownOutcomeError,
    UnreachableError,
    from_wire,
)
from raftlog.model import Address
from raftlog.request_marks import current_request_id, new_request_id
from raftlog.runtime import close_all
from raftlog.tls import TlsContext, TlsFiles, client_context, explain
from raftlog.transport import pacing
from raftlog.transport.lean import LeanPool
from raftlog.transport.session_credentials import NO_CREDENTIALS, SessionCredentials
from raftlog.transport.throttles import Throttles
from raftlog.transport.token_source import Server
from raftlog.wire import media, paths
from raftlog.wire.codec import Buffer, decode_frame, decode_json, encode_json, split_frame

T = TypeVar("T")
PIECE_BYTES = 256 << 10
_SHOWN_URL = 300
"""Characters of a URL in messages: it may name hundreds of topics."""
MAX_ANSWER_BYTES = 256 << 20
"""The largest response other than raw batches; the metadata of 100,000 partitions takes a tenth of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A successful response, read completely."""

    status: int
    body: Buffer
    date: str = ""
    """The field `Date`; "": there is none, or the request went over a lean connection."""


class _Wanted(NamedTuple):
    """A request to any address, without the credentials."""

    method: str
    path: str
    query: Mapping[str, str | int] | None
    body: Buffer | Sequence[Buffer] | None
    content_type: str
    accept: str
    fields: Mapping[str, str] | None
    is_confidential: bool = False
    """Whether it is sent with TLS or within one machine only, as a request with credentials is."""


_OF_PROXIES = (502, 503, 504)
"""A proxy answers so while the broker behind it restarts. It may have passed the request on."""


class PeerAnswerError(RaftlogError):
    """The peer's response could not be decoded."""


class HttpSession:
    """A pool of keep-alive connections. Close it, or use it as an async context manager.

    Raw batches (`paths.RAW`) use lean connections (`LeanPool`), everything else aiohttp's.

    Args:
        dial: `{"host:port": "host:port"}`: dial the second where the first is addressed (NAT, proxies, chaos).
        connect_timeout_ms: how long one connection attempt may take.
        tls: with which addresses with TLS are dialled; None: the system's CAs are trusted, and no certificate is shown.
        credentials: prove the sender of each request.
        client_id: the name of the client's application, sent with each request; "": none.
        max_answer_bytes: the largest response, other than raw batches.

    Raises:
        ConfigError: `dial` has something else than addresses.
    """

    def __init__(
        self,
        *,
        dial: Mapping[str, str] | None = None,
        connect_timeout_ms: int = 1_000,
        connections_per_host: int = 64,
        tls: TlsContext | None = None,
        credentials: SessionCredentials = NO_CREDENTIALS,
        client_id: str = "",
        max_answer_bytes: int = MAX_ANSWER_BYTES,
    ) -> None:
        self._max_answer_bytes = max_answer_bytes
        self._authorization = credentials.authorization
        self._tokens = credentials.tokens
        self._node_proof = credentials.node_proof
        self.client_id = client_id
        self.throttles = Throttles()
        self._tls_only: set[str] = set()
        """Authorities that have refused a plain connection."""
        self._silent: set[str] = set()
        """Authorities whose last request had no known outcome."""
        self._tls = tls
        self._dial = _dial_map(dial or {})
        self._connect_timeout_ms = connect_timeout_ms
        self._connections_per_host = connections_per_host
        self._session: aiohttp.ClientSession | None = None
        self._lean: LeanPool | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection, and open none any more."""
        self._closed = True
        session, self._session = self._session, None
        lean, self._lean = self._lean, None
        await close_all(*(part.close for part in (self._tokens, session, lean) if part is not None))

    @property
    def authorization(self) -> str:
        """The field `Authorization` of the newest request; "": none."""
        return self._authorization if self._tokens is None else self._tokens.authorization

    def dialled(self, address: Address) -> Address:
        """Return the address to dial for `address`."""
        instead = self._dial.get(address.authority) if self._dial else None
        return address if instead is None else instead._replace(tls=address.tls)

    async def request(
        self,
        method: str,
        address: Address,
        path: str,
        *,
        timeout_ms: int,
        query: Mapping[str, str | int] | None = None,
        body: Buffer | Sequence[Buffer] | None = None,
        content_type: str = media.JSON,
        accept: str = media.JSON,
        fields: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request and read the whole answer.

        A plain request to a port that takes TLS only is sent again with TLS, as all later ones are. A request whose
        token was refused is sent again with a new one: nothing was done for it.

        Args:
            fields: more header fields.

        Raises:
            UnreachableError: no connection; nothing was sent.
            UnknownOutcomeError: sent, but no answer within `timeout_ms`.
            InvalidRequestError: this session is closed.
            RaftlogError: the peer's error, in its own class.
        """
        wanted = _Wanted(method, path, query, body, content_type, accept, fields)
        if self._tokens is None:
            return await self._with_tls(address, wanted, self._authorization, timeout_ms)
        left_ms, server = _countdown(timeout_ms), Server(address, partial(self._post, address))
        authorization = await self._tokens.current(timeout_ms, server)
        try:
            return await self._with_tls(address, wanted, authorization, left_ms())
        except AuthenticationError:
            instead = await self._tokens.after_refusal(authorization, left_ms(), server)
            if instead is None:
                raise
        return await self._with_tls(address, wanted, instead, left_ms())

    async def _post(self, address: Address, path: str, body: bytes, timeout_ms: int) -> Buffer:
        """Send a request that gets a token, so that others must not read the answer."""
        wanted = _Wanted("POST", path, None, body, media.JSON, media.JSON, None, is_confidential=True)
        return (await self._with_tls(address, wanted, "", timeout_ms)).body

    async def _with_tls(self, address: Address, wanted: _Wanted, authorization: str, timeout_ms: int) -> Answer:
        """Send a request; send it again with TLS if the port takes nothing else."""
        if self._tls_only and address.authority in self._tls_only:
            address = address._replace(tls=True)
        try:
            return await self._send(address, wanted, authorization, timeout_ms)
        except InvalidRequestError as error:
            if error.code is not ErrorCode.TLS_REQUIRED or address.tls:
                raise
        self._tls_only.add(address.authority)
        return await self._send(address._replace(tls=True), wanted, authorization, timeout_ms)

    async def _send(self, address: Address, wanted: _Wanted, authorization: str, timeout_ms: int) -> Answer:
        """Send a request to one address, over a lean connection or aiohttp's."""
        _require_name(self.dialled(address).host)
        if authorization or wanted.is_confidential:
            require_confidential(address)
        headers = {"Accept": wanted.accept, "Accept-Encoding": "identity", media.DEADLINE_MS: str(timeout_ms)}
        if wanted.fields is not None:
            headers |= wanted.fields
        headers |= self._sender_headers(address, authorization)
        is_lean = wanted.method == "POST" and wanted.path in paths.RAW and wanted.query is None
        request_id = self._request_id(address, is_lean=is_lean)
        if request_id:
            headers[media.REQUEST_ID] = request_id
        body = wanted.body
        parts = [] if body is None else [body] if isinstance(body, bytes | bytearray | memoryview) else body
        send = self._send_lean if is_lean else self._send_by_aiohttp
        try:
            answer = await send(address, wanted, parts, headers, timeout_ms)
        except RaftlogError as error:
            error.request_id = error.request_id or request_id
            if isinstance(error, UnknownOutcomeError):
                self._silent.add(address.authority)
            raise
        if self._silent:
            self._silent.discard(address.authority)
        return answer

    def _request_id(self, address: Address, *, is_lean: bool) -> str:
        """Return the id to send with a request; "": none, the peer chooses one.

        A node passes on the id of the request that it handles. Batches have an id only after a request that was not
        answered: without an answer, the client would have nothing to look up in the peer's log.
        """
        if own := current_request_id():
            return own
        if is_lean and not (self._silent and address.authority in self._silent):
            return ""
        return new_request_id()

    async def _send_lean(
        self, address: Address, wanted: _Wanted, parts: Sequence[Buffer], headers: dict[str, str], timeout_ms: int
    ) -> Answer:
        dialled = self.dialled(address)
        status, answered = await self._lean_pool().post(
            dialled,
            wanted.path,
            parts,
            timeout_ms=timeout_ms,
            fields=[*headers.items(), ("Content-Type", wanted.content_type)],
            server_name=address.host,
            on_throttle=partial(self.throttles.note, address),
        )
        if status >= 300:
            raise _peer_error(wanted.method, f"{dialled.url}{wanted.path}", status, bytes(answered))
        return Answer(status=status, body=answered)

    async def _send_by_aiohttp(
        self, address: Address, wanted: _Wanted, parts: Sequence[Buffer], headers: dict[str, str], timeout_ms: int
    ) -> Answer:
        method, url = wanted.method, f"{self.dialled(address).url}{wanted.path}"
        shown = url if len(url) <= _SHOWN_URL else f"{url[:_SHOWN_URL]}..."
        if wanted.body is not None:
            headers["Content-Type"] = wanted.content_type
            headers["Content-Length"] = str(sum(len(part) for part in parts))
        # Not aiohttp's own time limit, which loses a cancellation that comes in the same moment: its timer is entered
        # twice, and takes back one cancellation each time.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout_ms / 1000)
        try:
            async with (
                asyncio.timeout(timeout_ms / 1000),
                self._pool().request(
                    method,
                    url,
                    params=wanted.query,
                    data=None if wanted.body is None else _pieces(parts),
                    headers=headers,
                    timeout=timeout,
                    allow_redirects=False,
                    middlewares=(_send_once,) if method in ("PUT", "DELETE") else (),
                    ssl=self.tls_context().fresh() if address.tls else True,
                    server_hostname=address.host if address.tls else None,
                ) as response,
            ):
                self.throttles.note(address, response.headers.get(media.THROTTLE_MS, ""))
                body = await _read(method, shown, response, self._max_answer_bytes)
                return _answer(method, shown, response.status, body, response.headers.get("Date", ""))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise UnreachableError(f"cannot connect to {address} ({shown}): {_why(error)}") from error
        except TimeoutError as error:
            raise UnknownOutcomeError(f"{method} {shown}: no answer within {timeout_ms} ms") from error
        except (aiohttp.ClientError, OSError) as error:
            raise UnknownOutcomeError(f"{method} {shown}: connection lost: {error!r}") from error

    def _sender_headers(self, address: Address, authorization: str) -> dict[str, str]:
        """Return the header fields that name the sender of a request to an address."""
        headers = {}
        if authorization:
            headers["Authorization"] = authorization
        if self.client_id:
            headers[media.CLIENT_ID] = self.client_id
        if self._node_proof is not None:
            headers |= self._node_proof(address)
        return headers

    async def call(
        self, cls: type[T], method: str, address: Address, path: str, *, timeout_ms: int, **request: Any
    ) -> T:
        """Send a JSON request (`message=` any wire type, or `query=`) and decode the response as `cls`."""
        if (message := request.pop("message", None)) is not None:
            request["body"] = _encoded(method, path, message)
        answer = await self.request(method, address, path, timeout_ms=timeout_ms, **request)
        return decode_json(cls, answer.body, error=PeerAnswerError, ignore_unknown=True)

    async def call_frame(
        self,
        cls: type[T],
        method: str,
        address: Address,
        path: str,
        *,
        timeout_ms: int,
        decode: Callable[[Buffer, type[RaftlogError]], T] | None = None,
        **request: Any,
    ) -> tuple[T, memoryview]:
        """Like `call`, for a response that is a frame: return its head and the bytes after it.

        Args:
            decode: decodes the head, or raises the given error; None: it is JSON.
        """
        if (message := request.pop("message", None)) is not None:
            request["body"] = _encoded(method, path, message)
        answer = await self.request(method, address, path, timeout_ms=timeout_ms, accept=media.FRAME, **request)
        if decode is None:
            return decode_frame(cls, answer.body, error=PeerAnswerError, ignore_unknown=True)
        head, rest = split_frame(answer.body, error=PeerAnswerError)
        return decode(head, PeerAnswerError), rest

    def tls_context(self) -> TlsContext:
        """Return the TLS with which this session dials; made at first use."""
        if self._tls is None:
            self._tls = TlsContext(TlsFiles(), client_context)
        return self._tls

    def _lean_pool(self) -> LeanPool:
        if self._lean is None:
            self._require_open()
            self._lean = LeanPool(
                connect_timeout_ms=self._connect_timeout_ms,
                connections_per_host=self._connections_per_host,
                tls=self.tls_context,
            )
        return self._lean

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._require_open()
            asyncio.get_running_loop()
            connector = aiohttp.TCPConnector(limit=0, limit_per_host=self._connections_per_host, ttl_dns_cache=60)
            cookies = aiohttp.DummyCookieJar()  # A peer, or a proxy, could have any number sent with every request.
            self._session = aiohttp.ClientSession(
                connector=connector, auto_decompress=False, trust_env=False, cookie_jar=cookies
            )
        return self._session

    def _require_open(self) -> None:
        """Raise if the session is closed: connections that a late request opened would stay open."""
        if self._closed:
            raise InvalidRequestError("this client is closed, and the request was not sent; make another one")


def _dial_map(dial: Mapping[str, str]) -> dict[str, Address]:
    try:
        return {Address.parse(address).authority: Address.parse(instead) for address, instead in dial.items()}
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f'dial: expected {{"host:port": "host:port"}}, received {dial!r:.300}') from None


def _countdown(timeout_ms: int) -> Callable[[], int]:
    """Return a function that returns the milliseconds left, at least 1."""
    deadline = time.monotonic() + timeout_ms / 1_000
    return lambda: max(1, int(1_000 * (deadline - time.monotonic())))


def _encoded(method: str, path: str, message: object) -> bytes:
    """Return a message as JSON.

    Raises:
        InvalidRequestError: a value that the caller gave is not possible in JSON.
    """
    try:
        return encode_json(message)
    except TypeError as error:
        raise InvalidRequestError(
            f"{method} {path} was not sent: expected integers of 64 bits and text in UTF-8 ({error})"
        ) from None


def _why(error: Exception) -> str:
    """Return the system's error message of a failed connection: aiohttp's own text mentions TLS without reason."""
    if (tls := explain(error)) is not None:
        return tls
    cause = getattr(error, "os_error", None)
    if cause is None or not cause.errno:
        return str(cause or error)
    return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)


class _ConnectionLostError(aiohttp.ClientError):
    """A connection broke after the request was sent."""


async def _send_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from repeating PUT and DELETE when a kept-alive connection breaks.

    The first attempt may have taken effect; the result of the second could contradict that.
    """
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
        raise  # Nothing was sent.
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _ConnectionLostError(str(error) or repr(error)) from error


async def _pieces(parts: Sequence[Buffer]) -> AsyncIterator[Buffer]:
    """Yield large bodies in pieces: nothing is copied, and other connections are served in between."""
    for part in parts:
        view = memoryview(part)
        for start in range(0, len(view), PIECE_BYTES):
            yield view[start : start + PIECE_BYTES]


def require_confidential(address: Address) -> None:
    """Raise unless credentials may be sent to an address.

    Raises:
        ConfigError: the connection would be plain, to another machine.
    """
    if not address.tls and not pacing.is_loopback(address.host) and address.host != "localhost":
        raise ConfigError(f"credentials are sent over https:// only; received the broker {address.url}")


@lru_cache(maxsize=1_024)
def _require_name(host: str) -> None:
    """Check that a host name can be resolved.

    Raises:
        UnreachableError: the name is not valid.
    """
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise UnreachableError(f"cannot connect to {host!r:.80}: not a valid host name ({error})") from None


async def _read(method: str, url: str, response: aiohttp.ClientResponse, most: int) -> bytes:
    """Return the whole body, of at most `most` bytes. An encoded body is refused: it may expand a lot."""
    if (encoding := response.headers.get("Content-Encoding", "identity")) != "identity":
        raise PeerAnswerError(f"{method} {url}: expected a response without encoding, received {encoding!r:.40}")
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > most:
            response.close()
            raise PeerAnswerError(f"{method} {url}: the response has more than {most} bytes")
    return bytes(body)


def _answer(method: str, url: str, status: int, content: Buffer, date: str = "") -> Answer:
    if status >= 300:
        raise _peer_error(method, url, status, bytes(content))
    return Answer(status=status, body=content, date=date)


def _peer_error(method: str, url: str, status: int, content: bytes) -> RaftlogError:
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        body = None
    if isinstance(body, Mapping) and "error" in body:
        return from_wire(body)
    text = content[:200].decode("utf-8", "replace")
    message = f"{method} {url}: status {status} without an error body: {text!r}"
    if status in _OF_PROXIES:
        return UnknownOutcomeError(message)
    return PeerAnswerError(message)
