"""The replicas of a broker whose logs cannot be opened, by key and by name: a lost disk makes thousands offline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from raftlog.errors import DiskFullError, StorageError
from raftlog.model import PartitionAssignment, TopicIdPartition
from raftlog.partition.damaged_logs import Failed


class OfflineReplicas(Mapping[TopicIdPartition, Failed]):
    """Assignment and error of each replica."""

    def __init__(self) -> None:
        self._failed: dict[TopicIdPartition, Failed] = {}
        self._keys: dict[tuple[str, int], TopicIdPartition] = {}
        """By topic and partition."""

    def __getitem__(self, key: TopicIdPartition) -> Failed:
        return self._failed[key]

    def __iter__(self) -> Iterator[TopicIdPartition]:
        return iter(self._failed)

    def __len__(self) -> int:
        return len(self._failed)

    @property
    def full(self) -> list[PartitionAssignment]:
        """The replicas whose log had no room, or no free descriptor."""
        return [assignment for assignment, error in self._failed.values() if isinstance(error, DiskFullError)]

    def find(self, topic: str, partition: int) -> Failed | None:
        """Return the replica of a partition, if it is offline."""
        key = self._keys.get((topic, partition))
        return None if key is None else self._failed[key]

    def put(self, assignment: PartitionAssignment, error: StorageError) -> None:
        """Add a replica, or replace its assignment and error."""
        self._failed[assignment.key] = assignment, error
        self._keys[assignment.topic, assignment.partition] = assignment.key

    def remove(self, key: TopicIdPartition) -> None:
        """Remove a replica, if it is there."""
        if (failed := self._failed.pop(key, None)) is not None:
            name = failed[0].topic, failed[0].partition
            if self._keys.get(name) == key:  # Otherwise a topic of the same name has taken its place.
                del self._keys[name]
