"""HTTP helpers of a broker's handlers: strict parsing of requests, responses, error bodies, CORS, fetch limits."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol, TypeVar

from aiohttp import web
from aiohttp.typedefs import Middleware

from raftlog.broker.openapi.parameters import Parameter
from raftlog.errors import (
    AuthenticationError,
    ErrorCode,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    RaftlogError,
)
from raftlog.serving.admission import Handler, read_received
from raftlog.serving.error_bodies import error_body
from raftlog.serving.workers import INLINE_BYTES, in_worker
from raftlog.wire import media
from raftlog.wire.codec import Buffer, decode_json, encode_json
from raftlog.wire.data import MAX_REQUEST_PARTITIONS
from raftlog.wire.origins import Origins

_log = logging.getLogger(__name__)
T = TypeVar("T")
RETRY_AFTER_S = "1"
THROTTLED = "throttle_ms"
"""The detail of an error that says for how long a quota is used up."""
PLAIN_FORMS = (media.PLAIN, "application/x-www-form-urlencoded")
"""Default media types of HTTP clients."""
CROSS_ORIGIN = web.RequestKey("raftlog_cross_origin", bool)
"""Set on a request of a page from an allowed origin."""
_READABLE = (
    media.NEXT_OFFSET,
    media.HIGH_WATERMARK,
    media.MORE,
    media.FROM,
    media.UNTIL,
    media.THROTTLE_MS,
    media.REQUEST_ID,
    "Content-Range",
    "ETag",
)
_INTEGER = re.compile(r"-?[0-9]{1,19}")
_CODE_OF_STATUS = {413: ErrorCode.MESSAGE_TOO_LARGE, 415: ErrorCode.UNSUPPORTED_MEDIA_TYPE, 404: ErrorCode.NOT_FOUND}


class RequestQuery(Protocol):
    """The query, path variables and headers of a request, from aiohttp or from the lean path."""

    @property
    def query(self) -> Mapping[str, str]: ...

    @property
    def match_info(self) -> Mapping[str, str]: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


def json_response(value: object, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return plain data or a wire type as a JSON response."""
    return web.Response(body=encode_json(value), status=status, content_type=media.JSON, headers=headers)


def json_bytes(body: bytes, *, status: int = 200) -> web.Response:
    """Return rendered JSON as a response."""
    return web.Response(body=body, status=status, content_type=media.JSON)


def error_response(error: RaftlogError, headers: dict[str, str] | None = None) -> web.Response:
    """Return an error as a response with an error body."""
    more = {**error_headers(error, error.http_status), **(headers or {})}
    return json_response(error_body(error), status=error.http_status, headers=more)


def _quiet_challenge(request: web.Request, error: RaftlogError) -> dict[str, str]:
    """Return the challenge for a script of a page: for `Basic` the browser would ask the user, and the script wait."""
    if request.headers.get("Sec-Fetch-Dest") == "empty" and isinstance(error, AuthenticationError):
        return {"WWW-Authenticate": 'Bearer realm="raftlog"'}
    return {}


def error_headers(error: RaftlogError, status: int) -> dict[str, str]:
    """Return the header fields of an error's response."""
    if status in (429, 503):
        throttle_ms = error.details.get(THROTTLED)
        return {"Retry-After": RETRY_AFTER_S} | ({} if throttle_ms is None else {media.THROTTLE_MS: str(throttle_ms)})
    return {"WWW-Authenticate": error.challenge} if isinstance(error, AuthenticationError) else {}


