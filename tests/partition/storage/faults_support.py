"""System calls that fail: the n-th one under a folder, counted from a given moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CALLS = (
    *("open", "pread", "pwrite", "fsync", "fdatasync", "ftruncate"),
    *("replace", "rename", "unlink", "mkdir", "listdir", "stat", "fstat"),
)


class Faults:
    """Fails the call number `fail_at` (from 0) with `errno`, once; counts them all."""

    def __init__(self, folder: Path, errno: int, fail_at: int) -> None:
        self.folder, self.errno, self.fail_at = str(folder), errno, fail_at
        self.count = 0
        self.failed = ""
        self._descriptors: set[int] = set()

    def _concerns(self, first: object) -> bool:
        return first in self._descriptors if isinstance(first, int) else str(first).startswith(self.folder)

    @contextmanager
    def injected(self) -> Iterator[None]:
        real = {name: getattr(os, name) for name in CALLS}
        for name in CALLS:
            setattr(os, name, self._patched(name, real[name]))
        try:
            yield
        finally:
            for name in CALLS:
                setattr(os, name, real[name])

    def _patched(self, name: str, real):
        def call(first, *arguments, **named):
            if not self._concerns(first) and name != "close":
                return real(first, *arguments, **named)
            number, self.count = self.count, self.count + 1
            if number == self.fail_at:
                self.failed = name
                if name == "pwrite" and len(arguments[0]) > 1:
                    real(first, arguments[0][: len(arguments[0]) // 2], *arguments[1:])  # It fails half-way.
                raise OSError(self.errno, os.strerror(self.errno))
            result = real(first, *arguments, **named)
            if name == "open":
                self._descriptors.add(result)
            return result

        return call
