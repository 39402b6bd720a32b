"""What a writer gives to a connection with TLS: every write is encrypted and sent by itself, so there are few."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Sequence

import pytest

from raftlog.transport.socket_writer import PIECE_BYTES, TURN_BYTES, Part, SocketWriter

SMALL = [b"HTTP/1.1 200 OK\r\n\r\n", bytearray(b"frame"), memoryview(b"header"), b"", b"payload"]
LARGE = os.urandom(3 * PIECE_BYTES + 5)


class Recorder(asyncio.Transport):
    """A transport with TLS that keeps what is written; it never pauses."""

    def __init__(self) -> None:
        super().__init__(extra={"sslcontext": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)})
        self.written: list[bytes] = []
        self.limit = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert low is None
        self.limit = high or 0

    def is_closing(self) -> bool:
        return False


class Stored:
    """A part in a file, and the reads of it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.reads: list[int] = []

    def __len__(self) -> int:
        return len(self.content)

    def send(self, descriptor: int, start: int) -> int:
        raise AssertionError("a file cannot be sent without encryption")

    def read(self, start: int = 0, count: int | None = None) -> bytes:
        assert count is not None
        self.reads.append(count)
        return self.content[start : start + count]


async def sent(parts: Sequence[Part]) -> list[bytes]:
    transport = Recorder()
    await SocketWriter(transport, timeout_s=None).send(parts)
    return transport.written


async def test_small_parts_are_written_together():
    assert await sent(SMALL) == [b"".join(map(bytes, SMALL))]


async def test_nothing_is_written_for_empty_parts():
    assert await sent([b"", b""]) == []


@pytest.mark.parametrize("parts", [[*SMALL, LARGE], [LARGE, *SMALL], [LARGE, b"x", LARGE], [LARGE[: 2 * PIECE_BYTES]]])
async def test_large_parts_are_written_in_full_pieces(parts: list[bytes]):
    written = await sent(parts)

    assert b"".join(written) == b"".join(map(bytes, parts))
    assert all(len(piece) == PIECE_BYTES for piece in written[:-1])
    assert 0 < len(written[-1]) <= PIECE_BYTES


async def test_a_file_is_read_piece_by_piece():
    stored = Stored(LARGE)
    written = await sent([b"head", stored, b"tail"])

    assert b"".join(written) == b"head" + LARGE + b"tail"
    assert max(stored.reads) <= PIECE_BYTES
    assert len(written) == 4


async def test_other_tasks_run_while_a_peer_takes_everything_at_once():
    transport = Recorder()
    turns: list[int] = []

    async def count() -> None:
        while True:
            turns.append(sum(map(len, transport.written)))
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    await SocketWriter(transport, timeout_s=None).send([bytes(3 * TURN_BYTES)])
    counting.cancel()

    assert len(turns) >= 2


async def test_a_peer_that_reads_slowly_is_noticed_after_one_piece():
    transport = Recorder()
    SocketWriter(transport, timeout_s=None)

    assert transport.limit == PIECE_BYTES