@web.middleware
async def errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn any exception of a handler into an error response."""
    try:
        return await handler(request)
    except RaftlogError as error:
        return error_response(error, _quiet_challenge(request, error))
    except web.HTTPException as answer:
        if answer.status < 400:
            raise
        answer.__traceback__ = None  # It references the request, in a cycle that only a full garbage collection frees.
        code = _CODE_OF_STATUS.get(answer.status, ErrorCode.INVALID_REQUEST)
        refusal = InvalidRequestError(f"{request.method} {request.path}: {answer.reason}", code=code)
        allow = {"Allow": answer.headers["Allow"]} if "Allow" in answer.headers else {}
        return json_response(error_body(refusal), status=answer.status, headers=allow)
    except asyncio.CancelledError:
        raise
    except Exception:  # noqa: BLE001  (the caller gets an answer, the log gets the traceback)
        _log.exception("%s %s failed", request.method, request.path)
        return error_response(RaftlogError("the broker failed to handle the request; its log says why"))


async def read_json(request: web.Request, cls: type[T]) -> T:
    """Decode a JSON body.

    Raises:
        InvalidRequestError: another content type, or an invalid body.
    """
    return await decode_body(cls, await read_body(request, media.JSON))


async def decode_body(cls: type[T], body: Buffer) -> T:
    """Decode a JSON body; a large one in a worker thread.

    Raises:
        InvalidRequestError: the body is invalid.
    """
    if len(body) <= INLINE_BYTES:
        return decode_json(cls, body)
    return await in_worker(decode_json, cls, body)


async def read_body(request: web.Request, form: str) -> bytearray:
    """Return the body, if its media type is `form` or a default of HTTP clients.

    Raises:
        InvalidRequestError: another content type.
    """
    if request.content_type not in (form, *PLAIN_FORMS):
        raise InvalidRequestError(
            f"Content-Type: expected {form}, received {request.content_type}", code=ErrorCode.UNSUPPORTED_MEDIA_TYPE
        )
    return await read_received(request)


def check_query(request: RequestQuery, *allowed: Parameter) -> None:
    """Raise for unknown query names: a misspelt name would be ignored silently.

    Args:
        allowed: the parameters that the document shows for this request (see `openapi.operations`).

    Raises:
        InvalidRequestError: a name is unknown; the message lists the known names.
    """
    if not request.query:
        return
    names = {parameter.name for parameter in allowed}
    if unknown := [name for name in request.query if name not in names]:
        raise InvalidRequestError(
            f"query: unknown name {unknown[0]!r}; known names are {', '.join(sorted(names)) or 'none'}"
        )


def query_number(
    request: RequestQuery, parameter: Parameter, *, default: int | None = None, at_most: int | None = None
) -> int:
    """Return an integer of the query.

    Args:
        default: the value of a request that does not name it; None: the parameter's.
        at_most: a limit of this broker; None: the parameter's.

    Raises:
        InvalidRequestError: the value is not an integer, or out of range.
    """
    text = request.query.get(parameter.name)
    if text is None:
        missing = parameter.default if default is None else default
        assert isinstance(missing, int), f"{parameter.name} has no default"
        return missing
    number = parse_integer(text)
    if number is None:
        raise InvalidRequestError(f"{parameter.name}: expected an integer, received {text!r:.80}")
    most = parameter.most if at_most is None else at_most
    if not parameter.least <= number <= most:
        raise InvalidRequestError(f"{parameter.name}: expected {parameter.least} to {most}, received {number}")
    return number


def query_choice(request: RequestQuery, parameter: Parameter, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> str:
    """Return a value of the query that is one of the parameter's choices.

    Raises:
        InvalidRequestError: with `code`: it is not one of them.
    """
    text = request.query.get(parameter.name, str(parameter.default))
    if text not in parameter.choices:
        *most, last = parameter.choices
        raise InvalidRequestError(
            f"{parameter.name}: expected {' or '.join((', '.join(most), last))}, received {text!r:.80}", code=code
        )
    return text


def parse_integer(text: str) -> int | None:
    """Return a decimal number of at most 19 digits; None otherwise (`int` accepts 1_0, and raises on 5,000 digits)."""
    return int(text) if _INTEGER.fullmatch(text) else None


def path_partition(request: RequestQuery) -> tuple[str, int]:
    """Return the topic and partition of a path.

    Raises:
        NotFoundError: the partition is not a number.
    """
    text = request.match_info["partition"]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise NotFoundError(f"partition: expected a number from 0, received {text!r}")
    return request.match_info["topic"], int(text)


def caller_timeout_ms(request: RequestQuery, default_ms: int, *, most_ms: int = 0) -> int:
    """Return how long the caller waits for the response; `default_ms` if it does not say.

    Args:
        most_ms: the longest wait that a caller may ask for; 0: `default_ms`.

    Raises:
        InvalidRequestError: the header is not a number of milliseconds.
    """
    text = request.headers.get(media.DEADLINE_MS)
    if text is None:
        return default_ms
    number = parse_integer(text)
    if number is None or number < 0:
        raise InvalidRequestError(f"{media.DEADLINE_MS}: expected milliseconds, received {text!r:.80}")
    return max(1, min(number, most_ms or default_ms))


@web.middleware
async def plain_bodies(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse bodies with a Content-Encoding before reading them: 500 KB of gzip decompress to 500 MB in the event loop.

    The listeners do not decompress either (`auto_decompress=False`). Batches have their own compression.
    """
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding != "identity":
        raise InvalidRequestError(
            f"Content-Encoding: expected none, received {encoding!r:.80}", code=ErrorCode.UNSUPPORTED_MEDIA_TYPE
        )
    return await handler(request)


