"""Connections between processes of one machine, without pacing.

Nothing is congested on the way there. But where the system's congestion control paces what is sent, as BBR does
wherever it is the default, each piece waits for a timer, and half as much gets through. Every Linux has Reno, lets
everybody choose it, and it does not pace. A connection that has begun with BBR keeps its timers, so this is best said
before it begins: that can be told only of loopback addresses. All else that ends where it begins is told late.
Connections to other machines are the system's.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import TypeVar

_UNPACED = b"reno"
_INTERNET = (socket.AF_INET, socket.AF_INET6)
P = TypeVar("P", bound=asyncio.BaseProtocol)


@contextmanager
def borrowed(family: int, descriptor: int) -> Iterator[socket.socket]:
    """Lend a transport's socket for a moment: an object that forgot to let go would close what is not its own."""
    lent = socket.socket(family, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield lent
    finally:
        lent.detach()


async def connect(protocol: Callable[[], P], host: str, port: int) -> P:
    """Connect, and return the connection's protocol.

    Raises:
        OSError: there is no connection.
    """
    loop = asyncio.get_running_loop()
    if not _is_loopback(host):
        return (await loop.create_connection(protocol, host, port))[1]
    # Without the protocol's number event loops leave Nagle's algorithm on.
    own = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        own.setblocking(False)
        _stop(own)
        await loop.sock_connect(own, (host, port))
        return (await loop.create_connection(protocol, sock=own))[1]
    except BaseException:
        own.close()
        raise


def stop_at(server: asyncio.Server) -> None:
    """Have no connection paced that a server accepts, if it listens on loopback addresses."""
    for listening in server.sockets:
        if listening.family in _INTERNET and _is_loopback(listening.getsockname()[0]):
            with borrowed(listening.family, listening.fileno()) as lent:
                _stop(lent)


def stop_of(transport: asyncio.Transport) -> None:
    """Pace a connection no longer, if it ends on this machine."""
    below = transport.get_extra_info("socket")
    own, peer = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    if below is None or below.family not in _INTERNET or below.fileno() < 0:
        return
    if own and peer and own[0] == peer[0]:
        with borrowed(below.family, below.fileno()) as lent:
            _stop(lent)


def _stop(plain: socket.socket) -> None:
    if hasattr(socket, "TCP_CONGESTION"):
        with suppress(OSError):  # It is faster so, and works without.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # A name; what it stands for is known once there is a connection.
