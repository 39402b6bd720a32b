"""Stories of replicas that are lost, lose data, or are not in sync: which may lead, and with which records."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Iterable

import raftlog
from chaos.history import Read, Send
from chaos.readers import seen
from chaos.run import LEADER_WITHIN_S, Run
from chaos.site import BrokenPromiseError
from chaos.stories import kill_each

SILENCE_MS = 2_000
"""After so long without a record, the reader has reached the end."""
RECENT_NS = 1_000_000_000
"""The last replica may not know yet that a record is committed that was acknowledged so shortly before it was alone."""
ALONE_S = 4.0
"""How long a replica that must not lead is the only one: an election takes a fraction of a second."""


async def n_minus_1(run: Run) -> None:
    """Lose N-1 of N replicas: killed at once, one after another, by power, with their disks. The last has every record.

    While it is the only one, every acknowledged record is read from it.
    """
    ways = ["at once", "one after another"]
    if run.cluster.disks:
        ways += ["power cut", "disks lost"]
    for number, way in enumerate(ways):
        await run.load(100)
        survivor = run.brokers[number % len(run.brokers)]
        victims = [name for name in run.brokers if name != survivor]
        run.dice.shuffle(victims)
        with run.fault("power cut" if way == "power cut" else "SIGKILL", "N-1", *victims):
            alone_ns = await _lose(run, victims, way)
            await _reads_everything_from(run, survivor, f"{survivor} alone, {way}", alone_ns)
        await run.site.heal()
        await run.site.until_well()


async def kafka_clients(run: Run) -> None:
    """Kill each broker in turn, then lose N-1 of N in every way, while Kafka's clients send and read."""
    await run.load(100)  # Not `warm_up`: these clients bypass the proxies.
    await kill_each(run, run.brokers)
    await n_minus_1(run)


async def _lose(run: Run, victims: list[str], way: str) -> int:
    """Return when the last victim was still alive, on the monotonic clock in nanoseconds."""
    alone_ns = time.monotonic_ns()
    if way == "power cut":
        await run.site.cut_power(victims)
        return alone_ns
    if way == "one after another":
        for name in victims:
            alone_ns = time.monotonic_ns()
            await run.cluster.kill(name)
            await asyncio.sleep(run.dice.uniform(0.2, 1.5))
        return alone_ns
    await run.cluster.kill(*victims)
    if way == "disks lost" and run.cluster.disks:
        for name in victims:
            run.cluster.disks[name].wipe()
    return alone_ns


async def _reads_everything_from(run: Run, survivor: str, process: str, alone_ns: int) -> None:
    """Read all records that were acknowledged before from the only replica left.

    The last acknowledged records may be above the high watermark that it knows, which does not advance below min ISR
    (KIP-966). They are on its disk, and are read once another replica is in sync again. The final reads show them.
    """
    acknowledged = [send for send in run.history.sends if send.placed]
    try:
        async with asyncio.timeout(LEADER_WITHIN_S):
            while any(run.watch.leader(p) != survivor for p in range(run.workload.partitions)):
                await asyncio.sleep(0.05)
            found = await _read_what_is_visible(run, survivor, process)
    except TimeoutError:
        raise BrokenPromiseError(f"{survivor} is the last replica, and no client can read from it") from None
    run.history.reads += found
    lost, later = missing(acknowledged, found, alone_ns)
    if lost:
        raise BrokenPromiseError(f"{survivor}, the last replica, lacks {len(lost)} records: {lost[0]}")
    run.figures["read_later"] = run.figures.get("read_later", 0) + later


def missing(acknowledged: Iterable[Send], found: Iterable[Read], alone_ns: int) -> tuple[list[Send], int]:
    """Return which acknowledged records the last replica must show and does not, and how many may be read later.

    Args:
        alone_ns: when it was not alone yet. What was acknowledged shortly before may be above its high watermark.
    """
    values, ends = set[str](), dict[int, int]()
    for read in found:
        values.add(read.value)
        ends[read.partition] = max(read.offset, ends.get(read.partition, -1))
    absent = [send for send in acknowledged if send.value not in values]
    lost = [
        send
        for send in absent
        if send.offset <= ends.get(send.partition, -1) or send.completed_ns < alone_ns - RECENT_NS
    ]
    return lost, len(absent) - len(lost)


async def _read_what_is_visible(run: Run, broker: str, process: str) -> list[Read]:
    found = list[Read]()
    async with raftlog.Consumer([run.cluster.nodes.public_url(broker)], run.topic, start="earliest") as consumer:
        while records := await consumer.fetch(max_wait_ms=SILENCE_MS):
            found += [seen(process, record) for record in records]
    return found


async def power_cut_of_all(run: Run) -> None:
    """Cut the power of every node at once: under load, and a second after the last acknowledgement."""
    names = run.cluster.nodes.names
    for quiet in (False, True):
        await run.load(200)
        if quiet:
            await run.workload.pause()
            await asyncio.sleep(1)
        with run.fault("power cut", "all", *names):
            await run.site.cut_power(names)
            await run.site.heal()
        run.workload.go_on()
        await run.site.until_well()


async def lost_tail(run: Run) -> None:
    """Kill all brokers, one of them by a power cut, and start that one first: it must not lead (KIP-966).

    The topic leaves its writes to the page cache (flush=os), so this broker has lost the end of its log; the others
    have every record.
    """
    await run.warm_up()
    cut, *others = run.brokers
    with run.fault("SIGKILL", "N-1", *others), run.fault("power cut", "the other", cut):
        await asyncio.gather(run.cluster.kill(*others), run.site.cut_power([cut]))
        await run.site.power_up(cut)
        await run.cluster.restart(cut)
        await asyncio.sleep(ALONE_S)
        await run.cluster.restart(*others)
    await run.site.until_well()


async def lost_disk(run: Run) -> None:
    """Kill all brokers, give one an empty disk, start it first: it must not lead with an empty log."""
    await run.warm_up()
    emptied, *others = run.brokers
    with run.fault("SIGKILL", "all", *run.brokers):
        await run.cluster.kill(*run.brokers)
        await asyncio.to_thread(shutil.rmtree, run.cluster.data_dir(emptied))
        await run.cluster.restart(emptied)
        await asyncio.sleep(ALONE_S)
        await run.cluster.restart(*others)
    await run.site.until_well()


async def stale_replica(run: Run) -> None:
    """Let a replica fall out of sync, kill the others, start it alone: it must not lead (no unclean election)."""
    await run.warm_up()
    stale, *others = run.brokers
    with run.fault("SIGKILL", "follower", stale):
        await run.cluster.kill(stale)
        await run.until_acknowledged("without_the_stale_one_ms")
        await run.load(200)
        with run.fault("SIGKILL", "N-1", *others):
            await run.cluster.kill(*others)
            await run.cluster.restart(stale)
            await asyncio.sleep(ALONE_S)
            await run.cluster.restart(*others)
    await run.site.until_well()
