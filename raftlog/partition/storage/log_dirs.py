"""Several folders for one node's partitions, each on its own disk (`log_dirs`).

Each has its own `meta.json`, lock and `run.json`, like a data folder. A new partition goes to the folder with the
fewest, and stays there. The node's data folder records the log folders. If one is missing, a disk was lost: the node
gets another storage id, and the controllers count none of its replicas until they have caught up.
"""

from __future__ import annotations

import logging
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from raftlog.errors import ConfigError
from raftlog.model import BrokerEpoch, Offset, TopicId
from raftlog.partition.storage.data_dir import DataDir, StoredPartition, quarantine
from raftlog.partition.storage.files import read_json, write_json
from raftlog.runtime import new_uuid_hex

_log = logging.getLogger(__name__)
_KNOWN = "log-dirs.json"


class NodeFolders(Protocol):
    """The folders of a node's partitions: one data folder, or several log folders."""

    @property
    def path(self) -> Path: ...
    @property
    def storage_id(self) -> str: ...
    @property
    def incarnation_id(self) -> str: ...
    @property
    def previous_incarnations(self) -> tuple[str, ...] | None: ...
    @property
    def last_was_clean(self) -> bool: ...
    @property
    def unclean(self) -> bool: ...
    @property
    def power_lost(self) -> bool: ...
    @property
    def quarantined(self) -> int: ...
    @property
    def broker_epoch(self) -> BrokerEpoch: ...
    @property
    def metadata_offset(self) -> Offset: ...
    def registered(self, broker_epoch: BrokerEpoch, metadata_offset: Offset = -1) -> None: ...
    def note_metadata(self, offset: Offset) -> None: ...
    def settle_power_loss(self) -> None: ...
    def mark_clean(self) -> None: ...
    def close(self) -> None: ...
    def partition_folder(self, topic: str, partition: int, topic_id: TopicId) -> Path: ...
    def list_partitions(self) -> Iterator[StoredPartition]: ...
    def set_aside(self, folders: Sequence[Path]) -> list[Path]: ...
    def set_stray(self, folder: Path) -> Path: ...
    @property
    def has_strays(self) -> bool: ...
    def remove_strays(self) -> None: ...
    def release(self, folder: Path) -> None: ...
    def quarantine(self, folder: Path) -> Path: ...


