"""What the cluster's metadata says of topics, as group decisions see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from raftlog.coordinator.group.records import TopicMetadata


class Topics(Protocol):
    """The metadata image, for groups. Internal topics are not in it."""

    @property
    def version(self) -> int:
        """Grows when anything may have changed."""
        ...

    def get(self, topic: str) -> TopicMetadata | None: ...

    def matching(self, pattern: str) -> Iterable[str]:
        """Return the topics whose names match a valid pattern."""
        ...
