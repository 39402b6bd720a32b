"""One node's data folder: its owner (`meta.json`), its lock, its last shutdown, and the partitions' folders."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import threading
import uuid
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from raftlog.errors import ConfigError, DiskFullError, ErrorCode
from raftlog.model import BrokerEpoch, Offset, TopicId
from raftlog.partition.storage.files import (
    FailedSyncError,
    fsync_dir,
    make_dir,
    read_json,
    storage_error,
    write_json,
)
from raftlog.partition.storage.reserve import with_reserve
from raftlog.runtime import new_uuid_hex

_log = logging.getLogger(__name__)
FORMAT_VERSION = 1
DELETED_SUFFIX = ".deleted"
STRAY_SUFFIX = ".stray"
CUTTING_SUFFIX = ".cutting"
CUT_SUFFIX = ".cut"
MAX_SHOWN = 180
"""The most characters of a topic's name in the name of a folder."""
"""A log that replaces a damaged one (`raftlog storage cut`, `put_rebuilt`): while it is written, and when complete."""
QUARANTINED = ".quarantined-"
MAX_QUARANTINED = 2
"""Quarantined logs kept for each partition; the oldest is removed first."""
MAX_INCARNATIONS = 100
"""Limit of incarnations noted since the last one that received its registration; a response may be lost."""
_META_FILE = "meta.json"
_RUN_FILE = "run.json"
_BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")
_PARTITION_FOLDER = re.compile(r"^(?P<topic>.+)-(?P<partition>\d+)-(?P<topic_id>[0-9a-f]{32})$")


@dataclass(frozen=True, slots=True)
class StoredPartition:
    """A partition folder that was found on disk."""

    topic: str
    partition: int
    topic_id: TopicId
    folder: Path


@dataclass(frozen=True, slots=True)
class LastShutdown:
    """How the previous run ended, from `run.json`."""

    clean: bool = True
    """It synced every log. A killed process did not, and is not `unclean` while the machine runs on."""
    unclean: bool = False
    power_lost: bool = False
    incarnations: tuple[str, ...] | None = None
    broker_epoch: BrokerEpoch = -1
    """Of the last registration; -1: unknown."""
    metadata_offset: Offset = -1
    """Of the newest metadata that is known to have been applied; -1: unknown."""


