"""Memory for the page cache, which each `produce` of a driver, and of `datapath`, finds in the same state.

A virtual machine gives its host what has been free for some seconds (free page reporting, in blocks of 2 MiB). The
first touch after that costs up to 15 times as much as writing. So figures depended on what had run before: produce of
1 KB took 2.6 or 8.8 µs of the servers' CPU for each record.
"""

from __future__ import annotations

import mmap
import os
from typing import Final

REPLICAS: Final = 4
"""Memory for each byte that is produced: three replicas, and as much again for what they have beside."""
_MADV_POPULATE_WRITE: Final = 23
"""Not in the mmap module of Python 3.11; see madvise(2)."""


def touched(size: int) -> mmap.mmap:
    """Return memory that the machine really has; the page cache takes it once it is closed.

    Args:
        size: in bytes. No more than half of the free memory is touched.
    """
    size = min(size, os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE // 2)
    memory = mmap.mmap(-1, max(size, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)  # Small pages come from blocks that were never given back.
    memory.madvise(_MADV_POPULATE_WRITE)
    return memory
