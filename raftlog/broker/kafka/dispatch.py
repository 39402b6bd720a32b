"""Decodes Kafka's requests, finds their senders, calls their handlers, and encodes the responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from raftlog.broker.kafka.api_versions_api import as_served, handler_of, offered, unsupported
from raftlog.broker.kafka.audit import audited
from raftlog.broker.kafka.call import (
    ClosesConnectionError,
    Handlers,
    KafkaCall,
    KafkaConnectionState,
    KafkaServices,
    ProduceTurn,
)
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.broker.kafka.failures import failed_response
from raftlog.errors import AuthenticationError, ErrorCode, InvalidRequestError, OverloadedError, RaftlogError
from raftlog.model import AclResource
from raftlog.security.authenticators import Identified
from raftlog.security.guard import Guard
from raftlog.security.identity import Sender
from raftlog.security.kafka_apis import CHANGES, KAFKA
from raftlog.serving.workers import INLINE_BYTES, in_worker
from raftlog.wire.kafka.api_keys import API_VERSIONS
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.errors import KafkaProtocolError, TooManyElementsError
from raftlog.wire.kafka.framing import RequestHeader, decode_request, encode_response
from raftlog.wire.kafka.reader import LOOP_ELEMENTS, PRODUCE_ELEMENTS, Buffer

_log = logging.getLogger(__name__)
_PRODUCE = 0
_KINDS: tuple[AclResource, ...] = ("topic", "group", "transactional_id", "cluster")
"""The right to describe one of these comes with nearly every other right."""
_COUNTED_BYTES = 64 << 10
"""Larger answers count until they are sent, unless their handlers have counted them."""


@dataclass(slots=True)
class KafkaRequest:
    """A received request: its header, and its frame, in which the message begins at `at`."""

    header: RequestHeader
    frame: Buffer
    at: int


@dataclass(slots=True)
class KafkaAnswer:
    """A request's response, before it is encoded."""

    header: RequestHeader
    call: KafkaCall
    response: Any = None
    """None: nothing is sent."""
    error: int = 0
    """The number of the error with which the request failed as a whole."""

    def throttled(self, throttle_ms: int) -> None:
        """Report for how long the connection pauses afterwards, in versions that have a field for it."""
        if hasattr(self.response, "throttle_time_ms"):
            self.response.throttle_time_ms = throttle_ms

    async def encode(self) -> list[Buffer]:
        """Return the frame; empty: nothing is sent. A large one counts until it is sent.

        Raises:
            ClosesConnectionError: too many bytes wait for slow readers. Something may have been done.
            RuntimeError: a handler made a message that its version cannot have.
        """
        parts = await self._encoded()
        size = sum(map(len, parts))
        if size > _COUNTED_BYTES and not self.call.held_bytes:
            try:
                self.call.hold_answer(size)
            except OverloadedError as error:
                raise ClosesConnectionError(error.message) from None
        return parts

    async def _encoded(self) -> list[Buffer]:
        if self.response is None:
            return []
        try:
            if self.call.is_large or self.call.has_many:
                return await in_worker(encode_response, self.header, self.response)
            return encode_response(self.header, self.response)
        except KafkaProtocolError as error:
            raise RuntimeError(f"a handler made a response that cannot be sent: {error.message}") from error


