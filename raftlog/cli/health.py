"""The state of a local cluster's node: its process, its answer to `/readyz`, its log."""

from __future__ import annotations

import http.client
import signal
import ssl
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from raftlog.cli.cluster_plan import NodePlan
from raftlog.cli.processes import ProcessIdentity
from raftlog.errors import RaftlogError
from raftlog.wire import paths

_PROBE_TIMEOUT_S = 1.0
_TAIL_BYTES = 16 << 10

NodeState: TypeAlias = Literal["ready", "not ready", "paused", "stopped", "died"]
"""`stopped`: never started, or stopped on purpose. `died`: it exited by itself, or was killed."""


class ClusterError(RaftlogError):
    """An operation on a local cluster failed."""


class NodeExitedError(ClusterError):
    """A node's process exited unexpectedly; the message shows the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """One row of `raftlog dev status`."""

    name: str
    role: str
    state: NodeState
    pid: int | None
    public: str
    internal: str

    @classmethod
    def of(cls, node: NodePlan, process: ProcessIdentity | None) -> Self:
        alive = process is not None and process.alive
        return cls(
            name=node.name,
            role=node.role,
            state=_state(node, process),
            pid=process.pid if process is not None and alive else None,
            public=node.url,
            internal=str(node.internal),
        )


def _state(node: NodePlan, process: ProcessIdentity | None) -> NodeState:
    if process is None:
        return "stopped"
    match process.state:
        case "gone":
            return "died"
        case "paused":
            return "paused"
        case "running":
            return "ready" if is_ready(node) else "not ready"


def is_ready(node: NodePlan) -> bool:
    """Return whether the node answers `/readyz` with 200."""
    connection = _connection(node)
    try:
        connection.request("GET", paths.READYZ)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _connection(node: NodePlan) -> http.client.HTTPConnection:
    """Return a connection for the probe of a node of this machine: it shows the node's own certificate."""
    place = node.health
    if not place.tls:
        return http.client.HTTPConnection(place.host, place.port, timeout=_PROBE_TIMEOUT_S)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # Only whether it is ready is asked.
    context.load_cert_chain(node.folder / node.tls.cert_file, node.folder / node.tls.key_file)
    return http.client.HTTPSConnection(place.host, place.port, timeout=_PROBE_TIMEOUT_S, context=context)


def log_tail(node: NodePlan, lines: int = 20) -> str:
    """Return the last lines of a node's log."""
    try:
        with node.log_path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def how_it_ended(returncode: int | None) -> str:
    """Describe an exit code; None: unknown, since the process is not a child."""
    if returncode is None:
        return "ended"
    return (
        f"was ended by {signal.Signals(-returncode).name}" if returncode < 0 else f"ended with exit code {returncode}"
    )
