"""The lean path's routes: which requests take it, and their limits, handlers, errors and metrics."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter

from raftlog.broker.http import PLAIN_FORMS
from raftlog.broker.quotas import QuotaGate
from raftlog.broker.raw import RawReply, RawRequest, RawRoute
from raftlog.errors import RaftlogError
from raftlog.request_marks import RequestMarks
from raftlog.security.authenticators import Identified
from raftlog.security.guard import Guard
from raftlog.security.identity import ON_BEHALF_OF, UNKNOWN_SENDER, Peer, Sender
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.request_metrics import RequestMetrics
from raftlog.serving.turnstile import Turnstile
from raftlog.transport.buffers import ReceiveBuffers
from raftlog.wire import http1, media
from raftlog.wire.client_ids import is_client_id
from raftlog.wire.origins import is_browsers_agent

_log = logging.getLogger(__name__)
_FIELDS = frozenset(
    {
        "host", "user-agent", "accept", "accept-encoding", "connection", "content-length", "content-type",
        media.DEADLINE_MS.lower(), ON_BEHALF_OF.lower(), media.CLIENT_ID.lower(), media.NODE.lower(),
    }
)  # fmt: skip
"""Header fields that this path ignores or supports. A request with another one goes to aiohttp."""
_CACHED_HEADS, _CACHED_HEAD_BYTES = 256, 1 << 10
_PLAIN = "[A-Za-z0-9._-]"
_QUERY = re.compile(rf"({_PLAIN}+={_PLAIN}*(&{_PLAIN}+={_PLAIN}*)*)?")
"""A query without percent-encoding."""


@dataclass(frozen=True, slots=True)
class LeanRequest:
    """A request with a parsed head."""

    route: RawRoute
    target: str
    variables: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    length: int
    on_behalf_of: str | None = None
    client_id: str = ""
    node: str | None = None
    """The broker that sends it, in `media.NODE`."""


class LeanRoutes:
    """The routes and limits that a listener's lean connections share.

    Args:
        inflight: limits of the requests and body bytes in progress.
        turnstile: records the addresses that are served here; this path does not wait at it.
        max_json_bytes: the largest JSON body; larger ones go to aiohttp.
        metrics: counts each response, and times each handled request from arrival to answer.
        guard: finds and checks the sender of each request; None: every sender is served.
        quotas: limits senders; None: no quota applies.
    """

    def __init__(
        self,
        routes: Iterable[RawRoute],
        *,
        inflight: InflightLimits,
        turnstile: Turnstile,
        max_json_bytes: int,
        metrics: RequestMetrics | None = None,
        guard: Guard | None = None,
        quotas: QuotaGate | None = None,
    ) -> None:
        self.guard = guard
        self.inflight = inflight
        self.quotas = quotas
        self.turnstile = turnstile
        self._max_json_bytes = max_json_bytes
        self._metrics = metrics or RequestMetrics()
        self._buffers = ReceiveBuffers()
        routes = list(routes)
        self._fixed = {route.path: route for route in routes if "{" not in route.path}
        self._patterns = [(_pattern(route.path), route) for route in routes if "{" in route.path]
        self._entries = {} if guard is None else {route.path: guard.table.entry("POST", route.path) for route in routes}
        self._match_repeated = lru_cache(_CACHED_HEADS)(self._match)

    def match(self, head: bytes) -> LeanRequest | None:
        """Return the parsed request of a head without credentials; None: not one of this path, or an unusual one.

        Clients and followers repeat their heads, so short ones are cached.
        """
        return self._match_repeated(head) if len(head) <= _CACHED_HEAD_BYTES else self._match(head)

    def _match(self, head: bytes) -> LeanRequest | None:
        parsed = http1.parse_request(head)
        if parsed is None or parsed.method != "POST":
            return None
        fields, length = parsed.fields, http1.content_length(parsed.fields)
        if length is None or "host" not in fields or not _FIELDS.issuperset(fields):
            return None
        if is_browsers_agent(fields.get("user-agent", "")):
            return None  # aiohttp checks the page's origin.
        path, _, query = parsed.target.partition("?")
        route, variables = self._find(path)
        if route is None or not _QUERY.fullmatch(query):
            return None
        if route.form == media.JSON and length > self._max_json_bytes:
            return None
        form = fields.get("content-type", PLAIN_FORMS[0])
        if form not in (route.form, *PLAIN_FORMS) or fields.get("connection", "keep-alive").lower() != "keep-alive":
            return None
        parameters = dict(pair.split("=") for pair in query.split("&")) if query else {}
        if query.count("=") != len(parameters):
            return None
        deadline = fields.get(media.DEADLINE_MS.lower())
        headers = {} if deadline is None else {media.DEADLINE_MS: deadline}
        forwarded_for = fields.get(ON_BEHALF_OF.lower())
        client_id = fields.get(media.CLIENT_ID.lower(), "")
        if client_id and not is_client_id(client_id):
            return None  # aiohttp refuses it.
        node = fields.get(media.NODE.lower())
        return LeanRequest(route, parsed.target, variables, parameters, headers, length, forwarded_for, client_id, node)

    def admit(self, request: LeanRequest, found: Identified, peer: Peer) -> Sender:
        """Return the sender of a request, if it may send it.

        Raises:
            AuthenticationError, AuthorizationError: it may not.
        """
        assert self.guard is not None
        entry = self._entries[request.route.path]
        sender = self.guard.admit(entry, found, peer, request.on_behalf_of)
        self.guard.check(entry, sender, request.variables)
        return sender

    def accept(self, request: LeanRequest, limits: RequestLimits) -> memoryview:
        """Return the buffer for a request's body.

        Raises:
            InvalidRequestError: MESSAGE_TOO_LARGE.
        """
        limits.require_size(request.length, json=request.route.form == media.JSON)
        return self._buffers.take(request.length)

    def enter(self, address: str) -> None:
        """Count a request of `address` as in progress until `leave`.

        Raises:
            OverloadedError: too many requests are in progress.
        """
        self.inflight.enter()
        self.turnstile.mark_active(address)

    def leave(self) -> None:
        """Stop counting a request."""
        self.inflight.leave()

    async def handle(
        self,
        request: LeanRequest,
        body: memoryview,
        sender: Sender = UNKNOWN_SENDER,
        max_answer_bytes: int | None = None,
    ) -> RawReply:
        """Return the reply to an accepted request; turn exceptions into error replies."""
        raw = RawRequest(
            target=request.target,
            match_info=request.variables,
            query=request.query,
            headers=request.headers,
            body=body,
            sender=sender,
            max_answer_bytes=max_answer_bytes,
        )
        del body
        try:
            reply = await request.route.handler(raw)
        except RaftlogError as error:
            reply = RawReply.of_error(error)
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001  (the caller gets an answer, the log gets the traceback)
            _log.exception("POST %s failed", request.target)
            reply = RawReply.of_error(RaftlogError("the broker failed to handle the request; its log says why"))
        self._metrics.count(request.route.path, reply.status)
        return reply

    def note_times(self, route: RawRoute, *, arrived: float, began: float, handled: float) -> None:
        """Record the times of a request whose answer has been sent, or cannot be sent (`perf_counter`)."""
        now = perf_counter()
        self._metrics.time(route.path, now - arrived)
        if route.times is not None:
            route.times.queue.observe(began - arrived)
            route.times.answer.observe(now - handled)

    def refuse(self, request: LeanRequest, error: RaftlogError, marks: RequestMarks) -> RawReply:
        """Return the reply to a refused request."""
        reply = RawReply.of_error(error, marks=marks)
        self._metrics.count(request.route.path, reply.status)
        return reply

    def _find(self, path: str) -> tuple[RawRoute | None, Mapping[str, str]]:
        if (route := self._fixed.get(path)) is not None:
            return route, {}
        for pattern, route in self._patterns:
            if (match := pattern.fullmatch(path)) is not None:
                return route, match.groupdict()
        return None, {}


@lru_cache
def _pattern(path: str) -> re.Pattern[str]:
    """Return the pattern of a route's paths without percent-encoding."""
    return re.compile(re.sub(r"\\?\{(\w+)\\?\}", rf"(?P<\1>{_PLAIN}+)", re.escape(path)))
