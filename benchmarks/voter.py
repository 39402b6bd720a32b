"""One voter of a metadata quorum as a process: the leader's generates the load and reports on stdout, as JSON lines.

On stdin it gets `{"run": "latency" | "rate", ...}` lines; it exits when stdin ends.
"""

from __future__ import annotations

import asyncio
import cProfile
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from raftlog.config import VoterConfig
from raftlog.errors import RaftlogError
from raftlog.metadata_quorum.quorum import PySyncObjQuorum, VoterSettings
from raftlog.model import Address

_KEY = b"k" * 32
_TIMEOUT_MS = 30_000


class Counter:
    """The smallest state machine: a counter."""

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self.applied = 0

    def apply(self, index: int, payload: bytes) -> None:  # noqa: ARG002
        self.applied += 1

    def take_snapshot(self) -> bytes:
        return str(self.applied).encode()

    def load_snapshot(self, index: int, data: bytes) -> None:  # noqa: ARG002
        self.applied = int(data)

    def leadership_changed(self, leader: int | None) -> None:
        if leader == self._node_id:
            say({"leads": leader})


def say(value: dict[str, Any]) -> None:
    sys.stdout.write(orjson.dumps(value).decode() + "\n")
    sys.stdout.flush()


async def latency(quorum: PySyncObjQuorum, *, count: int, size: int) -> dict[str, Any]:
    """Propose one command after another; return each one's time in ms."""
    payload, taken = b"x" * size, []
    for _ in range(count):
        started = time.perf_counter()
        await quorum.propose(payload, timeout_ms=_TIMEOUT_MS)
        taken.append((time.perf_counter() - started) * 1000)
    return {"ms": taken}


async def rate(quorum: PySyncObjQuorum, *, count: int, size: int, depth: int) -> dict[str, Any]:
    """Keep `depth` proposals in flight; return commits per second and the CPU seconds of this process."""
    payload, left = b"x" * size, count

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await quorum.propose(payload, timeout_ms=_TIMEOUT_MS)

    started, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(depth):
            group.create_task(worker())
    seconds = time.perf_counter() - started
    return {"per_s": count / seconds, "leader_cpu_us": (time.process_time() - cpu) / count * 1e6}


_RUNS: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {"latency": latency, "rate": rate}


async def main(node_id: int, ports: list[int], folder: Path, profile: str | None) -> None:
    """Take part in the quorum until stdin ends."""
    voters = [
        VoterConfig(node_id=i + 1, quorum=Address("127.0.0.1", port), internal=Address("127.0.0.1", 1))
        for i, port in enumerate(ports)
    ]
    settings = VoterSettings(
        node_id=node_id,
        voters=voters,
        listen=voters[node_id - 1].quorum,
        key=_KEY,
        cluster_id="bench",
        data_dir=folder / str(node_id),
    )
    quorum = PySyncObjQuorum(settings, Counter(node_id))
    await quorum.start()
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    profiler = cProfile.Profile() if profile else None
    while line := await reader.readline():
        request = orjson.loads(line)
        run = _RUNS[request.pop("run")]
        if profiler is not None:
            profiler.enable()
        try:
            say(await run(quorum, **request))
        except* RaftlogError as lost:
            say({"lost": str(lost.exceptions[0])})
        if profiler is not None:
            profiler.disable()
    if profiler is not None:
        profiler.dump_stats(f"{profile}.{node_id}")
    await quorum.close()


if __name__ == "__main__":
    logging.basicConfig(level="WARNING")
    settings = orjson.loads(sys.argv[1])
    asyncio.run(main(settings["node_id"], settings["ports"], Path(settings["folder"]), settings.get("profile")))
