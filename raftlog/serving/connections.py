"""How many connections a listener keeps, in all and for each address: one more is answered 503 and closed at once.

Without limits one client that opens connections and never closes them takes every file descriptor of the process, and
with them the log's own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import cast

from aiohttp import web

from raftlog.errors import InvalidRequestError, OverloadedError, RaftlogError
from raftlog.serving.turnstile import Turnstile
from raftlog.transport.writing import Outlet
from raftlog.wire import http1, media
from raftlog.wire.codec import encode_json

_log = logging.getLogger(__name__)
TELL_EVERY_S = 10.0
"""Between two lines of the log about refused connections."""


class ConnectionLimits:
    """Counts the connections of one listener.

    Args:
        name: of the listener, for the log.
        total, per_address: the most connections, of all clients and from one IP address.
    """

    def __init__(self, name: str, *, total: int, per_address: int) -> None:
        self.refused = 0
        self._name = name
        self._total, self._per_address = total, per_address
        self._from: Counter[str] = Counter()
        self._size = 0
        self._told_at = float("-inf")
        self._untold = 0

    @property
    def size(self) -> int:
        """How many connections there are."""
        return self._size

    def enter(self, address: str) -> None:
        """Count a new connection.

        Raises:
            OverloadedError: there are too many; it does not count.
        """
        if self._size >= self._total:
            raise self._refusal(f"this node has {self._size} connections, at most {self._total} are kept")
        if self._from[address] >= self._per_address:
            raise self._refusal(
                f"{address} has {self._from[address]} connections here, at most {self._per_address} are kept for each "
                "address"
            )
        self._size += 1
        self._from[address] += 1

    def leave(self, address: str) -> None:
        """Count a connection no longer that has entered."""
        self._size -= 1
        self._from[address] -= 1
        if not self._from[address]:
            del self._from[address]

    def _refusal(self, why: str) -> OverloadedError:
        """Return the error; one line of the log in ten seconds says how many there were."""
        self.refused += 1
        self._untold += 1
        now = asyncio.get_running_loop().time()
        if now - self._told_at >= TELL_EVERY_S:
            _log.warning("%s listener: %d connections refused, the last one because %s", self._name, self._untold, why)
            self._told_at, self._untold = now, 0
        return OverloadedError(f"{why}: close some, or raise broker.max_connections or max_connections_per_address")


def refusal_bytes(error: RaftlogError, status: int = 503) -> bytes:
    """Return a whole HTTP answer to a connection that is not kept."""
    body = encode_json({"error": error.to_wire()})
    fields: list[tuple[str, str | int]] = [
        ("Content-Type", media.JSON),
        ("Content-Length", len(body)),
        *((("Retry-After", "1"),) if status == 503 else ()),
        ("Connection", "close"),
    ]
    return http1.encode_head(http1.status_line(status), fields) + body


class AiohttpConnection(asyncio.Protocol):
    """A connection that aiohttp serves: counted, and closed if the head of a request does not come to its end.

    Args:
        address: of the peer, under which `limits` counts it already.
        turnstile: learns what reading requests takes.
        head_s: from a request's first byte to the end of its head.
    """

    def __init__(
        self, inner: asyncio.Protocol, limits: ConnectionLimits, turnstile: Turnstile, address: str, *, head_s: float
    ) -> None:
        self._inner, self._limits, self._turnstile, self._address = inner, limits, turnstile, address
        self._head_s = head_s
        self._transport: asyncio.Transport | None = None
        self._under_way = 0
        self._outlet: Outlet | None = None
        self._timer: asyncio.TimerHandle | None = None

    def began(self) -> None:
        """Learn that the head of a request is whole, and that the request is being handled."""
        self._under_way += 1
        self._stop_timer()

    def ended(self) -> None:
        """Learn that a request is handled; its answer may still be under way."""
        self._under_way -= 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._under_way and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._head_s, self._give_up)
        began = time.perf_counter()
        self._inner.data_received(data)
        self._turnstile.took(self._address, time.perf_counter() - began)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def outlet(self, timeout_s: float) -> Outlet:
        """Return what writes large pieces to the socket. The transport must hold nothing, and TLS must be off.

        Args:
            timeout_s: how long the peer may take no byte; the first call decides.
        """
        if self._outlet is None:
            assert self._transport is not None
            self._outlet = Outlet(self._transport, timeout_s=timeout_s)
        return self._outlet

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        if self._outlet is not None:
            self._outlet.lost()
        self._limits.leave(self._address)
        self._inner.connection_lost(exc)

    def _give_up(self) -> None:
        self._timer = None
        assert self._transport is not None
        late = InvalidRequestError(f"the head of the request has not arrived within {self._head_s:g} s")
        self._transport.write(refusal_bytes(late, status=408))
        self._transport.close()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class AiohttpHandler(web.RequestHandler):
    """aiohttp's handler of one connection, whose own refusals have raftlog's error form."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that aiohttp cannot read."""
        if status >= 500:
            return super().handle_error(request, status, exc, message)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer is under way already")
        text = str(message or exc or "it is no HTTP request").strip().partition("\n")[0]
        error = InvalidRequestError(f"the request cannot be read as HTTP: {text[:200]}")
        body = encode_json({"error": error.to_wire()})
        response = web.Response(body=body, status=status, content_type=media.JSON)
        response.force_close()
        return response
