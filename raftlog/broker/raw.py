"""Requests with raw batches: one handler interface for the lean path and for aiohttp.

A handler gets a `RawRequest`, whose body it may change in place, and returns a `RawReply`, whose parts are written
unchanged (docs/adr/0012).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from aiohttp import web

from raftlog.broker.http import error_headers, read_body
from raftlog.errors import RaftlogError
from raftlog.metrics import Histogram
from raftlog.request_marks import RequestMarks
from raftlog.security.guard import sender_of
from raftlog.security.identity import UNKNOWN_SENDER, Sender
from raftlog.serving.admission import Handler
from raftlog.serving.error_bodies import error_body
from raftlog.serving.limits import WRITE_S
from raftlog.serving.responses import PIECE_BYTES, PartsResponse
from raftlog.transport.socket_writer import Part
from raftlog.wire import media
from raftlog.wire.codec import Buffer, encode_json


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRequest:
    """A request with its whole body."""

    target: str
    """Path and query, as they were sent."""
    match_info: Mapping[str, str] = field(default_factory=dict)
    """The path's variables."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: memoryview
    """Writable: a leader stamps batches where they were received."""
    sender: Sender = UNKNOWN_SENDER
    max_answer_bytes: int | None = None
    """The most batch bytes of the reply because of a quota; a single larger batch comes whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReply:
    """A reply: status, headers and parts of the body."""

    parts: Sequence[Part]
    status: int = 200
    content_type: str = media.JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> RawReply:
        """Return plain data or a wire type as a JSON reply."""
        return cls(parts=[encode_json(value)], status=status, headers=headers or {})

    @classmethod
    def of_error(cls, error: RaftlogError, *, status: int | None = None, marks: RequestMarks | None = None) -> RawReply:
        """Return an error as a reply with an error body; see `error_body`."""
        status = error.http_status if status is None else status
        return cls.json(error_body(error, marks), status=status, headers=error_headers(error, status))

    @property
    def length(self) -> int:
        return sum(map(len, self.parts))

    def to_response(self, request: web.Request) -> web.StreamResponse:
        """Return the reply as aiohttp's response, which sends a small body with the headers, a large one by parts."""
        headers = {"Content-Type": self.content_type, **self.headers}
        if self.length <= PIECE_BYTES:
            body = b"".join(part if isinstance(part, Buffer) else part.read() for part in self.parts)
            return web.Response(status=self.status, headers=headers, body=body)
        return PartsResponse(request, self.parts, status=self.status, headers=headers, write_s=WRITE_S)


class HandlingTimes(Protocol):
    """Times of requests before and after their handlers, in seconds."""

    queue: Histogram
    """From the arrival of the body to the handler."""
    answer: Histogram
    """From the handler's result to the moment when the socket has taken it."""


MAX_ANSWER = web.RequestKey("raftlog_max_answer", int)
"""The most batch bytes of the answer, if a quota limits them."""
RawHandler = Callable[[RawRequest], Awaitable[RawReply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRoute:
    """A route whose requests or replies contain raw batches."""

    path: str
    """With its variables by name; see `wire.paths`."""
    form: str
    """The media type of bodies."""
    handler: RawHandler
    times: HandlingTimes | None = None
    """Observes the requests of the lean path."""

    def add_to(self, app: web.Application) -> None:
        """Register the route with aiohttp as well."""
        app.router.add_post(self.path, self._through_aiohttp())

    def _through_aiohttp(self) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            # A copy: aiohttp returns bytes, and handlers change the body in place.
            body = memoryview(await read_body(request, self.form))
            raw = RawRequest(
                target=request.rel_url.raw_path_qs,
                match_info=request.match_info,
                query=request.query,
                headers=request.headers,
                body=body,
                sender=sender_of(request),
                max_answer_bytes=request.get(MAX_ANSWER),
            )
            return (await self.handler(raw)).to_response(request)

        return handle
