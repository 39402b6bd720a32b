"""A disk of its own for each node: ext4 in a file, mounted through a loop device. It can fill up, and lose power.

A power cut is EXT4_IOC_SHUTDOWN: from then on nothing reaches the disk, and what the page cache held is gone when the
file system is mounted again. The node's note of the machine's boot is changed meanwhile: to the node, the machine has
gone down. Needs root. Every mount point is below the cluster's folder; `close` unmounts them, which detaches the loop
devices too.
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
"""Where a node's disk is mounted, in its folder."""
DATA = f"{DISK}/data"
"""A node's data folder; not the mount point itself, which holds `lost+found`."""
DISK_BYTES = 256 << 20
FILLER = "filler"
_EXT4_IOC_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


class DiskError(Exception):
    """A disk cannot be made, mounted or cut."""


def why_not(folder: Path) -> str:
    """Try everything once, on a small disk in `folder`; return what is missing, or nothing."""
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
        """Mount it: the journal is replayed."""
        _run("mount", "-o", "loop", str(self.image), str(self.mount_point))
        self._mounted = True

    def unmount(self) -> None:
        """Unmount it if it is mounted; its loop device goes with it."""
        if not self._mounted:
            return
        try:
            _run("umount", str(self.mount_point))
        except DiskError as error:
            raise DiskError(f"{error}; used by {_users_of(self.mount_point) or 'nobody'}") from error
        self._mounted = False

    def cut_power(self) -> None:
        """Drop what is not on the disk, and unmount it. Whoever used it must be gone or meets EIO."""
        descriptor = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        except OSError as error:
            raise DiskError(f"EXT4_IOC_SHUTDOWN: {error.strerror}") from error
        finally:
            os.close(descriptor)
        self.unmount()

    def power_up(self) -> None:
        """Mount the disk after a power cut, and let its node see that the machine has gone down."""
        self.mount()
        run_file = self.mount_point / "data" / "run.json"
        if run_file.exists():
            write_json(run_file, {**(read_json(run_file) or {}), "boot_id": "before the power cut"})

    def fill(self) -> None:
        """Take all the room there is, without writing it. A disk without power stays as it is."""
        if not self._mounted:
            return  # What is below the mount point is this machine's own disk.
        with (self.mount_point / FILLER).open("wb") as file:
            piece, end = 1 << 26, 0
            while piece and end < self._size:  # Ever smaller ones, until not a byte is left.
                try:
                    os.posix_fallocate(file.fileno(), end, piece)
                    end += piece
                except OSError:
                    piece //= 2

    def free(self) -> None:
        """Give the room back."""
        if not self._mounted:
            return
        (self.mount_point / FILLER).unlink(missing_ok=True)

    def wipe(self) -> None:
        """Become an empty disk, as one that was replaced."""
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
            DiskError: one cannot be; none stays mounted.
        """
        try:
            for disk in self._disks.values():
                disk.make()
                disk.mount()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Unmount all of them, whatever happens to one."""
        failed = []
        for disk in self._disks.values():
            try:
                disk.unmount()
            except DiskError as error:
                failed.append(str(error))
        if failed:
            raise DiskError("; ".join(failed))


def _users_of(mount_point: Path) -> list[str]:
    """Return what is open below a mount point, with the ids of the processes."""
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
