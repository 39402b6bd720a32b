"""Receive buffers for bodies, reused as soon as no view of them exists.

The C library returns large blocks to the kernel when they are freed, and page faults at the next use cost more than
receiving the bytes. Buffers need no explicit release: Python refuses to resize one that has a view, which shows that it
is in use.
"""

from __future__ import annotations

import mmap

_SMALLEST = 64 << 10
"""Smaller buffers are not kept: the C library keeps such blocks itself."""
_LARGEST = 20 << 20
"""Larger buffers are rare, and are not kept: they would displace the others. A consumer's full answer is no larger."""
_KEPT_BYTES = 40 << 20
"""Two full answers: an application reads one while the next one arrives."""


class ReceiveBuffers:
    """A bounded pool of large buffers. A buffer that the pool drops lives as long as its views."""

    def __init__(self, *, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._buffers: list[mmap.mmap] = []

    @property
    def held_bytes(self) -> int:
        """The bytes of all kept buffers, in use or not."""
        return sum(map(len, self._buffers))

    def take(self, length: int) -> memoryview:
        """Return a buffer of `length` bytes with undefined contents.

        It takes memory only as it is written to: a peer that announces a large body and sends nothing costs none.
        """
        if length < _SMALLEST:
            return memoryview(bytearray(length))
        for buffer in self._buffers:
            # Not one that is far too large: a larger body may need it.
            if length <= len(buffer) <= 4 * length and _is_free(buffer):
                return memoryview(buffer)[:length]
        buffer = mmap.mmap(-1, -(-length // _SMALLEST) * _SMALLEST, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            buffer.madvise(mmap.MADV_NOHUGEPAGE)  # With huge pages, one byte would take 2 MB.
        if length <= _LARGEST:
            self._keep(buffer)
        return memoryview(buffer)[:length]

    def _keep(self, buffer: mmap.mmap) -> None:
        self._buffers.insert(0, buffer)
        while self.held_bytes > self._kept_bytes:
            self._buffers.pop()


def _is_free(buffer: mmap.mmap) -> bool:
    """Return whether a buffer has no views: only then can it be resized."""
    try:
        buffer.resize(len(buffer))
    except BufferError:
        return False
    return True
