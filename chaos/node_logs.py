"""Searches nodes' logs for internal errors: a cluster may heal from one, and no client has to notice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

TRACEBACK, UNRETRIEVED = "Traceback (most recent call last)", "never retrieved"
MOST_LINES = 20
_EVENT = re.compile(r'\d{4}-\d\d-\d\dT\d\d:|\{"time"')
_OF_A_DISK = re.compile(
    r"\b(StorageError|DiskFullError|DamagedDataError|CorruptBatchError|OSError|FileNotFoundError)\b", re.ASCII
)
"""`StorageError` and `OSError`, and what damaged and lost files raise."""


def internal_errors(logs: Mapping[str, Path], *, disk_faults: bool = False) -> list[str]:
    """Return for each node with an internal error its name and the first lines of the first one.

    Args:
        logs: by node, its log. One that does not exist has no errors.
        disk_faults: the nodes' disks failed: tracebacks of errors of storage are no internal errors.
    """
    found = []
    for name, path in logs.items():
        if not path.exists():
            continue
        with path.open(encoding="utf-8", errors="replace") as lines:
            if error := first_error(lines, disk_faults=disk_faults):
                found.append(f"{name} had an internal error:\n{error}")
    return found


def first_error(lines: Iterable[str], *, disk_faults: bool = False) -> str:
    """Return the first lines of the first internal error among a log's lines; "": there is none."""
    for event in _events(lines):
        text = "\n".join(event)
        if UNRETRIEVED in text or (TRACEBACK in text and not (disk_faults and _OF_A_DISK.search(text))):
            return "\n".join(event[:MOST_LINES])
    return ""


def _events(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield each event's lines: its own, and those that follow it until the next one."""
    event = list[str]()
    for line in lines:
        if event and _EVENT.match(line):
            yield event
            event = []
        event.append(line.rstrip("\n"))
    if event:
        yield event
