"""Disables TCP pacing for connections between processes of one machine.

Such connections have no congestion. But if the system's default congestion control is BBR, it paces what is sent: each
piece waits for a timer, which halves the throughput. Reno does not pace, and every process on Linux may select it. A
connection that begins with BBR keeps its timers, so Reno is best selected before connecting. That is possible only for
loopback addresses; other connections that stay on one machine are switched after connecting. Connections to other
machines keep the system's default.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import Any, Protocol, TypeVar

_UNPACED = b"reno"
_INTERNET = (socket.AF_INET, socket.AF_INET6)
P = TypeVar("P", bound=asyncio.BaseProtocol)


class Listening(Protocol):
    """A server, by its sockets."""

    @property
    def sockets(self) -> Sequence[Any]: ...


@contextmanager
def borrowed(family: int, descriptor: int) -> Iterator[socket.socket]:
    """Yield a socket object for a transport's descriptor, and detach it, so that it does not close the descriptor."""
    borrowed_socket = socket.socket(family, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield borrowed_socket
    finally:
        borrowed_socket.detach()


async def connect(
    protocol: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None = None, server_name: str | None = None
) -> P:
    """Connect, and return the connection's protocol.

    Args:
        tls: None: the connection is plain.
        server_name: the name in the server's certificate.

    Raises:
        OSError: the connection failed.
    """
    loop = asyncio.get_running_loop()
    name = server_name if tls is not None else None
    if not is_loopback(host):
        return (await loop.create_connection(protocol, host, port, ssl=tls, server_hostname=name))[1]
    # Event loops disable Nagle's algorithm only if the socket has the protocol number of TCP.
    own_socket = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )
    owned = False

    def made() -> P:
        nonlocal owned
        owned = True
        return protocol()

    try:
        own_socket.setblocking(False)
        _disable(own_socket)
        await loop.sock_connect(own_socket, (host, port))
        return (await loop.create_connection(made, sock=own_socket, ssl=tls, server_hostname=name))[1]
    except BaseException:
        if owned:
            # The transport may end later, as with TLS after a cancellation. It closes the descriptor: closed here, the
            # next connection would get the same one while the loop still has this transport under it.
            with suppress(OSError):
                own_socket.shutdown(socket.SHUT_RDWR)
        else:
            own_socket.close()
        raise


def disable_for_server(server: Listening) -> None:
    """Disable pacing for the connections of a server, if it listens on a loopback address."""
    for listening in server.sockets:
        if listening.family in _INTERNET and is_loopback(listening.getsockname()[0]):
            with borrowed(listening.family, listening.fileno()) as borrowed_socket:
                _disable(borrowed_socket)


def disable_for(transport: asyncio.Transport) -> None:
    """Disable pacing for a connection, if its peer is on this machine."""
    transport_socket = transport.get_extra_info("socket")
    own, peer = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    if transport_socket is None or transport_socket.family not in _INTERNET or transport_socket.fileno() < 0:
        return
    if own and peer and own[0] == peer[0]:
        with borrowed(transport_socket.family, transport_socket.fileno()) as borrowed_socket:
            _disable(borrowed_socket)


def _disable(plain: socket.socket) -> None:
    if hasattr(socket, "TCP_CONGESTION"):
        with suppress(OSError):  # Only an optimization.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, _UNPACED)


def is_loopback(host: str) -> bool:
    """Return whether a host is an address of this machine's loopback."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False  # A host name; its address is known only after connecting.
