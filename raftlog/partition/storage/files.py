"""Writing small files so that a crash leaves the old content or the new, and telling a full disk from a broken one."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import orjson

from raftlog.errors import DiskFullError, StorageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def storage_error(error: OSError, what: str) -> StorageError:
    """Return the error to raise for a failed system call: `DiskFullError` if room is all that is missing."""
    family = DiskFullError if error.errno in _FULL else StorageError
    return family(f"{what}: {error.strerror or error}")


def fsync_dir(folder: Path) -> None:
    """Make creations, renames and deletions inside `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_dir(folder: Path) -> None:
    """Create a folder and those above it, durably: what is synced inside one that is lost is lost with it.

    Raises:
        OSError: from the system.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        fsync_dir(path.parent)


def atomic_write(path: Path, content: bytes) -> None:
    """Replace a file's content, durably: write beside it, fsync, rename, fsync the folder.

    Raises:
        StorageError: the file still has its old content.
    """
    beside = path.with_name(path.name + ".new")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        fsync_dir(path.parent)
    except OSError as error:
        raise storage_error(error, f"cannot write {path}") from error


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Replace a JSON file, durably."""
    atomic_write(path, orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON file's object, or None when there is no such file.

    Raises:
        StorageError: it cannot be read, or is no JSON object.
    """
    try:
        document = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, orjson.JSONDecodeError) as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    if not isinstance(document, dict):
        raise StorageError(f"cannot read {path}: expected a JSON object")
    return document


def write_fully(descriptor: int, content: bytes | bytearray | memoryview, position: int) -> None:
    """Write everything at `position`, however many calls it takes.

    Raises:
        OSError: from the system; part of it may have been written.
    """
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
