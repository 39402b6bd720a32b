"""The limit on the bytes that a producer buffers (Kafka: `buffer.memory`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from raftlog.client.sender import Sender
from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError


class BufferLimit:
    """The buffer limit of one producer.

    Args:
        queued_bytes: returns the bytes that are buffered now.
        max_block_ms: how long a caller may wait for space.
    """

    def __init__(
        self, buffer_bytes: int, queued_bytes: Callable[[], int], sender: Sender, *, max_block_ms: int
    ) -> None:
        self.buffer_bytes = buffer_bytes
        self._queued_bytes = queued_bytes
        self._sender = sender
        self._max_block_ms = max_block_ms
        self._turn = asyncio.Lock()
        """Held by the first caller that waits: only that one wakes when a record gets its outcome."""
        self._waiting = 0

    def require(self, size: int) -> None:
        """Raise if the buffer has no space for `size` bytes.

        Raises:
            OverloadedError: BUFFER_EXHAUSTED, the buffer is full now.
            InvalidRequestError: MESSAGE_TOO_LARGE, `size` exceeds the whole buffer.
        """
        if not self._has(size):
            raise OverloadedError(
                f"{self._queued_bytes()} bytes are queued, this record has {size}, buffer_bytes is "
                f"{self.buffer_bytes}; it is not in the log: wait, or use send, which waits for up to "
                f"{self._max_block_ms} ms",
                code=ErrorCode.BUFFER_EXHAUSTED,
            )

    async def wait(self, size: int, since_ms: int) -> None:
        """Wait until the buffer has space for `size` bytes, or `max_block_ms` after `since_ms`.

        Callers get space in the order of their calls.

        Raises:
            InvalidRequestError: MESSAGE_TOO_LARGE, `size` exceeds the whole buffer.
        """
        has_space = self._has(size)
        left_ms = since_ms + self._max_block_ms - time.monotonic_ns() // 1_000_000
        if (has_space and not self._waiting) or left_ms <= 0:
            return  # Without space, `require` raises.
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1000), self._turn:
                    while not self._has(size):
                        await self._sender.wait_for_room()
        finally:
            self._waiting -= 1

    def _has(self, size: int) -> bool:
        if size > self.buffer_bytes:
            raise InvalidRequestError(
                f"the record has {size} bytes, buffer_bytes is {self.buffer_bytes}", code=ErrorCode.MESSAGE_TOO_LARGE
            )
        return self._queued_bytes() + size <= self.buffer_bytes
