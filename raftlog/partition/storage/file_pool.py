"""Limit of open segment files: the least recently used are closed, and opened again on demand.

A file with unsynced bytes stays open: only a descriptor that was open when a write-back failed is certain to report the
error at the next fsync.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from pathlib import Path

DEFAULT_LIMIT = 1_000
_LOOK_AT = 64
"""How many of the least recently used files are tried for closing: all of them may be in use."""


class FilePool:
    """Open files, least recently used first. Any thread may use it."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._open: OrderedDict[int, PooledFile] = OrderedDict()
        self._left: dict[int, int] = {}
        """Descriptors that were to be closed while they were in use, and how many use each of them still."""

    @property
    def open_files(self) -> int:
        return len(self._open)

    def acquire(self, file: PooledFile) -> int:
        """Return a descriptor that stays open until `release`.

        Raises:
            OSError: the file cannot be opened, or was closed for good.
        """
        with self._lock:
            if file.ended:
                raise FileNotFoundError(errno.ENOENT, "closed for good", str(file.path))
            if file.descriptor < 0:
                file.descriptor = self._opened(file.path)
                self._open[id(file)] = file
            else:
                self._open.move_to_end(id(file))
            file.users += 1
            self._close_oldest()
            return file.descriptor

    def release(self, file: PooledFile, descriptor: int) -> None:
        """Release a descriptor."""
        with self._lock:
            if descriptor not in self._left:
                file.users -= 1
            elif self._left[descriptor] > 1:
                self._left[descriptor] -= 1
            else:
                del self._left[descriptor]
                os.close(descriptor)

    def close(self, file: PooledFile, *, for_good: bool = False) -> None:
        """Close a file. Unless it is `for_good`, the next use opens it again.

        A descriptor in use is closed when it is released. Its number could stand for another file at once, and a thread
        would read or send that one.
        """
        with self._lock:
            file.ended = file.ended or for_good
            if file.descriptor >= 0 and file.users:
                del self._open[id(file)]
                self._left[file.descriptor] = file.users
                file.descriptor, file.users = -1, 0
            else:
                self._close(file)

    def release_if_idle(self, file: PooledFile) -> None:
        """Close a file, unless it is in use or not synced."""
        with self._lock:
            if not file.users and not file.unsynced:
                self._close(file)

    def _opened(self, path: Path) -> int:
        try:
            return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        self._close_some(_LOOK_AT)  # Out of descriptors (sockets use them, too): close files that can be reopened.
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def _close_oldest(self) -> None:
        if (excess := len(self._open) - self.limit) > 0:
            self._close_some(excess)

    def _close_some(self, excess: int) -> None:
        oldest = [file for file, _ in zip(self._open.values(), range(_LOOK_AT), strict=False)]
        for file in [file for file in oldest if not file.users and not file.unsynced][:excess]:
            self._close(file)

    def _close(self, file: PooledFile) -> None:
        if file.descriptor >= 0:
            del self._open[id(file)]
            descriptor, file.descriptor = file.descriptor, -1
            os.close(descriptor)


class _Use:
    """One use of a file: a class costs less than half of a generator, and each batch uses files several times."""

    __slots__ = ("_descriptor", "_file")

    def __init__(self, file: PooledFile) -> None:
        self._file = file

    def __enter__(self) -> int:
        self._descriptor = self._file.pool.acquire(self._file)
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        self._file.pool.release(self._file, self._descriptor)


class PooledFile:
    """A file that is opened on use and closed by its pool."""

    __slots__ = ("descriptor", "ended", "path", "pool", "unsynced", "users")

    def __init__(self, pool: FilePool, path: Path) -> None:
        self.pool = pool
        self.path = path
        self.descriptor = -1
        self.ended = False
        """It was closed for good."""
        self.users = 0
        self.unsynced = False
        """It has unsynced bytes."""

    def use(self) -> _Use:
        """Keep a descriptor open for a `with` block.

        Raises:
            OSError: the file cannot be opened.
        """
        return _Use(self)

    def pread(self, length: int, position: int) -> bytes:
        """Read up to `length` bytes.

        Raises:
            OSError: from the system.
        """
        with self.use() as descriptor:
            return os.pread(descriptor, length, position)

    def close(self) -> None:
        """Close it for good: it may be removed, and a thread that opened it again would keep its disk space."""
        self.pool.close(self, for_good=True)

    def release_if_idle(self) -> None:
        """Close it, unless it is in use or has unsynced bytes."""
        self.pool.release_if_idle(self)
