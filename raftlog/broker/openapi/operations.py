"""What the document says of every route of the public listener. A route without an entry does not start."""

from __future__ import annotations

from collections.abc import Iterable

from raftlog.broker.openapi.of_groups import GROUP_OPERATIONS, TRANSACTION_OPERATIONS
from raftlog.broker.openapi.of_records import RECORD_OPERATIONS
from raftlog.broker.openapi.of_security import SECURITY_OPERATIONS
from raftlog.broker.openapi.of_the_cluster import CLUSTER_OPERATIONS, NODE_OPERATIONS, TOPIC_OPERATIONS
from raftlog.broker.openapi.of_the_console import CONSOLE_OPERATIONS
from raftlog.broker.openapi.operation import Operation
from raftlog.security.routes import PUBLIC, Route

OPERATIONS: tuple[Operation, ...] = (
    *RECORD_OPERATIONS,
    *GROUP_OPERATIONS,
    *TRANSACTION_OPERATIONS,
    *TOPIC_OPERATIONS,
    *CLUSTER_OPERATIONS,
    *SECURITY_OPERATIONS,
    *CONSOLE_OPERATIONS,
    *NODE_OPERATIONS,
)


def require_described(routes: Iterable[Route] = PUBLIC) -> None:
    """Raise if a route has no operation: the document would lack it.

    Raises:
        RuntimeError: the message names the routes.
    """
    described = {operation.name for operation in OPERATIONS}
    if missing := sorted(route.name for route in routes if route.name not in described):
        raise RuntimeError(f"routes without an operation in raftlog/broker/openapi/: {', '.join(missing)}")
