"""Stops nodes in order: each one must exit in time after SIGTERM, and with code 0."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable

from raftlog.cli.health import how_it_ended
from raftlog.cli.launcher import collect
from raftlog.cli.local_cluster import STOP_TIMEOUT_S, LocalCluster
from raftlog.cli.processes import ProcessIdentity, send_together


def stop_all(nodes: LocalCluster, *, within_s: float = STOP_TIMEOUT_S) -> list[str]:
    """Stop every node, brokers first, and kill those that do not exit; return which did not exit as they should."""
    wrong = [*end(nodes, nodes.brokers, within_s=within_s), *end(nodes, nodes.controllers, within_s=within_s)]
    nodes.stop()  # Kills what is left, and forgets all of them.
    return wrong


def end(nodes: LocalCluster, names: Iterable[str], *, within_s: float = STOP_TIMEOUT_S) -> list[str]:
    """Send SIGTERM to running nodes, continue paused ones, and wait for them; return what went wrong.

    A node that does not exit in time runs on.
    """
    running = {name: process for name in names if (process := nodes.process(name)) is not None and process.alive}
    for sig in (signal.SIGTERM, signal.SIGCONT):  # A paused node handles no other signal before.
        send_together(list(running.values()), sig)
    deadline = time.monotonic() + within_s
    return [why for name, process in running.items() if (why := _exit_of(name, process, deadline, within_s))]


def _exit_of(name: str, process: ProcessIdentity, deadline: float, within_s: float) -> str:
    if not process.wait_gone(deadline - time.monotonic()):
        return f"{name} has not exited within {within_s:g} s of SIGTERM"
    return wrong_exit(name, process)


def wrong_exit(name: str, process: ProcessIdentity) -> str:
    """Return how a child that got SIGTERM ended, if its exit code is known and not 0."""
    code = collect(process)
    return "" if code in {0, None} else f"{name} {how_it_ended(code)} after SIGTERM"
