"""No bytes from the network or the disk are ever unpickled by a controller: that would be running them."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import signal
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from raftlog.cli.local_cluster import LocalCluster
from raftlog.client import Admin
from raftlog.metadata_quorum.raft.codec import encode
from raftlog.metadata_quorum.raft.transport import RaftTransport, transport_key
from raftlog.model import Address

pytestmark = pytest.mark.cluster
REPORTING = """
import json, os, signal, sys
LOADERS = {"pickle", "_pickle", "cPickle", "_compat_pickle", "marshal", "shelve", "dill", "cloudpickle"}
events = []
sys.addaudithook(lambda event, _: events.append(event) if event.startswith("pickle.") else None)

def reachable(value):
    named = getattr(value, "__name__", "") if isinstance(value, type(sys)) else getattr(value, "__module__", None)
    return named in LOADERS

def report(*_):
    ours = {name: vars(module) for name, module in list(sys.modules.items())
            if name.split(".")[0] in ("raftlog", "pysyncobj") and module is not None}
    found = [f"{name}.{key}" for name, values in ours.items() for key, value in values.items() if reachable(value)]
    refusals = []
    for data in (b"N.", b"\\x80\\x02N."):
        try:
            sys.modules["pysyncobj.pickle"].loads(data)
        except Exception as error:
            refusals.append(type(error).__name__)
    path = os.environ["PICKLE_REPORT"] + "." + str(os.getpid())
    with open(path + ".new", "w") as file:
        json.dump({"modules": len(ours), "found": found, "refusals": refusals, "events": events}, file)
    os.rename(path + ".new", path)

signal.signal(signal.SIGUSR1, report)
"""


class Bomb:
    """Makes a file where it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.marker),))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """Three controllers and a broker, whose processes tell on SIGUSR1 what they could unpickle with."""
    (tmp_path / "hook").mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(REPORTING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hook"), prepend=os.pathsep)
    monkeypatch.setenv("PICKLE_REPORT", str(tmp_path / "report"))
    with LocalCluster(tmp_path / "cluster", controllers=3, brokers=1, port=0) as running:
        yield running


def reported(cluster: LocalCluster, name: str) -> dict[str, Any]:
    pid = cluster.pid(name)
    assert pid is not None
    path = Path(f"{os.environ['PICKLE_REPORT']}.{pid}")
    os.kill(pid, signal.SIGUSR1)
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline, f"{name} told nothing"
        time.sleep(0.01)
    return dict(json.loads(path.read_text()))


def quorum_address(cluster: LocalCluster, name: str) -> Address:
    address = cluster.node(name).quorum
    assert address is not None
    return address


async def answered(address: Address, data: bytes) -> bytes:
    """Send bytes to a quorum listener; return all that comes back before it hangs up."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(data)
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@asynccontextmanager
async def impostor(cluster: LocalCluster, name: str) -> Any:
    """Take the place of a voter, with the cluster's key."""
    wire = RaftTransport(
        name=str(quorum_address(cluster, name)),
        names=[str(quorum_address(cluster, other)) for other in cluster.controllers],
        listen=quorum_address(cluster, name),
        key=transport_key((cluster.data / "quorum.key").read_bytes().strip(), cluster.cluster_id),
        dial={},
        wake=lambda: None,
    )
    await wire.start()
    try:
        yield wire
    finally:
        await wire.close()


async def connected(wire: RaftTransport, count: int) -> None:
    async with asyncio.timeout(10):
        while len(wire._peers) < count:
            await asyncio.sleep(0.01)


async def test_a_running_controller_cannot_unpickle(cluster: LocalCluster, tmp_path: Path):
    marker = tmp_path / "exploded"
    bomb = pickle.dumps(Bomb(marker), 2)
    squeezed = zlib.compress(bomb)
    stock_frame = struct.pack("i", len(squeezed)) + squeezed  # What PySyncObj's own transport would take.
    for name in cluster.controllers:
        for hostile in (bomb, stock_frame, struct.pack("<I", len(bomb)) + bytes(16) + bomb):
            own = str(quorum_address(cluster, name))
            assert len(await answered(quorum_address(cluster, name), hostile)) <= 2 + len(own) + 16

    last = max(cluster.controllers, key=lambda name: str(quorum_address(cluster, name)))
    cluster.kill(last)
    async with impostor(cluster, last) as wire:
        await connected(wire, 2)
        for node in wire.nodes:
            peer = wire._peers[node.id]
            forged = {
                "type": "append_entries",
                "term": 1_000_000,
                "commit_index": 1 << 40,
                "prevLogIdx": 1,
                "prevLogTerm": 0,
                "seq": 1,
            }
            entries = [(kind + bomb, 2 + at, 1_000_000) for at, kind in enumerate((b"\x01", b"\x02", b"\x03"))]
            wire.send(node, {**forged, "transmission": "process", "data": bomb, "entries": []})
            wire.send(node, {**forged, "prevLogIdx": 1 << 30, "entries": entries})
            wire.send(node, {"type": "apply_command", "command": b"\x00" + bomb, "request_id": 1})
            peer.send(encode({"type": [bomb]}))
            peer.send(bomb)
    cluster.start_node(last)
    cluster.wait_ready()
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("after", partitions=1)

    for name in cluster.controllers:
        report = reported(cluster, name)
        assert report["modules"] > 50
        assert report["found"] == []
        assert report["refusals"] == ["MessageFormatError"] * 2
        assert "pickle.find_class" not in report["events"]
    assert not marker.exists()
