"""Connections between simulated machines: ordered bytes with a delay, and both ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol

from simulation.cluster.loop import Process, SimulatedLoop

Endpoint = tuple[str, int]
Link = tuple[str, str]
"""Source and target host."""


class FakeSocket:
    """The object that aiohttp passes from its dialling to `create_connection`."""

    def __init__(self, address: Endpoint) -> None:
        self.address = address


class Wire(Protocol):
    """The network's interface to its connections."""

    loop: SimulatedLoop
    transports: Transports
    nobody: Context

    @property
    def note(self) -> Callable[[Link, bytes], None]: ...

    def is_held(self, link: Link, *, has_left: bool = False) -> bool: ...

    def delay(self, link: Link) -> float: ...


class Pipe:
    """One direction of a connection."""

    def __init__(self, net: Wire, link: Link, target: Transport) -> None:
        self.link = link
        self.target = target
        self.queue: deque[bytes | Exception | None] = deque()
        """Bytes; None for the end of the stream; an error for a reset."""
        self.queued_bytes = 0
        self.cut_at: float | None = None
        """The share of the next piece that arrives before a reset."""
        self.stalled = False
        """Nothing more arrives, though other connections between the same machines go on."""
        self._net = net
        self._has_left = False
        """Its sender's machine has lost its power."""
        self._arrives_at = 0.0
        self._due = False

    def put(self, item: bytes | Exception | None) -> None:
        self.queue.append(item)
        if isinstance(item, bytes):
            self.queued_bytes += len(item)
        self.flow()

    def keep(self, count: int) -> None:
        """Drop all but the first so many pieces: their sender is down."""
        while len(self.queue) > count:
            item = self.queue.pop()
            self.queued_bytes -= len(item) if isinstance(item, bytes) else 0

    def outlive(self, count: int) -> None:
        """Deliver the first so many pieces although their machine has lost its power, and then nothing more."""
        self.keep(count)
        self._has_left = True
        self.flow()

    def flow(self) -> None:
        """Schedule the arrival of the next item, unless the link is held or the reader pauses."""
        if self._due or not self.queue or self._is_held():
            return
        self._due = True
        loop = self._net.loop
        self._arrives_at = max(self._arrives_at, loop.time() + self._net.delay(self.link))
        loop.call_at(self._arrives_at, self._arrive, context=self._net.nobody)

    def _arrive(self) -> None:
        """Arrive at the other machine; its process receives the item when it runs."""
        self._due = False
        if not self.queue or self._is_held():
            return
        item = self.queue.popleft()
        if isinstance(item, bytes):
            self.queued_bytes -= len(item)
            self._net.note(self.link, item)
            if self.target.peer is not None:
                self.target.peer.may_write()
        if self.cut_at is not None and isinstance(item, bytes):
            self._cut(item[: int(len(item) * self.cut_at)])
            return
        if self.target.process.alive:
            self._net.loop.call_soon(self.target.take, item, context=self.target.process.context)
        elif not isinstance(item, Exception):
            self.target.reset_peer()  # The machine has no such connection.
        self.flow()

    def _is_held(self) -> bool:
        held = self._net.is_held(self.link, has_left=self._has_left)
        return self.stalled or held or self.target.reading_paused

    def _cut(self, part: bytes) -> None:
        """Reset the connection in the middle of a piece."""
        lost = ConnectionResetError("reset in the middle of an answer")
        for item in (part, lost) if part else (lost,):
            self._net.loop.call_soon(self.target.take, item, context=self.target.process.context)
        if self.target.peer is not None:
            self._net.loop.call_soon(self.target.peer.take, lost, context=self.target.peer.process.context)


class Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, net: Wire, process: Process, local: Endpoint, remote: Endpoint) -> None:
        super().__init__({"sockname": local, "peername": remote, "socket": None, "sslcontext": None})
        self.process = process
        self.peer: Transport | None = None
        self.out: Pipe | None = None
        self.into: Pipe | None = None
        self.protocol: Any = None
        self.reading_paused = False
        self._net = net
        self._closing = False
        self._lost = False
        self._writing_paused = False
        self._high = 64 << 10
        self._undelivered = bytearray()
        """Bytes that have arrived and that the protocol has no space for."""

    def open(self, protocol: Any) -> None:
        self.protocol = protocol
        protocol.connection_made(self)

    # What asyncio's transports do.

    def write(self, data: Any) -> None:
        if self._closing or self._lost or self.out is None or not data:
            return
        self.out.put(bytes(data))
        if not self._writing_paused and self.out.queued_bytes > self._high:
            self._writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def may_write(self) -> None:
        if self._writing_paused and self.out is not None and self.out.queued_bytes <= self._high // 4:
            self._writing_paused = False
            self._net.loop.call_soon(self.protocol.resume_writing, context=self.process.context)

    def write_eof(self) -> None:
        if self.out is not None:
            self.out.put(None)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self.out.queued_bytes if self.out is not None else 0

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._high // 4, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 << 10 if high is None else high

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self.reading_paused

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False
        if self._undelivered:
            self._net.loop.call_soon(self._deliver, b"", context=self.process.context)
        if self.into is not None:
            self.into.flow()

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def close(self) -> None:
        """Close after all written bytes were sent."""
        if not self._closing:
            self._closing = True
            self._end(None)
            if self.out is not None:
                self.out.put(None)

    def abort(self) -> None:
        """Close at once; the other side gets a reset."""
        self._closing = True
        self._end(None)
        self.reset_peer()

    # What the network does.

    def reset_peer(self, *, kept: int = 0) -> None:
        """Let the peer get a reset, after the first `kept` pieces in flight."""
        if self.out is not None:
            self.out.keep(kept)
            self.out.put(ConnectionResetError("connection reset by peer"))

    def take(self, item: bytes | Exception | None) -> None:
        if self._lost or not self.process.alive:
            return
        if isinstance(item, Exception):
            self._closing = True
            self._end(item)
        elif item is None:
            if self._closing:
                return
            if not self.protocol.eof_received():
                self.close()
        elif not self._closing:
            self._deliver(item)

    def _deliver(self, data: bytes) -> None:
        """Give the arrived bytes to the protocol.

        After each piece the transport may have another protocol, or pause reading.
        """
        self._undelivered += data
        while self._undelivered and not self._closing and not self.reading_paused:
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                room = memoryview(self.protocol.get_buffer(-1))
                count = min(len(room), len(self._undelivered))
                room[:count] = self._undelivered[:count]
                del self._undelivered[:count]
                self.protocol.buffer_updated(count)
            else:
                rest = bytes(self._undelivered)
                self._undelivered.clear()
                self.protocol.data_received(rest)

    def _end(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._net.transports.discard_one(self)
            if self.protocol is not None and self.process.alive:
                self._net.loop.call_soon(self.protocol.connection_lost, error, context=self.process.context)


class Transports:
    """Every open end, in the order of creation."""

    def __init__(self) -> None:
        self._open: dict[Transport, None] = {}

    def add(self, transport: Transport) -> None:
        self._open[transport] = None

    def discard_one(self, transport: Transport) -> None:
        self._open.pop(transport, None)

    def of(self, process: Process) -> list[Transport]:
        return [transport for transport in self._open if transport.process is process]

    def across(self, link: Link) -> list[Transport]:
        """Return the ends at the first host of connections to the second."""
        return [t for t in self._open if t.out is not None and t.out.link == link]
