"""What one hop of a megabyte costs of the CPU, in clear and with TLS: sender and receiver together, over loopback.

- `clear`: blocking sockets.
- `memory`: OpenSSL in memory, without any socket: encrypted, and decrypted again. It is the least that TLS adds.
- `decrypt`: the second half of `memory`, which the receiver does.
- `fd`: OpenSSL on the sockets, with a system call for each TLS record of 16 KiB.
- `asyncio`: transports of asyncio's loop with TLS, which nodes use (docs/adr/0039).

Nothing is parsed, checked, copied or written: a log in Python that encrypts cannot take less.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import cast

import trustme

FORMS = ("clear", "memory", "decrypt", "fd", "asyncio")
_PIECE = bytes(128 << 10)
"""As large as those of nodes (`transport/socket_writer.py`)."""
_HOST = "localhost"


class Hops:
    """Moves megabytes over one connection of each form."""

    def __init__(self) -> None:
        authority = trustme.CA()
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(_HOST).configure_cert(self._server)
        self._client = ssl.create_default_context()
        authority.configure_trust(self._client)

    def cpu_ms_per_mb(self, form: str, megabytes: int) -> float:
        """Return the CPU time of this process for each megabyte (2^20 bytes)."""
        pieces = megabytes * (1 << 20) // len(_PIECE)
        run: Callable[[int], float] = {
            "clear": lambda count: self._over_sockets(count, tls=False),
            "memory": self._in_memory,
            "decrypt": lambda count: self._in_memory(count, decrypted_only=True),
            "fd": lambda count: self._over_sockets(count, tls=True),
            "asyncio": lambda count: asyncio.run(self._over_asyncio(count)),
        }[form]
        return run(pieces) * 1_000 / megabytes

    def _in_memory(self, pieces: int, *, decrypted_only: bool = False) -> float:
        there, back, buffer = ssl.MemoryBIO(), ssl.MemoryBIO(), bytearray(len(_PIECE))
        sender = self._client.wrap_bio(back, there, server_hostname=_HOST)
        receiver = self._server.wrap_bio(there, back, server_side=True)
        for end in (sender, receiver, sender, receiver):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
        spent = 0.0
        for _ in range(pieces):
            began = time.process_time()
            sender.write(_PIECE)
            if decrypted_only:
                began = time.process_time()
            left = len(_PIECE)
            while left:
                left -= cast("int", receiver.read(left, buffer))  # With a buffer it returns a count.
            spent += time.process_time() - began
        return spent

    def _over_sockets(self, pieces: int, *, tls: bool) -> float:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            sender: socket.socket = socket.create_connection(listening.getsockname())
            receiver: socket.socket = listening.accept()[0]
        with sender, receiver:
            if tls:
                wrapped = list[socket.socket]()
                accepting = threading.Thread(
                    target=lambda: wrapped.append(self._server.wrap_socket(receiver, server_side=True))
                )
                accepting.start()
                sender = self._client.wrap_socket(sender, server_hostname=_HOST)
                accepting.join()
                (receiver,) = wrapped
            with sender, receiver:
                reading = threading.Thread(target=_receive, args=(receiver, pieces * len(_PIECE)))
                began = time.process_time()
                reading.start()
                for _ in range(pieces):
                    sender.sendall(_PIECE)
                reading.join()
                return time.process_time() - began

    async def _over_asyncio(self, pieces: int) -> float:
        loop, received = asyncio.get_running_loop(), _Receiver(pieces * len(_PIECE))
        server = await loop.create_server(lambda: received, "127.0.0.1", 0, ssl=self._server)
        async with server:
            port = server.sockets[0].getsockname()[1]
            transport, sender = await loop.create_connection(
                _Sender, "127.0.0.1", port, ssl=self._client, server_hostname=_HOST
            )
            transport.set_write_buffer_limits(high=len(_PIECE))
            began = time.process_time()
            for _ in range(pieces):
                await sender.room.wait()
                transport.write(_PIECE)
            await received.done.wait()
            spent = time.process_time() - began
            transport.abort()
        return spent


def _receive(receiver: socket.socket, left: int) -> None:
    buffer = bytearray(2 * len(_PIECE))
    while left:
        left -= receiver.recv_into(buffer)


class _Sender(asyncio.Protocol):
    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.room.set()

    def pause_writing(self) -> None:
        self.room.clear()

    def resume_writing(self) -> None:
        self.room.set()


class _Receiver(asyncio.BufferedProtocol):
    def __init__(self, left: int) -> None:
        self._left = left
        self._buffer = memoryview(bytearray(2 * len(_PIECE)))  # asyncio slices it: slices of a bytearray are copies.
        self.done = asyncio.Event()

    def get_buffer(self, _: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        self._left -= count
        if self._left <= 0:
            self.done.set()
