"""The topics of the metadata image, for group decisions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from raftlog.coordinator.group.records import TopicMetadata


class Topics(Protocol):
    """The topics of the metadata image, without internal ones."""

    @property
    def version(self) -> int:
        """Grows when anything may have changed."""
        ...

    @property
    def have_both_protocols(self) -> bool:
        """Whether groups may have members of both protocols: every broker can read their records (feature level 4)."""
        ...

    def get(self, topic: str) -> TopicMetadata | None: ...

    def matching(self, pattern: str) -> Iterable[str]:
        """Return the topics whose names match a valid pattern."""
        ...
