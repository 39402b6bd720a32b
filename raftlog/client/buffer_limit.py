"""How much a producer may queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from raftlog.client.sender import Sender
from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError


class BufferLimit:
    """The buffer of one producer.

    Args:
        queued_bytes: says how much is queued now.
        max_block_ms: how long somebody may wait for room.
    """

    def __init__(
        self, buffer_bytes: int, queued_bytes: Callable[[], int], sender: Sender, *, max_block_ms: int
    ) -> None:
        self.buffer_bytes = buffer_bytes
        self._queued_bytes = queued_bytes
        self._sender = sender
        self._max_block_ms = max_block_ms

    def require(self, size: int) -> None:
        """Refuse records of `size` bytes for which there is no room.

        Raises:
            OverloadedError: BUFFER_EXHAUSTED, there is none now.
            InvalidRequestError: MESSAGE_TOO_LARGE, there never is.
        """
        if not self._has(size):
            raise OverloadedError(
                f"{self._queued_bytes()} bytes are queued, this record has {size}, buffer_bytes is "
                f"{self.buffer_bytes}; it is not in the log: wait, or use send, which waits for up to "
                f"{self._max_block_ms} ms",
                code=ErrorCode.BUFFER_EXHAUSTED,
            )

    async def wait(self, size: int, since_ms: int) -> None:
        """Wait until so many bytes may be queued, or the time for it is up.

        Raises:
            InvalidRequestError: MESSAGE_TOO_LARGE, they never may.
        """
        while not self._has(size):
            left_ms = since_ms + self._max_block_ms - time.monotonic_ns() // 1_000_000
            if left_ms <= 0:
                return  # It is refused.
            with suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1000):
                    await self._sender.wait_for_room()

    def _has(self, size: int) -> bool:
        if size > self.buffer_bytes:
            raise InvalidRequestError(
                f"the record has {size} bytes, buffer_bytes is {self.buffer_bytes}", code=ErrorCode.MESSAGE_TOO_LARGE
            )
        return self._queued_bytes() + size <= self.buffer_bytes
