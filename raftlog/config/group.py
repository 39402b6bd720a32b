"""How consumer groups are coordinated."""

from __future__ import annotations

from dataclasses import dataclass, fields

from raftlog.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """How consumer groups are coordinated (Kafka's `group.consumer.*` and `offsets.*`)."""

    session_timeout_ms: int = 45_000
    """A member silent for this long is expelled, unless it asks for another time."""
    min_session_timeout_ms: int = 1_000
    max_session_timeout_ms: int = 1_800_000
    heartbeat_interval_ms: int = 5_000
    """How often members are heard of at least; news reach them at once."""
    max_size: int = 1_000
    """Most members of one group."""
    offset_metadata_max_bytes: int = 4_096
    """Largest text that is kept with a committed offset."""
    offsets_retention_ms: int = 7 * 86_400_000
    """How long offsets are kept that nobody reads on from."""
    offsets_retention_check_interval_ms: int = 600_000

    def __post_init__(self) -> None:
        for field in fields(self):
            if (value := getattr(self, field.name)) < 1:
                raise ConfigError(f"group.{field.name} must be at least 1, received {value}")
        if not self.min_session_timeout_ms <= self.session_timeout_ms <= self.max_session_timeout_ms:
            raise ConfigError(
                f"group.session_timeout_ms must be {self.min_session_timeout_ms} to {self.max_session_timeout_ms} "
                f"(min_session_timeout_ms and max_session_timeout_ms), received {self.session_timeout_ms}"
            )
