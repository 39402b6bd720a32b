"""The port plan of a local cluster, and each node's `node.toml`. Starts no process.

The plan starts at a base port P; i counts from 1. Broker i has its public listener at P+i-1 and its internal one at
P+10+i-1. Controller i has its internal listener at P+20+i-1 and its quorum listener at P+30+i-1.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from raftlog.config import NodeConfig, TlsConfig
from raftlog.errors import ConfigError, RaftlogError
from raftlog.model import Address
from raftlog.schema import from_plain

MAX_NODES = 10
"""The most brokers, and the most controllers: the port plan has ten ports for each kind."""
PORTS_USED = 40
NO_BROWSERS_PORT = 10_080
"""The only port above 10,000 that browsers refuse (https://fetch.spec.whatwg.org/#port-blocking)."""
FIRST_CONTROLLER_ID = 101
LOOPBACK = "127.0.0.1"


class PortInUseError(RaftlogError):
    """A listener's port is in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """One node: name, listeners and folder."""

    name: str
    node_id: int
    folder: Path
    internal: Address
    public: Address | None = None
    """Brokers only."""
    quorum: Address | None = None
    """Controllers only."""
    tls: TlsConfig = field(default_factory=TlsConfig)

    @property
    def role(self) -> str:
        return "broker" if self.public else "controller"

    @property
    def listeners(self) -> dict[str, Address]:
        named = {"public": self.public, "internal": self.internal, "quorum": self.quorum}
        return {name: address for name, address in named.items() if address is not None}

    @property
    def url(self) -> str:
        """The URL for clients; "" for a controller."""
        return self.public._replace(tls=self.tls.public != "off").url if self.public else ""

    @property
    def health(self) -> Address:
        """The listener that answers /livez and /readyz."""
        if self.public is not None:
            return self.public._replace(tls=self.tls.public != "off")
        return self.internal._replace(tls=self.tls.internal != "off")

    @property
    def config_path(self) -> Path:
        return self.folder / "node.toml"

    @property
    def log_path(self) -> Path:
        return self.folder / "log.txt"


def plan_nodes(
    data: Path, *, controllers: int, brokers: int, port: int, hosts: Mapping[str, str]
) -> tuple[NodePlan, ...]:
    """Return the nodes: controllers first, because brokers need them.

    Raises:
        ConfigError: a number is out of range, or `hosts` names a node that does not exist.
    """
    _require_counts(controllers, brokers, port)
    nodes = []
    for i in range(controllers):
        name = f"controller-{FIRST_CONTROLLER_ID + i}"
        host = hosts.get(name, LOOPBACK)
        internal, quorum = Address(host, port + 20 + i), Address(host, port + 30 + i)
        node_id = FIRST_CONTROLLER_ID + i
        nodes.append(NodePlan(name=name, node_id=node_id, folder=data / name, internal=internal, quorum=quorum))
    for i in range(brokers):
        name = f"broker-{1 + i}"
        host = hosts.get(name, LOOPBACK)
        public, internal = Address(host, port + i), Address(host, port + 10 + i)
        nodes.append(NodePlan(name=name, node_id=1 + i, folder=data / name, internal=internal, public=public))
    require_known(hosts, nodes)
    return tuple(nodes)


def require_known(names: Iterable[str], nodes: Iterable[NodePlan]) -> None:
    """Raise for a name that no node has.

    Raises:
        ConfigError: a name is unknown; the message lists the nodes.
    """
    known = [node.name for node in nodes]
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(f"no node is named {unknown[0]!r}; the nodes are {', '.join(known)}")


def _require_counts(controllers: int, brokers: int, port: int) -> None:
    if not 1 <= controllers <= MAX_NODES or controllers % 2 == 0:
        raise ConfigError(f"controllers: expected an odd number from 1 to {MAX_NODES - 1}, received {controllers}")
    if not 1 <= brokers <= MAX_NODES:
        raise ConfigError(f"brokers: expected 1 to {MAX_NODES}, received {brokers}")
    if not 1 <= port <= 65536 - PORTS_USED:
        raise ConfigError(f"port: expected 1 to {65536 - PORTS_USED} ({PORTS_USED} ports are used), received {port}")


def node_toml(
    node: NodePlan,
    nodes: Iterable[NodePlan],
    *,
    cluster_id: str,
    settings: Mapping[str, Any],
) -> str:
    """Return the text of a node's `node.toml`; `settings` (nested tables) override the plan.

    Raises:
        ConfigError: one of `settings` is unknown or invalid.
    """
    voters = [
        {"node_id": voter.node_id, "quorum": str(voter.quorum), "internal": str(voter.internal)}
        for voter in nodes
        if voter.quorum is not None
    ]
    listeners = {name: str(address) for name, address in node.listeners.items() if name != "quorum"}
    quorum: dict[str, Any] = {"voters": voters}
    if node.quorum is not None:
        quorum["key_file"] = "../quorum.key"
    planned: dict[str, Any] = {"node_id": node.node_id, "roles": [node.role], "data_dir": "data"}
    planned |= {"cluster_id": cluster_id, "listeners": listeners, "quorum": quorum}
    document = merged(planned, settings)
    try:
        from_plain(NodeConfig, document, error=ConfigError)
    except ConfigError as error:
        raise ConfigError(f"{node.name}: {error.message}") from None
    return to_toml(document)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `over` on top, table by table."""
    result = dict(base)
    for name, value in over.items():
        below = result.get(name)
        both_tables = isinstance(value, Mapping) and isinstance(below, Mapping)
        result[name] = merged(below, value) if both_tables else value  # type: ignore[arg-type]
    return result


def to_toml(document: Mapping[str, Any]) -> str:
    """Write a document of scalars, lists and tables as TOML."""
    lines = [f"{toml_key(name)} = {_toml(value)}" for name, value in document.items() if not isinstance(value, Mapping)]
    for name, table in document.items():
        if isinstance(table, Mapping) and table:
            lines += ["", f"[{toml_key(name)}]", *(f"{toml_key(key)} = {_toml(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def toml_key(name: str) -> str:
    """Return a name as TOML writes it: bare, or in quotes."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(str(value) if isinstance(value, Address) else value, ensure_ascii=False)


def require_free_ports(nodes: Iterable[NodePlan]) -> None:
    """Raise if a port of the nodes is in use.

    Raises:
        PortInUseError: names the first such port and its node.
    """
    for node in nodes:
        for listener, address in node.listeners.items():
            if (reason := _cannot_bind(address)) is not None:
                raise PortInUseError(
                    f"port {address.port} on {address.host}, which {node.name} needs for its {listener} listener, "
                    f"cannot be used ({reason}); stop the program that uses it, or choose another base port, "
                    "for example: raftlog dev up --port 9500"
                )


def _cannot_bind(address: Address) -> str | None:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # Closed connections in TIME_WAIT do not matter.
        try:
            probe.bind((address.host, address.port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def free_base_port() -> int:
    """Return a base port whose whole plan is free on loopback, below the range of outgoing connections."""
    places = [port for port in range(10_000, 32_000, PORTS_USED) if not port <= NO_BROWSERS_PORT < port + PORTS_USED]
    secrets.SystemRandom().shuffle(places)  # Two clusters that start at the same time try different ports.
    for port in places:
        if all(_cannot_bind(Address(LOOPBACK, port + i)) is None for i in range(PORTS_USED)):
            return port
    raise PortInUseError(f"no {PORTS_USED} consecutive ports from 10000 to 32000 are free on 127.0.0.1")
