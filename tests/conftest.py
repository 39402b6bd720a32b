"""Fixtures for every test."""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from raftlog.serving.loop_watch import STALL_FILE

if TYPE_CHECKING:
    from raftlog.cli.local_cluster import LocalCluster


LONGEST_STALL_MS = 100
"""One request takes at most 50; a test may send many at once."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the files with slow tests begin first: at the end one worker would run them while the others have none."""
    rank: dict[Path, int] = {}
    for item in items:
        marks = ("slow", "spark", "cluster")
        own = next((at for at, mark in enumerate(marks) if item.get_closest_marker(mark)), len(marks))
        rank[item.path] = min(own, rank.get(item.path, own))
    items.sort(key=lambda item: rank[item.path])


@pytest.fixture(scope="session")
def stall_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the file to which the nodes of all tests append the stalls of their event loops."""
    path = tmp_path_factory.mktemp("stalls") / "stalls.txt"
    path.touch()
    os.environ[STALL_FILE] = str(path)
    return path


@pytest.fixture
def free_ports() -> Callable[[int], list[int]]:
    """Return a function that returns free ports. Prefer binding port 0 where the code allows it."""

    def take(count: int) -> list[int]:
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
            for sock in sockets:
                sock.bind(("127.0.0.1", 0))
            return [sock.getsockname()[1] for sock in sockets]

    return take


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    """Return a running cluster that tests share: they leave every node running, and use topics of their own."""
    assert stall_file.exists()
    from raftlog.cli.local_cluster import LocalCluster  # noqa: PLC0415  (most tests need no cluster)

    with LocalCluster(tmp_path_factory.mktemp("cluster"), port=0) as cluster:
        yield cluster


@pytest.fixture
def topic_name() -> str:
    """Return a topic's name that no other test uses."""
    return f"topic-{uuid.uuid4().hex[:12]}"


@pytest.fixture(autouse=True)
def event_loops_keep_turning(stall_file: Path) -> Iterator[None]:
    """Fail a test during which a node's event loop blocked: meanwhile no client gets an answer."""
    seen = stall_file.stat().st_size
    yield
    with stall_file.open() as file:
        file.seek(seen)
        said = file.read()
    # Not those of nodes inside this process: the tests' own code and garbage share their loops.
    found = re.findall(r"^(\d+) ms, process (\d+)", said, re.MULTILINE)
    stalls = [float(length) for length, pid in found if int(pid) != os.getpid()]
    if stalls and max(stalls) > LONGEST_STALL_MS:
        pytest.fail(f"a node's event loop stood still for {max(stalls):.0f} ms:\n{said[-10_000:]}")
