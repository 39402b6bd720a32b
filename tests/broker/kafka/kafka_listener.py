"""A listener whose Kafka handlers echo, wait or fail, and a raw client of Kafka's protocol."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from aiohttp import web

from raftlog.broker.http import ParkedFetches
from raftlog.broker.kafka.call import ClosesConnectionError, KafkaCall, KafkaServices, Served
from raftlog.broker.kafka.dispatch import KafkaDispatch
from raftlog.broker.kafka.server import KafkaServer
from raftlog.broker.lean.routes import LeanRoutes
from raftlog.broker.listener import Listener
from raftlog.broker.metrics.throttling import Throttling
from raftlog.broker.quotas import QuotaGate
from raftlog.errors import InvalidRequestError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import Address
from raftlog.runtime import SystemClock
from raftlog.security.access import Access
from raftlog.security.guard import Guard
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.listener import ListenerLimits
from raftlog.serving.request_metrics import RequestMetrics
from raftlog.serving.turnstile import Turnstile
from raftlog.wire.kafka.api_keys import APIS
from raftlog.wire.kafka.framing import RequestHeader, decode_response, encode_request
from raftlog.wire.kafka.messages.api_versions import ApiVersionsRequest
from raftlog.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from raftlog.wire.kafka.messages.list_offsets import ListOffsetsRequest
from raftlog.wire.kafka.messages.produce import ProduceRequest, ProduceResponse
from tests.broker.listener_support import connected, listening

PRODUCE, LIST_OFFSETS, HEARTBEAT, API_VERSIONS = 0, 2, 12, 18
MAX_FRAME = 1 << 20


@dataclass
class Handlers:
    """Notes what it handles. A name that begins with "wait" waits for its event; "wait for" is for other clients."""

    begun: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    events: dict[str, asyncio.Event] = field(default_factory=dict)

    def event(self, name: str) -> asyncio.Event:
        return self.events.setdefault(name, asyncio.Event())

    async def _work(self, name: str) -> None:
        self.begun.append(name)
        self.event(f"begun {name}").set()
        try:
            if name.startswith("wait"):
                await self.event(name).wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        self.ended.append(name)

    async def heartbeat(self, call: KafkaCall, request: HeartbeatRequest) -> HeartbeatResponse:
        if request.group_id.startswith("wait for"):
            call.on_wait()
        await self._work(request.group_id)
        if request.group_id == "throttled":
            call.throttle_ms = 1_000
        if request.group_id == "refused":
            raise InvalidRequestError("it is wrong")
        if request.group_id == "bug":
            raise RuntimeError("a bug")
        if request.group_id == "closes":
            raise ClosesConnectionError("it closes")
        return HeartbeatResponse(error_code=request.generation_id)

    async def produce(self, call: KafkaCall, request: ProduceRequest) -> ProduceResponse | None:
        """Work as one whose batches have their places at once, and wait for their replicas."""
        assert call.on_placed is not None
        call.on_placed()
        await self._work(request.transactional_id or "")
        return ProduceResponse() if request.acks else None

    async def list_offsets(self, call: KafkaCall, request: ListOffsetsRequest) -> Any:
        raise InvalidRequestError("it is wrong")

    def table(self) -> Mapping[int, Any]:
        return {
            PRODUCE: Served(handle=self.produce, first=3),
            LIST_OFFSETS: self.list_offsets,
            HEARTBEAT: self.heartbeat,
        }


@dataclass
class Serving:
    """A listener with what its connections share."""

    address: Address
    listener: Listener
    inflight: InflightLimits
    handlers: Handlers
    connections: ConnectionLimits
    metrics: RequestMetrics = field(default_factory=RequestMetrics)
    image: MetadataImage = field(default_factory=MetadataImage)
    turnstile: Turnstile = field(default_factory=Turnstile)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def is_free(served: Serving) -> bool:
    """Return whether nothing counts any more."""
    return not (served.inflight.bytes or served.inflight.requests or served.inflight.answer_bytes)


async def hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


@asynccontextmanager
async def serving(
    *,
    kafka: bool = True,
    guard: Guard | None = None,
    max_requests: int = 100,
    max_bytes: int = 2 * MAX_FRAME,
    idle_s: float = 60.0,
    drain_s: float = 1.0,
    **limits: float,
) -> AsyncIterator[Serving]:
    inflight = InflightLimits(max_requests=max_requests, max_bytes=max_bytes)
    settings = RequestLimits(max_body_bytes=MAX_FRAME, **limits)  # type: ignore[arg-type]
    handlers, connections = Handlers(), ConnectionLimits("test", total=1_000, per_address=1_000)
    served = Serving(Address("127.0.0.1", 0), None, inflight, handlers, connections)  # type: ignore[arg-type]
    context: Any = SimpleNamespace(access=guard.access if guard is not None else Access())
    services = KafkaServices(context, parked=ParkedFetches(max_requests=100), inflight=inflight, guard=guard)
    server = KafkaServer(
        KafkaDispatch(services, handlers.table()),
        limits=settings,
        inflight=inflight,
        turnstile=served.turnstile,
        now=asyncio.get_running_loop().time,
        quotas=QuotaGate(lambda: served.image, 1, Throttling()),
        metrics=served.metrics,
    )
    server.idle_s = idle_s
    app = web.Application()
    app.router.add_get("/hello", hello)
    served.listener = Listener(
        app,
        LeanRoutes([], inflight=inflight, turnstile=served.turnstile, max_json_bytes=1_000),
        limits=ListenerLimits(requests=settings, connections=connections),
        clock=SystemClock(),
        drain_s=drain_s,
        kafka=server if kafka else None,
    )
    async with listening(served.listener) as served.address:
        yield served


def request(key: int, version: int, message: Any, *, correlation: int = 0, client_id: str | None = "c") -> bytes:
    return b"".join(encode_request(RequestHeader(key, version, correlation, client_id), message))


def heartbeat(group: str = "g", *, correlation: int = 0, number: int = 0, member: str = "") -> bytes:
    message = HeartbeatRequest(group_id=group, generation_id=number, member_id=member)
    return request(HEARTBEAT, 3, message, correlation=correlation)


def produce(name: str, *, correlation: int = 0, acks: int = -1) -> bytes:
    return request(PRODUCE, 8, ProduceRequest(transactional_id=name, acks=acks), correlation=correlation)


def api_versions(correlation: int = 0, version: int = 3) -> bytes:
    message = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    return request(API_VERSIONS, version, message, correlation=correlation)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))
        await self.writer.drain()

    async def frame(self) -> bytes:
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(length)

    async def answer(self, key: int, version: int) -> tuple[int, Any]:
        return decode_response(APIS[key], version, await self.frame(), ends=True)

    async def correlation(self) -> int:
        (found,) = struct.unpack_from(">i", await self.frame())
        return int(found)

    async def heartbeat(self) -> tuple[int, int]:
        correlation, message = await self.answer(HEARTBEAT, 3)
        return correlation, message.error_code

    async def closed(self) -> bool:
        """Return whether the broker closes the connection, whatever it sends before."""
        with suppress(ConnectionError):
            await self.reader.read()
        return True


@asynccontextmanager
async def client(served: Serving) -> AsyncIterator[Client]:
    async with connected(served.address) as (reader, writer):
        yield Client(reader, writer)
