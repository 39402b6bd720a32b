"""`cluster.json`: the nodes of a data folder and their running processes, for later commands.

It is the only link between `dev up --detach` and `dev down`, and between a `dev up` in one terminal and a `dev kill` in
another. Writers hold a file lock and replace the file by an atomic rename.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from raftlog.cli.cluster_plan import free_base_port
from raftlog.cli.processes import ProcessIdentity
from raftlog.errors import ConfigError
from raftlog.model import DEFAULT_PORT
from raftlog.runtime import new_uuid_hex
from raftlog.schema import from_plain

FILE_NAME = "cluster.json"
VERSION = 1
DEFAULT_NODES = 3
"""The default number of brokers, and of controllers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The contents of `cluster.json`."""

    version: int = VERSION
    cluster_id: str
    controllers: int
    brokers: int
    port: int
    hosts: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Extra `node.toml` settings, by node name or "*" for all."""
    processes: Mapping[str, ProcessIdentity] = field(default_factory=dict)
    """By node name. A node that was never started, or was stopped on purpose, is absent."""

    @classmethod
    def load(cls, data: Path) -> ClusterState | None:
        """Read the state of `data`; None if there is no cluster.

        Raises:
            ConfigError: the file is damaged or of a newer version.
        """
        path = data / FILE_NAME
        try:
            document: Any = json.loads(path.read_text("utf-8"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError as error:
            raise ConfigError(f"{path} is damaged: {error}; restore it, or choose another data folder") from error
        if isinstance(document, dict) and document.get("version") != VERSION:
            raise ConfigError(f"{path}: expected version {VERSION}, received {document.get('version')!r}")
        try:
            return from_plain(cls, document, error=ConfigError)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error.message}") from None

    def save(self, data: Path) -> None:
        temporary = data / (FILE_NAME + ".new")
        temporary.write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")
        temporary.replace(data / FILE_NAME)

    def with_process(self, name: str, identity: ProcessIdentity | None) -> ClusterState:
        others = {known: process for known, process in self.processes.items() if known != name}
        return replace(self, processes=others if identity is None else {**others, name: identity})


def agreed(
    data: Path, stored: ClusterState | None, *, controllers: int | None, brokers: int | None, port: int | None
) -> ClusterState:
    """Return a new state, or the stored one if it matches the requested numbers; None: any number.

    Raises:
        ConfigError: the folder holds another number of controllers, or more brokers.
    """
    if stored is None:
        return ClusterState(
            cluster_id=new_uuid_hex(),
            controllers=DEFAULT_NODES if controllers is None else controllers,
            brokers=DEFAULT_NODES if brokers is None else brokers,
            port=DEFAULT_PORT if port is None else port or free_base_port(),
        )
    if controllers not in {None, stored.controllers}:
        raise ConfigError(
            f"{data} holds a cluster of {stored.controllers} controllers, which cannot change here; received "
            f"{controllers}: leave the number out, or choose another data folder"
        )
    if brokers is not None and brokers < stored.brokers:
        raise ConfigError(
            f"{data} holds a cluster of {stored.brokers} brokers, which may keep records; received {brokers}: "
            "leave the number out, ask for more, or choose another data folder"
        )
    return replace(stored, brokers=brokers or stored.brokers, port=port or stored.port)


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Hold the folder's lock: one command at a time reads and changes `cluster.json`."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def record_process(data: Path, name: str, identity: ProcessIdentity | None) -> None:
    """Store that a node runs as `identity`, or (None) that it was stopped on purpose."""
    with locked(data):
        state = ClusterState.load(data)
        assert state is not None, "the cluster's file is written before its first process starts"
        state.with_process(name, identity).save(data)
