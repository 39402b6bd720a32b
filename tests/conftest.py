"""Fixtures for every test."""

from __future__ import annotations

import gc
import os
import re
import signal
import socket
import uuid
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from raftlog.serving.loop_watch import STALL_FILE

if TYPE_CHECKING:
    from raftlog.cli.local_cluster import LocalCluster


SPARK_CLASSES = Path(__file__).parents[1] / ".tools" / "spark.jsa"
"""`make install` stores them; each JVM with Spark then starts with a third of the work."""
JAVA_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
"""For each JVM of the tests: their Spark ends before the second compiler's code is worth what it costs."""
if SPARK_CLASSES.exists():
    JAVA_OPTIONS += [f"-XX:SharedArchiveFile={SPARK_CLASSES}", "-Xlog:disable"]  # Other JVMs would warn.
os.environ.setdefault("JDK_JAVA_OPTIONS", " ".join(JAVA_OPTIONS))

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # In a background job of a shell; tests send Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

LONGEST_STALL_MS = 100
"""One request takes at most 50; a test may send many at once."""


RANKS = pytest.StashKey[dict[Path, int]]()
SHARED = pytest.StashKey["LocalCluster"]()
ORDER = ("slow", "spark", "shared", "cluster", "rest")


def rank_of(item: pytest.Item) -> int:
    if item.get_closest_marker("slow"):
        return ORDER.index("slow")
    if item.get_closest_marker("spark"):
        return ORDER.index("spark")
    if "shared_cluster" in getattr(item, "fixturenames", ()):
        return ORDER.index("shared")
    return ORDER.index("cluster" if item.get_closest_marker("cluster") else "rest")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the files with slow tests begin first: at the end one worker would run them while the others have none."""
    rank: dict[Path, int] = {}
    for item in items:
        rank[item.path] = min(rank_of(item), rank.get(item.path, len(ORDER)))
    items.sort(key=lambda item: rank[item.path])
    config.stash[RANKS] = rank


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while modules and tests are made, which stay: it takes a sixth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def garbage_of_other_modules() -> Iterator[None]:
    """Collect a module's garbage at its end, and exclude what stays from later collections (`gc.freeze`).

    A full collection in a process that ran thousands of tests takes 0.4 s: tests that measure code would measure it.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Stop the shared cluster before the first file after those that use it: its idle nodes cost a tenth of a core."""
    cluster = item.config.stash.get(SHARED, None)
    if cluster is not None and item.config.stash[RANKS][item.path] > ORDER.index("shared"):
        cluster.stop()
        del item.config.stash[SHARED]


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
def planned_cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    """Return the cluster that tests share, which may be running."""
    assert stall_file.exists()
    from raftlog.cli.local_cluster import LocalCluster  # noqa: PLC0415  (most tests need no cluster)

    cluster = LocalCluster(tmp_path_factory.mktemp("cluster"), port=0)
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def shared_cluster(planned_cluster: LocalCluster, pytestconfig: pytest.Config) -> LocalCluster:
    """Return a running cluster that tests share: they leave every node running, and use topics of their own."""
    if not planned_cluster.running():
        pytestconfig.stash[SHARED] = planned_cluster
        planned_cluster.start()
        planned_cluster.wait_ready()
    return planned_cluster


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
