"""Admission of requests on aiohttp's path: receives bodies and sends responses in bounded time and memory.

aiohttp itself waits without end for a body that does not arrive, and for a peer that does not read.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Collection

from aiohttp import web

from raftlog.errors import InvalidRequestError, OverloadedError, RaftlogError, UnknownOutcomeError
from raftlog.serving.connections import connection_of
from raftlog.serving.error_bodies import encoded_error
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.metered import Metered
from raftlog.serving.responses import PIECE_BYTES, PartsResponse
from raftlog.serving.turnstile import Turnstile
from raftlog.wire import media, paths

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
UNLIMITED = (paths.LIVEZ, paths.READYZ, paths.METRICS)
"""Served under any load: a supervisor must not stop a broker because it is busy."""
_READS = ("GET", "HEAD")
_BODY = web.RequestKey("raftlog_body", bytearray)
_SECONDS = web.RequestKey("raftlog_seconds", float)


class Admission:
    """Receives each body, counts the request while it is handled, and sends its response.

    Args:
        turnstile: decides when each request begins.
        batches: the paths (as registered) whose bodies are batches; all other bodies are JSON.
    """

    def __init__(
        self,
        inflight: InflightLimits,
        limits: RequestLimits,
        turnstile: Turnstile,
        *,
        batches: Collection[str] = (),
    ) -> None:
        self._inflight = inflight
        self._limits = limits
        self._batches = frozenset(batches)
        self._turnstile = turnstile

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Handle one request, within the limits."""
        connection = connection_of(request)
        if connection is None:
            return await self._admit(request, handler)
        connection.began()
        try:
            return await self._admit(request, handler)
        finally:
            connection.ended()

    async def _admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in UNLIMITED:
            return await handler(request)
        body = _Body(request, self._inflight, self._limits, json=self._is_json(request))
        try:
            if request.can_read_body:
                request[_BODY] = await body.receive()
            address = request.remote or ""
            await self._turnstile.enter(address)
            self._inflight.enter()
            work = Metered(handler(request))
            try:
                response = await work
            finally:
                self._inflight.leave()
                request[_SECONDS] = work.seconds
        except _TooSlowError as late:
            return _refuse_late(late)
        finally:
            body.release()
        return self._bounded(request, response)

    def _is_json(self, request: web.Request) -> bool:
        resource = request.match_info.route.resource
        return resource is None or resource.canonical not in self._batches

    def _bounded(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        """Send a large response in pieces, and count it until it is sent."""
        if isinstance(response, web.Response):
            content = response.body
            if not isinstance(content, bytes) or len(content) <= PIECE_BYTES:
                return response
            response = PartsResponse(
                request, [content], status=response.status, headers=response.headers, write_s=self._limits.write_s
            )
        if isinstance(response, PartsResponse) and (size := response.memory_bytes) > PIECE_BYTES:
            address = request.remote or ""
            self._hold_answer(request, size, address)
            # aiohttp does not send a response whose peer has disconnected; the finalizer stops counting it.
            ended = weakref.finalize(response, self._inflight.release_answer, size, address)
            ended.atexit = False
            response.when_ended(lambda: ended() and None)
        return response

    def _hold_answer(self, request: web.Request, size: int, address: str) -> None:
        """Count an answer.

        Raises:
            OverloadedError: too many bytes wait for slow readers; the request read something.
            UnknownOutcomeError: the same, and the request may have changed something.
        """
        try:
            self._inflight.hold_answer(size, address)
        except OverloadedError as error:
            if request.method in _READS:
                raise
            raise UnknownOutcomeError(
                f"the request was handled, and its answer of {size} bytes is lost: {error.message}"
            ) from None


class _TooSlowError(InvalidRequestError):
    """A body did not arrive before the deadline."""


class _Body:
    """One request's body, from its arrival until it is released."""

    def __init__(self, request: web.Request, inflight: InflightLimits, limits: RequestLimits, *, json: bool) -> None:
        self._request = request
        self._address = request.remote or ""
        self._inflight = inflight
        self._limits = limits
        self._json = json
        self._held = 0

    async def receive(self) -> bytearray:
        """Return the whole body, in memory of its own.

        Raises:
            InvalidRequestError: MESSAGE_TOO_LARGE, or the body took too long to arrive.
            OverloadedError: bodies of other requests take too much memory.
        """
        announced = self._request.content_length or 0
        self._limits.require_size(announced, json=self._json)
        content, body = self._request.content, bytearray()
        if content.is_eof():  # The body arrived together with the head.
            self._take(content.read_nowait(), body)
            return body
        began, allowed_s = asyncio.get_running_loop().time(), self._limits.body_time_s(announced)
        try:
            async with asyncio.timeout_at(began + allowed_s) as limit:
                while not content.at_eof():
                    self._take(await content.readany(), body)
                    if self._held > announced:  # Chunked: extend the deadline by the bytes received so far.
                        allowed_s = self._limits.body_time_s(self._held)
                        limit.reschedule(began + allowed_s)
        except TimeoutError:
            raise _TooSlowError(
                f"the request took too long to arrive: {self._held} bytes of its body were received within "
                f"{allowed_s:.0f} s; nothing was done"
            ) from None
        return body

    def _take(self, chunk: bytes, body: bytearray) -> None:
        self._inflight.hold(len(chunk), self._address)
        self._held += len(chunk)
        self._limits.require_size(self._held, json=self._json)
        body += chunk

    def release(self) -> None:
        self._inflight.release(self._held, self._address)
        self._held = 0


def seconds_computed(request: web.Request) -> float:
    """Return for how long a request has computed."""
    seconds: float = request.get(_SECONDS, 0.0)
    return seconds


def received(request: web.Request) -> bytearray | None:
    """Return a request's body for a second use, before its handler reads it; None: it has none."""
    return request.get(_BODY)


async def read_received(request: web.Request) -> bytearray:
    """Return a request's body. It can be read once, so that its memory is freed early."""
    if _BODY in request:
        body = request[_BODY]
        del request[_BODY]
        return body
    return bytearray(await request.read())


def _refuse_late(error: RaftlogError) -> web.Response:
    response = web.Response(body=encoded_error(error), status=408, content_type=media.JSON)
    response.force_close()
    return response
