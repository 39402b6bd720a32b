"""Waits for the end of threads in a way that makes a fork afterwards safe."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

MOST_S = 0.1
"""The longest wait for the system's part of a thread's end. It takes microseconds once the thread gets a processor."""
_PAUSE_S = 0.0002


def join(thread: threading.Thread) -> None:
    """Wait until a thread has ended, on Linux also for the system.

    Before Python 3.13, `Thread.join` returns while the thread still frees what it has, such as its part of Arrow's
    memory pool (https://github.com/python/cpython/issues/110829). A process that forks at that moment copies a pool
    that is half taken apart, and the child may abort.
    """
    thread.join()
    if sys.version_info >= (3, 13) or thread.native_id is None:
        return
    task, until = Path(f"/proc/self/task/{thread.native_id}"), time.monotonic() + MOST_S
    while task.exists() and time.monotonic() < until:
        time.sleep(_PAUSE_S)
