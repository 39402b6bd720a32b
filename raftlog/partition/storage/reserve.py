"""A file in each data folder whose blocks are freed when a full disk keeps records from being deleted.

To delete records, a log first writes small files: its checkpoint, and what deleted batches say of their producers. On a
full disk these do not fit, so nothing could ever be deleted. The reserve is for such steps only. Appends may take what
a step leaves of the freed blocks, so the reserve is freed in slices: deleting records takes several steps.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from raftlog.errors import DiskFullError

_log = logging.getLogger(__name__)
T = TypeVar("T")
RESERVE_BYTES = 1 << 20
SLICE_BYTES = 64 << 10
MOST_SLICES = 4
"""The most that one step may use."""
FREE_FOR_RESERVE_BYTES = 16 << 20
"""The reserve is made, or made again, only where so much is free."""
_NAME = "reserve"


def make_reserve(data_folder: Path) -> None:
    """Make the reserve, or what is missing of it, unless the disk has no room for it. It needs no sync."""
    path = data_folder / _NAME
    try:
        if (size := _size_of(path)) >= RESERVE_BYTES:
            return
        free = os.statvfs(data_folder)
        if free.f_bavail * free.f_frsize < FREE_FOR_RESERVE_BYTES:
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        except OSError:
            _shrink(path, size)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        _log.info("no reserve in %s: %s", data_folder, error)


def with_reserve(data_folder: Path, step: Callable[[], T]) -> T:
    """Run a step that frees space, or that a start needs. If the disk is full, free a slice and run it once more.

    Raises:
        DiskFullError: the reserve is used up, or what one step may use does not suffice; or no descriptor is free.
    """
    for _ in range(MOST_SLICES):
        try:
            return step()
        except DiskFullError as error:
            if _lacks_descriptors(error) or not free_slice(data_folder):
                raise
    return step()


def free_slice(data_folder: Path) -> bool:
    """Free a slice of the reserve; return whether there was one."""
    path = data_folder / _NAME
    try:
        size = _size_of(path)
        left = max(0, size - SLICE_BYTES)
        _shrink(path, left)
    except OSError as error:
        _log.warning("the reserve of %s cannot be freed: %s", data_folder, error)
        return False
    if size:
        _log.warning("the disk of %s is full: %d KiB of its reserve are left", data_folder, left >> 10)
    return size > 0


def _shrink(path: Path, size: int) -> None:
    if size:
        os.truncate(path, size)
    else:
        path.unlink(missing_ok=True)


def _size_of(path: Path) -> int:
    """Return the size of a reserve in bytes; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _lacks_descriptors(error: DiskFullError) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.EMFILE, errno.ENFILE)


def data_folder_of(log_folder: Path) -> Path:
    """Return the data folder, or log folder, that a partition's log is in."""
    return log_folder.parent.parent
