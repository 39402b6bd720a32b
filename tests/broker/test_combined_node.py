"""One process with both roles: the smallest cluster there is. And nodes that refuse to start, with the reason."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from broker_support import Http, http_to

from raftlog.broker.broker_node import BrokerNode
from raftlog.broker.node import _stop
from raftlog.errors import RaftlogError, StorageError
from raftlog.runtime import Tasks

pytestmark = pytest.mark.cluster


def configure(folder: Path, ports: list[int], *, cluster_id: str = "alone") -> Path:
    (folder / "key").write_text("k" * 64)
    path = folder / "node.toml"
    path.write_text(
        f"""
node_id = 1
roles = ["controller", "broker"]
data_dir = "data"
cluster_id = "{cluster_id}"
[listeners]
public = "127.0.0.1:{ports[0]}"
internal = "127.0.0.1:{ports[1]}"
[quorum]
key_file = "key"
voters = [{{ node_id = 1, quorum = "127.0.0.1:{ports[2]}", internal = "127.0.0.1:{ports[1]}" }}]
"""
    )
    return path


def start(config: Path, stderr: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "raftlog", "server", "start", "--config", str(config)]
    return subprocess.Popen(command, stderr=stderr)


@contextmanager
def running(config: Path, stderr: int = subprocess.PIPE) -> Iterator[subprocess.Popen[bytes]]:
    with start(config, stderr) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def refused(config: Path) -> str:
    process = start(config)
    _, output = process.communicate(timeout=30)
    assert process.returncode == 1, output
    return output.decode()


async def until_ready(http: Http) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                if (await http("GET", "/readyz")).status == 200:
                    return
            except OSError:
                pass
            await asyncio.sleep(0.02)


async def test_one_node_alone_serves_and_comes_back(tmp_path: Path, free_ports: Callable[[int], list[int]]):
    ports = free_ports(3)
    config = configure(tmp_path, ports)
    async with http_to(f"http://127.0.0.1:{ports[0]}") as http:
        with running(config):
            await until_ready(http)
            await http.create("t")
            assert (await http.produce("t", "kept")).json == {"offsets": [{"partition": 0, "offset": 0}]}
        with running(config) as process:
            await until_ready(http)
            async with asyncio.timeout(20):
                while (await http.produce("t", "more")).status != 200:
                    await asyncio.sleep(0.02)
            read = await http("GET", "/v1/topics/t/partitions/0/records?offset=0")
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 20) == 0

    assert [record["value"] for record in read.json["records"]][:2] == ["kept", "more"]


async def test_a_node_leaves_the_quorum_before_it_syncs_its_logs():
    """Brokers reach no controller behind closed listeners: it fenced them all while its logs were synced."""
    events: list[str] = []

    def step(name: str) -> Callable[[], Awaitable[None]]:
        async def take() -> None:
            events.append(name)

        return take

    broker = SimpleNamespace(
        lifecycle=SimpleNamespace(shut_down=step("leaderships moved")),
        stop_serving=step("listeners closed"),
        close=step("logs synced"),
    )
    controller = SimpleNamespace(stop_fencing=step("sessions not judged"), close=step("left the quorum"))
    await _stop(broker, controller)  # type: ignore[arg-type]
    assert events == [
        "leaderships moved",
        "sessions not judged",
        "listeners closed",
        "left the quorum",
        "logs synced",
    ]


async def test_a_broker_that_cannot_apply_its_first_metadata_ends():
    """The image with the registration may arrive before the answer to it, and is applied by a task of its own."""
    refused: list[RaftlogError] = []

    async def fail(_: object) -> None:
        raise StorageError("a stray folder cannot be renamed")

    node = SimpleNamespace(
        replicas=SimpleNamespace(local=SimpleNamespace(broker_epoch=-1)),
        listener=SimpleNamespace(image=None),
        lifecycle=SimpleNamespace(refuse=refused.append),
        _on_image=fail,
        _tasks=Tasks("broker"),
    )
    node._vital = partial(BrokerNode._vital, node)
    BrokerNode.on_registered(node, 5)  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        while not refused:
            await asyncio.sleep(0)
    assert "cannot be renamed" in refused[0].message
    await node._tasks.close()


async def test_the_longest_topic_name_is_stored_and_deleted(tmp_path: Path, free_ports: Callable[[int], list[int]]):
    """The name of its folder was longer than file systems allow, and every broker with a replica ended."""
    ports = free_ports(3)
    config, topic = configure(tmp_path, ports), "x" * 249
    async with http_to(f"http://127.0.0.1:{ports[0]}") as http:
        with running(config) as process:
            await until_ready(http)
            await http.create(topic)
            assert (await http.produce(topic, "kept")).status == 200
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 20) == 0
        with running(config) as process:
            await until_ready(http)
            async with asyncio.timeout(20):
                while (read := await http("GET", f"/v1/topics/{topic}/partitions/0/records?offset=0")).status != 200:
                    await asyncio.sleep(0.02)
            assert [record["value"] for record in read.json["records"]] == ["kept"]
            assert (await http("DELETE", f"/v1/topics/{topic}")).status == 200
            await http.create(topic)
            assert (await http.produce(topic, "another")).status == 200
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 20) == 0


async def test_a_hangup_ends_a_node_only_if_its_terminal_closed(tmp_path: Path, free_ports: Callable[[int], list[int]]):
    """`systemctl reload` sends SIGHUP, also to a node without certificates."""
    ports = free_ports(3)
    config = configure(tmp_path, ports)
    async with http_to(f"http://127.0.0.1:{ports[0]}") as http:
        with running(config) as process:
            await until_ready(http)
            for _ in range(100):
                process.send_signal(signal.SIGHUP)
            assert (await http("GET", "/livez")).status == 200
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 20) == 0
        outer, inner = os.openpty()
        with running(config, inner) as process:
            await until_ready(http)
            process.send_signal(signal.SIGHUP)
            assert await asyncio.to_thread(process.wait, 20) == 0
        os.close(inner)
        os.close(outer)


async def test_nodes_that_refuse_to_start_say_why(tmp_path: Path, free_ports: Callable[[int], list[int]]):
    ports = free_ports(3)
    config = configure(tmp_path, ports)
    for port, name in ((ports[0], "listeners.public"), (ports[1], "listeners.internal"), (ports[2], "quorum address")):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", port))
            taken.listen()
            message = await asyncio.to_thread(refused, config)
        assert "cannot listen on 127.0.0.1:" in message
        assert name in message
        assert "Traceback" not in message

    other = await asyncio.to_thread(refused, configure(tmp_path, ports, cluster_id="another"))
    assert "belongs to node 1 of cluster alone" in other
    assert "INCONSISTENT_CLUSTER_ID" in other


async def test_one_node_alone_may_enforce_access_rules(tmp_path: Path, free_ports: Callable[[int], list[int]]):
    """It proves its identity to itself: its broker registers at its controller through the guard."""
    ports = free_ports(3)
    config = configure(tmp_path, ports)
    (tmp_path / "cluster.key").write_text("c" * 64)
    with config.open("a") as file:
        file.write('[security]\nauthorizer = "acl"\nsuper_users = ["User:admin"]\ncluster_key_file = "cluster.key"\n')
    async with http_to(f"http://127.0.0.1:{ports[0]}") as http:
        with running(config):
            await until_ready(http)
            refused = await http("GET", "/v1/topics")
            assert (refused.status, refused.code) == (401, "AUTHENTICATION_FAILED")
            assert refused.headers["WWW-Authenticate"].startswith("Basic")
            internal = await http("GET", f"http://127.0.0.1:{ports[1]}/internal/v1/metadata")
            assert internal.status == 401


def test_a_cluster_key_that_cannot_be_used_is_refused(tmp_path: Path, free_ports: Callable[[int], list[int]]):
    config = configure(tmp_path, free_ports(3))
    text = config.read_text()
    config.write_text(text + '[security]\ncluster_key_file = "missing.key"\n')
    assert "security.cluster_key_file: cannot read" in refused(config)
    (tmp_path / "short.key").write_text("c" * 31)
    config.write_text(text + '[security]\ncluster_key_file = "short.key"\n')
    assert "holds 31 bytes, expected at least 32" in refused(config)