class DataDir:
    """An open, locked data folder; `close` releases the lock."""

    def __init__(self, path: Path, lock: int, *, storage_id: str, incarnation_id: str, last: LastShutdown) -> None:
        self.path = path
        self.partitions = path / "partitions"
        self.storage_id = storage_id
        """Random, created with the folder: it differs for every folder."""
        self.incarnation_id = incarnation_id
        """Of the process that opened the folder; written to `run.json` before it is sent to a controller."""
        self.previous_incarnations = last.incarnations
        """Earlier incarnations that may have registered; None for a new folder, or one of an earlier version."""
        self.last_was_clean = last.clean
        """The previous run, if there was one, left every log synced."""
        self.power_lost = last.power_lost
        """As `unclean`, but until every log was recovered: unsynced writes may be missing in any of them."""
        self.unclean = last.unclean
        """The machine went down since this folder was last closed cleanly: unsynced writes may be lost."""
        self.broker_epoch = last.broker_epoch
        """The epoch of the last registration that is known; -1: none. A later one has a greater epoch."""
        self.metadata_offset = last.metadata_offset
        """Of metadata that was applied; -1: unknown. Controllers that have less have lost theirs."""
        self._lock = lock
        self._noting, self._is_clean = threading.RLock(), False
        earlier = last.incarnations or ()
        self._incarnations = [*earlier[:1], *earlier[1:][-MAX_INCARNATIONS:], incarnation_id]

    @classmethod
    def open(cls, path: Path, *, cluster_id: str, node_id: int, incarnation_id: str = "") -> DataDir:
        """Open a data folder, creating it when it is missing or empty.

        Args:
            incarnation_id: of this process; random if not given.

        Raises:
            ConfigError: another process uses it, or it belongs to another cluster or node.
            StorageError: it cannot be created or read.
        """
        try:
            make_dir(path)
            lock = _lock(path)
        except OSError as error:
            raise storage_error(error, f"cannot use {path} as data folder") from error
        try:
            new = not (path / _META_FILE).exists()
            storage_id = _claim(path, cluster_id, node_id)
            last = LastShutdown() if new else _last_shutdown(path)
            opened = cls(path, lock, storage_id=storage_id, incarnation_id=incarnation_id or new_uuid_hex(), last=last)
            with_reserve(path, lambda: opened._note_run(clean=False))
            make_dir(opened.partitions)
            opened._remove_deleted()
            opened._finish_cuts()
        except BaseException:
            os.close(lock)
            raise
        return opened

    def renew_storage_id(self, storage_id: str) -> None:
        """Change the storage id, durably: controllers then treat this node as one that lost its data."""
        meta = read_json(self.path / _META_FILE) or {}
        write_json(self.path / _META_FILE, {**meta, "storage_id": storage_id})
        self.storage_id = storage_id

    def mark_clean(self) -> None:
        """Record a clean shutdown: everything is synced, and nothing more is written."""
        with self._noting:
            self._is_clean = True
            self._note_what_may_be_forgotten(clean=True)

    def registered(self, broker_epoch: BrokerEpoch, metadata_offset: Offset = -1) -> None:
        """Record a registration: the controller has received the unclean shutdown and the present incarnation."""
        self.metadata_offset = max(self.metadata_offset, metadata_offset)
        self.unclean, self._incarnations, self.broker_epoch = False, [self.incarnation_id], broker_epoch
        self._note_what_may_be_forgotten(clean=False)

    def note_metadata(self, offset: Offset) -> None:
        """Record that metadata up to an offset was applied. A thread may call it, also at the end of a shutdown."""
        with self._noting:
            if offset > self.metadata_offset and not self._is_clean:
                self.metadata_offset = offset
                self._note_what_may_be_forgotten(clean=False)

    def settle_power_loss(self) -> None:
        """Record that every log was recovered after a power loss: invalid batches found later are damage."""
        if self.power_lost:
            self.power_lost = False
            self._note_what_may_be_forgotten(clean=False)

    def _note_what_may_be_forgotten(self, *, clean: bool) -> None:
        """Write `run.json`, unless the disk is full: then the next start just assumes an unclean shutdown."""
        try:
            with self._noting:
                self._note_run(clean=clean)
        except DiskFullError as error:
            _log.warning("%s; the next start will take this one for unclean", error)

    def _note_run(self, *, clean: bool) -> None:
        run = {"boot_id": boot_id(), "clean": clean, "unclean_before": self.unclean, "power_lost": self.power_lost}
        known = {"broker_epoch": self.broker_epoch, "metadata_offset": self.metadata_offset}
        write_json(self.path / _RUN_FILE, {**run, "incarnations": self._incarnations, **known})

    def close(self) -> None:
        """Release the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def partition_folder(self, topic: str, partition: int, topic_id: TopicId) -> Path:
        """Return the folder of a replica's log; the topic id keeps a recreated topic apart from the old one.

        The name has only the beginning of a long topic's name: with its suffixes it has at most 255 bytes, as many as
        file systems allow.
        """
        shown = topic if len(topic) <= MAX_SHOWN else f"{topic[:MAX_SHOWN]}~"
        return self.partitions / f"{shown}-{partition}-{topic_id}"

    def list_partitions(self) -> Iterator[StoredPartition]:
        """Find every partition folder, sorted by name; others are left alone."""
        return stored_partitions(self.partitions)

    def set_aside(self, folders: Sequence[Path]) -> list[Path]:
        """Rename the folders of partitions, and their quarantined logs, so that none is opened again.

        Return what `remove_folders` has to remove. After a crash in between, the next start removes it.

        Raises:
            StorageError: one could not be renamed. A failed sync is never retried.
        """
        doomed = list[Path]()
        try:
            for folder in folders:
                discard_rebuilt(folder)
            for folder in (*folders, *_quarantined_of(self.partitions, {folder.name for folder in folders})):
                doomed.append(_unused_name(folder))
                os.rename(folder, doomed[-1])
            fsync_dir(self.partitions)
        except OSError as error:
            raise storage_error(error, f"cannot delete {', '.join(map(str, folders[:3]))}") from error
        return doomed

    def set_stray(self, folder: Path) -> Path:
        """Rename the folder of a stray partition, so that it is not opened; return the new path.

        Raises:
            StorageError: it could not be renamed. A failed sync is never retried.
        """
        aside = folder.with_name(folder.name + STRAY_SUFFIX)
        if aside.exists():
            _remove(aside)
        try:
            os.rename(folder, aside)
            fsync_dir(self.partitions)
        except OSError as error:
            raise storage_error(error, f"cannot rename {folder}") from error
        return aside

    @property
    def has_strays(self) -> bool:
        """Whether there are folders for `remove_strays`."""
        return any(self.partitions.glob(f"*{STRAY_SUFFIX}"))

    def remove_strays(self) -> None:
        """Delete the folders that `set_stray` renamed in this or an earlier run, and their quarantined logs."""
        for stray in sorted(self.partitions.glob(f"*{STRAY_SUFFIX}")):
            folder = stray.with_suffix("")
            for gone in (stray, *(() if folder.exists() else quarantined_logs(folder))):
                _remove(gone)

    def release(self, folder: Path) -> None:
        """Do nothing: with a single folder, a closed log keeps its place."""

    def quarantine(self, folder: Path) -> Path:
        """Quarantine a damaged log; see `quarantine`."""
        return quarantine(folder)

    @property
    def quarantined(self) -> int:
        """How many quarantined logs are on disk."""
        return sum(bool(_owner_of(name)) for name in os.listdir(self.partitions))

    def _remove_deleted(self) -> None:
        for folder in self.partitions.glob(f"*{DELETED_SUFFIX}"):
            _remove(folder)

    def _finish_cuts(self) -> None:
        for folder in self.partitions.glob(f"*{CUTTING_SUFFIX}"):
            _remove(folder)
        try:
            for folder in self.partitions.glob(f"*{CUT_SUFFIX}"):
                finish_cut(folder)
        except OSError as error:
            raise storage_error(error, f"cannot finish cutting logs in {self.partitions}") from error


def finish_cut(whole: Path) -> None:
    """Finish an interrupted `raftlog storage cut` if the damaged log was quarantined already; otherwise revert it.

    Raises:
        OSError: from the system.
    """
    folder = whole.with_suffix("")
    if not whole.exists():
        return
    if folder.exists() and os.listdir(folder):
        _log.warning("%s was not cut: what would be left of it is removed", folder)
        shutil.rmtree(whole)
        return
    _log.warning("%s: a cut that did not end is finished; the damaged log lies beside it", folder)
    os.rename(whole, folder)
    fsync_dir(folder.parent)


def _unused_name(folder: Path) -> Path:
    """Return a name for a folder to remove. An earlier one of the same partition may not be removed yet."""
    doomed, number = folder.with_name(folder.name + DELETED_SUFFIX), 0
    while doomed.exists():
        number += 1
        doomed = folder.with_name(f"{folder.name}.{number}{DELETED_SUFFIX}")
    return doomed


def remove_folders(folders: Iterable[Path]) -> None:
    """Remove folders that `set_aside` returned. Blocks; for a worker thread."""
    for folder in folders:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove an unused folder; a failure is only logged, and the next start tries again."""
    try:
        shutil.rmtree(folder)
    except OSError as error:
        _log.error("%s", storage_error(error, f"cannot delete {folder}, which is not used any more"))


