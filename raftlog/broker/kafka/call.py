"""What a handler of Kafka's requests is given, and what a module of handlers lists."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import ParkedFetches
from raftlog.broker.kafka.fetch import KafkaFetch
from raftlog.broker.kafka.offsets import KafkaOffsets
from raftlog.broker.kafka.produce import KafkaProduce
from raftlog.broker.kafka.sasl import SaslState
from raftlog.errors import InvalidRequestError
from raftlog.security.authenticators import Identified
from raftlog.security.guard import Guard
from raftlog.security.identity import UNKNOWN_SENDER, Peer, Sender
from raftlog.serving.limits import InflightLimits
from raftlog.serving.workers import INLINE_BYTES

FEW_ELEMENTS: Final = 2_000
SOME_ELEMENTS: Final = 10_000
MANY_ELEMENTS: Final = 20_000
"""For requests about partitions: each of 10,000 topics with one partition."""


def goes_on_counting() -> None:
    """Do nothing."""


class ClosesConnectionError(InvalidRequestError):
    """A handler refuses a request in the only way that the protocol leaves: the connection is closed."""


class KafkaServices:
    """What the handlers of one broker share.

    Args:
        parked: shared with the fetches of HTTP.
        inflight: shared with the requests of HTTP.
        guard: finds and checks senders; None: every sender is served.
    """

    def __init__(
        self, context: BrokerContext, *, parked: ParkedFetches, inflight: InflightLimits, guard: Guard | None = None
    ) -> None:
        self.context = context
        self.inflight = inflight
        self.guard = guard
        self.producing = KafkaProduce(context, inflight)
        self.parked = parked
        self.fetching = KafkaFetch(context, parked)
        self.offsets = KafkaOffsets(context)


@dataclass(slots=True, kw_only=True)
class KafkaConnectionState:
    """What is kept for one connection, from its first request to its end. Handlers of an area own one field each."""

    peer: Peer = field(default_factory=lambda: Peer(""))
    listener: str = "public"
    produce_order: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Keeps the order of produce requests, which overlap."""
    identified: Identified | None = None
    """The principal: of a certificate, or of a SASL exchange, which sets it; None: not looked for yet."""
    sasl: SaslState | None = None
    """The state of SASL exchanges; None: there was none."""
    software: str = ""
    """The client's name and version, as ApiVersions sent them (KIP-511)."""


class ProduceTurn:
    """The turn of one produce request, from before it is decoded until its batches have their places in their logs.

    The produce requests of one connection overlap. Each takes its turn when it begins, so none overtakes another, and
    a large one may pause in its turn.
    """

    def __init__(self, order: asyncio.Lock) -> None:
        self._order = order
        self._is_held = False

    async def __aenter__(self) -> None:
        await self._order.acquire()
        self._is_held = True

    async def __aexit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Let the next request begin; a second call does nothing."""
        if self._is_held:
            self._is_held = False
            self._order.release()


@dataclass(slots=True, kw_only=True)
class KafkaCall:
    """One request of one connection."""

    services: KafkaServices
    connection: KafkaConnectionState
    sender: Sender = UNKNOWN_SENDER
    """As routes of HTTP have it: for `context.access`, whose rules and audit are the same."""
    client_id: str = ""
    api_key: int = 0
    api_version: int = 0
    max_answer_bytes: int | None = None
    """The most bytes of records in the answer, because of a quota."""
    is_large: bool = False
    """Set by a handler whose answer has more than some 1,000 elements: a worker thread encodes it."""
    has_many: bool = False
    """The request has more than some 1,000 array elements: its answer is encoded in a worker thread, too."""
    acts: bool = False
    """Set before something is changed: if the client disconnects then, the audit log cannot know the outcome."""
    ends_because: str = ""
    """Set by a handler that wants the connection closed after this answer: why, for the log."""
    throttle_ms: int = 0
    """Set by a handler that wants the connection to pause after this answer, in ms. Quotas are counted apart."""
    held_bytes: int = 0
    """Answer bytes that the handler counted, which are released when the answer is sent."""
    on_placed: Callable[[], None] | None = None
    """Called by the handler of a produce request when its batches have their places: the next request may begin."""
    on_wait: Callable[[], None] = goes_on_counting
    """Called by a handler before it waits for other clients: the request does not count against limits any more.

    What the handler keeps of its message must be small, or something that the broker keeps anyway.
    """

    @property
    def context(self) -> BrokerContext:
        return self.services.context

    def hold_answer(self, size: int) -> None:
        """Count `size` bytes more of the answer; a large answer is encoded in a worker thread.

        Raises:
            OverloadedError: too many bytes wait for slow readers; these were not counted.
        """
        self.resize_answer(self.held_bytes + size)
        self.is_large = self.is_large or self.held_bytes > INLINE_BYTES

    def answer_space(self) -> int:
        """Return how many bytes more of an answer may be counted now."""
        return self.services.inflight.answer_space(self.connection.peer.address)

    def resize_answer(self, size: int) -> None:
        """Count `size` bytes of the answer instead of those that are counted.

        Raises:
            OverloadedError: too many bytes wait for slow readers; as many are counted as before.
        """
        inflight, address = self.services.inflight, self.connection.peer.address
        if size > self.held_bytes:
            inflight.hold_answer(size - self.held_bytes, address)
        else:
            inflight.release_answer(self.held_bytes - size, address)
        self.held_bytes = size


Handler: TypeAlias = Callable[[KafkaCall, Any], Awaitable[Any]]
"""Takes a request's message, returns the response's message; None: there is no response (acks=0).

It answers errors by the protocol's error codes, see `error_numbers`. An error that it raises is answered in the
message's own form (`Served.failed`).
"""
Failed: TypeAlias = Callable[[KafkaCall, Any, int], Any]
"""Takes a request's message and an error number; returns the response that gives it for everything in the request.

It may run in a worker thread.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A handler with more than its function.

    Args:
        first, last: narrow the versions that are offered; None: those of the table, without unstable ones.
        most_elements: the most array elements of a request, nested ones included; one with more gets INVALID_REQUEST.
            Only a handler that works in slices may have more than the default: an element takes some 10 µs.
        failed: makes the response of a request that failed as a whole. None: the response has an `error_code` at its
            top in every version that is served, or the connection is closed.
    """

    handle: Handler
    first: int | None = None
    last: int | None = None
    most_elements: int = FEW_ELEMENTS
    failed: Failed | None = None


Handlers: TypeAlias = Mapping[int, Handler | Served]
"""The handlers of one area, by API key."""
