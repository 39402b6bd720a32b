"""Every route of every listener, and the rights that a request needs there. A route without an entry does not start.

A right names an operation, a kind of resource, and the place of the resource's name in the request. The listener checks
rights whose name is in the path before it reads the body; handlers check those in bodies and queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from raftlog.model import CLUSTER_RESOURCE, AclOperation, AclResource
from raftlog.wire import paths

_READS = ("GET", "OPTIONS")
_WORK = frozenset(
    {
        paths.LOGIN,
        paths.PRODUCERS,
        paths.PRODUCE,
        paths.FETCH,
        paths.MANY_OFFSETS,
        paths.TOPIC_RECORDS,
        paths.BATCHES,
        paths.GROUP_HEARTBEAT,
        paths.GROUP_OFFSETS,
        paths.GROUP_OFFSETS_FETCH,
        paths.INIT_TRANSACTIONS,
        paths.END_TRANSACTION,
        paths.TRANSACTION_OFFSETS,
        paths.END_TRANSACTION_SET,
        paths.REPLICA_FETCH,
        paths.REGISTER_BROKER,
        paths.HEARTBEAT,
        paths.ALTER_PARTITIONS,
        paths.DAMAGED_REPLICAS,
        paths.PRODUCER_ID_BLOCK,
        paths.REPAIR,
        paths.JOIN_TRANSACTION,
        paths.WRITE_MARKERS,
        paths.READ,
    }
)
"""Paths of applications' and nodes' work. Of commits of offsets, the handler tells a reset apart."""
Gate: TypeAlias = Literal["open", "login", "node"]
"""`open`: every sender; `login`: with credentials, or admitted by a rule; `node`: the cluster's nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """An operation on a resource."""

    operation: AclOperation
    resource: AclResource
    variable: str = ""
    """The path's variable with the resource's name; empty: the cluster, or a name that the handler finds."""
    where: str = ""
    """In words: the names that the handler checks, where they are not in the path."""
    replaceable: bool = False
    """Whether another right may take its place; `where` says which."""

    @property
    def in_handler(self) -> bool:
        """Whether the handler checks it."""
        return bool(self.where)

    def name_in(self, variables: Mapping[str, str]) -> str:
        """Return the resource's name, given the path's variables."""
        return variables[self.variable] if self.variable else CLUSTER_RESOURCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    gate: Gate = "login"
    rights: tuple[Right, ...] = ()
    identity: str = ""
    """The field of the request with a broker's id, which must be the sender's; empty: it names no sender."""
    listener_rights: tuple[Right, ...] = field(init=False)
    """The rights that the listener checks."""
    any_of: tuple[Right, ...] = field(init=False)
    """A sender without credentials needs one of these for some resource, or it is refused before its body is read."""
    name: str = field(init=False)
    """Method and path."""
    is_change: bool = field(init=False)
    """Whether a request is an administrative change, which the audit log shows."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "listener_rights", tuple(right for right in self.rights if not right.in_handler))
        in_handler = tuple(right for right in self.rights if right.in_handler)
        object.__setattr__(self, "any_of", in_handler)
        object.__setattr__(self, "name", f"{self.method} {self.path}")
        object.__setattr__(self, "is_change", self.method not in _READS and self.path not in _WORK)


def _on(variable: str, operation: AclOperation, resource: AclResource = "topic") -> Right:
    return Right(operation=operation, resource=resource, variable=variable)


def _each(operation: AclOperation, resource: AclResource, where: str, *, replaceable: bool = False) -> Right:
    return Right(operation=operation, resource=resource, where=where, replaceable=replaceable)


def _cluster(operation: AclOperation) -> Right:
    return Right(operation=operation, resource="cluster")


def _open(method: str, path: str) -> Route:
    return Route(method=method, path=path, gate="open")


def _route(method: str, path: str, *rights: Right) -> Route:
    return Route(method=method, path=path, rights=rights)


def _node(method: str, path: str, identity: str = "") -> Route:
    return Route(method=method, path=path, gate="node", identity=identity)


_LISTED = "of each entry; others are left out"
_BODY = "in the body"
PUBLIC: tuple[Route, ...] = (
    _open("GET", paths.LIVEZ),
    _open("GET", paths.READYZ),
    _open("GET", paths.OPENAPI),
    _open("OPTIONS", paths.TOPIC_RECORDS),
    _open("OPTIONS", paths.RECORDS),
    _open("POST", paths.LOGIN),
    _open("GET", paths.CONSOLE),
    _open("GET", paths.CONSOLE_INDEX),
    _open("GET", paths.CONSOLE_FILE),
    _route("GET", paths.CONSOLE_EVENTS, _cluster("describe")),
    _route("GET", paths.CONSOLE_SESSION),
    _route("GET", paths.CONSOLE_TOPIC, _on("topic", "describe")),
    _route("GET", paths.METRICS, _cluster("describe")),
    _route("GET", paths.CLUSTER),
    _route("GET", paths.CONTROLLER),
    _route("GET", paths.BROKERS),
    _route("GET", paths.METADATA, _each("describe", "topic", _LISTED)),
    _route("GET", paths.METADATA_DIGEST, _cluster("describe")),
    _route("GET", paths.QUORUM, _cluster("describe")),
    _route("GET", paths.FEATURES, _cluster("describe")),
    _route("PATCH", paths.FEATURES, _cluster("alter")),
    _route("DELETE", paths.BROKER, _cluster("alter")),
    _route("GET", paths.BROKER_CONFIGS, _cluster("describe_configs")),
    _route("PATCH", paths.BROKER_CONFIGS, _cluster("alter_configs")),
    _route("GET", paths.BROKER_SETTINGS, _cluster("describe_configs")),
    _route("GET", paths.LOG_DIRS, _cluster("describe")),
    _route("GET", paths.AUDIT, _cluster("alter")),
    _route("GET", paths.SCRUB, _cluster("describe")),
    _route("POST", paths.SCRUB, _cluster("alter")),
    _route("GET", paths.REASSIGNMENTS, _cluster("describe")),
    _route("POST", paths.REASSIGNMENTS, _cluster("alter")),
    _route("POST", paths.LEADER_ELECTIONS, _cluster("alter")),
    _route("GET", paths.USERS, _cluster("describe")),
    _route("PUT", paths.USER, _cluster("alter")),
    _route("DELETE", paths.USER, _cluster("alter")),
    _route("GET", paths.ACLS, _cluster("describe")),
    _route("POST", paths.ACLS, _cluster("alter")),
    _route("DELETE", paths.ACLS, _cluster("alter")),
    _route("GET", paths.QUOTAS, _cluster("describe_configs")),
    _route("PATCH", paths.QUOTAS, _cluster("alter_configs")),
    _route("GET", paths.TOPICS, _each("describe", "topic", _LISTED)),
    _route("POST", paths.TOPICS, _each("create", "topic", "in the body, or create on the cluster", replaceable=True)),
    _route("GET", paths.TOPIC, _on("topic", "describe")),
    _route("GET", paths.TOPIC_SETTINGS, _on("topic", "describe")),
    _route(
        "PATCH",
        paths.TOPIC,
        _each("alter_configs", "topic", "in the path, if the body has configs"),
        _each("alter", "topic", "in the path, if the body has partitions"),
    ),
    _route("DELETE", paths.TOPIC, _on("topic", "delete")),
    _route(
        "POST",
        paths.PRODUCERS,
        _each("idempotent_write", "cluster", "cluster, or write on any topic", replaceable=True),
    ),
    _route(
        "POST",
        paths.PRODUCE,
        _each("write", "topic", _BODY),
        _each("write", "transactional_id", "in the body, if it has one"),
    ),
    _route("POST", paths.FETCH, _each("read", "topic", _BODY)),
    _route("GET", paths.TOPIC_RECORDS, _on("topic", "read")),
    _route("POST", paths.TOPIC_RECORDS, _on("topic", "write")),
    _route(
        "POST",
        paths.BATCHES,
        _on("topic", "write"),
        _each("write", "transactional_id", "in the query, if it has one"),
    ),
    _route("GET", paths.RECORDS, _on("topic", "read")),
    _route("POST", paths.DELETE_RECORDS, _on("topic", "delete")),
    _route("POST", paths.MANY_OFFSETS, _each("describe", "topic", "in the body; others get an error each")),
    _route("GET", paths.OFFSETS, _on("topic", "describe")),
    _route(
        "GET",
        paths.COORDINATOR,
        _each("describe", "group", "key, if the kind is group"),
        _each("describe", "transactional_id", "key, if the kind is transaction"),
    ),
    _route("GET", paths.GROUPS, _each("describe", "group", _LISTED)),
    _route("GET", paths.GROUP, _on("group", "describe", "group")),
    _route("DELETE", paths.GROUP, _on("group", "delete", "group")),
    _route(
        "POST",
        paths.GROUP_HEARTBEAT,
        _on("group", "read", "group"),
        _each("describe", "topic", "in the body; topics that a pattern matches are left out"),
    ),
    _route("GET", paths.GROUP_OFFSETS, _on("group", "describe", "group"), _each("describe", "topic", _LISTED)),
    _route("POST", paths.GROUP_OFFSETS, _on("group", "read", "group"), _each("read", "topic", _BODY)),
    _route("POST", paths.GROUP_OFFSETS_FETCH, _on("group", "describe", "group"), _each("describe", "topic", _LISTED)),
    _route("POST", paths.GROUP_OFFSETS_DELETE, _on("group", "delete", "group"), _each("read", "topic", _BODY)),
    _route("GET", paths.TRANSACTIONS, _each("describe", "transactional_id", _LISTED)),
    _route("GET", paths.TRANSACTION, _on("transactional_id", "describe", "transactional_id")),
    _route("POST", paths.INIT_TRANSACTIONS, _on("transactional_id", "write", "transactional_id")),
    _route("POST", paths.END_TRANSACTION, _on("transactional_id", "write", "transactional_id")),
    _route(
        "POST",
        paths.TRANSACTION_OFFSETS,
        _on("transactional_id", "write", "transactional_id"),
        _each("read", "group", _BODY),
        _each("read", "topic", _BODY),
    ),
    _route("GET", paths.TRANSACTION_SET, _on("set_id", "describe", "transactional_id")),
    _route(
        "POST",
        paths.END_TRANSACTION_SET,
        _on("set_id", "write", "transactional_id"),
        _each("write", "transactional_id", _BODY),
    ),
)
"""The public listener of brokers."""

INTERNAL: tuple[Route, ...] = (
    _open("GET", paths.LIVEZ),
    _open("GET", paths.READYZ),
    _route("GET", paths.METRICS, _cluster("describe")),
    _node("GET", paths.CONTROLLER),
    _node("GET", paths.METADATA_DIGEST),
    _node("GET", paths.DESCRIBE_QUORUM),
    _node("GET", paths.METADATA_WATCH, "broker_id"),
    _node("POST", paths.REPLICA_FETCH, "replica_id"),
    *(
        _node("POST", path, "broker_id")
        for path in (
            paths.REGISTER_BROKER,
            paths.HEARTBEAT,
            paths.ALTER_PARTITIONS,
            paths.DAMAGED_REPLICAS,
            paths.PRODUCER_ID_BLOCK,
        )
    ),
    *(
        _node("POST", path)
        for path in (
            paths.REPAIR,
            paths.JOIN_TRANSACTION,
            paths.WRITE_MARKERS,
            paths.READ,
            paths.CREATE_TOPIC,
            paths.DELETE_TOPIC,
            paths.ALTER_TOPIC,
            paths.REASSIGN,
            paths.ELECT_LEADERS,
            paths.ALTER_BROKER_CONFIGS,
            paths.UNREGISTER_BROKER,
            paths.SET_FEATURES,
            paths.PUT_USER,
            paths.DELETE_USER,
            paths.CREATE_ACLS,
            paths.DELETE_ACLS,
            paths.ALTER_QUOTA,
        )
    ),
)
"""The internal listeners of brokers and controllers. A request that names a broker must be that broker's.

The other requests need a node, or cluster_action on the cluster.
"""


class RouteTable:
    """The entries of one listener.

    Args:
        routes: the entries; HEAD needs what GET needs.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = {(route.method, route.path): route for route in routes}

    def find(self, method: str, path: str) -> Route | None:
        """Return the entry of a registered path."""
        return self._routes.get(("GET" if method == "HEAD" else method, path))

    def entry(self, method: str, path: str) -> Route:
        """Return the entry of a path that must have one.

        Raises:
            RuntimeError: it has none.
        """
        self.require_complete([(method, path)])
        return self._routes[method, path]

    def require_complete(self, registered: Iterable[tuple[str, str]]) -> None:
        """Raise if a registered route has no entry.

        Raises:
            RuntimeError: it would be served without any check.
        """
        missing = [f"{method} {path}" for method, path in registered if self.find(method, path) is None]
        if missing:
            raise RuntimeError(f"routes without an entry in raftlog/security/routes.py: {', '.join(sorted(missing))}")
