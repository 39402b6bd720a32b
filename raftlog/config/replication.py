"""Settings of replication."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """How followers keep up with leaders (Kafka's names; lower defaults, because networks are faster today)."""

    replica_lag_time_max_ms: int = 10_000
    """A follower that has not caught up for this long leaves the ISR."""
    replica_fetch_wait_max_ms: int = 500
    """How long a leader parks an empty follower fetch."""
    replica_fetch_max_bytes: int = 1 << 20
    """Most bytes of one partition in one follower fetch; a larger first batch is still sent whole."""
    replica_fetch_response_max_bytes: int = 8 << 20
    """Most bytes of one follower fetch."""
    replica_fetch_backoff_ms: int = 100
    """How long a follower waits after a failed fetch."""
    replica_silence_max_ms: int = 2_000
    """A follower that sends no fetch for this long leaves the ISR at once (gray failure)."""

    def __post_init__(self) -> None:
        if self.replica_lag_time_max_ms <= 2 * self.replica_fetch_wait_max_ms:
            raise ConfigError(
                "replica_lag_time_max_ms must exceed twice replica_fetch_wait_max_ms, received "
                f"{self.replica_lag_time_max_ms} and {self.replica_fetch_wait_max_ms}"
            )
        if self.replica_silence_max_ms <= 2 * self.replica_fetch_wait_max_ms:
            raise ConfigError(
                "replica_silence_max_ms must exceed twice replica_fetch_wait_max_ms, received "
                f"{self.replica_silence_max_ms} and {self.replica_fetch_wait_max_ms}"
            )
