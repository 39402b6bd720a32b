"""Attacks on every listener beside the usual load and faults: no record is lost, and honest clients are served."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

import orjson

import raftlog
from chaos.failover import p99
from chaos.history import Send
from chaos.run import Run
from chaos.sessions import open_session
from chaos.site import BrokenPromiseError
from chaos.stranger import FETCH_BYTES, LARGE, LARGE_PARTITIONS
from chaos.workload import CRASHED
from raftlog.errors import RaftlogError
from raftlog.tls import TlsFiles, client_context
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.metadata import BrokersResponse

QUIET_S = 12.0
ATTACK_S = 30.0
SLOWER = 5
"""How many times its own p99 an honest client may wait during the attacks."""
POLL_S = 0.5
ANSWERED_WITHIN_S = 5.0
"""A send that has no outcome so long after the measurement has failed."""
FOREVER_US = 2**62
FEWEST_SENDS = 100
FEWEST_LOOKS = 0.25
"""The share of the looks for fenced brokers that must be answered."""
LARGE_RECORDS = 2_000
"""Of 10 kB, in each partition: more than a Kafka Fetch returns."""
LARGE_BYTES = 10 << 20
LARGE_ANSWER_S = 10.0


async def strangers(run: Run) -> None:
    """Measure honest clients without attacks, then with them; then kill a broker and the controller during attacks."""
    await run.warm_up()
    await _make_large(run)
    quiet = await _latency_p99(run, QUIET_S)
    async with _attacks(run, ATTACK_S + 15):
        with run.fault("strangers", "all", *run.brokers):
            async with _none_fenced(run):
                attacked = await _latency_p99(run, ATTACK_S)
                await _require_large_answers(run)
    run.figures["p99_quiet_us"], run.figures["p99_attacked_us"] = quiet, attacked
    if attacked > SLOWER * quiet:
        raise BrokenPromiseError(f"p99 of sends: {attacked} us under attack, {quiet} us without, more than {SLOWER} x")

    async with _attacks(run, 60):
        for victim in (run.brokers[0], run.watch.active_controller or run.cluster.nodes.controllers[0]):
            with run.fault("strangers", "all", *run.brokers), run.fault("SIGKILL", "minority", victim):
                await run.cluster.kill(victim)
                await run.until_acknowledged(f"after_{victim}_ms")
                await run.cluster.restart(victim)
            await run.load(100)
    await run.site.until_in_sync()


async def _latency_p99(run: Run, seconds: float) -> int:
    """Return the p99, in us, of sends with acks=all that were begun within the next `seconds`.

    Raises:
        BrokenPromiseError: too few were acknowledged, or so many failed that there is no p99.
    """
    begun_ns = time.monotonic_ns()
    await asyncio.sleep(seconds)
    ended_ns, deadline = time.monotonic_ns(), time.monotonic() + ANSWERED_WITHIN_S
    while run.workload.acknowledged.pending(begun_ns, ended_ns) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    pending = run.workload.acknowledged.pending(begun_ns, ended_ns)
    sends = [send for send in run.history.sends if begun_ns <= send.invoked_ns <= ended_ns]
    if (acknowledged := sum(send.durable for send in sends)) < FEWEST_SENDS:
        raise BrokenPromiseError(f"only {acknowledged} records were acknowledged within {seconds:g} s")
    if (found := p99([*waits_us(sends), *[FOREVER_US] * pending])) == FOREVER_US:
        raise BrokenPromiseError(f"{acknowledged} records were acknowledged, {pending} are pending, too many failed")
    return found


def waits_us(sends: Iterable[Send]) -> list[int]:
    """Return how long each send with acks=all waited, in us; `FOREVER_US` if it was not acknowledged.

    What a client's own crash ended has waited as long as the client lived.
    """
    return [
        (send.completed_ns - send.invoked_ns) // 1_000 if send.durable or send.error == CRASHED else FOREVER_US
        for send in sends
        if send.acks == "all"
    ]


@asynccontextmanager
async def _attacks(run: Run, seconds: float) -> AsyncIterator[None]:
    """Attack all brokers from a process of its own, not through the proxies, until the block is left.

    It has the lowest priority: real attackers have machines of their own, and take no processor time from the
    cluster's.
    """
    nodes = [run.cluster.nodes.node(name) for name in run.brokers]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "chaos.stranger",
        str(seconds),
        str(run.dice.randrange(2**32)),
        ",".join(str(node.public) for node in nodes),
        ",".join(str(node.internal) for node in nodes),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # The autogroup of its session has its priority.
    )
    try:
        yield
        if process.returncode is not None:
            raise BrokenPromiseError(f"the attacking process exited early with {process.returncode}")
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
        said, _ = await process.communicate()
        if said:
            run.figures["attacks"] = sum(orjson.loads(said).values())


async def _make_large(run: Run) -> None:
    """Fill the topic of which the attacking process fetches more than it reads."""
    async with raftlog.Admin(run.cluster.bootstrap) as admin:
        await admin.create_topic(LARGE, partitions=LARGE_PARTITIONS, replication_factor=len(run.brokers))
    async with raftlog.Producer(run.cluster.bootstrap) as producer:
        for partition in range(LARGE_PARTITIONS):
            sent = (producer.send(LARGE, bytes(10_000), partition=partition) for _ in range(LARGE_RECORDS))
            await asyncio.gather(*sent)


async def _require_large_answers(run: Run) -> None:
    """Fetch as many records as one answer may have: a broker must have memory for them, whatever attackers hold."""
    own = raftlog.Security.from_environment()
    files = TlsFiles(cert_file=own.cert_file, key_file=own.key_file, ca_file=own.ca_file)
    tls = client_context(files) if own.ca_file else None
    for broker in [run.cluster.nodes.node(name).public for name in run.brokers] * 3:
        assert broker is not None
        reader, writer = await asyncio.open_connection(broker.host, broker.port, ssl=tls)
        try:
            writer.write(FETCH_BYTES)
            async with asyncio.timeout(LARGE_ANSWER_S):
                length = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(length)
        finally:
            writer.transport.abort()
        if length < LARGE_BYTES:
            raise BrokenPromiseError(f"{broker.authority} refused a large answer: {length} bytes")


@asynccontextmanager
async def _none_fenced(run: Run) -> AsyncIterator[None]:
    """Check all the while whether a broker is fenced.

    Raises:
        BrokenPromiseError: one was, or most looks were not answered.
    """
    seen: list[str] = []
    looks, begun = 0, time.monotonic()

    async def look(session: HttpSession) -> None:
        address = run.cluster.nodes.node(run.brokers[0]).health
        assert address is not None
        nonlocal looks
        while True:
            with suppress(RaftlogError):
                answer = await session.call(
                    BrokersResponse, "GET", address, f"{paths.BROKERS}?consistency=local", timeout_ms=2_000
                )
                looks += 1
                seen.extend(f"broker {broker.broker_id} was fenced" for broker in answer.brokers if broker.fenced)
            await asyncio.sleep(POLL_S)

    async with open_session(run.cluster.dial) as session:
        looking = asyncio.create_task(look(session))
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
    if seen:
        raise BrokenPromiseError(f"{seen[0]} during the attacks ({len(seen)} looks)")
    require_looks(looks, time.monotonic() - begun)


def require_looks(looks: int, seconds: float) -> None:
    """Check that enough looks for fenced brokers were answered in so many seconds.

    Raises:
        BrokenPromiseError: too few: that no broker was seen fenced means nothing.
    """
    if looks < FEWEST_LOOKS * seconds / POLL_S:
        raise BrokenPromiseError(f"only {looks} looks for fenced brokers were answered in {seconds:.0f} s")
