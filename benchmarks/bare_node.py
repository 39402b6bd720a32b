"""One process of the suite `bare`: a client, a leader or a follower that does nothing but move records.

`python -m benchmarks.bare_node client|leader|follower sockets|asyncio|http|tls [synced]`. A leader prints its port,
which the others read from their stdin. A client then reads a count from each line, and prints the latencies of that
many records in ms. The processes end once the client's stdin ends.

`python -m benchmarks.bare_node leader|follower http PORT [synced]` serves any number of clients until it is killed, as
a peer of `benchmarks.peers`.
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
from collections import deque
from collections.abc import Callable

import orjson

from benchmarks.bare_messages import FETCH, FETCHED, PRODUCE, PRODUCED, Blank, Http, Messages

HELLO = {"client": b"c", "follower": b"f"}
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
        for batch in self.messages.replicated(fetched):
            self.append(batch)
        send(self.messages.fetch())


class _Follower:
    """A follower's connection, as its leader sees it."""

    def __init__(self, messages: Messages, send: Handle) -> None:
        self._messages, self._send = messages, send
        self._unsent: list[memoryview] = []
        self._parked = True  # It sends no fetch before its first record.
        self._sent = self.acknowledged = 0
        """In batches."""

    def append(self, batch: memoryview) -> None:
        self._unsent.append(batch)
        self._send_unsent()

    def fetched(self, fetch: Data) -> None:
        self._messages.acknowledged(fetch)
        self.acknowledged, self._parked = self._sent, True
        self._send_unsent()

    def _send_unsent(self) -> None:
        if self._parked and self._unsent:
            taken = self._unsent[: self._messages.batches_in_one]
            del self._unsent[: len(taken)]
            self._sent += len(taken)
            self._parked = False
            self._send(self._messages.fetched(taken))


class _Leader(_Replica):
    """Its followers fetch each record as soon as it is there; the client is answered once both have the record."""

    def __init__(self, messages: Messages, *, synced: bool) -> None:
        super().__init__(messages, synced=synced)
        self._followers: list[_Follower] = []
        self._waiting: deque[Handle] = deque()
        """Clients, by record."""
        self._answered = 0

    def add_follower(self, send: Handle) -> Handle:
        """Return what takes its fetches."""
        follower = _Follower(self.messages, send)
        self._followers.append(follower)
        return lambda fetch: self._fetched(follower, fetch)

    def produced(self, produce: Data, client: Handle) -> None:
        self._waiting.append(client)
        batch = self.messages.batch(produce)
        for follower in self._followers:  # Before the write: replicas write at the same time.
            follower.append(batch)
        self.append(batch)

    def _fetched(self, follower: _Follower, fetch: Data) -> None:
        follower.fetched(fetch)
        acknowledged = min(one.acknowledged for one in self._followers)
        while self._answered < acknowledged:
            self._answered += 1
            self._waiting.popleft()(self.messages.produced())


def _connect(port: int, role: str) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(HELLO[role])
    return sock


def _accept(listening: socket.socket) -> tuple[list[socket.socket], socket.socket]:
    """Return the followers' connections and the client's."""
    followers, client = list[socket.socket](), None
    while client is None or len(followers) < _FOLLOWERS:
        peer, _ = listening.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if peer.recv(1) == HELLO["client"]:
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
    fetched = {peer.fileno(): (peer, leader.add_follower(peer.sendall)) for peer in followers}
    for fd in (*fetched, client.fileno()):
        poll.register(fd, select.EPOLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd in fetched:
                peer, handle = fetched[fd]
                handle(_receive(peer, FETCH, leader.messages))
            else:
                leader.produced(_receive(client, PRODUCE, leader.messages), client.sendall)


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
        while length := self._messages.length(self._kind, data):
            message, data = data[:length], data[length:]
            self._handle(message)
        self._received = data

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
    for peer in followers:
        await _add_follower(connector, leader, peer)
    await (await _add_client(connector, leader, client))


async def _add_follower(connector: _Connector, leader: _Leader, sock: socket.socket) -> None:
    fetched = list[Handle]()
    receive = lambda data: fetched[0](data)  # noqa: E731, PLW0108  (it exists once the transport does)
    transport, _ = await connector.connection(sock, FETCH, leader.messages, receive)
    fetched.append(leader.add_follower(transport.write))


async def _add_client(connector: _Connector, leader: _Leader, sock: socket.socket) -> asyncio.Future[None]:
    writes = list[Handle]()
    receive = lambda data: leader.produced(data, writes[0])  # noqa: E731
    transport, lost = await connector.connection(sock, PRODUCE, leader.messages, receive)
    writes.append(transport.write)
    return lost


async def _serve(connector: _Connector, leader: _Leader, port: int) -> None:
    """Serve followers and clients until this process is killed."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", port)) as listening:
        listening.setblocking(False)
        while True:
            peer, _ = await loop.sock_accept(listening)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            hello = await loop.sock_recv(peer, 1)
            if hello == HELLO["client"]:
                await _add_client(connector, leader, peer)
            elif hello == HELLO["follower"]:
                await _add_follower(connector, leader, peer)
            else:
                peer.close()  # A look whether this port listens.


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


def main(role: str, form: str, port: int | None, *, synced: bool) -> None:
    """Run one process until the client's stdin ends, or, with a port, until it is killed."""
    is_async, messages = form != "sockets", Http() if form in ("http", "tls") else Blank()
    connector = _Connector(tls=form == "tls", is_leader=role == "leader")
    if role == "leader" and port is not None:
        asyncio.run(_serve(connector, _Leader(messages, synced=synced), port))
        return
    if role == "leader":
        with socket.create_server(("127.0.0.1", 0)) as listening:
            _print(listening.getsockname()[1])
            followers, client = _accept(listening)
        leader = _Leader(messages, synced=synced)
        asyncio.run(_lead_async(connector, leader, followers, client)) if is_async else _lead(leader, followers, client)
        return
    sock = _connect(port or int(sys.stdin.readline()), role)
    if role == "client":
        asyncio.run(_send_async(connector, messages, sock)) if is_async else _send(messages, sock)
    else:
        replica = _Replica(messages, synced=synced)
        asyncio.run(_follow_async(connector, replica, sock)) if is_async else _follow(replica, sock)


if __name__ == "__main__":
    ports = [int(argument) for argument in sys.argv[3:] if argument.isdecimal()]
    main(sys.argv[1], sys.argv[2], ports[0] if ports else None, synced="synced" in sys.argv[3:])
