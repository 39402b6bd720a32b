"""How much memory Spark's Python workers take while something runs."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Self

_EVERY_S = 0.1


class WorkerMemory:
    """The largest resident set that any Python worker below this process had. A context manager."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            sizes = [_resident_mb(pid) for pid in _descendants(os.getpid()) if b"pyspark" in _command(pid)]
            self.peak_mb = max([self.peak_mb, *sizes])


def _descendants(root: int) -> set[int]:
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue  # It has exited meanwhile.
            parents[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {root}
    while added := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= added
    return found - {root}


def _command(pid: int) -> bytes:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
    return b"" if b"java" in command.split(b"\0")[0] else command


def _resident_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
