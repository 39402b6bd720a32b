"""Connections that end on the machine they begin on are not paced, whatever the system's congestion control does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from raftlog.transport import pacing

HOST = "127.0.0.1"
UNPACED = b"reno"


class End(asyncio.Protocol):
    """One end of a connection."""

    def __init__(self) -> None:
        self.made: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made.set_result(cast("asyncio.Transport", transport))


class Told:
    """A transport that says of its connection what it is told to say."""

    def __init__(self, below: socket.socket | None, own: object, peer: object) -> None:
        self._known = {"socket": below, "sockname": own, "peername": peer}

    def get_extra_info(self, name: str) -> Any:
        return self._known[name]


def congestion_control(connection: Any) -> bytes:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def other_than_unpaced() -> bytes:
    """Return a congestion control that a connection of ours would not have by itself."""
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_bytes().split()
    return next((name for name in allowed if name != UNPACED), UNPACED)


def loopback_addresses() -> list[str]:
    """Return those that this machine has: not every one speaks IPv6."""
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return [HOST]
    return [HOST, "::1"]


@asynccontextmanager
async def listening(host: str = HOST) -> AsyncIterator[tuple[asyncio.Server, asyncio.Queue[End]]]:
    accepted: asyncio.Queue[End] = asyncio.Queue()

    def accept() -> End:
        accepted.put_nowait(end := End())
        return end

    server = await asyncio.get_running_loop().create_server(accept, host, 0)
    for each in server.sockets:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, other_than_unpaced())
    async with server:
        yield server, accepted


@pytest.mark.parametrize("host", loopback_addresses())
async def test_neither_end_of_a_loopback_connection_is_paced_from_the_first_byte_on(host: str):
    async with listening(host) as (server, accepted):
        pacing.disable_for_server(server)

        client = await pacing.connect(End, host, server.sockets[0].getsockname()[1])

        begun = (await client.made).get_extra_info("socket")
        assert congestion_control(begun) == UNPACED
        assert begun.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        server_side = await (await accepted.get()).made
        taken = server_side.get_extra_info("socket")
        assert congestion_control(taken) == UNPACED
        assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        (await client.made).abort()
        server_side.abort()


async def test_a_listener_for_every_address_leaves_the_system_s_choice_to_others():
    async with listening("0.0.0.0") as (server, _):
        before = congestion_control(server.sockets[0])
        pacing.disable_for_server(server)
        assert congestion_control(server.sockets[0]) == before


async def test_a_name_is_resolved_and_nobody_there_is_an_error():
    async with listening() as (server, _):
        port = server.sockets[0].getsockname()[1]
        client = await pacing.connect(End, "localhost", port)
        assert (await client.made).get_extra_info("peername")[:2] == (HOST, port)
        (await client.made).abort()
    with pytest.raises(ConnectionRefusedError):
        await pacing.connect(End, HOST, port)


def test_only_connections_that_end_where_they_begin_are_told_late():
    unix, its_peer = socket.socketpair()
    with socket.socket() as one, unix, its_peer:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, system := other_than_unpaced())
        for elsewhere in (
            Told(one, ("192.0.2.1", 1), ("192.0.2.2", 1)),
            Told(one, ("192.0.2.1", 1), None),
            Told(unix, "", ""),
            Told(None, ("192.0.2.1", 1), ("192.0.2.1", 2)),
        ):
            pacing.disable_for(cast("asyncio.Transport", elsewhere))
            assert congestion_control(one) == system

        same_host = Told(one, ("192.0.2.1", 1), ("192.0.2.1", 2))
        pacing.disable_for(cast("asyncio.Transport", same_host))

        assert congestion_control(one) == UNPACED
        assert one.fileno() >= 0  # Lent, and given back.
    pacing.disable_for(cast("asyncio.Transport", same_host))  # It is closed by now, as a peer's may be: no error.