class LogDirs:
    """A data folder, and log folders that hold the partitions instead of it."""

    def __init__(self, data_dir: DataDir, log_dirs: Sequence[DataDir]) -> None:
        self._data_dir = data_dir
        self._log_dirs = log_dirs
        self._all = [data_dir, *(log_dir for log_dir in log_dirs if log_dir is not data_dir)]
        self._home: dict[str, DataDir] = {}
        self._partitions: Counter[DataDir] = Counter()
        """How many partitions each log folder has."""
        for log_dir in log_dirs:
            for stored in log_dir.list_partitions():
                if (other := self._home.setdefault(stored.folder.name, log_dir)) is not log_dir:
                    raise ConfigError(
                        f"{stored.folder.name} is in {other.path} and in {log_dir.path}: one of them is a copy; move "
                        "it away"
                    )
                self._partitions[log_dir] += 1

    @classmethod
    def open(cls, path: Path, log_dirs: Sequence[Path], *, cluster_id: str, node_id: int) -> LogDirs:
        """Open a node's data folder and its log folders, creating what is missing.

        Raises:
            ConfigError: one is in use, belongs to another node, or partitions lie where they would not be found.
            StorageError: one cannot be created or read.
        """
        incarnation_id = new_uuid_hex()

        def open_one(folder: Path) -> DataDir:
            return DataDir.open(folder, cluster_id=cluster_id, node_id=node_id, incarnation_id=incarnation_id)

        with ExitStack() as opened:
            data_dir = open_one(path)
            opened.callback(data_dir.close)
            others = []
            for log_dir in log_dirs:
                if log_dir.absolute() == path.absolute():
                    others.append(data_dir)
                    continue
                others.append(open_one(log_dir))
                opened.callback(others[-1].close)
            others = others or [data_dir]
            _require_reachable(data_dir, others)
            _remember(data_dir, others)
            folders = cls(data_dir, others)
            opened.pop_all()
            return folders

    @property
    def path(self) -> Path:
        return self._data_dir.path

    @property
    def storage_id(self) -> str:
        return self._data_dir.storage_id

    @property
    def incarnation_id(self) -> str:
        return self._data_dir.incarnation_id

    @property
    def previous_incarnations(self) -> tuple[str, ...] | None:
        """The incarnations noted in every folder, apart from new folders and those of an earlier version."""
        noted = [folder.previous_incarnations for folder in self._all if folder.previous_incarnations is not None]
        return tuple(name for name in noted[0] if all(name in others for others in noted)) if noted else None

    @property
    def last_was_clean(self) -> bool:
        return all(folder.last_was_clean for folder in self._all)

    @property
    def unclean(self) -> bool:
        return any(folder.unclean for folder in self._all)

    @property
    def power_lost(self) -> bool:
        return any(folder.power_lost for folder in self._all)

    @property
    def quarantined(self) -> int:
        """How many quarantined logs are on disk."""
        return sum(log_dir.quarantined for log_dir in self._log_dirs)

    @property
    def broker_epoch(self) -> BrokerEpoch:
        """The greatest epoch that one of the folders knows."""
        return max(folder.broker_epoch for folder in self._all)

    def registered(self, broker_epoch: BrokerEpoch, metadata_offset: Offset = -1) -> None:
        """See `DataDir.registered`."""
        for folder in self._all:
            folder.registered(broker_epoch, metadata_offset)

    @property
    def metadata_offset(self) -> Offset:
        """The newest of any folder: a log folder that was emptied does not know it."""
        return max(folder.metadata_offset for folder in self._all)

    def note_metadata(self, offset: Offset) -> None:
        """See `DataDir.note_metadata`."""
        for folder in self._all:
            folder.note_metadata(offset)

    def settle_power_loss(self) -> None:
        """See `DataDir.settle_power_loss`."""
        for folder in self._all:
            folder.settle_power_loss()

    def mark_clean(self) -> None:
        """Record a clean shutdown in every folder."""
        for folder in self._all:
            folder.mark_clean()

    def close(self) -> None:
        """Release every lock."""
        for folder in self._all:
            folder.close()

    def partition_folder(self, topic: str, partition: int, topic_id: TopicId) -> Path:
        """Return the folder of a replica's log; a new one goes to the first folder with the fewest partitions."""
        name = self._data_dir.partition_folder(topic, partition, topic_id).name
        whole = f"{topic}-{partition}-{topic_id}"
        if whole in self._home:  # An earlier version did not shorten names.
            name = whole
        if name not in self._home:
            log_dir = self._home[name] = min(self._log_dirs, key=self._partitions.__getitem__)
            self._partitions[log_dir] += 1
        return self._home[name].partitions / name

    def list_partitions(self) -> Iterator[StoredPartition]:
        """Find every partition folder, one log folder after the other."""
        for log_dir in self._log_dirs:
            yield from log_dir.list_partitions()

    def set_aside(self, folders: Sequence[Path]) -> list[Path]:
        """Rename the folders of partitions, each on its own disk; see `DataDir.set_aside`."""
        by_disk = defaultdict[DataDir, list[Path]](list)
        for folder in folders:
            by_disk[self._home[folder.name]].append(folder)
        doomed = list[Path]()
        for log_dir, its in by_disk.items():
            doomed += log_dir.set_aside(its)
            for folder in its:
                self._forget(folder.name)
        return doomed

    def set_stray(self, folder: Path) -> Path:
        """Rename the folder of a stray partition, on its own disk."""
        stray = self._home[folder.name].set_stray(folder)
        self._forget(folder.name)
        return stray

    @property
    def has_strays(self) -> bool:
        """Whether there are folders for `remove_strays`."""
        return any(log_dir.has_strays for log_dir in self._log_dirs)

    def remove_strays(self) -> None:
        """Delete the folders that `set_stray` renamed in this or an earlier run."""
        for log_dir in self._log_dirs:
            log_dir.remove_strays()

    def release(self, folder: Path) -> None:
        """Forget the place of a closed log that has no folder, because it never had a record."""
        if not folder.exists():
            self._forget(folder.name)

    def _forget(self, name: str) -> None:
        if (log_dir := self._home.pop(name, None)) is not None:
            self._partitions[log_dir] -= 1

    def quarantine(self, folder: Path) -> Path:
        """Quarantine a damaged log, on its own disk."""
        return quarantine(folder)


def _require_reachable(data_dir: DataDir, log_dirs: Sequence[DataDir]) -> None:
    if data_dir not in log_dirs and (count := len(list(data_dir.list_partitions()))):
        raise ConfigError(f"{data_dir.path} has {count} partitions that would not be found: add it to log_dirs")


def _remember(data_dir: DataDir, log_dirs: Sequence[DataDir]) -> None:
    """Change the storage id if a log folder of an earlier run is missing; record the present ones."""
    path = data_dir.path / _KNOWN
    known = list((read_json(path) or {}).get("storage_ids", []))
    present = [log_dir.storage_id for log_dir in log_dirs if log_dir is not data_dir]
    if missing := [storage_id for storage_id in known if storage_id not in present]:
        _log.error(
            "%d log folders of an earlier run are missing (storage ids %s): this node counts as one that lost a disk, "
            "and fetches their partitions from other replicas",
            len(missing),
            ", ".join(missing),
        )
        data_dir.renew_storage_id(new_uuid_hex())
    if known != present:
        write_json(path, {"version": 1, "storage_ids": present})


def open_folders(path: str, log_dirs: Sequence[str], *, cluster_id: str, node_id: int) -> NodeFolders:
    """Open the folders that `node.toml` names: a data folder alone, or with log folders."""
    paths = [Path(os.path.normpath(log_dir)) for log_dir in log_dirs]
    return LogDirs.open(Path(os.path.normpath(path)), paths, cluster_id=cluster_id, node_id=node_id)