def quarantine(folder: Path) -> Path:
    """Rename a damaged log, durably; return its new path. `MAX_QUARANTINED` are kept of one partition.

    Raises:
        StorageError: it could not be renamed, or a full disk had no room for a new folder; called again, this goes on.
    """
    try:
        aside = _put_aside(folder)
        folder.mkdir()  # So that the quarantined log is found when the topic is deleted.
        fsync_dir(folder.parent)
    except OSError as error:
        raise storage_error(error, f"cannot put {folder} aside") from error
    _limit_quarantined(folder)
    return aside


def _put_aside(folder: Path) -> Path:
    aside = _quarantine_name(folder)
    try:
        os.rename(folder, aside)
    except FileNotFoundError:
        if not (before := quarantined_logs(folder)):
            raise
        return before[-1]  # It was renamed before.
    return aside


def put_rebuilt(folder: Path) -> Path:
    """Quarantine a damaged log, put the one rebuilt for it in its place, durably, and return the path of the former.

    Raises:
        StorageError: the damaged log is in its place.
        FailedSyncError: no log is in its place. An empty one must not be used there: the replica may lead. The next
            start of the process finishes this.
    """
    whole = folder.with_name(folder.name + CUT_SUFFIX)
    try:
        os.stat(whole)
        aside = _quarantine_name(folder)
        os.rename(folder, aside)
    except OSError as error:
        raise storage_error(error, f"cannot put {folder} aside") from error
    try:
        os.rename(whole, folder)
        fsync_dir(folder.parent)
    except OSError as error:
        raise FailedSyncError(f"cannot put the rebuilt log in place of {folder}: {error}") from error
    _limit_quarantined(folder)
    return aside


def lacks_rebuilt(folder: Path) -> bool:
    """Return whether a log was rebuilt for this folder, and has not been put in its place: nothing else is there."""
    return folder.with_name(folder.name + CUT_SUFFIX).exists() and not (folder.exists() and os.listdir(folder))


