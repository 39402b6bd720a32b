"""Requests that must hold no event loop of a node for more than 50 ms (`raftlog/serving/loop_watch.py`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

TRIES = 3
"""On a busy machine a turn may use twice the CPU time that it needs. One that holds the loop does so each time."""


def require_no_stall_each_time(stall_file: Path, send: Callable[[], object]) -> None:
    """Check that a request is answered without a stall once in `TRIES` times."""
    found = list[str]()
    for _ in range(TRIES):
        seen = stall_file.stat().st_size
        send()
        if not (said := stalls_since(stall_file, seen)):
            return
        found.append(said)
    raise AssertionError("\n".join(found)[-10_000:])


def stalls_since(stall_file: Path, seen: int) -> str:
    """Return what nodes have written into the file since it had a size; "" if only this process did: tests share it."""
    said = stall_file.read_text()[seen:]
    stalled = [int(pid) for pid in re.findall(r"^\d+ ms, process (\d+)", said, re.MULTILINE)]
    return said if any(pid != os.getpid() for pid in stalled) else ""
