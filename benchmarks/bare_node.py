"""One process of the suite `bare`: a client, a leader or a follower that does nothing but move one record.

`python -m benchmarks.bare_node client|leader|follower sockets|asyncio|http|tls [synced]`. A leader prints its port,
which the others read from their stdin. A client then reads a count from each line, and prints the latencies of that
many records in ms. The processes end once the client's stdin ends.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Callable

import orjson

from benchmarks.bare_messages import FETCH, FETCHED, PRODUCE, PRODUCED, Blank, Http, Messages

_HELLO = {"client": b"c", "follower": b"f"}
_FOLLOWERS = 2
_READ_BYTES = 64 << 10
CERTIFICATE, AUTHORITY = "node.pem", "ca.pem"
"""Files in the working directory, for the form `tls`."""
HOST = "localhost"
Data = bytes | bytearray
Handle = Callable[[Data], object]


class _Replica:
    """A replica's file, and what it does with messages."""

    def __init__(self, messages: Messages, *, synced: bool) -> None:
        self.messages = messages
        self._file = tempfile.TemporaryFile(dir=".")  # noqa: SIM115  (it lives as long as the process)
        self._synced = synced
        self._end = 0

    def append(self, batch: memoryview) -> None:
        self._end += os.pwrite(self._file.fileno(), batch, self._end)
        if self._synced:
            os.fdatasync(self._file.fileno())

    def follow(self, fetched: Data, send: Handle) -> None:
        self.append(self.messages.replicated(fetched))
        send(self.messages.fetch())


class _Leader(_Replica):
    """`followers` write to their sockets."""

    def __init__(self, messages: Messages, *, synced: bool) -> None:
        super().__init__(messages, synced=synced)
        self.followers: list[Handle] = []
        self._client: Handle | None = None
        self._acknowledged = 0

    def produced(self, produce: Data, client: Handle) -> None:
        self._client, self._acknowledged = client, 0
        batch = self.messages.batch(produce)
        for send in self.followers:  # Before the write: replicas write at the same time.
            send(self.messages.fetched(batch))
        self.append(batch)

    def fetched(self, fetch: Data) -> None:
        self.messages.acknowledged(fetch)
        self._acknowledged += 1
        if self._acknowledged == _FOLLOWERS and self._client is not None:
            self._client(self.messages.produced())


def _connect(port: int, role: str) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(_HELLO[role])
    return sock


def _accept(listening: socket.socket) -> tuple[list[socket.socket], socket.socket]:
    """Return the followers' connections and the client's."""
    followers, client = list[socket.socket](), None
    while client is None or len(followers) < _FOLLOWERS:
        peer, _ = listening.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if peer.recv(1) == _HELLO["client"]:
            client = peer
        else:
            followers.append(peer)
    return followers, client


# Blocking sockets: what the interpreter and the kernel need.


def _receive(sock: socket.socket, kind: int, messages: Messages) -> bytes:
    data = sock.recv(_READ_BYTES)
    while not messages.length(kind, data):
        more = sock.recv(_READ_BYTES)
        if not more:
            sys.exit()
        data += more
    return data