def own_pages(origins: Origins) -> Middleware:
    """Return a middleware that refuses requests of other origins' pages.

    The lean path needs none: it hands every request with a browser's header to aiohttp.
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if CROSS_ORIGIN not in request:
            origins.require_own(request.headers)
        return await handler(request)

    return check


async def permit(_: web.Request) -> web.Response:
    """Answer a CORS preflight; `cross_origin_reads` adds the headers."""
    return web.Response(status=204)


def cross_origin_reads(allowed: Collection[str], allowed_paths: Collection[str]) -> Middleware:
    """Return a middleware that lets pages of some origins read some paths (CORS).

    It runs before `own_pages` and replaces its check for these requests.

    Args:
        allowed: origins, such as https://app.example.org.
        allowed_paths: paths as registered; they serve GET, HEAD and the preflight (`permit`).
    """

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        origin, resource = request.headers.get("Origin", ""), request.match_info.route.resource
        reads = request.method in ("GET", "HEAD", "OPTIONS")
        if origin not in allowed or not reads or resource is None or resource.canonical not in allowed_paths:
            return await handler(request)
        request[CROSS_ORIGIN] = True
        response = await handler(request)
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Allow-Methods"] = "GET, HEAD"
        response.headers["Access-Control-Allow-Headers"] = "Accept, Last-Event-ID, Range"
        response.headers["Access-Control-Expose-Headers"] = ", ".join(_READABLE)
        response.headers["Vary"] = ", ".join(filter(None, (response.headers.get("Vary"), "Origin")))
        return response

    return check


WIDE_FETCH = 128
"""A fetch of more partitions counts against `MAX_FETCHED_PARTITIONS`."""
MAX_FETCHED_PARTITIONS = 16 * MAX_REQUEST_PARTITIONS
"""The most partitions of all wide fetches in progress: about 80 MB, which a garbage collection scans in 40 ms."""


class ParkedFetches:
    """Bounds the fetches that wait at once, below the limit of requests: idle consumers must not exclude producers.

    It also bounds the partitions of all wide fetches, which determine their memory.
    """

    def __init__(self, *, max_requests: int) -> None:
        self._limit = max_requests - max_requests // 4
        self.count = 0
        self.partitions = 0
        """The partitions of wide fetches (more than `WIDE_FETCH` partitions) in progress."""

    @contextmanager
    def waiting(self, wait_ms: int, partitions: int = 1) -> Iterator[None]:
        """Count a fetch while it is in progress.

        Raises:
            OverloadedError: too many fetches wait, or wide fetches read too many partitions.
        """
        waits, wide = int(wait_ms > 0), partitions if partitions > WIDE_FETCH else 0
        if waits and self.count >= self._limit:
            raise OverloadedError(
                f"{self.count} fetches are waiting for records here; send the request again, or with max_wait_ms=0"
            )
        if wide and self.partitions + wide > MAX_FETCHED_PARTITIONS:
            raise OverloadedError(
                f"fetches of {self.partitions:,} partitions in all are in progress here, and this one has {wide:,}; "
                f"the limit is {MAX_FETCHED_PARTITIONS:,}: send it again later, or with at most {WIDE_FETCH} partitions"
            )
        self.count += waits
        self.partitions += wide
        try:
            yield
        finally:
            self.count -= waits
            self.partitions -= wide
