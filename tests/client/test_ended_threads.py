"""A thread that was waited for is gone for the system, too."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from pathlib import Path

import pytest

from raftlog.client.ended_threads import MOST_S, join

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not list threads in /proc")


def thread_that_ends_slowly(seconds: float) -> threading.Thread:
    """Start a thread that the system needs so long to end, after Python's part."""
    libc, key = ctypes.CDLL(None), ctypes.c_uint()
    assert libc.pthread_key_create(ctypes.byref(key), ctypes.cast(libc.usleep, ctypes.c_void_p)) == 0
    thread = threading.Thread(
        target=lambda: libc.pthread_setspecific(key, ctypes.c_void_p(round(seconds * 1e6))),
        daemon=True,
    )
    thread.start()
    return thread


def is_there(thread: threading.Thread) -> bool:
    return Path(f"/proc/self/task/{thread.native_id}").exists()


def test_join_waits_for_the_systems_part():
    thread = thread_that_ends_slowly(0.03)
    thread.join()
    assert is_there(thread) or sys.version_info >= (3, 13), "Python waited for it"
    join(thread)
    assert not is_there(thread)
    join(thread)


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python waits for the system's part")
def test_join_does_not_wait_for_ever():
    thread, began = thread_that_ends_slowly(1.0), time.monotonic()
    join(thread)
    assert MOST_S <= time.monotonic() - began < 0.8
    assert is_there(thread)
