"""Settings of a transactional producer without a cluster."""

from __future__ import annotations

from raftlog.client.producer_settings import ProducerSettings

SETTINGS = ProducerSettings(
    acks="all",
    linger_ms=0,
    batch_bytes=1_000,
    buffer_bytes=1_000,
    max_block_ms=1_000,
    delivery_timeout_ms=60_000,
    request_timeout_ms=1_000,
    max_in_flight=1,
    compression=None,
    partitioner=None,
    transactional_id="id",
    transaction_timeout_ms=1_000,
    close_timeout_ms=50,
)
