"""Fixtures that every test may use."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from raftlog.cli.local_cluster import LocalCluster


@pytest.fixture
def free_ports() -> Callable[[int], list[int]]:
    """Return a function that names ports nobody listens on. Prefer binding port 0 where the code allows it."""

    def take(count: int) -> list[int]:
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
            for sock in sockets:
                sock.bind(("127.0.0.1", 0))
            return [sock.getsockname()[1] for sock in sockets]

    return take


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Return a running cluster that tests share: they must leave every node running, and take topics of their own."""
    from raftlog.cli.local_cluster import LocalCluster  # noqa: PLC0415  (most tests need no cluster)

    with LocalCluster(tmp_path_factory.mktemp("cluster"), port=0) as cluster:
        yield cluster


@pytest.fixture
def topic_name() -> str:
    """Return a topic's name that no other test uses."""
    return f"topic-{uuid.uuid4().hex[:12]}"
