"""The threads of passwords yield to event loops; those that hold Python's global lock do not."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from raftlog.security.password_checks import PasswordChecks
from raftlog.serving.workers import LOW_PRIORITY, derive_key, for_stream, in_worker

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of threads")


def priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


async def test_only_the_threads_of_passwords_have_a_low_priority():
    own = priority()
    assert own < LOW_PRIORITY
    assert await derive_key(priority) == LOW_PRIORITY
    assert [await in_worker(priority), await for_stream(priority), priority()] == [own, own, own]
    found: list[int] = []

    def check() -> bool:
        found.append(priority())
        return True

    assert await PasswordChecks().run(b"key", "127.0.0.1", check)
    assert found == [LOW_PRIORITY]
    assert await asyncio.to_thread(priority) == own
