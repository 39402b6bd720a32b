"""The client of the suite `bare`: the least that a client in Python can do for one record."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import ClassVar

from benchmarks.bare_messages import PRODUCED, Http
from benchmarks.bare_node import HELLO
from benchmarks.drivers.shape import Driver, main


class Bare(Driver):
    name = "benchmarks.bare_node"
    settings: ClassVar[dict[str, object]] = {"requests": "HTTP over one connection, a batch of one record in each"}

    async def open(self) -> None:
        self._messages = Http()
        self._waiting: deque[asyncio.Future[int]] = deque()
        host, port = self.job.bootstrap.split(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        self._writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._writer.write(HELLO["client"])
        self._reading = asyncio.create_task(self._read())

    async def create(self) -> None:
        """There is one log."""

    async def drop(self) -> None:
        """It stays."""

    async def produce(self, chunks: Iterator[Sequence[bytes]]) -> int:
        raise NotImplementedError

    async def send_one(self, value: bytes) -> None:  # noqa: ARG002  (its messages have one of the same length)
        acknowledged = asyncio.get_running_loop().create_future()
        self._waiting.append(acknowledged)
        self._writer.write(self._messages.produce())
        await acknowledged

    def receive(self) -> AsyncGenerator[int, None]:
        raise NotImplementedError

    async def close(self) -> None:
        self._reading.cancel()
        self._writer.close()

    async def _read(self) -> None:
        data = b""
        while received := await self._reader.read(64 << 10):
            data += received
            while length := self._messages.length(PRODUCED, data):
                self._waiting.popleft().set_result(self._messages.offset(data[:length]))
                data = data[length:]


if __name__ == "__main__":
    main(Bare)
