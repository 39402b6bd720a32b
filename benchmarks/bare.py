"""The least that one acknowledged record costs in Python: the same messages by processes that do nothing else.

A client, a leader and two followers move one record of 100 bytes after another, as raftlog does with three replicas and
acks=all. Each is a process. raftlog runs beside them, in alternating rounds; its figures include the controller. Four
forms:

- `sockets`: messages without content, over blocking sockets. Each replica writes the batch to a file.
- `asyncio`: the same on asyncio's event loop and transports.
- `http`: the same with HTTP heads, JSON and Arrow batches that are built, checked and read by the shortest code.
- `tls`: `http` with TLS.

`http` is a lower bound for a log in Python with this protocol: it has no second topic, client or partition, no index,
time-out, limit, quota, metric or identity, and survives no fault.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import trustme

from benchmarks.bare_node import AUTHORITY, CERTIFICATE, HOST
from benchmarks.clusters import running
from benchmarks.datapath import _cpu_s, _create
from benchmarks.report import Effort, Figure, repeat
from benchmarks.trace import _pids, _roles, _send
from raftlog.client import Producer

_ROLES = ("leader", "follower", "follower", "client")
FORMS = ("sockets", "asyncio", "http", "tls")
_END_S = 10.0


class Bare:
    """Four running processes; see `benchmarks.bare_node`."""

    def __init__(self, processes: list[subprocess.Popen[str]]) -> None:
        self._processes = processes
        self.pids = {
            f"{role} {number}": process.pid
            for number, (role, process) in enumerate(zip(_ROLES, processes, strict=True))
        }

    def send(self, count: int) -> list[float]:
        """Send records one after another; return their latencies in ms."""
        client = self._processes[-1]
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(f"{count}\n")
        client.stdin.flush()
        times: list[float] = orjson.loads(client.stdout.readline())
        return times


@contextmanager
def bare(form: str, folder: Path, *, synced: bool) -> Iterator[Bare]:
    """Run the four processes with their files in `folder`."""
    if form == "tls":
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / AUTHORITY))
        authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(folder / CERTIFICATE))
    with ExitStack() as stack:
        processes, port = list[subprocess.Popen[str]](), ""
        for role in _ROLES:
            process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.bare_node", role, form, *(["synced"] if synced else [])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
            )
            stack.callback(_end, process)
            assert process.stdin is not None
            assert process.stdout is not None
            if role == "leader":
                port = process.stdout.readline()
            else:
                process.stdin.write(port)
                process.stdin.flush()
            processes.append(process)
        yield Bare(processes)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process; the client is ended first, and the others end with their connections."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


async def _compared(effort: Effort, *, synced: bool) -> list[Figure]:
    topic, count = "synced" if synced else "unsynced", effort.pick(1_000, quick=100)
    cpu_us: dict[str, list[float]] = {form: [] for form in (*FORMS, "raftlog")}
    latency_ms: dict[str, list[float]] = {name: [] for name in cpu_us}
    with ExitStack() as stack:
        cluster = stack.enter_context(running(controllers=1))
        folder = Path(stack.enter_context(TemporaryDirectory(dir="build", prefix="bare-")))
        forms = {form: stack.enter_context(bare(form, folder, synced=synced)) for form in FORMS}
        await _create(cluster, topic, replicas=3, flush="batch" if synced else "os")
        pids = {name: one.pids for name, one in forms.items()}
        pids["raftlog"] = _pids(cluster, await _roles(cluster, topic))
        async with Producer(cluster.bootstrap, linger_ms=0) as producer:
            for number in repeat(1 + effort.pick(7, quick=2), f"{topic}: {count} records by each"):
                for name, costs in cpu_us.items():
                    before = sum(map(_cpu_s, pids[name].values()))
                    if name in forms:
                        times = await asyncio.to_thread(forms[name].send, count)
                    else:
                        times = [(end - began) / 1e6 for began, end in await _send(producer, topic, count)]
                    if number:  # The first round warms up.
                        costs.append((sum(map(_cpu_s, pids[name].values())) - before) * 1e6 / count)
                        latency_ms[name] += times
    return [
        *(Figure(name=f"{topic}_{name}_cpu_us", samples=samples) for name, samples in cpu_us.items()),
        *(Figure(name=f"{topic}_{name}_latency_ms", samples=samples) for name, samples in latency_ms.items()),
    ]


def unsynced(effort: Effort) -> list[Figure]:
    """Replicas acknowledge from the page cache."""
    return asyncio.run(_compared(effort, synced=False))


def synced(effort: Effort) -> list[Figure]:
    """Replicas sync before they acknowledge."""
    return asyncio.run(_compared(effort, synced=True))


FIGURES = {"unsynced": unsynced, "synced": synced}
