"""A disk that keeps what was synced, and of everything else as much as it likes.

Files are real, their durability is simulated: inside `hooked`, the calls that make something durable only note that it
is. A loss of power then cuts each file down to what was synced plus any part of the rest, torn at any byte, or leaves
sectors of zeros, and undoes renames whose folder was not synced. A fuse ends a voter at its n-th disk operation from
now, or makes that one fail.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from simulation.flips import Flips

Fuse = Literal["power", "error"]
SECTOR_BYTES = 512
"""A disk writes one whole, or not."""


class PowerLossError(BaseException):
    """The voter that runs has died in the middle of a disk operation; no handler for errors may swallow it."""


@dataclass
class _Rename:
    source: Path
    target: Path
    replaced: bytes | None
    replaced_synced: int
    replaced_flips: dict[int, int]


class SimulatedDisk:
    """The disks of all voters. `running` names the one whose code runs."""

    def __init__(self, dice: random.Random) -> None:
        self.running: str | None = None
        self.dead: set[str] = set()
        self.failed: set[str] = set()
        """Voters whose disk has refused a write: they must stop by themselves before they promise anything more."""
        self.flips = Flips()
        self._random = dice
        self._fuses: dict[str, tuple[int, Fuse]] = {}
        self._synced: dict[int, int] = {}
        self._stuck: set[int] = set()
        """Files that only grow, and whose sync failed: a kernel drops the pages, and reports success from then on."""
        self._renames: dict[int, list[_Rename]] = {}

    def light_fuse(self, name: str, operations: int, kind: Fuse) -> None:
        """End a voter, or fail its disk, at one of its next operations."""
        self._fuses[name] = (operations, kind)

    def calm(self) -> None:
        """Put every fuse out."""
        self._fuses.clear()

    def die(self) -> None:
        """End the voter that runs. It does not come back from this call, as from `os._exit`."""
        assert self.running is not None
        self.dead.add(self.running)
        raise PowerLossError

    def crash(self, name: str, folder: Path, *, power: bool) -> None:
        """End a voter's process; with `power`, its machine too, so that only what was synced is sure to survive."""
        self.dead.discard(name)
        self.failed.discard(name)
        self._fuses.pop(name, None)
        pending = self._renames.pop(folder.stat().st_ino, [])
        if power:
            for rename in reversed(pending[self._random.randint(0, len(pending)) :]):
                self._undo(rename)
            for path in sorted(folder.iterdir()):
                self._tear(path)
        for path in folder.iterdir():  # Whatever is left is on disk.
            status = path.stat()
            self._stuck.discard(status.st_ino)
            self._synced[status.st_ino] = 0 if path.suffix == ".new" else status.st_size

    def wipe(self, folder: Path) -> None:
        """Leave nothing of what a voter that is down has written."""
        for path in folder.iterdir():
            inode = path.stat().st_ino  # Another file may get it.
            self._synced.pop(inode, None)
            self._stuck.discard(inode)
            self.flips.taken(inode)
            path.unlink()

    def _undo(self, rename: _Rename) -> None:
        rename.target.rename(rename.source)
        self.flips.taken(rename.source.stat().st_ino)
        if rename.replaced is not None:
            rename.target.write_bytes(rename.replaced)
            self._synced[rename.target.stat().st_ino] = rename.replaced_synced
            self.flips.given(rename.target.stat().st_ino, rename.replaced_flips)

    def _tear(self, path: Path) -> None:
        status = path.stat()
        synced = min(self._synced.get(status.st_ino, 0), status.st_size)
        kept = self._random.choice((synced, status.st_size, self._random.randint(synced, status.st_size)))
        os.truncate(path, kept)
        self.flips.cut(status.st_ino, kept)
        if kept < status.st_size and self._random.random() < 0.2:
            # The size was noted, whole sectors of bytes were not: zeros.
            whole = max(synced, kept - kept % SECTOR_BYTES)
            os.truncate(path, whole)
            self.flips.cut(status.st_ino, whole)
            os.truncate(path, status.st_size)

    # What the journal and the snapshots call.

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Stand before the operating system's calls."""
        names = ("write", "fdatasync", "fsync", "replace")
        saved: dict[str, Any] = {name: getattr(os, name) for name in names}
        self._os_write, self._os_replace = saved["write"], saved["replace"]
        for name in names:
            setattr(os, name, getattr(self, f"_{name}"))
        try:
            yield
        finally:
            for name, function in saved.items():
                setattr(os, name, function)

    def _burn(self, descriptor: int | None = None) -> None:
        """Count one operation of the voter that runs."""
        name = self.running
        if name is None:
            return
        if name in self.dead:
            raise PowerLossError
        if name not in self._fuses:
            return
        left, kind = self._fuses.pop(name)
        if left > 1:
            self._fuses[name] = (left - 1, kind)
            return
        if kind == "power":
            self.die()
        self.failed.add(name)
        if descriptor is not None and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
            self._stuck.add(os.fstat(descriptor).st_ino)
        raise OSError(errno.EIO, "simulated")

    def _write(self, descriptor: int, data: bytes) -> int:
        self._burn()
        return int(self._os_write(descriptor, data))

    def _fdatasync(self, descriptor: int) -> None:
        self._burn(descriptor)
        status = os.fstat(descriptor)
        if status.st_ino not in self._stuck:
            self._synced[status.st_ino] = status.st_size

    def _fsync(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if not stat.S_ISDIR(status.st_mode):
            self._fdatasync(descriptor)
            return
        self._burn()
        self._renames.pop(status.st_ino, None)

    def _replace(self, source: Path, target: Path) -> None:
        self._burn()
        source, target = Path(source), Path(target)
        replaced, synced, flips = None, 0, dict[int, int]()
        if target.exists():
            inode = target.stat().st_ino
            replaced, synced = target.read_bytes(), self._synced.pop(inode, 0)
            self._stuck.discard(inode)
            flips = self.flips.taken(inode)
        folder = target.parent.stat().st_ino
        self._renames.setdefault(folder, []).append(_Rename(source, target, replaced, synced, flips))
        self._os_replace(source, target)
