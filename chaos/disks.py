"""A disk of its own for each node: ext4 in a file, mounted through a loop device. It can fill up, and lose power.

A power cut is EXT4_IOC_SHUTDOWN: from then on no write reaches the disk, and the page cache's content is lost when the
file system is mounted again. The node's file with the machine's boot id is changed meanwhile: to the node, the machine
has restarted. Needs root. Every mount point is below the cluster's folder; `close` unmounts them, which detaches the
loop devices too.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from raftlog.partition.storage.files import read_json, write_json

DISK = "disk"
"""The mount point of a node's disk, in the node's folder."""
DATA = f"{DISK}/data"
"""A node's data folder; not the mount point itself, which contains `lost+found`."""
DISK_BYTES = 256 << 20
FILLER = "filler"
_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


class DiskError(Exception):
    """A disk cannot be made, mounted or cut."""


def why_not(folder: Path) -> str:
    """Try everything once on a small disk in `folder`; return what is missing, or an empty string."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        disk = Disk(Path(temporary), "probe", size=8 << 20)
        try:
            disk.make()
            disk.mount()
            disk.cut_power()
            disk.mount()
        except (DiskError, OSError) as error:
            return str(error)
        finally:
            disk.unmount()
    return ""


class Disk:
    """One node's disk. All methods block."""

    def __init__(self, folder: Path, name: str, *, size: int = DISK_BYTES) -> None:
        self.image = folder.absolute() / f"{name}.ext4"
        self.mount_point = folder.absolute() / name / DISK
        self._size = size
        self._mounted = False

    def make(self) -> None:
        """Make an empty file system in a sparse file."""
        if os.geteuid() != 0:
            raise DiskError("mounting a disk needs root")
        self.mount_point.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as file:
            file.truncate(self._size)
        # No reserved blocks, and no tables written later in the background.
        _run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(self.image))

    def mount(self) -> None:
        """Mount it; the kernel replays the journal."""
        _run("mount", "-o", "loop", str(self.image), str(self.mount_point))
        self._mounted = True

    def unmount(self) -> None:
        """Unmount it if it is mounted; this detaches its loop device."""
        if not self._mounted:
            return
        try:
            _run("umount", str(self.mount_point))
        except DiskError as error:
            raise DiskError(f"{error}; used by {_users_of(self.mount_point) or 'no process'}") from error
        self._mounted = False

    def cut_power(self) -> None:
        """Drop every write that is not on the disk, and unmount it. Its users must have exited, or get EIO."""
        descriptor = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        except OSError as error:
            raise DiskError(f"EXT4_IOC_SHUTDOWN: {error.strerror}") from error
        finally:
            os.close(descriptor)
        self.unmount()

    def power_up(self) -> None:
        """Mount the disk after a power cut, and change the node's boot id: to the node, the machine has restarted.

        A filler that was freed just before the cut is there again. It is removed: the file below needs space.
        """
        self.mount()
        self.free()
        run_file = self.mount_point / "data" / "run.json"
        if run_file.exists():
            write_json(run_file, {**(read_json(run_file) or {}), "boot_id": "before the power cut"})

    def fill(self) -> None:
        """Allocate all free space, without writing to it. A disk without power stays as it is."""
        if not self._mounted:
            return  # Below an empty mount point is this machine's own disk.
        with (self.mount_point / FILLER).open("wb") as file:
            piece, end = 1 << 26, 0
            while piece and end < self._size:  # Halve the piece until no byte is left.
                try:
                    os.posix_fallocate(file.fileno(), end, piece)
                    end += piece
                except OSError:
                    piece //= 2

    def free(self) -> None:
        """Free the space again."""
        if not self._mounted:
            return
        (self.mount_point / FILLER).unlink(missing_ok=True)

    def wipe(self) -> None:
        """Replace it by an empty disk."""
        shutil.rmtree(self.mount_point / "data", ignore_errors=True)


class Disks:
    """The disks of one cluster."""

    def __init__(self, folder: Path, names: Iterable[str], *, size: int = DISK_BYTES) -> None:
        self._disks = {name: Disk(folder, name, size=size) for name in names}

    def __getitem__(self, name: str) -> Disk:
        return self._disks[name]

    def open(self) -> None:
        """Make and mount all of them.

        Raises:
            DiskError: one cannot be made or mounted; none stays mounted.
        """
        try:
            for disk in self._disks.values():
                disk.make()
                disk.mount()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unmount all of them, even if one fails."""
        failed = []
        for disk in self._disks.values():
            try:
                disk.unmount()
            except DiskError as error:
                failed.append(str(error))
        if failed:
            raise DiskError("; ".join(failed))


def _users_of(mount_point: Path) -> list[str]:
    """Return the files that are open below a mount point, with the ids of the processes."""
    found = []
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            if (target := link.readlink()).is_relative_to(mount_point):
                found.append(f"{link}: {target}")
    return found


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except FileNotFoundError as error:
        raise DiskError(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise DiskError(f"{' '.join(command)}: {done.stderr.strip()[:300]}")
