"""Every URL path, once. `{name}` is a path variable; `fill` puts values in."""

from __future__ import annotations

from urllib.parse import quote

# Public listener.
LIVEZ = "/livez"
READYZ = "/readyz"
METRICS = "/metrics"
CLUSTER = "/v1/cluster"
CONTROLLER = "/v1/controller"
BROKERS = "/v1/brokers"
TOPICS = "/v1/topics"
TOPIC = "/v1/topics/{topic}"
METADATA = "/v1/metadata"
PRODUCERS = "/v1/producers"
PRODUCE = "/v1/produce"
FETCH = "/v1/fetch"
TOPIC_RECORDS = "/v1/topics/{topic}/records"
BATCHES = "/v1/topics/{topic}/partitions/{partition}/batches"
RECORDS = "/v1/topics/{topic}/partitions/{partition}/records"
OFFSETS = "/v1/topics/{topic}/partitions/{partition}/offsets"

# Internal listener of brokers.
REPLICA_FETCH = "/internal/v1/fetch"

# Internal listener of controllers.
METADATA_WATCH = "/internal/v1/metadata"
REGISTER_BROKER = "/internal/v1/brokers/register"
HEARTBEAT = "/internal/v1/brokers/heartbeat"
ALTER_PARTITIONS = "/internal/v1/partitions/alter"
CREATE_TOPIC = "/internal/v1/topics/create"
DELETE_TOPIC = "/internal/v1/topics/delete"
PRODUCER_ID_BLOCK = "/internal/v1/producer-ids"


def fill(path: str, **values: str | int) -> str:
    """Return `path` with its variables replaced by percent-encoded values."""
    return path.format(**{name: quote(str(value), safe="") for name, value in values.items()})
