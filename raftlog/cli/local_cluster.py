"""`LocalCluster`: a cluster of processes on this machine, for `raftlog dev`, the demo, the tests and the chaos suite.

Every node is `raftlog server start` with its own `node.toml`. The data folder's `cluster.json` stores the running
processes, so that another process may open the same cluster and kill, restart or stop its nodes. Nodes are killed when
the process that started them exits, unless their `Launcher` detaches them. All methods block: where an event loop runs,
call them from a thread.
"""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from raftlog.cli.cluster_files import nodes_of, rewrite_node, write_files
from raftlog.cli.cluster_plan import NodePlan, require_free_ports, require_known
from raftlog.cli.cluster_state import ClusterState, agreed, record_process
from raftlog.cli.health import ClusterError, NodeExitedError, NodeStatus, how_it_ended, is_ready, log_tail
from raftlog.cli.launcher import Launcher, collect, collect_all
from raftlog.cli.processes import ProcessIdentity
from raftlog.errors import ConfigError

STOP_TIMEOUT_S = 15.0
READY_TIMEOUT_S = 60.0
_READY_POLL_S = 0.05

__all__ = ["ClusterError", "LocalCluster", "NodeExitedError", "NodeStatus"]


class LocalCluster:
    """A cluster in the folder `data`. As a context manager: starts, waits until ready, and stops at the end.

    Args:
        data: the cluster's folder; a folder with a cluster is used again (its counts must match).
        controllers, brokers, port: None means the folder's, or 3, 3 and 9400; port 0 picks free ports.
        hosts: by node name, the address it listens on (127.0.0.1).
        extra: by node name, or "*" for all, more `node.toml` settings as nested tables.
        launcher: starts the nodes; None: as `raftlog server start`, until this process exits.
    """

    def __init__(
        self,
        data: Path,
        *,
        controllers: int | None = None,
        brokers: int | None = None,
        port: int | None = None,
        hosts: Mapping[str, str] | None = None,
        extra: Mapping[str, Mapping[str, Any]] | None = None,
        launcher: Launcher | None = None,
    ) -> None:
        self.data = data.absolute()
        stored = ClusterState.load(self.data)
        state = agreed(self.data, stored, controllers=controllers, brokers=brokers, port=port)
        if hosts is not None:
            state = replace(state, hosts=dict(hosts))
        if extra is not None:
            state = replace(state, settings=dict(extra))
        self._state = state
        self._nodes = nodes_of(self.data, state)
        self._launcher = launcher or Launcher()

    @classmethod
    def open(cls, data: Path, **options: Any) -> LocalCluster:
        """Return the cluster in `data`, to inspect or control its nodes.

        Raises:
            ConfigError: the folder has no cluster.
        """
        if ClusterState.load(data) is None:
            raise ConfigError(f"{data} holds no cluster; start one with: raftlog dev up --data {data}")
        return cls(data, **options)

    def __enter__(self) -> Self:
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def names(self) -> list[str]:
        """All nodes, controllers first."""
        return list(self._nodes)

    @property
    def brokers(self) -> list[str]:
        return [node.name for node in self._nodes.values() if node.public]

    @property
    def controllers(self) -> list[str]:
        return [node.name for node in self._nodes.values() if node.quorum]

    @property
    def cluster_id(self) -> str:
        return self._state.cluster_id

    @property
    def bootstrap(self) -> str:
        """Every broker's public URL, separated by commas."""
        return ",".join(self.public_url(name) for name in self.brokers)

    def node(self, name: str) -> NodePlan:
        """Return a node's listeners and paths.

        Raises:
            ConfigError: the node does not exist.
        """
        require_known([name], self._nodes.values())
        return self._nodes[name]

    def public_url(self, name: str) -> str:
        """Return a broker's URL for clients."""
        url = self.node(name).url
        if not url:
            raise ConfigError(f"{name} is a controller, without a public listener; brokers: {', '.join(self.brokers)}")
        return url

    def process(self, name: str) -> ProcessIdentity | None:
        """Return a node's process; if it exited by itself, the last one."""
        self.node(name)
        state = ClusterState.load(self.data)
        return state.processes.get(name) if state else None

    def pid(self, name: str) -> int | None:
        """Return the pid of a running or paused node; None otherwise."""
        process = self.process(name)
        return process.pid if process is not None and process.alive else None

    def running(self) -> list[str]:
        return [name for name in self.names if self.pid(name) is not None]

    def status(self) -> list[NodeStatus]:
        """Return the state of every node's process, and whether it is ready."""
        return [NodeStatus.of(node, self.process(name)) for name, node in self._nodes.items()]

    def log_tail(self, name: str, lines: int = 20) -> str:
        return log_tail(self.node(name), lines)

    def start(self) -> None:
        """Write the configuration and start every node. Does not wait: see `wait_ready`.

        Raises:
            ClusterError: a node is running already.
            PortInUseError, ConfigError: nothing was started.
        """
        self.require_stopped()
        write_files(self.data, self._state, self._nodes)
        try:
            for name in self.names:
                self.start_node(name)
        except BaseException:
            self.stop()
            raise

    def require_stopped(self) -> None:
        """Raise if a node runs, or a port is in use: the cluster can be changed, and started.

        Raises:
            ClusterError: a node is running already.
            PortInUseError: another process listens where a node would.
        """
        if running := self.running():
            raise ClusterError(
                f"the cluster in {self.data} is running already ({', '.join(running)}); "
                f"see raftlog dev status --data {self.data}, or stop it with raftlog dev down --data {self.data}"
            )
        require_free_ports(self._nodes.values())

    def start_node(self, name: str) -> None:
        """Start one node with its current `node.toml`. Does not wait: see `wait_ready`.

        Raises:
            ClusterError: the node runs already.
            PortInUseError: nothing was started.
            OSError: the process cannot be recorded, on a full disk, say: it was killed.
        """
        if (pid := self.pid(name)) is not None:
            raise ClusterError(f"{name} is running already, as process {pid}")
        require_free_ports([self.node(name)])
        process = self._launcher.launch(self.node(name))
        try:
            record_process(self.data, name, process)
        except BaseException:  # No later command would know of it.
            process.send(signal.SIGKILL)
            process.wait_gone(STOP_TIMEOUT_S)
            collect(process)
            raise

    def wait_ready(self, timeout_s: float = READY_TIMEOUT_S, names: Iterable[str] | None = None) -> None:
        """Wait until the named nodes (None: all) are ready.

        Raises:
            NodeExitedError: a node exited; the message shows the end of its log.
            ClusterError: a node was not ready within `timeout_s`; the message shows the end of its log.
        """
        deadline = time.monotonic() + timeout_s
        waiting = deque(self.node(name) for name in (self.names if names is None else names))
        while waiting:
            node = waiting[0]
            self._require_alive(node)
            if is_ready(node):
                waiting.popleft()
            elif time.monotonic() >= deadline:
                late = ", ".join(node.name for node in waiting)
                ending = f"the log of {node.name} ends with:\n{log_tail(node)}"
                raise ClusterError(f"not ready within {timeout_s:g} s: {late}; {ending}")
            else:
                time.sleep(_READY_POLL_S)  # Readiness is polled by HTTP: there is no event to await.

    def kill(self, name: str, sig: signal.Signals = signal.SIGKILL, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Send a signal to one node; after SIGKILL or SIGTERM, wait until it has exited.

        Raises:
            ClusterError: the node is not running, or did not exit within `timeout_s`.
        """
        process = self.process(name)
        if process is None or not process.send(sig):
            raise ClusterError(f"{name} is not running: cannot send {sig.name}")
        if sig not in {signal.SIGKILL, signal.SIGTERM}:
            return
        if not process.wait_gone(timeout_s):
            raise ClusterError(f"{name} (process {process.pid}) has not ended within {timeout_s:g} s of {sig.name}")
        self._forget(name, process)

    def pause(self, name: str) -> None:
        """Pause a node (SIGSTOP): its connections stay open without traffic."""
        self.kill(name, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        self.kill(name, signal.SIGCONT)

    def restart(self, name: str) -> None:
        """Restart one node, stopping it first if it runs. Does not wait until it is ready."""
        self._end([name], STOP_TIMEOUT_S, [])  # What runs next is recorded in its place.
        self.start_node(name)

    def configure(self, name: str, *, dial: Mapping[str, str] | None = None, **tables: Any) -> None:
        """Set a node's dial map or other tables of its `node.toml`, from its next start on.

        Raises:
            ConfigError: a setting is unknown or invalid; nothing was changed.
        """
        self.node(name)
        change = tables if dial is None else {**tables, "dial": dict(dial)}
        own = {**self._state.settings.get(name, {}), **change}
        state = replace(self._state, settings={**self._state.settings, name: own})
        nodes = nodes_of(self.data, state)
        rewrite_node(self.data, state, nodes[name], nodes)
        self._state, self._nodes = state, nodes

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> list[str]:
        """Stop every node, brokers first: they need a controller to shut down cleanly. Return the killed nodes.

        Raises:
            OSError: every node has ended, but that cannot be recorded: on a full disk, say.
        """
        if ClusterState.load(self.data) is None:
            return []
        deadline = time.monotonic() + timeout_s
        unrecorded = list[OSError]()
        stubborn = self._end(self.brokers, timeout_s, unrecorded)
        stubborn += self._end(self.controllers, max(2.0, deadline - time.monotonic()), unrecorded)
        collect_all()
        for error in unrecorded:
            raise error
        return stubborn

    def _end(self, names: Iterable[str], timeout_s: float, unrecorded: list[OSError]) -> list[str]:
        """Send SIGTERM to the named nodes; kill those that did not exit within `timeout_s`, and return their names.

        Args:
            unrecorded: gets the errors of `cluster.json`, for after the last node.
        """
        processes = {name: process for name in names if (process := self.process(name)) is not None}
        deadline = time.monotonic() + timeout_s
        for process in processes.values():
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)  # A paused node handles no other signal before.
        stubborn = []
        for name, process in processes.items():
            if not process.wait_gone(deadline - time.monotonic()):
                stubborn.append(name)
                process.send(signal.SIGKILL)
                process.wait_gone(STOP_TIMEOUT_S)
            try:
                self._forget(name, process)
            except OSError as error:
                unrecorded.append(error)
        return stubborn

    def _forget(self, name: str, process: ProcessIdentity) -> None:
        collect(process)
        record_process(self.data, name, None)

    def _require_alive(self, node: NodePlan) -> None:
        process = self.process(node.name)
        if process is None:
            raise NodeExitedError(f"{node.name} is not running; start it with: raftlog dev restart {node.name}")
        if not process.alive:
            how = how_it_ended(collect(process))
            raise NodeExitedError(f"{node.name} {how}; its log ({node.log_path}) ends with:\n{log_tail(node)}")
