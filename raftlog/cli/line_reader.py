"""Standard input as lines, without holding up the event loop and without waiting for more than has arrived.

A thread reads, because epoll refuses files. It is a daemon that reads the bare descriptor: an interrupted program can
end while it waits for input that never comes.
"""

from __future__ import annotations

import asyncio
import io
import os
import threading
from collections.abc import AsyncIterator, Callable
from typing import IO

from raftlog.errors import ErrorCode, InvalidRequestError

CHUNK_BYTES = 1 << 18
MAX_LINE_BYTES = 64 << 20
"""Longer than the largest record; a file without line ends must not fill the memory."""
_CHUNKS_AHEAD = 4


def chunk_reader(stream: IO[bytes]) -> Callable[[], bytes]:
    """Return a function that blocks until some bytes are there; b"" at the end."""
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:  # Not a real file: a test's.
        return lambda: stream.read(CHUNK_BYTES)
    return lambda: os.read(descriptor, CHUNK_BYTES)


async def read_lines(read: Callable[[], bytes]) -> AsyncIterator[list[bytes]]:
    """Yield lines as they arrive, without their ends (LF or CR LF); the last one needs none.

    Raises:
        InvalidRequestError: a line is longer than any record may be.
    """
    rest: list[bytes] = []
    length = 0
    async for chunk in _chunks(read):
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*rest, lines[0]])
            rest, length = [], 0
            yield [line.removesuffix(b"\r") for line in lines]
        rest.append(last)
        length += len(last)
        if length > MAX_LINE_BYTES:
            raise InvalidRequestError(
                f"a line is longer than {MAX_LINE_BYTES} bytes: no record may be", code=ErrorCode.MESSAGE_TOO_LARGE
            )
    if length:
        yield [b"".join(rest).removesuffix(b"\r")]


async def _chunks(read: Callable[[], bytes]) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | OSError] = asyncio.Queue()
    room = threading.Semaphore(_CHUNKS_AHEAD)

    def pump() -> None:
        chunk: bytes | OSError = b"-"
        while chunk and not isinstance(chunk, OSError):
            room.acquire()
            try:
                chunk = read()
            except OSError as error:
                chunk = error
            try:
                loop.call_soon_threadsafe(queue.put_nowait, chunk)
            except RuntimeError:  # The loop is closed: nobody wants more.
                return

    threading.Thread(target=pump, name="raftlog-stdin", daemon=True).start()
    while chunk := await queue.get():
        if isinstance(chunk, OSError):
            raise InvalidRequestError(f"cannot read standard input: {chunk.strerror}")
        room.release()
        yield chunk
