"""Stories of replicas that are lost, lose data, or are not in sync: which may lead, and with which records."""

from __future__ import annotations

import asyncio
import shutil

import raftlog
from chaos.history import Read
from chaos.readers import seen
from chaos.run import LEADER_WITHIN_S, Run
from chaos.site import BrokenPromiseError
from chaos.stories import kill_each

SILENCE_MS = 2_000
"""After so long without a record, the reader has reached the end."""
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
            await _lose(run, victims, way)
            await _reads_everything_from(run, survivor, f"{survivor} alone, {way}")
        await run.site.heal()
        await run.site.until_well()


async def kafka_clients(run: Run) -> None:
    """Kill each broker in turn, then lose N-1 of N in every way, while Kafka's clients send and read."""
    await run.load(100)  # Not `warm_up`: these clients bypass the proxies.
    await kill_each(run, run.brokers)
    await n_minus_1(run)


async def _lose(run: Run, victims: list[str], way: str) -> None:
    if way == "power cut":
        await run.site.cut_power(victims)
        return
    if way == "one after another":
        for name in victims:
            await run.cluster.kill(name)
            await asyncio.sleep(run.dice.uniform(0.2, 1.5))
        return
    await run.cluster.kill(*victims)
    if way == "disks lost" and run.cluster.disks:
        for name in victims:
            run.cluster.disks[name].wipe()


async def _reads_everything_from(run: Run, survivor: str, process: str) -> None:
    """Read all records that were acknowledged before from the only replica left.

    The last acknowledged records may be above the high watermark that it knows, which does not advance below min ISR
    (KIP-966). They are on its disk, and are read once another replica is in sync again. The final reads show them.
    """
    acknowledged = {send.value: send for send in run.history.sends if send.placed}
    try:
        async with asyncio.timeout(LEADER_WITHIN_S):
            while any(run.watch.leader(p) != survivor for p in range(run.workload.partitions)):
                await asyncio.sleep(0.05)
            found = await _read_what_is_visible(run, survivor, process)
    except TimeoutError:
        raise BrokenPromiseError(f"{survivor} is the last replica, and no client can read from it") from None
    run.history.reads += found
    ends = {read.partition: read.offset for read in found}
    for value in acknowledged.keys() - {read.value for read in found}:
        if acknowledged[value].offset <= ends.get(acknowledged[value].partition, -1):
            raise BrokenPromiseError(f"{survivor}, the last replica, lacks {acknowledged[value]}")
        run.figures["read_later"] = run.figures.get("read_later", 0) + 1


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
