"""What a loss of power leaves of a write: sectors that reached the disk, and sectors of zeros."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

SECTOR_BYTES = 512
"""The smallest unit that a disk writes atomically."""


def sector_parts(data: bytes, position: int) -> Iterator[bytes]:
    """Yield the parts of `data`, which begins at a byte of a file, sector by sector; the first may be shorter."""
    first = -position % SECTOR_BYTES or SECTOR_BYTES
    for start, stop in pairwise([0, *range(first, len(data), SECTOR_BYTES), len(data)]):
        yield data[start:stop]
