"""Quotas on aiohttp's path: holds requests, charges answers and streams, and mutes connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from aiohttp import web

from raftlog.broker.http import error_response
from raftlog.broker.lean.muting import peer_has_disconnected
from raftlog.broker.quotas import LEAST_S, MUTE_S, QuotaGate, RefusedError, answer_limit
from raftlog.broker.raw import MAX_ANSWER
from raftlog.errors import InvalidRequestError, RetriableError
from raftlog.security.guard import OPEN, sender_of
from raftlog.security.quotas import Buckets, Kind, Turn
from raftlog.serving.admission import UNLIMITED, Handler, seconds_computed
from raftlog.serving.connections import connection_of
from raftlog.serving.streams import PIECE_BYTES, StreamedResponse
from raftlog.wire import media, paths
from raftlog.wire.client_ids import EXPECTED, is_client_id

_PRODUCE = (paths.PRODUCE, paths.BATCHES, paths.TOPIC_RECORDS)
_BEFORE = web.RequestKey("raftlog_turn_before", Turn)
"""The turn of the connection's last request."""
_READ = (paths.RECORDS, paths.TOPIC_RECORDS)


class QuotaMiddleware:
    """The quotas of requests that aiohttp serves. Close it before the listener, so that requests which are held end."""

    def __init__(self, gate: QuotaGate) -> None:
        self._gate = gate
        self._closing = asyncio.Event()

    async def close(self, _: web.Application) -> None:
        """Refuse the requests that are held, and end the streams that wait."""
        self._closing.set()

    @web.middleware
    async def muting(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let a connection wait until it has paid what it owes.

        Before its sender is identified: the sender may be deleted while the request waits, or lose its rights.
        """
        connection = connection_of(request)
        owing = connection.owing if connection is not None else None
        if connection is not None and owing is not None and self._gate.is_active and request.path not in UNLIMITED:
            connection.owing = None
            await self._wait_for(partial(_seconds_owed, owing), request)
            if isinstance(owing, Pause | Turn):
                request[_BEFORE] = owing.turn if isinstance(owing, Pause) else owing
        return await handler(request)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Handle one request within the sender's quotas."""
        client_id = request.headers.get(media.CLIENT_ID, "")
        if client_id and not is_client_id(client_id):
            raise InvalidRequestError(f"{media.CLIENT_ID}: expected {EXPECTED}, received {client_id!r:.200}")
        buckets = None if _is_unlimited(request) else self.buckets_of(request)
        response = await handler(request) if buckets is None else await self._limited(request, handler, buckets)
        if isinstance(response, StreamedResponse) and _kind(request) == "fetch":
            response.pace = _Pace(self, request)
        return response

    def buckets_of(self, request: web.Request) -> Buckets | None:
        """Return what a request is charged to now; None: it has no limit."""
        client_id, node = request.headers.get(media.CLIENT_ID, ""), request.headers.get(media.NODE)
        return self._gate.buckets_of(sender_of(request), client_id, request.remote or "", _kind(request), node)

    async def _limited(self, request: web.Request, handler: Handler, buckets: Buckets) -> web.StreamResponse:
        connection = connection_of(request)
        length = request.content_length or 0
        try:
            turn = self._gate.begin(buckets, request.get(_BEFORE), length)
        except RefusedError as error:
            if connection is not None:
                connection.owing = Pause(self._gate.now() + MUTE_S, error.turn)
            return error_response(error)
        try:
            await self._wait_for(turn.hold_s, request)
        except BaseException:
            turn.cancel()
            raise
        if (limit := answer_limit(buckets)) is not None:
            request[MAX_ANSWER] = limit
        answered = 0
        try:
            response = await handler(request)
            is_sent = request.method != "HEAD" and not isinstance(response, StreamedResponse)
            answered = (response.content_length or 0) if is_sent else 0
        finally:
            received = getattr(request.content, "total_bytes", 0)
            if received >= length:
                turn.charge("produce", received - length, self._gate.now())  # Of a body in chunks.
            else:
                turn.refund("produce", length - received)
            throttle_ms = self._gate.end(turn, answered, seconds_computed(request))
            if connection is not None and throttle_ms:
                connection.owing = turn
        if throttle_ms:
            response.headers[media.THROTTLE_MS] = str(throttle_ms)
        return response

    async def _wait_for(self, seconds_left: Callable[[float], float], request: web.Request) -> None:
        """Wait until no seconds are left, by the current time; quotas may change meanwhile."""
        connection = connection_of(request)
        if connection is not None:
            connection.began()  # The request's head has arrived: its deadline is met.
        try:
            await self._wait(seconds_left, request.transport)
        finally:
            if connection is not None:
                connection.ended()

    async def _wait(self, seconds_left: Callable[[float], float], transport: asyncio.Transport | None = None) -> None:
        while self._gate.is_active and (wait_s := seconds_left(self._gate.now())) > LEAST_S:
            await self._sleep(min(wait_s, MUTE_S))
            if transport is not None and peer_has_disconnected(transport):
                transport.abort()  # A body that waits to be read hides this from aiohttp. The request is cancelled.

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return
        raise RetriableError("the broker shuts down; the request waited because of a quota, and nothing was done")

    async def charge_stream(self, buckets: Buckets, size: int) -> None:
        """Charge a piece of a stream that was sent, and wait until it is paid."""
        turn = Turn(buckets, self._gate.now(), may_begin=True)
        self._gate.end(turn, size, 0.0)
        await self._wait(turn.owed_s)


class Pause:
    """A connection that was refused, and is muted until a moment.

    Args:
        turn: its place in the queue.
    """

    def __init__(self, until: float, turn: Turn) -> None:
        self.until = until
        self.turn = turn


class _Pace:
    """The pace of one stream, by the quotas of each moment: they may change while it is sent."""

    def __init__(self, middleware: QuotaMiddleware, request: web.Request) -> None:
        self._middleware = middleware
        self._request = request

    @property
    def piece_bytes(self) -> int:
        """The most bytes to send at once."""
        return min(PIECE_BYTES, answer_limit(self._middleware.buckets_of(self._request)) or PIECE_BYTES)

    async def sent(self, size: int) -> None:
        """Charge bytes that were sent, and wait until they are paid.

        Raises:
            RetriableError: the broker shuts down.
        """
        buckets = self._middleware.buckets_of(self._request)
        if buckets is not None:
            await self._middleware.charge_stream(buckets, size)


def _seconds_owed(owing: object, now: float) -> float:
    if isinstance(owing, Pause):
        return owing.until - now
    return owing.owed_s(now) if isinstance(owing, Turn) else 0.0


def _kind(request: web.Request) -> Kind:
    resource = request.match_info.route.resource
    path = "" if resource is None else resource.canonical
    if request.method == "POST":
        return "produce" if path in _PRODUCE else "fetch" if path == paths.FETCH else "request"
    return "fetch" if path in _READ else "request"


def _is_unlimited(request: web.Request) -> bool:
    """Return whether a request is charged to no sender.

    A login is of no user yet: the logins of all users must not share one quota.
    """
    return request.path in UNLIMITED or request.get(OPEN, False)
