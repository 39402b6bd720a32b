"""The least that a client in Python can do: for one record, with the suite `bare`; for batches, with `bare_bulk`."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import ClassVar

from benchmarks.bare_bulk import END, LENGTH, MAX_BATCH_BYTES, connect, receive_into
from benchmarks.bare_messages import PRODUCED, Http
from benchmarks.bare_node import HELLO
from benchmarks.drivers.shape import Driver, main

_IN_FLIGHT = 3
"""As many batches as raftlog's client sends to one partition before it waits."""


class Bare(Driver):
    name = "benchmarks.bare_node"
    settings: ClassVar[dict[str, object]] = {
        "single records": "HTTP over one connection, a batch of one record in each",
        "batches": f"values joined to {MAX_BATCH_BYTES} bytes, {_IN_FLIGHT} batches in flight",
    }

    async def open(self) -> None:
        if self.job.work == "latency":
            await self._open_http()

    async def _open_http(self) -> None:
        self._messages = Http()
        self._waiting: deque[asyncio.Future[int]] = deque()
        self._reader, self._writer = await asyncio.open_connection(*self._address("single"))
        self._writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._writer.write(HELLO["client"])
        self._reading = asyncio.create_task(self._read())

    def _address(self, kind: str) -> tuple[str, int]:
        """Return where the leader for single records, or for batches, listens."""
        return self.job.bootstrap, int(self.job.options["ports"][kind])

    async def create(self) -> None:
        """Each connection is a log."""

    async def drop(self) -> None:
        """It is dropped once its connection has ended."""

    async def produce(self, chunks: Iterator[Sequence[bytes]]) -> int:
        """Send the values without anything between them; return how many were acknowledged."""
        records, sent, answer = 0, 0, memoryview(bytearray(END.size))
        with connect(*self._address("batches"), "client") as sock:
            in_flight = deque[int]()
            for values in _joined(chunks, MAX_BATCH_BYTES // self.job.record_bytes):
                batch = b"".join(values)
                sock.sendall(LENGTH.pack(len(batch)), socket.MSG_MORE)
                sock.sendall(batch)
                records, sent = records + len(values), sent + len(batch)
                in_flight.append(sent)
                if len(in_flight) >= _IN_FLIGHT:
                    _await_answer(sock, in_flight, answer)
            while in_flight:
                _await_answer(sock, in_flight, answer)
        return records

    async def send_one(self, value: bytes) -> None:  # noqa: ARG002  (its messages have one of the same length)
        acknowledged = asyncio.get_running_loop().create_future()
        self._waiting.append(acknowledged)
        self._writer.write(self._messages.produce())
        await acknowledged

    def receive(self) -> AsyncGenerator[int, None]:
        raise NotImplementedError

    async def close(self) -> None:
        if self.job.work == "latency":
            self._reading.cancel()
            self._writer.close()

    async def _read(self) -> None:
        data = b""
        while received := await self._reader.read(64 << 10):
            data += received
            while length := self._messages.length(PRODUCED, data):
                self._waiting.popleft().set_result(self._messages.offset(data[:length]))
                data = data[length:]


def _joined(chunks: Iterator[Sequence[bytes]], count: int) -> Iterator[list[bytes]]:
    """Yield the values of several chunks together, about `count` of them."""
    values = list[bytes]()
    for chunk in chunks:
        if values and len(values) + len(chunk) > count:
            yield values
            values = []
        values += chunk
    if values:
        yield values


def _await_answer(sock: socket.socket, in_flight: deque[int], answer: memoryview) -> None:
    """Wait until the oldest batch is acknowledged; one answer may acknowledge several."""
    if not receive_into(sock, answer):
        raise ConnectionError("the leader has ended")
    end = END.unpack(answer)[0]
    while in_flight and in_flight[0] <= end:
        in_flight.popleft()


if __name__ == "__main__":
    main(Bare)
