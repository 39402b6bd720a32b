"""What group decisions go by, apart from the state: settings, and what the cluster's metadata says of topics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from raftlog.coordinator.group.records import TopicMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Limits and times of groups, in ms; see `config.GroupConfig`."""

    session_timeout_ms: int = 45_000
    min_session_timeout_ms: int = 1_000
    max_session_timeout_ms: int = 1_800_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 1_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 86_400_000
    offsets_retention_check_interval_ms: int = 600_000


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
