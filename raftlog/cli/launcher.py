"""Starts node processes, and reaps those that exited."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from raftlog.cli.cluster_plan import NodePlan
from raftlog.cli.processes import ProcessIdentity

SERVER = (sys.executable, "-m", "raftlog", "server", "start")
_SPAWNER = ThreadPoolExecutor(max_workers=1, thread_name_prefix="raftlog-launcher")
"""The kernel kills nodes when the *thread* that started them exits (PR_SET_PDEATHSIG), so all start from one thread
that lives as long as this process."""
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
"""By pid, until reaped. Not per launcher: a detached node outlives its launcher, and must still be reaped."""


class Launcher:
    """Runs a command for each node.

    Args:
        command: what runs as each node; it gets `--config FILE`.
        detach: the nodes outlive this process. Otherwise they are killed when it exits in any way.
    """

    def __init__(self, command: Sequence[str] = SERVER, *, detach: bool = False) -> None:
        self._command = list(command)
        self._detach = detach

    def launch(self, node: NodePlan) -> ProcessIdentity:
        """Start `node` with its configuration file; its output goes to its log."""
        command = [*self._command, "--config", str(node.config_path)]
        if not self._detach:
            command += ["--parent-pid", str(os.getpid())]
        child = _SPAWNER.submit(_spawn, command, node.log_path).result()
        identity = ProcessIdentity.of(child.pid)
        assert identity is not None, "a child has a /proc entry until it is collected"
        _CHILDREN[child.pid] = child
        return identity


def collect(process: ProcessIdentity) -> int | None:
    """Return the exit code of a process (`Popen.returncode`); None if it is not a child of this process."""
    child = _CHILDREN.get(process.pid)
    return None if child is None else child.poll()


def collect_all() -> None:
    """Reap every child that has exited, so that none stays a zombie."""
    for child in list(_CHILDREN.values()):
        if child.poll() is not None:
            _CHILDREN.pop(child.pid, None)


def _spawn(command: list[str], log_path: Path) -> subprocess.Popen[bytes]:
    with log_path.open("ab") as log:
        return subprocess.Popen(  # noqa: S603  (the command is ours)
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C in a terminal must reach only the supervisor. And Linux shares processors out among sessions first
            # (autogroups): a node must not compete with each process that was started in the same terminal.
            start_new_session=True,
        )
