"""One server of the least that a log in Python does for batches of megabytes: three files get the same bytes.

`python -m benchmarks.bare_bulk leader|follower PORT [synced]`, a peer of `benchmarks.peers`. A client sends batches.
The leader writes each to its file and sends it from there to two followers, which write it, too. The client is
answered once both have. Nothing is parsed, checked or kept in an index, and no fault is survived: what these processes
cost is the kernel's part of produce, and a lower bound for it.

Each message is a length of four bytes and as many bytes. An answer is the number of bytes in the file, in eight bytes.
Each client has a log of its own: the files are dropped once it leaves, as a topic is at the end of a trial.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import tempfile
import threading
from itertools import count
from typing import IO, Final

LENGTH: Final = struct.Struct("<I")
END: Final = struct.Struct("<Q")
BEGIN_AGAIN: Final = LENGTH.pack(0)
MAX_BATCH_BYTES: Final = 4 << 20
FOLLOWERS: Final = 2
HELLO: Final = {"client": b"c", "follower": b"f"}
_SOCKET_BYTES: Final = 4 << 20


def connect(host: str, port: int, role: str) -> socket.socket:
    """Connect to the leader as a client or a follower."""
    sock = socket.create_connection((host, port))
    _tune(sock)
    sock.sendall(HELLO[role])
    return sock


def _tune(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BYTES)


def receive_into(sock: socket.socket, buffer: memoryview) -> bool:
    """Fill a buffer; return False if the connection ends before."""
    at = 0
    while at < len(buffer):
        received = sock.recv_into(buffer[at:], 0, socket.MSG_WAITALL)
        if not received:
            return False
        at += received
    return True


class _File:
    """A replica's file, and the buffer that each batch passes."""

    def __init__(self, *, synced: bool) -> None:
        self._synced = synced
        self._buffer = memoryview(bytearray(MAX_BATCH_BYTES))
        self._head = memoryview(bytearray(LENGTH.size))
        self.begin()

    def begin(self) -> None:
        """Drop what was written. Readers of the file before keep it until they close it."""
        self.file: IO[bytes] = tempfile.TemporaryFile(dir=".")  # noqa: SIM115  (it lives as long as its log)
        self.end = 0

    def take(self, sock: socket.socket) -> int:
        """Receive a batch and write it; return its length, or -1 at the end of the connection."""
        if not receive_into(sock, self._head):
            return -1
        length: int = LENGTH.unpack(self._head)[0]
        if length and not receive_into(sock, self._buffer[:length]):
            return -1
        left = self._buffer[:length]
        while left:
            written = os.pwrite(self.file.fileno(), left, self.end)
            self.end, left = self.end + written, left[written:]
        return length

    def sync(self) -> None:
        if self._synced:
            os.fdatasync(self.file.fileno())


class _Log:
    """One client's log at the leader: what is written, and what each follower has."""

    def __init__(self, client: socket.socket, *, synced: bool) -> None:
        self._client = client
        self._file = _File(synced=synced)
        self._changed = threading.Condition()
        self._ended = False
        self._held = [0] * (FOLLOWERS + 1)
        """The bytes that each replica has, the leader's last."""
        self._answered = 0
        self._lengths: list[int] = []

    def take_all(self) -> None:
        """Take the client's batches until it leaves."""
        while (length := self._file.take(self._client)) > 0:
            with self._changed:
                self._lengths.append(length)
                self._changed.notify_all()
            self._file.sync()
            self._has(FOLLOWERS, self._file.end)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def replicate(self, number: int, follower: socket.socket) -> None:
        """Send everything to a follower, one batch at a time, until the client leaves."""
        answer = memoryview(bytearray(END.size))
        for at in count():
            with self._changed:
                while len(self._lengths) <= at and not self._ended:
                    self._changed.wait()
                if len(self._lengths) <= at:
                    break
                length, start = self._lengths[at], self._held[number]
            follower.sendall(LENGTH.pack(length), socket.MSG_MORE)
            sent = 0
            while sent < length:
                sent += os.sendfile(follower.fileno(), self._file.file.fileno(), start + sent, length - sent)
            if not receive_into(follower, answer):
                raise ConnectionError("a follower has ended")
            self._has(number, END.unpack(answer)[0])
        follower.sendall(BEGIN_AGAIN)

    def _has(self, number: int, end: int) -> None:
        """Answer the client once every replica has more than its last answer says."""
        with self._changed:
            self._held[number] = end
            held = min(self._held)
            if held > self._answered and not self._ended:
                self._answered = held
                self._client.sendall(END.pack(held))


def lead(port: int, *, synced: bool) -> None:
    """Serve one client after another until this process is killed. A client that is early waits for the followers."""
    followers, clients = list[socket.socket](), list[socket.socket]()
    with socket.create_server(("127.0.0.1", port)) as listening:
        while True:
            peer, _ = listening.accept()
            hello = peer.recv(1)
            _tune(peer)
            if hello == HELLO["follower"]:
                followers.append(peer)
            elif hello == HELLO["client"]:
                clients.append(peer)
            else:
                peer.close()  # A look whether this port listens.
            while clients and len(followers) == FOLLOWERS:
                with clients.pop(0) as client:
                    _serve(_Log(client, synced=synced), followers)


def _serve(log: _Log, followers: list[socket.socket]) -> None:
    threads = [
        threading.Thread(target=log.replicate, args=(number, follower), daemon=True)
        for number, follower in enumerate(followers)
    ]
    for thread in threads:
        thread.start()
    log.take_all()
    for thread in threads:
        thread.join()


def follow(port: int, *, synced: bool) -> None:
    """Write what the leader sends until it ends."""
    file = _File(synced=synced)
    leader = connect("127.0.0.1", port, "follower")
    while (length := file.take(leader)) >= 0:
        if not length:
            file.begin()
            continue
        file.sync()
        leader.sendall(END.pack(file.end))


if __name__ == "__main__":
    run = {"leader": lead, "follower": follow}[sys.argv[1]]
    run(int(sys.argv[2]), synced="synced" in sys.argv[3:])
