"""Accepts connections with TLS, or with and without on one port: the first byte tells them apart.

A connection counts, and has a deadline, from when it is accepted, so a client that never completes the handshake costs
little. Handshakes have a limit of their own.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError
from raftlog.model import Address
from raftlog.runtime import Tasks
from raftlog.serving.connection_rates import ConnectionRates
from raftlog.serving.connections import LOG_INTERVAL_S, ConnectionLimits, refusal_bytes
from raftlog.serving.handshakes import Handshakes
from raftlog.tls import HANDSHAKE, TlsContext, explain
from raftlog.wire.kafka.framing import is_kafka

_log = logging.getLogger(__name__)
HANDSHAKE_S = 10.0
"""How long a client may take until its handshake is complete."""
MAX_HANDSHAKES = 1_024
"""Handshakes at once; each needs some 50 KB of memory and 2 ms of CPU. Fewer if the process may open few files."""
_FILES_PER_HANDSHAKE = 24
"""Three listeners take an eighth of the files: those that `affordable_connections` leaves for it."""
_AT_ONCE = 4
"""Connections accepted in one iteration of the loop."""
_BACKLOG = 1_024
_LINGER_S = 2.0
"""How long the rest of a refused plain request is read."""
_REFUSED_S = 1.0
"""How long the end of a connection may take that its protocol has refused: TLS would wait 30 s for the peer's part."""
_PAUSE_S = 1.0
"""How long no connection is accepted after the system refused to give one, for want of descriptors or memory."""


@dataclass(frozen=True, slots=True)
class ListenerTls:
    """A listener's TLS."""

    context: TlsContext
    is_required: bool
    """False: connections without TLS are served, too."""


class TlsServer:
    """A listening port.

    Args:
        make: returns the protocol of a connection whose handshake is complete.
        rates: limits how often handshakes begin; None: no limit.
    """

    def __init__(
        self,
        make: Callable[[], asyncio.BaseProtocol],
        tls: ListenerTls,
        *,
        name: str = "TLS",
        rates: ConnectionRates | None = None,
    ) -> None:
        self._rates = rates
        self._make = make
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks(f"{name} handshakes")
        most = _affordable()
        self._handshakes = ConnectionLimits(f"{name} (handshakes)", total=most, per_address=most // 2)
        self._in_turn = Handshakes()
        self._failed = 0
        self._logged_at = float("-inf")
        self.sockets: list[socket.socket] = []

    async def start(self, address: Address) -> None:
        """Listen.

        Raises:
            OSError: the port cannot be bound.
        """
        found = await self._loop.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        try:
            for family, _, _, _, place in dict.fromkeys(found):
                listening = socket.create_server((str(place[0]), int(place[1])), family=family, backlog=_BACKLOG)
                listening.setblocking(False)
                self.sockets.append(listening)
        except OSError:
            self.close()
            raise
        for listening in self.sockets:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def close(self) -> None:
        """Stop accepting, and end the handshakes under way."""
        for listening in self.sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        self.sockets.clear()
        self._tasks.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                accepted, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._tell(f"no connection can be accepted: {error.strerror}")
                self._loop.remove_reader(listening.fileno())
                self._loop.call_later(_PAUSE_S, self._accept_again, listening)
                return
            accepted.setblocking(False)
            with suppress(OSError):  # The peer may have gone. asyncio does this for sockets that it accepts itself.
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._begin(accepted, str(peer[0]))

    def _accept_again(self, listening: socket.socket) -> None:
        if listening in self.sockets:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _begin(self, accepted: socket.socket, host: str) -> None:
        try:
            delay_s = 0.0 if self._rates is None else self._rates.enter(host)
            self._handshakes.enter(host)
        except OverloadedError:
            accepted.close()
            return
        handshake = self._tasks.spawn(self._greet(accepted, host, delay_s), name=f"handshake with {host}")
        handshake.add_done_callback(lambda _: self._handshakes.leave(host))

    async def _greet(self, accepted: socket.socket, host: str, delay_s: float) -> None:
        """Complete the handshake, and pass the connection to its protocol."""
        served, is_passed, is_ours = None, False, True
        try:
            if delay_s:
                await asyncio.sleep(delay_s)
            async with asyncio.timeout(HANDSHAKE_S):
                first = await self._first_byte(accepted)
                if first == HANDSHAKE or not self._tls.is_required:
                    is_ours = False
                    served = await self._serve(accepted, first)
                    is_passed = True
                elif first is not None and is_kafka(first):
                    self._tell(f"{host} speaks Kafka's protocol without TLS, and this port speaks TLS only")
                elif first is not None:
                    await self._refuse_plain(accepted)
        except TimeoutError:
            self._tell(f"{host} did not complete the handshake within {HANDSHAKE_S:g} s")
        except (OSError, ssl.SSLError) as error:
            self._tell(f"{host}: {explain(error) or error}")
        finally:
            if is_ours:
                accepted.close()
            elif not is_passed:
                # The transport closes the descriptor, later: until then no other connection may get the same one.
                with suppress(OSError):
                    accepted.shutdown(socket.SHUT_RDWR)
        if served is not None and served.is_closing():
            await _end(served)

    async def _serve(self, accepted: socket.socket, first: int | None) -> asyncio.Transport | None:
        """Pass a connection to its protocol, with TLS if it begins so; return its transport. None: it is lost."""
        if first == HANDSHAKE:
            return await self._in_turn.complete(self._make, accepted, self._tls.context.current, HANDSHAKE_S)
        transport, _ = await self._loop.connect_accepted_socket(self._make, accepted)
        return transport

    async def _refuse_plain(self, accepted: socket.socket) -> None:
        """Answer a plain request, and read its rest: a connection closed with unread bytes is reset."""
        plain = InvalidRequestError("this port speaks TLS only: use https://", code=ErrorCode.TLS_REQUIRED)
        await self._loop.sock_sendall(accepted, refusal_bytes(plain, status=426))
        accepted.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(_LINGER_S):
            while await self._loop.sock_recv(accepted, 65_536):
                pass

    async def _first_byte(self, accepted: socket.socket) -> int | None:
        """Return the first byte that the peer sends, and leave it in the socket; None: the peer closed."""
        readable: asyncio.Future[None] = self._loop.create_future()
        descriptor = accepted.fileno()
        self._loop.add_reader(descriptor, _set, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(descriptor)
        first = accepted.recv(1, socket.MSG_PEEK)
        return first[0] if first else None

    def _tell(self, what: str) -> None:
        """Log failed handshakes, once in `LOG_INTERVAL_S`: any client can cause them."""
        self._failed += 1
        now = self._loop.time()
        if now - self._logged_at >= LOG_INTERVAL_S:
            _log.warning("%d TLS connections failed, the last one: %s", self._failed, what)
            self._logged_at, self._failed = now, 0


def _affordable() -> int:
    """Return how many handshakes may be under way: logs need files, too."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = MAX_HANDSHAKES if files == resource.RLIM_INFINITY else files // _FILES_PER_HANDSHAKE
    return max(2, min(MAX_HANDSHAKES, few))


async def _end(refused: asyncio.Transport) -> None:
    """Wait for the end of a connection that its protocol has closed at once; it counts as a handshake until then."""
    try:
        await asyncio.sleep(_REFUSED_S)
    finally:
        refused.abort()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
