"""A disk that keeps synced writes, and of all others any part.

Files are real, their durability is simulated: inside `hooked`, the calls that make something durable only record it. A
loss of power then cuts each file down to its synced bytes plus any part of the rest, torn at any byte, or leaves any
sectors of the rest and zeros for the others. It also undoes renames whose folder was not synced. A fuse kills a voter
at its n-th disk operation from now, or makes that operation fail.
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
"""A disk writes a sector whole, or not at all."""


def lost_sectors(dice: random.Random, synced: int, size: int) -> list[tuple[int, int]]:
    """Return ranges of a file's bytes above `synced` that a loss of power leaves unwritten: any of the sectors."""
    share = dice.random()
    starts = range(synced - synced % SECTOR_BYTES, size, SECTOR_BYTES)
    return [(max(start, synced), min(start + SECTOR_BYTES, size)) for start in starts if dice.random() < share]


class PowerLossError(BaseException):
    """The running voter died in the middle of a disk operation; no error handler may swallow it."""


@dataclass
class _Rename:
    source: Path
    target: Path
    replaced: bytes | None
    replaced_synced: int
    replaced_flips: dict[int, int]


class SimulatedDisk:
    """The disks of all voters. `running` is the name of the voter whose code runs."""

    def __init__(self, dice: random.Random) -> None:
        self.running: str | None = None
        self.dead: set[str] = set()
        self.failed: set[str] = set()
        """Voters whose disk has failed a write: they must stop by themselves before they promise anything more."""
        self.flips = Flips()
        self._random = dice
        self._fuses: dict[str, tuple[int, Fuse]] = {}
        self._synced: dict[int, int] = {}
        self._stuck: set[int] = set()
        """Append-only files whose sync failed: a kernel drops the pages, and reports success from then on."""
        self._renames: dict[int, list[_Rename]] = {}

    def light_fuse(self, name: str, operations: int, kind: Fuse) -> None:
        """Kill a voter, or fail its disk, at one of its next operations."""
        self._fuses[name] = (operations, kind)

    def calm(self) -> None:
        """Remove every fuse."""
        self._fuses.clear()

    def die(self) -> None:
        """Kill the running voter. This call does not return, like `os._exit`."""
        assert self.running is not None
        self.dead.add(self.running)
        raise PowerLossError

    def crash(self, name: str, folder: Path, *, power: bool) -> None:
        """Kill a voter's process; with `power`, cut its machine's power: only synced writes certainly survive."""
        self.dead.discard(name)
        self.failed.discard(name)
        self._fuses.pop(name, None)
        pending = self._renames.pop(folder.stat().st_ino, [])
        if power:
            for rename in reversed(pending[self._random.randint(0, len(pending)) :]):
                self._undo(rename)
            for path in sorted(folder.iterdir()):
                self._tear(path)
        for path in folder.iterdir():  # Everything that is left is on disk.
            status = path.stat()
            self._stuck.discard(status.st_ino)
            self._synced[status.st_ino] = 0 if path.suffix == ".new" else status.st_size

    def wipe(self, folder: Path) -> None:
        """Delete everything that a stopped voter has written."""
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
        if synced == status.st_size or self._random.random() < 0.7:
            os.truncate(path, kept)
            self.flips.lost(status.st_ino, kept, status.st_size)
            return
        # The size was written; of the sectors, any. The others are zeros.
        with path.open("r+b") as file:
            for start, end in lost_sectors(self._random, synced, status.st_size):
                file.seek(start)
                file.write(bytes(end - start))
                self.flips.lost(status.st_ino, start, end)

    # The calls of the journal and the snapshots.

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Replace the operating system's calls."""
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
        """Count one operation of the running voter."""
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
