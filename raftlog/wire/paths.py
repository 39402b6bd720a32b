"""Every URL path, once. `{name}` is a path variable; `fill` puts values in."""

from __future__ import annotations

from urllib.parse import quote

from raftlog.errors import InvalidRequestError

# Public listener.
LIVEZ = "/livez"
READYZ = "/readyz"
METRICS = "/metrics"
OPENAPI = "/v1/openapi.json"
CONSOLE = "/console"
CONSOLE_INDEX = "/console/"
CONSOLE_FILE = "/console/{file}"
CONSOLE_EVENTS = "/console/api/events"
CONSOLE_SESSION = "/console/api/session"
CONSOLE_TOPIC = "/console/api/topics/{topic}"
CLUSTER = "/v1/cluster"
CONTROLLER = "/v1/controller"
BROKERS = "/v1/brokers"
TOPICS = "/v1/topics"
TOPIC = "/v1/topics/{topic}"
METADATA = "/v1/metadata"
METADATA_DIGEST = "/v1/metadata/digest"
BROKER = "/v1/brokers/{broker}"
BROKER_CONFIGS = "/v1/brokers/{broker}/configs"
BROKER_SETTINGS = "/v1/brokers/{broker}/settings"
TOPIC_SETTINGS = "/v1/topics/{topic}/settings"
AUDIT = "/v1/brokers/{broker}/audit"
LOG_DIRS = "/v1/brokers/{broker}/log-dirs"
SCRUB = "/v1/brokers/{broker}/scrub"
QUORUM = "/v1/quorum"
FEATURES = "/v1/features"
REASSIGNMENTS = "/v1/reassignments"
LEADER_ELECTIONS = "/v1/leader-elections"
LOGIN = "/v1/login"
USERS = "/v1/users"
USER = "/v1/users/{user}"
ACLS = "/v1/acls"
QUOTAS = "/v1/quotas"
PRODUCERS = "/v1/producers"
PRODUCE = "/v1/produce"
FETCH = "/v1/fetch"
TOPIC_RECORDS = "/v1/topics/{topic}/records"
BATCHES = "/v1/topics/{topic}/partitions/{partition}/batches"
RECORDS = "/v1/topics/{topic}/partitions/{partition}/records"
DELETE_RECORDS = "/v1/topics/{topic}/partitions/{partition}/delete-records"
COORDINATOR = "/v1/coordinators/{kind}/{key}"
GROUPS = "/v1/groups"
GROUP = "/v1/groups/{group}"
GROUP_HEARTBEAT = "/v1/groups/{group}/heartbeat"
GROUP_OFFSETS = "/v1/groups/{group}/offsets"
GROUP_OFFSETS_FETCH = "/v1/groups/{group}/offsets/fetch"
GROUP_OFFSETS_DELETE = "/v1/groups/{group}/offsets/delete"
MANY_OFFSETS = "/v1/offsets"
OFFSETS = "/v1/topics/{topic}/partitions/{partition}/offsets"
TRANSACTIONS = "/v1/transactions"
TRANSACTION = "/v1/transactions/{transactional_id}"
INIT_TRANSACTIONS = "/v1/transactions/{transactional_id}/init"
END_TRANSACTION = "/v1/transactions/{transactional_id}/end"
TRANSACTION_OFFSETS = "/v1/transactions/{transactional_id}/offsets"
TRANSACTION_SET = "/v1/transaction-sets/{set_id}"
END_TRANSACTION_SET = "/v1/transaction-sets/{set_id}/end"

# Internal listener of brokers.
REPLICA_FETCH = "/internal/v1/fetch"
REPAIR = "/internal/v1/repair"
JOIN_TRANSACTION = "/internal/v1/transactions/join"
WRITE_MARKERS = "/internal/v1/transactions/markers"

RAW = frozenset({PRODUCE, FETCH, REPLICA_FETCH, REPAIR})
"""Paths whose body or response is raw batches; callers use lean connections for them (see `transport.lean`)."""

# Internal listener of controllers.
METADATA_WATCH = "/internal/v1/metadata"
REGISTER_BROKER = "/internal/v1/brokers/register"
HEARTBEAT = "/internal/v1/brokers/heartbeat"
ALTER_PARTITIONS = "/internal/v1/partitions/alter"
DAMAGED_REPLICAS = "/internal/v1/partitions/damaged"
CREATE_TOPIC = "/internal/v1/admin/create-topic"
DELETE_TOPIC = "/internal/v1/admin/delete-topic"
ALTER_TOPIC = "/internal/v1/admin/alter-topic"
REASSIGN = "/internal/v1/admin/reassign"
ELECT_LEADERS = "/internal/v1/admin/elect-leaders"
ALTER_BROKER_CONFIGS = "/internal/v1/admin/alter-broker-configs"
UNREGISTER_BROKER = "/internal/v1/admin/unregister-broker"
SET_FEATURES = "/internal/v1/admin/set-features"
PUT_USER = "/internal/v1/admin/put-user"
DELETE_USER = "/internal/v1/admin/delete-user"
CREATE_ACLS = "/internal/v1/admin/create-acls"
DELETE_ACLS = "/internal/v1/admin/delete-acls"
ALTER_QUOTA = "/internal/v1/admin/alter-quota"
READ = "/internal/v1/admin/read"
DESCRIBE_QUORUM = "/internal/v1/quorum"
PRODUCER_ID_BLOCK = "/internal/v1/producer-ids"


def fill(path: str, **values: str | int) -> str:
    """Return `path` with its variables replaced by percent-encoded values.

    Raises:
        InvalidRequestError: a value is text that UTF-8 cannot encode.
    """
    try:
        return path.format(**{name: quote(str(value), safe="") for name, value in values.items()})
    except UnicodeEncodeError as error:
        raise InvalidRequestError(f"expected a name in UTF-8, received {error.object!r:.200}") from None