def discard_rebuilt(folder: Path) -> None:
    """Remove what was rebuilt for a log, complete or not. A part of it is never put in place."""
    for suffix in (CUT_SUFFIX, CUTTING_SUFFIX):
        left = folder.with_name(folder.name + suffix)
        try:
            if left.exists():
                doomed = _unused_name(folder)
                os.rename(left, doomed)
                _remove(doomed)
        except OSError as error:
            _log.error("%s", storage_error(error, f"cannot delete {left}, which is not used any more"))


def _quarantine_name(folder: Path) -> Path:
    last = max((int(old.name.rpartition("-")[2]) for old in quarantined_logs(folder)), default=0)
    return folder.with_name(f"{folder.name}{QUARANTINED}{last + 1}")


def _limit_quarantined(folder: Path) -> None:
    try:
        for old in quarantined_logs(folder)[:-MAX_QUARANTINED]:
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:  # The log is put aside all the same.
        _log.error("%s", storage_error(error, f"cannot delete old quarantined logs of {folder}"))


def quarantined_logs(folder: Path) -> list[Path]:
    """Return the quarantined logs of a partition, oldest first."""
    prefix = folder.name + QUARANTINED
    names = [name.removeprefix(prefix) for name in os.listdir(folder.parent) if name.startswith(prefix)]
    return [folder.with_name(f"{prefix}{number}") for number in sorted(int(name) for name in names if name.isdecimal())]


def _quarantined_of(partitions: Path, names: Container[str]) -> list[Path]:
    """Return the quarantined logs of several partitions, given the names of their folders."""
    return [partitions / name for name in os.listdir(partitions) if _owner_of(name) in names]


def _owner_of(name: str) -> str:
    owner, _, number = name.partition(QUARANTINED)
    return owner if number.isdecimal() else ""


@contextmanager
def kept_unused(path: Path) -> Iterator[None]:
    """Keep every node from starting on a data folder meanwhile. A folder that no node has used has no lock.

    Raises:
        ConfigError: a process uses it.
    """
    try:
        descriptor = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{path} is in use by another process; stop the node first") from None
        yield
    finally:
        os.close(descriptor)


def stored_partitions(partitions: Path) -> Iterator[StoredPartition]:
    """Find every partition folder, sorted by name; others are left alone."""
    for name in sorted(os.listdir(partitions)):
        if match := _PARTITION_FOLDER.match(name):
            yield StoredPartition(match["topic"], int(match["partition"]), match["topic_id"], partitions / name)


def _lock(path: Path) -> int:
    descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigError(f"data folder {path} is in use by another process; end it or choose another") from None
    return descriptor


def boot_id() -> str:
    """Return the boot id of this machine; a random one where the system has none."""
    try:
        return _BOOT_ID_FILE.read_text().strip()
    except OSError:
        return uuid.uuid4().hex


def _last_shutdown(path: Path) -> LastShutdown:
    """Return how the last run ended. Without the file it was unclean: the file is written before anything else.

    A killed process loses no write: the page cache still has it. Only a reboot (another boot id) loses writes.
    """
    last = read_json(path / _RUN_FILE)
    if last is None:
        return LastShutdown(clean=False, unclean=True, power_lost=True)
    clean = bool(last.get("clean"))
    went_down = not (clean or last.get("boot_id") == boot_id())
    unclean = went_down or bool(last.get("unclean_before"))
    noted = last.get("incarnations")
    incarnations = None if noted is None else tuple(map(str, noted))
    return LastShutdown(
        clean,
        unclean,
        unclean or bool(last.get("power_lost")),
        incarnations,
        broker_epoch=int(last.get("broker_epoch", -1)),
        metadata_offset=int(last.get("metadata_offset", -1)),
    )


def _claim(path: Path, cluster_id: str, node_id: int) -> str:
    meta = read_json(path / _META_FILE)
    if meta is None or "storage_id" not in meta:
        fresh = {"version": FORMAT_VERSION, "cluster_id": cluster_id, "node_id": node_id}
        meta = {**(meta or fresh), "storage_id": uuid.uuid4().hex}
        _require_own(path, meta, cluster_id, node_id)
        write_json(path / _META_FILE, meta)
    _require_own(path, meta, cluster_id, node_id)
    return str(meta["storage_id"])


def _require_own(path: Path, meta: Mapping[str, object], cluster_id: str, node_id: int) -> None:
    found = meta.get("version"), meta.get("cluster_id"), meta.get("node_id")
    if found != (FORMAT_VERSION, cluster_id, node_id):
        raise ConfigError(
            f"data folder {path} belongs to node {found[2]} of cluster {found[1]} (format {found[0]}); this is "
            f"node {node_id} of cluster {cluster_id} (format {FORMAT_VERSION}); nothing was touched: "
            "choose another data_dir",
            code=ErrorCode.INCONSISTENT_CLUSTER_ID,
        )
