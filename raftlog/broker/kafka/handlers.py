"""Every handler of Kafka's requests, by API key. ApiVersions offers exactly these."""

from __future__ import annotations

from typing import Final

from raftlog.broker.kafka import (
    acls_api,
    cluster_api,
    configs_api,
    consumer_groups_api,
    coordinators_api,
    fetch_api,
    group_admin_api,
    group_offsets_api,
    groups_api,
    metadata_api,
    offsets_api,
    produce_api,
    quotas_api,
    reassignments_api,
    sasl_api,
    topic_partitions_api,
    topics_api,
    transaction_offsets_api,
    transaction_views_api,
    transactions_api,
    users_api,
)
from raftlog.broker.kafka.call import Handlers

_AREAS: Final[tuple[Handlers, ...]] = (
    topics_api.HANDLERS,
    configs_api.HANDLERS,
    cluster_api.HANDLERS,
    reassignments_api.HANDLERS,
    acls_api.HANDLERS,
    quotas_api.HANDLERS,
    sasl_api.HANDLERS,
    users_api.HANDLERS,
    produce_api.HANDLERS,
    fetch_api.HANDLERS,
    offsets_api.HANDLERS,
    metadata_api.HANDLERS,
    topic_partitions_api.HANDLERS,
    coordinators_api.HANDLERS,
    transactions_api.HANDLERS,
    transaction_offsets_api.HANDLERS,
    transaction_views_api.HANDLERS,
    groups_api.HANDLERS,
    group_offsets_api.HANDLERS,
    group_admin_api.HANDLERS,
    consumer_groups_api.HANDLERS,
)
"""The tables of the modules of handlers."""


def joined(*areas: Handlers) -> Handlers:
    """Return the handlers of several areas in one table.

    Raises:
        RuntimeError: two areas have the same API.
    """
    found: dict[int, object] = {}
    for area in areas:
        if twice := found.keys() & area.keys():
            raise RuntimeError(f"several handlers for the Kafka APIs {sorted(twice)}")
        found |= area
    return found  # type: ignore[return-value]


HANDLERS: Final[Handlers] = joined(*_AREAS)
