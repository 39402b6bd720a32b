"""The simulation's answers to what the real code requests of its machine: clocks, randomness, its own exit."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any
from unittest import mock

import aiohappyeyeballs
import aiohttp.connector
import pysyncobj.syncobj as core_module
from pysyncobj.node import Node

from raftlog import request_marks
from raftlog.broker.kafka import connection as kafka_connection
from raftlog.broker.lean import connection
from raftlog.broker.lean import routes as lean_routes
from raftlog.metadata_quorum import quorum
from raftlog.partition.storage import data_dir, verified_reads
from raftlog.record.batch import HEADER_BYTES
from raftlog.serving import handshakes, loop_shares
from simulation.cluster.connection import FakeSocket
from simulation.cluster.loop import CURRENT, ProcessDiedError, SimulatedLoop

TICK_S = 0.03
"""Of the Raft core: three times the real one, which would take a tenth of a simulation's time."""
EPOCH_US = 1_700_000_000_000_000
SMALL_READS = {
    "SENDFILE_BYTES": 512,
    "INTERVAL_BYTES": 256,
    "WINDOW_BYTES": 1024,
    "LARGE_BYTES": 512,
    "HEADER_READ_BYTES": HEADER_BYTES,
}
"""As small compared to simulated batches as the real limits are compared to batches of 1 MB: readers check some."""


async def _fake_socket(addr_infos: Any, **_: Any) -> FakeSocket:
    """Dial for aiohttp, which dials in two steps: the loop does the second one."""
    return FakeSocket(addr_infos[0][4][:2])


@contextmanager
def machine(
    loop: SimulatedLoop, dice: random.Random, on_exit: Callable[[], None], boot_id: Callable[[], str]
) -> Iterator[None]:
    """Patch the process for one run."""

    def monotonic() -> float:
        return loop.time()

    def wall_us() -> int:
        process = CURRENT.get()
        return EPOCH_US + int(loop.time() * 1e6) + (process.wall_skew_us if process is not None else 0)

    def leave(code: int) -> None:
        on_exit()
        raise ProcessDiedError(code)

    patches: list[tuple[Any, str, Any]] = [
        (time, "monotonic", monotonic),
        (time, "monotonic_ns", lambda: int(loop.time() * 1e9)),
        (time, "time", lambda: wall_us() / 1e6),
        (time, "time_ns", lambda: wall_us() * 1_000),
        (time, "perf_counter", monotonic),
        (time, "thread_time", monotonic),  # An address that used much computing time waits: see `LoopShares`.
        *((module, "perf_counter", monotonic) for module in (connection, handshakes, kafka_connection, lean_routes)),
        (loop_shares, "SpareClock", lambda: SimpleNamespace(time=monotonic)),
        (aiohttp.connector, "monotonic", monotonic),
        (aiohappyeyeballs, "start_connection", _fake_socket),
        (core_module, "monotonicTime", monotonic),
        (core_module, "random", dice),
        (quorum, "TICK_S", TICK_S),
        (Node, "__hash__", lambda node: int.from_bytes(node.id.encode()[-6:], "big")),  # The core keeps nodes in sets.
        (uuid, "uuid4", lambda: uuid.UUID(int=dice.getrandbits(128), version=4)),
        (os, "urandom", dice.randbytes),
        (request_marks, "_prefix", "request"),
        (request_marks, "_numbers", count(1)),  # Ids are in error answers, whose length takes time to send.
        (os, "_exit", leave),
        (data_dir, "boot_id", boot_id),
        *((verified_reads, name, size) for name, size in SMALL_READS.items()),
        (random, "random", dice.random),
        (random, "choice", dice.choice),
        (random, "shuffle", dice.shuffle),
        (random, "uniform", dice.uniform),
        (random, "randrange", dice.randrange),
        (random, "randint", dice.randint),
        (random, "sample", dice.sample),
    ]
    with ExitStack() as stack:
        for target, name, value in patches:
            stack.enter_context(mock.patch.object(target, name, value))
        yield
