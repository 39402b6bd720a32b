"""Reads standard input as lines without blocking the event loop; yields lines as soon as they arrive.

A thread reads, because epoll does not support files. It is a daemon that reads the raw descriptor, so that an
interrupted program can exit while the thread waits for input.
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
"""Longer than the largest record; bounds memory for a file without line ends."""
_CHUNKS_AHEAD = 4


def chunk_reader(stream: IO[bytes]) -> Callable[[], bytes]:
    """Return a function that blocks until it can return some bytes; b"" at the end."""
    try:
        descriptor = stream.fileno()
    except io.UnsupportedOperation:  # Not a real file, in tests.
        return lambda: stream.read(CHUNK_BYTES)
    return lambda: os.read(descriptor, CHUNK_BYTES)


async def read_lines(read: Callable[[], bytes]) -> AsyncIterator[list[bytes]]:
    """Yield lines as they arrive, without line ends (LF or CR LF); the last line needs none.

    Raises:
        InvalidRequestError: a line is longer than the largest record.
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
                f"a line is longer than {MAX_LINE_BYTES} bytes, more than a record may have",
                code=ErrorCode.MESSAGE_TOO_LARGE,
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
            except RuntimeError:  # The loop is closed: the input is no longer needed.
                return

    threading.Thread(target=pump, name="raftlog-stdin", daemon=True).start()
    while chunk := await queue.get():
        if isinstance(chunk, OSError):
            raise InvalidRequestError(f"cannot read standard input: {chunk.strerror}")
        room.release()
        yield chunk
