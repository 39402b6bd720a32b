"""A file in each data folder whose blocks are freed when a full disk keeps records from being deleted.

To delete records, a log first writes small files: its checkpoint, and what deleted batches say of their producers. On a
full disk these do not fit, so nothing could ever be deleted. The reserve is for such steps only: appends never use it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from raftlog.errors import DiskFullError
from raftlog.partition.storage.files import unlink_quietly

_log = logging.getLogger(__name__)
T = TypeVar("T")
RESERVE_BYTES = 1 << 20
FREE_FOR_RESERVE_BYTES = 16 << 20
"""The reserve is made, or made again, only where so much is free."""
_NAME = "reserve"


def make_reserve(data_folder: Path) -> None:
    """Make the reserve, unless it is there, or the disk has no room for it. It needs no sync."""
    path = data_folder / _NAME
    try:
        if path.exists():
            return
        free = os.statvfs(data_folder)
        if free.f_bavail * free.f_frsize < FREE_FOR_RESERVE_BYTES:
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.posix_fallocate(descriptor, 0, RESERVE_BYTES)
        except OSError:
            unlink_quietly(path)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        _log.info("no reserve in %s: %s", data_folder, error)


def with_reserve(data_folder: Path, step: Callable[[], T]) -> T:
    """Run a step that frees space, or that a start needs. If the disk is full, free the reserve and run it once more.

    Raises:
        DiskFullError: there is no reserve, or its space does not suffice.
    """
    try:
        return step()
    except DiskFullError:
        if not free_reserve(data_folder):
            raise
        return step()


def free_reserve(data_folder: Path) -> bool:
    """Remove the reserve; return whether there was one."""
    path = data_folder / _NAME
    if not path.exists():
        return False
    _log.warning("the disk of %s is full: the reserve of %d KiB is freed", data_folder, RESERVE_BYTES >> 10)
    unlink_quietly(path)
    return not path.exists()


def data_folder_of(log_folder: Path) -> Path:
    """Return the data folder, or log folder, that a partition's log is in."""
    return log_folder.parent.parent
