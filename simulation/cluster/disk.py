"""Disks of simulated machines. Files are real; what survives a loss of power is simulated.

A file keeps its content of its last fsync, and of later writes any part, torn at any byte, or any sectors, with zeros
for the others. A folder keeps the names of its last fsync; each later creation, rename or removal is kept or not, one
by one. Files that were removed or replaced, but whose old name may come back after a loss of power, wait in a morgue. A
process that is killed loses nothing that it has written; of the write in which it is killed, the beginning is written.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from simulation.cluster.loop import CURRENT, Process, ProcessDiedError
from simulation.disk import lost_sectors

SPARED_BYTES = 4_096
BLOCK_BYTES = 4_096
Fuse = Literal["power", "kill", "error"]


@dataclass
class Disk:
    """One machine's disk: what a loss of power leaves of it, and its active faults."""

    folder: Path
    morgue: Path
    contents: dict[int, bytes] = field(default_factory=dict)
    """By inode: the synced content."""
    names: dict[int, dict[str, int]] = field(default_factory=dict)
    """By a folder's inode: the synced names and inodes."""
    fuse: tuple[int, Fuse] | None = None
    """The fault that happens at the n-th operation from now."""
    failing: bool = False
    """Every write and sync fails: the device no longer works."""
    sync_errno: int = 0
    """The error of the next sync, and of no later one; 0: none."""
    dropped: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By inode: ranges that a failed sync should have written. The system shows them, and never writes them."""
    starved: bool = False
    """The process has no free descriptor: it can open no file, unless it closes one first. Ends with the process."""
    refused: str = ""
    """The path that was refused last: a second attempt succeeds, since the process has closed a file for it."""
    unreadable: dict[int, set[int]] = field(default_factory=dict)
    """By inode: blocks that cannot be read (EIO) until they are written again."""
    full: bool = False
    crowded: bool = False
    """The file system has no free inode: no file or folder can be made, and existing files can be written."""
    failed_once: bool = False
    was_full: bool = False
    """Then a process may exit by itself, or refuse to start: the one that met the fault, or while the fault lasts."""

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.morgue.mkdir(parents=True, exist_ok=True)
        self.settle()

    def begin(self) -> None:
        """Let another process have it: a fault that has ended excuses that one no more."""
        self.starved, self.was_full = False, self.full or self.crowded
        self.failed_once = self.failing or bool(self.dropped)

    def settle(self) -> None:
        """Take everything that exists as synced, as after a boot."""
        self.contents.clear()
        self.names.clear()
        self.dropped.clear()
        for path in [self.folder, *sorted(self.folder.rglob("*"))]:
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                self.names[status.st_ino] = {entry.name: entry.inode() for entry in os.scandir(path)}
            else:
                self.contents[status.st_ino] = path.read_bytes()
        for path in self.morgue.iterdir():
            REAL["unlink"](path)


REAL: dict[str, Callable[..., Any]] = {
    name: getattr(os, name)
    for name in (
        "open",
        "write",
        "pwrite",
        "pread",
        "fsync",
        "fdatasync",
        "ftruncate",
        "unlink",
        "rename",
        "replace",
        "rmdir",
        "mkdir",
        "truncate",
    )
}


class Disks:
    """Every machine's disk. `on_fuse` ends the running process."""

    def __init__(self, folder: Path, dice: random.Random, on_fuse: Callable[[Process, Fuse], None]) -> None:
        self.by_host: dict[str, Disk] = {}
        self.operations = 0
        self._folder = folder
        self._dice = dice
        self._on_fuse = on_fuse

    def add(self, host: str, folder: Path) -> None:
        disk = self.by_host[host] = Disk(folder, self._folder / "morgue" / host)
        disk.prepare()

    def lose_power(self, host: str) -> None:
        """Reduce a machine's files to what its disk contains."""
        disk = self.by_host[host]
        self._tear_folder(disk, disk.folder)
        disk.settle()
        disk.fuse = None

    def wipe(self, host: str) -> None:
        """Replace the disk by an empty one."""
        disk = self.by_host[host]
        shutil.rmtree(disk.folder)
        disk.prepare()
        disk.fuse, disk.failing, disk.full, disk.crowded = None, False, False, False
        disk.unreadable.clear()

    def rot(self, host: str, suffix: str, dice: random.Random) -> str | None:
        """Flip one bit in one of a machine's files; return which.

        The end of a log is spared: after a loss of power, damage there cannot be told apart from a torn write.
        """
        disk = self.by_host[host]
        spared = SPARED_BYTES if suffix == ".log" else 0
        files = sorted(path for path in disk.folder.rglob(f"*{suffix}") if path.stat().st_size > spared)
        if not files:
            return None
        path = dice.choice(files)
        at, size = dice.randrange(path.stat().st_size - spared), path.stat().st_size
        self.flip(host, path, at, 1 << dice.randrange(8))
        return f"{path.relative_to(disk.folder)} at byte {at} of {size}"

    def spoil(self, host: str, pattern: str, dice: random.Random) -> str | None:
        """Have one block of a machine's logs be unreadable; return which. The end of a log is spared, as by `rot`."""
        disk = self.by_host[host]
        files = sorted(path for path in disk.folder.rglob(pattern) if path.stat().st_size > SPARED_BYTES)
        if not files:
            return None
        path = dice.choice(files)
        block = dice.randrange((path.stat().st_size - SPARED_BYTES) // BLOCK_BYTES + 1)
        disk.unreadable.setdefault(path.stat().st_ino, set()).add(block)
        return f"{path.relative_to(disk.folder)}, block {block}"

    def flip(self, host: str, path: Path, at: int, bit: int = 1) -> None:
        """Flip one bit of a byte."""
        disk = self.by_host[host]
        with path.open("r+b") as file:
            content = file.read()
            file.seek(at)
            file.write(bytes((content[at] ^ bit,)))
        inode = path.stat().st_ino
        if at < len(synced := disk.contents.get(inode, b"")):
            disk.contents[inode] = synced[:at] + bytes((synced[at] ^ bit,)) + synced[at + 1 :]

    # A loss of power.

    def _tear_folder(self, disk: Disk, folder: Path) -> None:
        inode = folder.stat().st_ino
        now = {entry.name: entry.inode() for entry in os.scandir(folder)}
        owed = disk.names.get(inode, {})
        for name in sorted(now.keys() | owed.keys()):
            if now.get(name) != owed.get(name) and self._dice.random() < 0.5:
                self._restore_name(disk, folder / name, owed.get(name))
        for entry in sorted(folder.iterdir()):
            if entry.is_dir():
                self._tear_folder(disk, entry)
            else:
                self._tear_file(disk, entry)

    def _restore_name(self, disk: Disk, path: Path, inode: int | None) -> None:
        if path.is_dir() and not path.is_symlink():
            if inode is None:
                shutil.rmtree(path)
            return  # Here no folder is renamed over another one.
        if inode is None:
            path.unlink(missing_ok=True)
            return
        kept = disk.morgue / str(inode)
        source = kept if kept.exists() else self._find(disk, inode)
        if source is None:
            return
        path.unlink(missing_ok=True)
        if stat.S_ISDIR(source.stat().st_mode):
            shutil.copytree(source, path)
            return
        os.link(source, path)

    def _find(self, disk: Disk, inode: int) -> Path | None:
        return next((path for path in sorted(disk.folder.rglob("*")) if path.lstat().st_ino == inode), None)

    def _tear_file(self, disk: Disk, path: Path) -> None:
        status = path.stat()
        shown, old = path.read_bytes(), disk.contents.get(status.st_ino, b"")
        new = _as_written(shown, old, disk.dropped.get(status.st_ino, ()))
        if shown == old:
            return
        common = _common_length(new, old)
        if common == len(old):  # Only appended to since.
            content = new[: self._dice.choice((common, len(new), self._dice.randint(common, len(new))))]
            if self._dice.random() < 0.2:
                # The size was written; of the sectors, any.
                content = _without_sectors(new, lost_sectors(self._dice, common, len(new)))
        elif common == len(new):  # Truncated since.
            content = self._dice.choice((old, new))
        else:  # Truncated, and written again.
            content = self._dice.choice((old, new, new[: self._dice.randint(common, len(new))]))
        REAL["truncate"](path, 0)
        path.write_bytes(content)

    # The system calls of the running code.

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Replace the operating system's calls."""
        with ExitStack() as stack:
            for name in REAL:
                if hasattr(self, f"_{name}"):
                    stack.enter_context(mock.patch.object(os, name, getattr(self, f"_{name}")))
            yield

    def _burn(self, *, writes: bool = True) -> Disk | None:
        """Count one operation of the running process."""
        process = CURRENT.get()
        disk = self.by_host.get(process.host) if process is not None else None
        if disk is None or process is None:
            return None
        self.operations += 1
        if not process.alive:
            raise ProcessDiedError(process.name)
        if disk.fuse is not None:
            left, kind = disk.fuse
            disk.fuse = (left - 1, kind) if left > 1 else None
            if left <= 1:
                if kind != "error":
                    self._on_fuse(process, kind)
                    raise ProcessDiedError(process.name)
                disk.failed_once = disk.failing = True
        if writes and disk.failing:
            raise OSError(errno.EIO, "simulated: the device is gone")
        return disk

    def _of_running_process(self) -> Disk | None:
        process = CURRENT.get()
        return self.by_host.get(process.host) if process is not None else None

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        disk = self._of_running_process()
        if disk is not None and disk.starved:
            refused, disk.refused = disk.refused, str(path)
            if refused != disk.refused:
                raise OSError(errno.EMFILE, "simulated: no descriptor is free")
            disk.refused = ""
        if flags & os.O_CREAT and not _resolved(path, dir_fd).exists():
            self._require_inode(disk)
        return int(REAL["open"](path, flags, mode, dir_fd=dir_fd))

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if not _resolved(path, dir_fd).exists():
            self._require_inode(self._of_running_process())
        REAL["mkdir"](path, mode, dir_fd=dir_fd)

    def _require_inode(self, disk: Disk | None) -> None:
        if disk is not None and disk.crowded:
            raise OSError(errno.ENOSPC, "simulated: no inode is free")

    def _pread(self, descriptor: int, length: int, offset: int) -> bytes:
        disk = self._of_running_process()
        if disk is not None and disk.unreadable and length:
            blocks = disk.unreadable.get(os.fstat(descriptor).st_ino, set())
            if any(offset // BLOCK_BYTES <= block <= (offset + length - 1) // BLOCK_BYTES for block in blocks):
                raise OSError(errno.EIO, "simulated: this block cannot be read")
        return bytes(REAL["pread"](descriptor, length, offset))

    def _write(self, descriptor: int, data: Any) -> int:
        disk = self._burn()
        self._require_room(disk)
        return int(REAL["write"](descriptor, data))

    def _pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        if self._is_killed_now():
            REAL["pwrite"](descriptor, memoryview(data)[: self._dice.randint(0, len(data))], offset)
        disk = self._burn()
        if disk is not None and disk.full:
            part = self._dice.randint(0, min(len(data), 200))
            if part:
                return int(REAL["pwrite"](descriptor, memoryview(data)[:part], offset))
        self._require_room(disk)
        written = int(REAL["pwrite"](descriptor, data, offset))
        if disk is not None and disk.unreadable:
            # Sectors that are written are replaced. The drive gives a block that is written in part as zeros elsewhere.
            blocks = disk.unreadable.get(os.fstat(descriptor).st_ino, set())
            blocks -= set(range(offset // BLOCK_BYTES, (offset + written - 1) // BLOCK_BYTES + 1))
        if disk is not None and disk.dropped:
            inode = os.fstat(descriptor).st_ino
            disk.dropped[inode] = _without(disk.dropped.get(inode, []), offset, offset + written)
        return written

    def _is_killed_now(self) -> bool:
        """Return whether the process is killed during this write: the system has the beginning of it."""
        process = CURRENT.get()
        disk = self.by_host.get(process.host) if process is not None and process.alive else None
        return disk is not None and disk.fuse == (1, "kill")

    def _require_room(self, disk: Disk | None) -> None:
        if disk is not None and disk.full:
            raise OSError(errno.ENOSPC, "simulated: the disk is full")

    def _ftruncate(self, descriptor: int, length: int) -> None:
        self._burn()
        REAL["ftruncate"](descriptor, length)

    def _fdatasync(self, descriptor: int) -> None:
        disk = self._burn()
        status = os.fstat(descriptor)
        if disk is not None and disk.sync_errno:
            number, disk.sync_errno, disk.failed_once = disk.sync_errno, 0, True
            if not stat.S_ISDIR(status.st_mode):
                new, old = _shown(descriptor), disk.contents.get(status.st_ino, b"")
                disk.dropped.setdefault(status.st_ino, []).append((_common_length(new, old), len(new)))
            raise OSError(number, f"simulated: this sync failed ({os.strerror(number)})")
        if disk is not None:
            if stat.S_ISDIR(status.st_mode):
                path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
                disk.names[status.st_ino] = {entry.name: entry.inode() for entry in os.scandir(path)}
            else:
                old, dropped = disk.contents.get(status.st_ino, b""), disk.dropped.get(status.st_ino, ())
                disk.contents[status.st_ino] = _as_written(_shown(descriptor), old, dropped)

    _fsync = _fdatasync

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        disk = self._burn()
        self._keep(disk, _resolved(path, dir_fd))
        REAL["unlink"](path, dir_fd=dir_fd)

    def _replace(self, source: Any, target: Any, **kwargs: Any) -> None:
        disk = self._burn()
        if Path(target).is_file():
            self._keep(disk, Path(target))
        REAL["replace"](source, target, **kwargs)

    _rename = _replace

    def _keep(self, disk: Disk | None, path: Path) -> None:
        if disk is None or not path.is_file():
            return
        kept = disk.morgue / str(path.stat().st_ino)
        if not kept.exists():
            os.link(path, kept)


def _resolved(path: Any, dir_fd: int | None) -> Path:
    return Path(path) if dir_fd is None else Path(os.readlink(f"/proc/self/fd/{dir_fd}")) / os.fsdecode(path)


def _shown(descriptor: int) -> bytes:
    """Return a file's content as its machine shows it."""
    with open(f"/proc/self/fd/{descriptor}", "rb") as file:
        return file.read()


def _as_written(shown: bytes, old: bytes, dropped: Iterable[tuple[int, int]]) -> bytes:
    """Return a disk's content once everything is written that the machine shows, except the dropped ranges."""
    content = bytearray(shown)
    for start, dropped_end in dropped:
        end = min(dropped_end, len(content))
        if start < end:
            content[start:end] = old[start:end].ljust(end - start, b"\0")
    return bytes(content)


def _without_sectors(content: bytes, lost: Iterable[tuple[int, int]]) -> bytes:
    torn = bytearray(content)
    for start, end in lost:
        torn[start:end] = bytes(end - start)
    return bytes(torn)


def _without(ranges: Iterable[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Return ranges of bytes without one part."""
    parts = [part for low, high in ranges for part in ((low, min(high, start)), (max(low, end), high))]
    return [(low, high) for low, high in parts if low < high]


def _common_length(one: bytes, other: bytes) -> int:
    """Return the length of the common beginning of two contents."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(at for at in range(shorter) if one[at] != other[at])


def close_files_below(folder: Path) -> None:
    """Close every file that this process has open below a folder, as a kernel does when a process exits."""
    below = str(folder) + "/"
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith(below):
                os.close(int(name))
        except OSError:
            continue
