"""The files of a local cluster's folder: `cluster.json`, the quorum's key, each `node.toml`."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from raftlog.cli.cluster_plan import NodePlan, merged, node_toml, plan_nodes, require_known
from raftlog.cli.cluster_state import ClusterState, locked
from raftlog.config import TlsConfig
from raftlog.errors import ConfigError
from raftlog.schema import from_plain

_KEY_BYTES = 32


def nodes_of(data: Path, state: ClusterState) -> dict[str, NodePlan]:
    """Return the nodes by name, controllers first.

    Raises:
        ConfigError: a number is out of range, or a setting is for a node that does not exist.
    """
    nodes = plan_nodes(data, controllers=state.controllers, brokers=state.brokers, port=state.port, hosts=state.hosts)
    require_known((name for name in state.settings if name != "*"), nodes)
    return {node.name: replace(node, tls=_tls(state, node.name)) for node in nodes}


def _tls(state: ClusterState, name: str) -> TlsConfig:
    settings = merged(state.settings.get("*", {}), state.settings.get(name, {}))
    return from_plain(TlsConfig, settings.get("tls", {}), error=ConfigError)


def write_files(data: Path, state: ClusterState, nodes: Mapping[str, NodePlan]) -> None:
    """Write all files of a stopped cluster.

    Raises:
        ConfigError: a setting is unknown or invalid; nothing was written.
    """
    texts = {name: _text(node, state, nodes) for name, node in nodes.items()}
    with locked(data):
        replace(state, processes={}).save(data)
    _write_key(data / "quorum.key")
    for name, node in nodes.items():
        node.folder.mkdir(exist_ok=True)
        node.config_path.write_text(texts[name], "utf-8")


def rewrite_node(data: Path, state: ClusterState, node: NodePlan, nodes: Mapping[str, NodePlan]) -> None:
    """Write one node's `node.toml` again, for its next start; do nothing if the cluster has no files yet.

    Raises:
        ConfigError: a setting is unknown or invalid; nothing was written.
    """
    text = _text(node, state, nodes)
    if not node.config_path.exists():
        return
    with locked(data):
        stored = ClusterState.load(data)
        assert stored is not None, "cluster.json is written before the first node.toml"
        replace(stored, settings=state.settings).save(data)
    node.config_path.write_text(text, "utf-8")


def _text(node: NodePlan, state: ClusterState, nodes: Mapping[str, NodePlan]) -> str:
    settings = merged(state.settings.get("*", {}), state.settings.get(node.name, {}))
    return node_toml(node, nodes.values(), cluster_id=state.cluster_id, settings=settings)


def _write_key(path: Path) -> None:
    """Generate the controllers' shared key, once; only this user may read it."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(_KEY_BYTES))
