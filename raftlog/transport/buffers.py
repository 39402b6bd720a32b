"""Buffers that bodies are received into, used again as soon as nobody looks into them.

The C library gives large blocks back to the kernel when they are freed, and their next first touch costs more than
receiving into them. Nobody has to say when a buffer is free: Python refuses to resize one that somebody has a view of.
"""

from __future__ import annotations

import mmap

_SMALLEST = 64 << 10
"""Smaller ones are not worth keeping: the C library does."""
_LARGEST = 16 << 20
"""Larger ones are rare: kept, they would push out the others."""
_KEPT_BYTES = 32 << 20


class ReceiveBuffers:
    """A bounded number of large buffers, in use or not; one that is not kept lives as long as somebody looks at it."""

    def __init__(self, *, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._buffers: list[mmap.mmap] = []

    @property
    def held_bytes(self) -> int:
        """How much is kept, in use or not."""
        return sum(map(len, self._buffers))

    def take(self, length: int) -> memoryview:
        """Return room for `length` bytes; what it holds is of no meaning.

        It takes memory only as it is written to: a peer that announces much and sends nothing costs nothing.
        """
        if length < _SMALLEST:
            return memoryview(bytearray(length))
        for buffer in self._buffers:
            # Not one that is far too large: it would be missing elsewhere.
            if length <= len(buffer) <= 4 * length and _is_free(buffer):
                return memoryview(buffer)[:length]
        buffer = mmap.mmap(-1, -(-length // _SMALLEST) * _SMALLEST, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            buffer.madvise(mmap.MADV_NOHUGEPAGE)  # One byte would take 2 MB.
        if length <= _LARGEST:
            self._keep(buffer)
        return memoryview(buffer)[:length]

    def _keep(self, buffer: mmap.mmap) -> None:
        self._buffers.insert(0, buffer)
        while self.held_bytes > self._kept_bytes:
            self._buffers.pop()


def _is_free(buffer: mmap.mmap) -> bool:
    """Tell whether nobody has a view of a buffer: only then may its size change."""
    try:
        buffer.resize(len(buffer))
    except BufferError:
        return False
    return True
