"""Settings of the group coordinator."""

from __future__ import annotations

from dataclasses import dataclass, fields

from raftlog.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """How consumer groups are coordinated (Kafka's `group.consumer.*` and `offsets.*`)."""

    session_timeout_ms: int = 45_000
    """A member without a heartbeat for this long is expelled, unless it requests another time-out."""
    min_session_timeout_ms: int = 1_000
    max_session_timeout_ms: int = 1_800_000
    heartbeat_interval_ms: int = 5_000
    """How often members send heartbeats at least; changes of assignments reach them at once."""
    initial_rebalance_delay_ms: int = 3_000
    """How long an empty classic group waits for more members (Kafka's `group.initial.rebalance.delay.ms`); or 0."""
    max_size: int = 1_000
    """The most members of one group."""
    offset_metadata_max_bytes: int = 4_096
    """The longest text stored with a committed offset."""
    offsets_retention_ms: int = 7 * 86_400_000
    """How long committed offsets are kept while no member of the group subscribes to their topic."""
    offsets_retention_check_interval_ms: int = 600_000

    def __post_init__(self) -> None:
        for field in fields(self):
            least = 0 if field.name == "initial_rebalance_delay_ms" else 1
            if (value := getattr(self, field.name)) < least:
                raise ConfigError(f"group.{field.name} must be at least {least}, received {value}")
        if not self.min_session_timeout_ms <= self.session_timeout_ms <= self.max_session_timeout_ms:
            raise ConfigError(
                f"group.session_timeout_ms must be {self.min_session_timeout_ms} to {self.max_session_timeout_ms} "
                f"(min_session_timeout_ms and max_session_timeout_ms), received {self.session_timeout_ms}"
            )
