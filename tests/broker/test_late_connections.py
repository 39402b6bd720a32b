"""A connection that was accepted just before its listener closed, and begins after that: it ends, and no request does.

The kernel had accepted it, and the loop calls its protocol in a later iteration.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from aiohttp import web

from raftlog.broker.lean.routes import LeanRoutes
from raftlog.broker.listener import Listener
from raftlog.model import Address
from raftlog.runtime import SystemClock
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.listener import AiohttpListener, ListenerLimits, _NewConnection
from raftlog.serving.request_metrics import RequestMetrics
from raftlog.serving.turnstile import Turnstile

ANYWHERE = Address("127.0.0.1", 0)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LIMITS = RequestLimits(max_body_bytes=1 << 20)


@pytest.fixture
def connections() -> ConnectionLimits:
    return ConnectionLimits("test", total=10, per_address=10)


def make_lean(connections: ConnectionLimits) -> Listener:
    lean = LeanRoutes(
        [],
        inflight=InflightLimits(max_requests=3, max_bytes=1 << 20),
        turnstile=Turnstile(),
        max_json_bytes=1 << 10,
        metrics=RequestMetrics(),
    )
    limits = ListenerLimits(requests=LIMITS, connections=connections)
    return Listener(web.Application(), lean, limits=limits, clock=SystemClock(), drain_s=0.1)


async def begin(protocol: asyncio.BaseProtocol) -> tuple[list[Any], bytes]:
    """Begin a connection on which a request has arrived; return the loop's errors, and what the peer received."""
    loop, failures = asyncio.get_running_loop(), list[Any]()
    loop.set_exception_handler(lambda _, context: failures.append(context))
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.sendall(GET)
    reader, writer = await asyncio.open_connection(sock=theirs)
    await loop.connect_accepted_socket(lambda: protocol, ours)
    async with asyncio.timeout(5):
        try:
            received = await reader.read()
        except ConnectionResetError:
            received = b""
    writer.close()
    return failures, received


async def test_one_of_a_brokers_listener(connections: ConnectionLimits):
    listener = make_lean(connections)
    await listener.start(ANYWHERE)
    late = listener._accept()
    await listener.close()

    assert await begin(late) == ([], b"")
    assert connections.size == 0


async def test_one_of_a_controllers_listener(connections: ConnectionLimits):
    listener = AiohttpListener(
        web.Application(), limits=LIMITS, connections=connections, turnstile=Turnstile(), drain_s=0.1
    )
    await listener.start(ANYWHERE)
    late = _NewConnection(listener._server, connections)
    await listener.close()

    assert await begin(late) == ([], b"")
    assert connections.size == 0
