"""Passes requests on to the broker that can answer, for callers that reach one only: pages, clients of load balancers.

A broker that is not a partition's leader, a coordinator, or the broker in the path, answers with that broker's address.
With `Raftlog-Pass-On: true` it sends the request there itself, on behalf of the sender, once. That broker checks the
sender's rights as if the request had come to it at first.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms
from raftlog.broker.openapi.operations import OPERATIONS
from raftlog.broker.routes.other_brokers import on_behalf_of
from raftlog.errors import ErrorCode, InvalidRequestError, RetriableError
from raftlog.model import Address
from raftlog.security.audited_changes import note_passed_on
from raftlog.serving.admission import Handler, received
from raftlog.wire import media

_PASSED_ON = frozenset((one.method, one.path) for one in OPERATIONS if one.may_be_passed_on)
_BY_TRANSACTION = ("transactional_id", "set_id")
"""Variables of paths at the coordinators of transactions."""

_ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class PassOn:
    """The middleware. It is the innermost one: requests that wait for another broker count as requests in progress."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Handle a request, at another broker if that one can answer."""
        given = request.headers.get(media.PASS_ON)
        if given is None:
            return await handler(request)
        if given != "true":
            raise InvalidRequestError(f"{media.PASS_ON}: expected true, received {given!r:.80}")
        if (request.method, _path_of(request)) not in _PASSED_ON:
            return await handler(request)
        body = received(request)
        try:
            answer = await handler(request)
        except RetriableError as error:
            address = await self._coordinator(request, error)
            return await self._at(address, request, body)
        if answer.status != 307:
            return answer
        return await self._at(_address_in(answer), request, body)

    async def _coordinator(self, request: web.Request, error: RetriableError) -> Address:
        """Return the address of a transaction's coordinator, which other brokers do not name; else raise `error`.

        The first request creates the topic with the coordinators' state, as it does for groups.
        """
        key = next((request.match_info[name] for name in _BY_TRANSACTION if name in request.match_info), None)
        if key is None or error.code not in _ELSEWHERE:
            raise error
        timeout_ms = caller_timeout_ms(request, self._context.config.broker.request_timeout_ms)
        found = await self._context.internal_topics.coordinator("transaction", key, timeout_ms=timeout_ms)
        if found.broker_id == self._context.config.node_id:
            raise error  # It became the coordinator just now.
        return Address.of_url(found.url)

    async def _at(self, address: Address, request: web.Request, body: bytearray | None) -> web.Response:
        """Send a request to another broker; return its answer.

        Raises:
            RaftlogError: the other broker's error, or it does not answer.
        """
        context = self._context
        note_passed_on(request)
        answer = await context.session.request(
            request.method,
            address,
            request.rel_url.raw_path_qs,
            timeout_ms=caller_timeout_ms(request, context.config.broker.request_timeout_ms),
            body=body,
            fields=on_behalf_of(context, request),
        )
        return web.Response(body=bytes(answer.body), status=answer.status, content_type=media.JSON)


def _path_of(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def _address_in(answer: web.StreamResponse) -> Address:
    parts = urlsplit(answer.headers["Location"])
    return Address.of_url(f"{parts.scheme}://{parts.netloc}")
