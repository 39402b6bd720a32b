"""The settings of a broker's parts, from those of its node."""

from __future__ import annotations

from raftlog.broker.open_files import affordable_segments
from raftlog.config import NodeConfig
from raftlog.coordinator.transaction.core import TransactionSettings
from raftlog.partition.core.producers import ProducerLimits
from raftlog.partition.log_cleaner import CleanerSettings
from raftlog.partition.scrubber import ScrubSettings
from raftlog.partition.settings import ReplicaSettings


def replica_settings(config: NodeConfig) -> ReplicaSettings:
    """Return the settings of the broker's replicas, with no more open segments than the process may have files."""
    broker = config.broker
    return ReplicaSettings(
        topic_defaults=config.topic,
        replication=config.replication,
        checkpoint_interval_ms=broker.checkpoint_interval_ms,
        retention_check_interval_ms=broker.retention_check_interval_ms,
        producer_limits=ProducerLimits(
            expiration_ms=broker.producer_id_expiration_ms,
            max_producers=broker.max_producer_ids,
            min_idle_ms=broker.producer_id_min_idle_ms,
        ),
        max_open_segments=affordable_segments(broker.max_open_segments),
        cleaner=CleanerSettings(
            enable=broker.log_cleaner_enable,
            backoff_ms=broker.log_cleaner_backoff_ms,
            io_max_bytes_per_second=broker.log_cleaner_io_max_bytes_per_second,
            dedupe_buffer_bytes=broker.log_cleaner_dedupe_buffer_bytes,
        ),
        scrub=ScrubSettings(
            interval_ms=broker.log_scrub_interval_ms, bytes_per_second=broker.log_scrub_bytes_per_second
        ),
    )


def transaction_settings(config: NodeConfig) -> TransactionSettings:
    """Return the settings of the transactions that the broker coordinates."""
    return TransactionSettings(
        max_timeout_ms=config.broker.transaction_max_timeout_ms,
        id_expiration_ms=config.broker.transactional_id_expiration_ms,
    )
