"""Stray partitions: folders of partitions that are not assigned to this broker (as in Kafka).

- A partition that was assigned to this process and is no longer: its folder is deleted at once.
- A folder found at start without an assignment is a stray: its topic was deleted while the broker was down, or the
  broker joined the wrong cluster. It is renamed, so that it is not opened, and deleted after `DELAY_S`. Until then an
  operator can stop the broker without losing data.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Set as AbstractSet
from pathlib import Path

from raftlog.errors import DiskFullError
from raftlog.model import TopicIdPartition
from raftlog.partition.storage.data_dir import remove_folders
from raftlog.partition.storage.files import storage_error
from raftlog.partition.storage.log_dirs import NodeFolders
from raftlog.runtime import Tasks

_log = logging.getLogger(__name__)
DELAY_S = 60.0


class StrayPartitions:
    """Removes the folders of partitions that are not assigned to this broker."""

    def __init__(self, data_dir: NodeFolders, tasks: Tasks) -> None:
        self._data_dir = data_dir
        self._tasks = tasks
        self._assigned: AbstractSet[TopicIdPartition] = frozenset()
        self._looked = False
        self.has_unfinished = False
        """Whether the last `remove` has to be tried again."""

    def note_assigned(self, wanted: AbstractSet[TopicIdPartition]) -> None:
        """Record partitions that are assigned here."""
        if not wanted <= self._assigned:
            self._assigned |= wanted

    async def remove(self, wanted: AbstractSet[TopicIdPartition]) -> None:
        """Delete or rename the folders of all other partitions.

        The folders are looked at only if one of them may have to go: metadata changes often, and there are thousands.
        Deleted ones have other names on return, and are removed in the background, which takes long.

        A full disk, or no free descriptor, is only logged: the next call tries again.

        Raises:
            StorageError: a folder could not be renamed. A failed sync is never retried.
        """
        if self._looked and self._assigned <= wanted:
            self.has_unfinished = False
            return
        try:
            left, doomed = await asyncio.to_thread(self._set_aside, wanted)
        except DiskFullError as error:
            if not self.has_unfinished:
                _log.warning("%s; it is tried again with the next metadata", error.message)
            self.has_unfinished = True
            return
        self._assigned, self._looked, self.has_unfinished = frozenset(wanted), True, False
        if self._tasks.closed:
            return  # The next start removes them.
        if doomed:
            self._tasks.spawn(asyncio.to_thread(remove_folders, doomed), name="deleted partitions")
        if left:
            self._tasks.spawn(self._remove_later(), name="strays")

    def _set_aside(self, wanted: AbstractSet[TopicIdPartition]) -> tuple[bool, list[Path]]:
        """Rename folders; return whether there are strays to remove later, and the folders to remove now."""
        try:
            return self._try_to_set_aside(wanted)
        except OSError as error:
            raise storage_error(error, "cannot look for folders of deleted partitions") from error

    def _try_to_set_aside(self, wanted: AbstractSet[TopicIdPartition]) -> tuple[bool, list[Path]]:
        left = not self._looked and self._data_dir.has_strays
        gone = list[Path]()
        for stored in self._data_dir.list_partitions():
            key = TopicIdPartition(stored.topic_id, stored.partition)
            if key in wanted:
                continue
            if key in self._assigned:
                _log.info("deleting %s: it is not assigned to this broker any more", stored.folder.name)
                gone.append(stored.folder)
                continue
            aside = self._data_dir.set_stray(stored.folder)
            _log.warning(
                "%s is a stray: no topic has its id, or it has no replica here. It is %s now, and is deleted in %g s; "
                "if that is wrong, stop this broker, and give the folder its name back",
                stored.folder,
                aside.name,
                DELAY_S,
            )
            left = True
        return left, self._data_dir.set_aside(gone) if gone else []

    async def _remove_later(self) -> None:
        await asyncio.sleep(DELAY_S)
        await asyncio.to_thread(self._data_dir.remove_strays)