class KafkaDispatch:
    """Answers requests.

    Args:
        handlers: by API key.

    Raises:
        RuntimeError: a handler has no entry in `security/kafka_apis.py`, or serves what is not in the table of APIs.
    """

    def __init__(self, services: KafkaServices, handlers: Handlers) -> None:
        self.services = services
        self.guard: Guard | None = services.guard
        self._served = as_served({**handlers, API_VERSIONS: handler_of(())})
        self.apis = tuple(offered(self._served))
        """What ApiVersions answers."""
        self._served[API_VERSIONS] = handler_of(self.apis)
        if missing := self._served.keys() - KAFKA.keys():
            raise RuntimeError(f"Kafka APIs without an entry in raftlog/security/kafka_apis.py: {sorted(missing)}")

    def require_served(self, header: RequestHeader) -> None:
        """Raise if a request cannot be answered at all. The connection is closed then, as Kafka does.

        Raises:
            KafkaProtocolError: UNSUPPORTED_VERSION.
        """
        if header.is_unknown_api_versions:
            return
        served = self._served.get(header.api_key)
        if served is None or not (served.first or 0) <= header.api_version <= (served.last or 0):
            raise KafkaProtocolError(
                f"expected an API and a version that ApiVersions offers, received API {header.api_key} version "
                f"{header.api_version}",
                code=ErrorCode.UNSUPPORTED_VERSION,
            )

    async def answer(self, request: KafkaRequest, call: KafkaCall) -> KafkaAnswer:
        """Handle a request for which `call_of` was called.

        Raises:
            KafkaProtocolError: its message is malformed.
            ClosesConnectionError: the handler wants the connection closed, or the message has no form for an error.
        """
        answer = KafkaAnswer(request.header, call)
        if request.header.is_unknown_api_versions:
            answer.response, answer.error = unsupported(self.apis), KafkaError.UNSUPPORTED_VERSION
            return answer
        if call.api_key != _PRODUCE:
            return await self._handled(request, call, answer)
        turn = ProduceTurn(call.connection.produce_order)
        async with turn:
            call.on_placed = turn.end
            return await self._handled(request, call, answer)

    async def _handled(self, request: KafkaRequest, call: KafkaCall, answer: KafkaAnswer) -> KafkaAnswer:
        served = self._served[call.api_key]
        message, fits = await _decoded(request, call, served.most_elements)
        try:
            self._check(call)
            if not fits:
                raise InvalidRequestError(
                    f"expected at most {served.most_elements:,} array elements: send several requests"
                )
            work = served.handle(call, message)
            answer.response = await audited(call, work, message, is_change=call.api_key in CHANGES)
        except (KafkaProtocolError, ClosesConnectionError):
            raise
        except RaftlogError as error:
            answer.error = error_number(error)
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001  (the caller gets an answer, the log gets the traceback)
            _log.exception("Kafka's %s version %d failed", KAFKA[call.api_key].path, call.api_version)
            answer.error = KafkaError.UNKNOWN_SERVER_ERROR
        if answer.error:
            failed = partial(failed_response, served, call, message, answer.error)
            answer.response = await in_worker(failed) if call.has_many else failed()
            if answer.response is None:
                raise ClosesConnectionError(f"the response of API {call.api_key} has no form for an error")
        return answer

    def finding(self, header: RequestHeader, connection: KafkaConnectionState) -> Awaitable[None] | None:
        """Return what must be awaited before `call_of`: a look for the connection's principal; None: it is known.

        Raises (the awaitable):
            RaftlogError: the principal cannot be found.
        """
        if self.guard is None or KAFKA[header.api_key].gate == "open" or self._is_known(connection):
            return None
        return self._identify(self.guard, connection)

    def call_of(self, header: RequestHeader, connection: KafkaConnectionState) -> KafkaCall:
        """Return the call of a request that is served, with its sender.

        Raises:
            AuthenticationError: the connection has no credentials, and needs some.
            AuthorizationError: its sender may not send such requests.
        """
        call = KafkaCall(
            services=self.services,
            connection=connection,
            client_id=header.client_id or "",
            api_key=header.api_key,
            api_version=header.api_version,
        )
        route = KAFKA[header.api_key]
        if route.gate != "open" and connection.sasl is not None and not connection.sasl.is_done:
            raise AuthenticationError("expected the next message of the SASL exchange that has begun")
        if self.guard is not None and route.gate != "open":
            if connection.identified is None or not self._is_known(connection):
                raise AuthenticationError("the connection's credentials no longer count")
            call.sender = self.guard.admit(route, connection.identified, connection.peer, None)
        return call

    def is_unauthenticated(self, connection: KafkaConnectionState) -> bool:
        """Return whether a connection has shown no credentials, and no rule lets it do anything without some."""
        if self.guard is None or connection.peer.certificate is not None:
            return False
        if connection.sasl is not None and connection.sasl.is_done:
            return False
        access, nobody = self.guard.access, Sender(host=connection.peer.address)
        return access.mode == "acl" and not any(access.may_somewhere(nobody, "describe", kind) for kind in _KINDS)

    def _is_known(self, connection: KafkaConnectionState) -> bool:
        """Return whether the principal is known, and still counts."""
        assert self.guard is not None
        known = connection.identified
        return known is not None and self.guard.is_current(known)

    async def _identify(self, guard: Guard, connection: KafkaConnectionState) -> None:
        if connection.sasl is not None and connection.sasl.is_done:
            connection.identified = await connection.sasl.again()
            return
        try:
            finding = guard.identify(connection.peer, None)
            connection.identified = finding if isinstance(finding, Identified) else await finding
        except RaftlogError as error:
            connection.identified = guard.excused(connection.peer, error)

    def _check(self, call: KafkaCall) -> None:
        """Check the rights that do not depend on names in the request."""
        if self.guard is not None:
            self.guard.check(KAFKA[call.api_key], call.sender, {})


async def _decoded(request: KafkaRequest, call: KafkaCall, most: int) -> tuple[Any, bool]:
    """Return the message of a request, and whether it has at most so many elements; note in its call if it has many.

    A worker thread decodes a request of many elements, and makes its answer if it failed.
    """
    header, frame, at = request.header, request.frame, request.at
    is_produce = header.api_key == _PRODUCE  # Its frame is large because of its records.
    if is_produce or len(frame) <= INLINE_BYTES:
        with suppress(TooManyElementsError):
            return decode_request(header, frame, at, max_elements=LOOP_ELEMENTS), True
    call.has_many = True
    if is_produce:
        return await in_worker(decode_request, header, frame, at, max_elements=PRODUCE_ELEMENTS), True
    with suppress(TooManyElementsError):
        return await in_worker(decode_request, header, frame, at, max_elements=most), True
    return await in_worker(decode_request, header, frame, at), False
