"""Atomic writes of small files, and the mapping of OSError to full disk, failed sync and other storage errors.

All code under `storage` calls the functions of `os` by module attribute, so that tests can inject faults.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import orjson

from raftlog.checksum import crc32c
from raftlog.errors import DamagedDataError, DiskFullError, StorageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE}
"""Retriable: no space on the disk, or no descriptor for another file; nothing was written."""
_UNREADABLE = {errno.EIO, errno.ENODATA, errno.EUCLEAN, errno.EBADMSG}
"""Errors of devices and file systems for a block that is unreadable, or whose checksum is wrong."""
_CHECKSUM = "crc32c"
T = TypeVar("T")
_JSON = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
NEW_SUFFIX = ".new"


class SyncError(OSError):
    """fsync or fdatasync failed: unwritten pages may have been dropped from the page cache."""


class FailedSyncError(StorageError):
    """A sync failed, whatever the errno (a full disk included): the broker shuts down (docs/adr/0005)."""


def storage_error(error: OSError, what: str) -> StorageError:
    """Return the error to raise for a failed system call.

    `DiskFullError`: a write failed for lack of space, and can be retried. A failed sync is never retried, so it is a
    `FailedSyncError`, even if the errno says that the disk is full.
    """
    message = f"{what}: {error.strerror or error}"
    if isinstance(error, SyncError):
        return FailedSyncError(message)
    return DiskFullError(message) if error.errno in _FULL else StorageError(message)


def lacks_descriptor(error: OSError) -> bool:
    """Return whether a system call failed because the process has no free descriptor: it can be retried."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def sync_file(descriptor: int) -> None:
    """Make a file, or a folder's names, durable.

    Raises:
        SyncError: the content of the disk is unknown. Rewrite the data or shut down; never just sync again.
    """
    try:
        os.fsync(descriptor)
    except OSError as error:
        raise SyncError(error.errno, error.strerror) from error


def sync_data(descriptor: int) -> None:
    """Make a file's content durable; see `sync_file`."""
    try:
        os.fdatasync(descriptor)
    except OSError as error:
        raise SyncError(error.errno, error.strerror) from error


def is_unreadable(error: BaseException | None) -> bool:
    """Return whether a read failed because the disk cannot return the data written."""
    return isinstance(error, OSError) and error.errno in _UNREADABLE


class _Spare:
    """A descriptor that takes the place of one more when none is free.

    Files with unsynced bytes stay open. Without a spare they could hold every descriptor, and their syncs need another.
    So does a truncation, which must not end half-way.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor = -1

    @contextmanager
    def opened(self, path: Path, flags: int) -> Iterator[int]:
        """Open a file for the block."""
        descriptor = self._lent(lambda: os.open(path, flags, 0o644))
        try:
            yield descriptor
        finally:
            os.close(descriptor)
            self._renew()

    def list_names(self, folder: Path) -> list[str]:
        """Return the names in a folder."""
        try:
            return self._lent(lambda: os.listdir(folder))
        finally:
            self._renew()

    def _lent(self, call: Callable[[], T]) -> T:
        """Make a call that needs a descriptor; if none is free, again without the spare one."""
        try:
            return call()
        except OSError as error:
            if not lacks_descriptor(error):
                raise
        with self._lock:
            self._close()
            return call()

    def _renew(self) -> None:
        with self._lock, suppress(OSError):
            if self._descriptor < 0:
                self._descriptor = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


_spare = _Spare()


def sync_path(path: Path) -> None:
    """Make a file durable.

    Raises:
        OSError: it cannot be opened.
        SyncError: see `sync_file`.
    """
    with _spare.opened(path, os.O_RDONLY | os.O_CLOEXEC) as descriptor:
        sync_file(descriptor)


def fsync_dir(folder: Path) -> None:
    """Make creations, renames and deletions inside `folder` durable."""
    with _spare.opened(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) as descriptor:
        sync_file(descriptor)


def make_dir(folder: Path) -> None:
    """Create a folder and its parents, durably. Other users of the machine may not read what they hold.

    Raises:
        StorageError: it cannot be created.
    """
    try:
        for path in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
            path.mkdir(mode=0o700, exist_ok=True)
            fsync_dir(path.parent)
    except OSError as error:
        raise storage_error(error, f"cannot create {folder}") from error


def list_names(folder: Path) -> list[str]:
    """Return the names in a folder, sorted; none if there is no such folder.

    Raises:
        OSError: it cannot be read.
    """
    try:
        return sorted(_spare.list_names(folder))
    except FileNotFoundError:
        return []


def read_file(path: Path, *, limit: int | None = None) -> bytes | None:
    """Return a file's content, or its first `limit` bytes, or None when there is no such file.

    Raises:
        OSError: it cannot be read.
    """
    try:
        with _spare.opened(path, os.O_RDONLY | os.O_CLOEXEC) as descriptor:
            if limit is not None:
                return os.pread(descriptor, limit, 0)
            parts, position = [], 0
            while part := os.pread(descriptor, 1 << 20, position):
                parts.append(part)
                position += len(part)
            return b"".join(parts)
    except FileNotFoundError:
        return None


def atomic_write(path: Path, content: bytes, *, durable: bool = True, lasting: bool = True) -> None:
    """Replace a file's content: write beside it, fsync, rename, fsync the folder.

    Args:
        durable: False leaves out both fsyncs: for files with a checksum that can be rebuilt from the log.
        lasting: False leaves out the second fsync: after a power loss the old content may reappear, intact.

    Raises:
        FailedSyncError: the file has its old content or the new.
        StorageError: the file still has its old content.
    """
    beside = path.with_name(path.name + NEW_SUFFIX)
    try:
        with _spare.opened(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC) as descriptor:
            write_fully(descriptor, content, 0)
            if durable:
                sync_file(descriptor)
        os.replace(beside, path)
        if durable and lasting:
            fsync_dir(path.parent)
    except OSError as error:
        raise storage_error(error, f"cannot write {path}") from error


def unlink_quietly(path: Path) -> None:
    """Remove a file that may not be there."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def write_json(path: Path, document: dict[str, Any], *, durable: bool = True, lasting: bool = True) -> None:
    """Replace a JSON file, as `atomic_write` does, with a checksum over its other members."""
    checked = {**document, _CHECKSUM: crc32c(orjson.dumps(document, option=_JSON))}
    atomic_write(path, orjson.dumps(checked, option=_JSON), durable=durable, lasting=lasting)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON file's object, or None when there is no such file.

    Raises:
        DamagedDataError: it is damaged, or no JSON object, or the disk cannot read one of its blocks.
        StorageError: it cannot be read.
    """
    try:
        content = read_file(path)
    except OSError as error:
        if is_unreadable(error):
            raise DamagedDataError(f"cannot read {path}: {error.strerror or error}") from error
        raise storage_error(error, f"cannot read {path}") from error
    if content is None:
        return None
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise DamagedDataError(f"cannot read {path}: {error}") from error
    if not isinstance(document, dict):
        raise DamagedDataError(f"cannot read {path}: expected a JSON object")
    checksum = document.pop(_CHECKSUM, None)  # None: written by hand, or by an earlier version.
    if checksum is not None and checksum != crc32c(orjson.dumps(document, option=_JSON)):
        raise DamagedDataError(f"{path} is damaged: its checksum does not fit; if you edited it, remove {_CHECKSUM!r}")
    return document


def write_fully(descriptor: int, content: bytes | bytearray | memoryview, position: int) -> None:
    """Write all of `content` at `position`.

    Raises:
        OSError: a write failed; a part may have been written.
    """
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written