def _lead(leader: _Leader, followers: list[socket.socket], client: socket.socket) -> None:
    poll = select.epoll()
    leader.followers = [peer.sendall for peer in followers]
    by_fd = {peer.fileno(): peer for peer in (*followers, client)}
    for fd in by_fd:
        poll.register(fd, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            if by_fd[fd] is client:
                leader.produced(_receive(client, PRODUCE, leader.messages), client.sendall)
            else:
                leader.fetched(_receive(by_fd[fd], FETCH, leader.messages))


def _follow(replica: _Replica, sock: socket.socket) -> None:
    while True:
        replica.follow(_receive(sock, FETCHED, replica.messages), sock.sendall)


def _send(messages: Messages, sock: socket.socket) -> None:
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            began = time.perf_counter()
            sock.sendall(messages.produce())
            messages.offset(_receive(sock, PRODUCED, messages))
            times.append((time.perf_counter() - began) * 1_000)
        _print(times)


# asyncio: the event loop that an application uses.


class _Connection(asyncio.Protocol):
    """Cuts what arrives into messages."""

    def __init__(self, kind: int, messages: Messages, handle: Handle) -> None:
        self._kind, self._messages, self._handle = kind, messages, handle
        self._received = b""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        if self._received:
            data = self._received + data
        length = self._messages.length(self._kind, data)
        self._received = data[length:]
        if length:
            self._handle(data[:length])

    def connection_lost(self, _: Exception | None) -> None:
        self.lost.set_result(None)


class _Connector:
    """Makes transports of connected sockets: with TLS if there is a certificate, which the leader shows."""

    def __init__(self, *, tls: bool, is_leader: bool) -> None:
        self._is_leader = is_leader
        self._tls: ssl.SSLContext | None = None
        if tls and is_leader:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(CERTIFICATE)
        elif tls:
            self._tls = ssl.create_default_context(cafile=AUTHORITY)

    async def connection(
        self, sock: socket.socket, kind: int, messages: Messages, handle: Handle
    ) -> tuple[asyncio.Transport, asyncio.Future[None]]:
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        protocol = _Connection(kind, messages, handle)
        if self._is_leader:
            transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=self._tls)
        else:
            name = None if self._tls is None else HOST
            transport, _ = await loop.create_connection(
                lambda: protocol, sock=sock, ssl=self._tls, server_hostname=name
            )
        return transport, protocol.lost


async def _lead_async(
    connector: _Connector, leader: _Leader, followers: list[socket.socket], client: socket.socket
) -> None:
    writes = list[Handle]()
    for peer in followers:
        transport, _ = await connector.connection(peer, FETCH, leader.messages, leader.fetched)
        leader.followers.append(transport.write)
    receive = lambda data: leader.produced(data, writes[0])  # noqa: E731
    transport, lost = await connector.connection(client, PRODUCE, leader.messages, receive)
    writes.append(transport.write)
    await lost


async def _follow_async(connector: _Connector, replica: _Replica, sock: socket.socket) -> None:
    writes = list[Handle]()
    receive = lambda data: replica.follow(data, writes[0])  # noqa: E731
    transport, lost = await connector.connection(sock, FETCHED, replica.messages, receive)
    writes.append(transport.write)
    await lost


async def _send_async(connector: _Connector, messages: Messages, sock: socket.socket) -> None:
    waiting: list[asyncio.Future[int]] = []
    receive = lambda data: waiting.pop().set_result(messages.offset(data))  # noqa: E731
    transport, _ = await connector.connection(sock, PRODUCED, messages, receive)
    loop = asyncio.get_running_loop()
    while line := await asyncio.to_thread(sys.stdin.readline):
        times = []
        for _ in range(int(line)):
            began, answered = time.perf_counter(), loop.create_future()
            waiting.append(answered)
            transport.write(messages.produce())
            await answered
            times.append((time.perf_counter() - began) * 1_000)
        _print(times)
    transport.close()


def _print(value: object) -> None:
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
    sys.stdout.flush()


def main(role: str, form: str, *, synced: bool) -> None:
    """Run one process until the client's stdin ends."""
    is_async, messages = form != "sockets", Http() if form in ("http", "tls") else Blank()
    connector = _Connector(tls=form == "tls", is_leader=role == "leader")
    if role == "leader":
        with socket.create_server(("127.0.0.1", 0)) as listening:
            _print(listening.getsockname()[1])
            followers, client = _accept(listening)
        leader = _Leader(messages, synced=synced)
        asyncio.run(_lead_async(connector, leader, followers, client)) if is_async else _lead(leader, followers, client)
        return
    sock = _connect(int(sys.stdin.readline()), role)
    if role == "client":
        asyncio.run(_send_async(connector, messages, sock)) if is_async else _send(messages, sock)
    else:
        replica = _Replica(messages, synced=synced)
        asyncio.run(_follow_async(connector, replica, sock)) if is_async else _follow(replica, sock)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], synced="synced" in sys.argv[3:])
