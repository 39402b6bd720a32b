"""Calls of the client on a simulated cluster that are cancelled at each of their waits (`cancelling.py`)."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cancelling import ENDS_S, Call, at_each_wait

import raftlog
from simulation.cluster.life import Life
from simulation.cluster.loop import Process
from simulation.cluster.script import Script
from simulation.cluster.settings import Settings
from simulation.cluster.world import World

SOURCE, TARGET, GROUP, NAME = "source", "target", "readers", "writer"
SESSION_MS = 6_000


async def read_all(world: World, topic: str, partitions: int) -> list[list[bytes]]:
    """Return the committed values of a topic, by partition."""
    found: list[list[bytes]] = [[] for _ in range(partitions)]
    async with raftlog.Consumer(world.bootstrap, topic, start="earliest", isolation="read_committed") as consumer:
        ends = await consumer.end_offsets()
        while any(consumer.position(*partition) < end for partition, end in ends.items()):
            for record in await consumer.fetch():
                found[record.partition].append(record.value or b"")
    return found


# Each takes the world, whose topics exist, and `again_after`.


async def sends(world: World, again_after: int) -> None:
    """A record whose `send` was cancelled is stored once, or not; others are stored once, and in order."""
    wanted: list[bytes] = []
    number = 0
    async with raftlog.Producer(world.bootstrap, linger_ms=1) as producer:

        def call() -> Coroutine[Any, Any, object]:
            return producer.send(TARGET, b"perhaps %d" % number, partition=0)

        async for _ in at_each_wait(call, again_after=again_after):
            wanted.append(b"surely %d" % number)
            await producer.send(TARGET, wanted[-1], partition=0)
            number += 1
    values = (await read_all(world, TARGET, 2))[0]
    assert [value for value in values if value.startswith(b"surely")] == wanted
    assert max(Counter(values).values()) == 1
    assert _numbers(values) == sorted(_numbers(values))


async def flushes(world: World, again_after: int) -> None:
    """What was queued is stored once, though the `flush` after it is cancelled."""
    wanted: list[bytes] = []
    async with raftlog.Producer(world.bootstrap, linger_ms=50) as producer:

        async def call() -> None:
            for partition in range(2):
                wanted.append(b"%d" % len(wanted))
                producer.send_nowait(TARGET, wanted[-1], partition=partition)
            await producer.flush()

        async for _ in at_each_wait(call, again_after=again_after):
            await producer.flush()
    values = await read_all(world, TARGET, 2)
    assert values == [wanted[0::2], wanted[1::2]]


async def producers(world: World, again_after: int) -> None:
    """A producer that ends by a cancellation at any wait of its life leaves nothing that hinders the next."""
    number = 0

    async def call() -> None:
        async with raftlog.Producer(world.bootstrap) as producer:
            await producer.send(TARGET, b"perhaps %d" % number, partition=0)
            producer.send_nowait(TARGET, b"queued %d" % number, partition=1)

    async for _ in at_each_wait(call, again_after=again_after):
        number += 1
    values = await read_all(world, TARGET, 2)
    assert all(_numbers(some) == sorted(set(_numbers(some))) for some in values)


async def fetches(world: World, again_after: int) -> None:
    """Fetches that are cancelled neither lose nor repeat a record."""
    found: list[tuple[int, bytes]] = []
    async with raftlog.Consumer(world.bootstrap, SOURCE, start="earliest") as consumer:

        async def call() -> None:
            found.extend(_places(await consumer.fetch(max_records=3)))

        await _read_source(world, consumer, found, call, again_after)


async def iterations(world: World, again_after: int) -> None:
    """The next record of an iteration that was cancelled is neither lost nor repeated."""
    found: list[tuple[int, bytes]] = []
    async with raftlog.Consumer(world.bootstrap, SOURCE, start="earliest") as consumer:

        async def call() -> None:
            found.extend(_places([await anext(consumer)]))
            await asyncio.sleep(0)

        await _read_source(world, consumer, found, call, again_after)


async def group_reads(world: World, again_after: int) -> None:
    """Nor by a member of a group, which commits what it has read."""
    found: list[tuple[int, bytes]] = []
    async with _member(world) as consumer:

        async def call() -> None:
            found.extend(_places(await consumer.fetch(max_records=3)))
            await consumer.commit()

        await _read_source(world, consumer, found, call, again_after)
        await consumer.commit()
        committed = await consumer.committed(*consumer.assignment)
    ends = Counter(partition for partition, _ in found)
    assert {place.partition: one and one.offset for place, one in committed.items()} == ends


async def rewinds(world: World, again_after: int) -> None:
    """A member that goes back to what is committed, and is cancelled then, goes back with the next call."""
    await _fill(world)
    async with _member(world) as consumer:
        while not (first := await consumer.fetch(max_records=3)):
            pass
        await consumer.commit({(record.topic, record.partition): 0 for record in first})
        async for _ in at_each_wait(consumer.seek_to_committed, again_after=again_after):
            await consumer.seek_to_committed()
            assert [record.offset for record in await consumer.fetch(max_records=3)] == [0, 1, 2]


async def members(world: World, again_after: int) -> None:
    """A member that is cancelled at any wait of its life leaves the group: the next one reads soon."""
    await _fill(world)

    async def call() -> None:
        async with _member(world) as consumer:
            while not await consumer.fetch(max_records=3):
                pass

    async for cancellation in at_each_wait(call, again_after=again_after):
        since = world.loop.time()
        async with _member(world) as consumer:
            while not await consumer.fetch(max_records=3):
                assert world.loop.time() < since + _free_within_s(again_after), (
                    f"{cancellation}: its partitions are not free"
                )
            await consumer.commit(dict.fromkeys(consumer.assignment, 0))


async def transactions(world: World, again_after: int) -> None:
    """A transaction that is cancelled does not count, or is in doubt: then all of it counts, or nothing."""
    async with raftlog.Producer(world.bootstrap, transactional_id=NAME) as producer:
        await _transact(world, partial(_run_one, producer), again_after)


async def transactional_producers(world: World, again_after: int) -> None:
    """The same, with a producer for each."""

    async def call(number: int, ends: Ends) -> None:
        async with raftlog.Producer(world.bootstrap, transactional_id=NAME) as producer:
            await _run_one(producer, number, ends)

    await _transact(world, call, again_after)


async def rebalances(world: World, again_after: int) -> None:
    """A member that is cancelled while it joins or leaves another keeps no partition from it."""
    read, written, stopping = set[bytes](), 0, False

    async def stay() -> None:
        async with _member(world) as consumer:
            while not stopping:
                for record in await consumer.fetch(max_wait_ms=100):
                    read.add(record.value or b"")
                await consumer.commit()

    async def call() -> None:
        async with _member(world) as consumer:
            while not consumer.assignment:
                read.update(record.value or b"" for record in await consumer.fetch())
            await consumer.commit()

    staying = asyncio.ensure_future(stay())
    async with raftlog.Producer(world.bootstrap) as producer:
        async for cancellation in at_each_wait(call, again_after=again_after):
            for partition in range(2):
                await producer.send(SOURCE, b"%d" % written, partition=partition)
                written += 1
            deadline = world.loop.time() + _free_within_s(again_after)
            while len(read) < written:
                assert world.loop.time() < deadline, f"{cancellation}: a partition is not read"
                assert not staying.done(), staying
                await asyncio.sleep(0.05)
    stopping = True
    await staying


async def administration(world: World, again_after: int) -> None:
    """An operator's call that is cancelled can be repeated."""
    numbers = itertools.count()
    async with raftlog.Admin(world.bootstrap) as admin:

        async def call() -> None:
            number = next(numbers)
            await admin.create_topic(f"new-{number}", partitions=2, if_not_exists=True)
            await admin.alter_topic(f"new-{number}", configs={"retention_ms": 60_000 + number})
            await admin.delete_topic(f"new-{number}")

        async for _ in at_each_wait(call, again_after=again_after):
            await call()


CALLS = (
    sends,
    flushes,
    producers,
    fetches,
    iterations,
    group_reads,
    rewinds,
    members,
    rebalances,
    administration,
    transactions,
    transactional_producers,
)


def _member(world: World) -> raftlog.Consumer:
    return raftlog.Consumer(
        world.bootstrap,
        SOURCE,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=SESSION_MS,
    )


def _free_within_s(again_after: int) -> float:
    """Return how long partitions may be without a reader: a leave that is cancelled, too, may not be sent."""
    return 2 * SESSION_MS / 1000 if again_after else SESSION_MS / 2000


def _numbers(values: list[bytes]) -> list[int]:
    return [int(value.split()[1]) for value in values]


def _places(records: list[raftlog.Record]) -> list[tuple[int, bytes]]:
    return [(record.partition, record.value or b"") for record in records]


async def _fill(world: World) -> None:
    async with raftlog.Producer(world.bootstrap) as producer:
        for partition in range(2):
            for number in range(3):
                producer.send_nowait(SOURCE, b"%d" % number, partition=partition)


async def _read_source(
    world: World, consumer: raftlog.Consumer, found: list[tuple[int, bytes]], call: Call, again_after: int
) -> None:
    """Cancel calls while new records arrive; then read the rest, and compare."""
    written = 0
    async with raftlog.Producer(world.bootstrap) as producer:

        async def write() -> None:
            nonlocal written
            for _ in range(4):
                await producer.send(SOURCE, b"%d" % written, partition=written % 2)
                written += 1

        await write()
        async for _ in at_each_wait(call, again_after=again_after):
            await write()
    deadline = world.loop.time() + ENDS_S
    while len(found) < written:
        assert world.loop.time() < deadline, f"{written - len(found)} of {written} records are lost"
        found += _places(await consumer.fetch())
    assert [number for number, _ in Counter(found).most_common(1)] == [found[0]]
    for partition in range(2):
        assert [value for at, value in found if at == partition] == [b"%d" % n for n in range(partition, written, 2)]


@dataclass
class Ends:
    """How the blocks of transactions ended: those that ended well, and those in doubt."""

    well: set[int] = field(default_factory=set)
    in_doubt: set[int] = field(default_factory=set)


async def _run_one(producer: raftlog.Producer, number: int, ends: Ends) -> None:
    try:
        async with producer.transaction() as transaction:
            for partition in range(2):
                producer.send_nowait(TARGET, b"result %d" % number, partition=partition)
            await transaction.send_offsets({(SOURCE, 0): number + 1}, GROUP)
    except raftlog.TransactionInDoubtError:
        ends.in_doubt.add(number)  # Another cancellation may take its place before the producer is closed.
        raise
    ends.well.add(number)


async def _transact(world: World, transact: Callable[[int, Ends], Coroutine[Any, Any, None]], again_after: int) -> None:
    numbers, ends = itertools.count(), Ends()
    async for _ in at_each_wait(lambda: transact(next(numbers), ends), again_after=again_after):
        await transact(next(numbers), ends)
    first, second = (_numbers(values) for values in await read_all(world, TARGET, 2))
    assert first == second == sorted(set(first))
    assert ends.well <= set(first) <= ends.well | ends.in_doubt


def play(number: int, again_after: int, folder: Path) -> None:
    """Cancel all calls of one kind in a quiet world."""
    settings = Settings(controllers=1, brokers=3, replicas=3, min_insync_replicas=2, partitions=1)

    async def story(script: Script) -> None:
        world = script.world
        await script.in_sync()
        for topic in (SOURCE, TARGET):
            await script.administer(partial(_create, topic))
        ends = world.loop.create_task(
            CALLS[number](world, again_after), context=Process("application", "10.0.9.1").context
        )
        await ends

    world = World(folder / "world", seed=number, settings=settings)
    Life(world).run(lambda: story(Script(world)))


def _create(topic: str, admin: raftlog.Admin) -> Awaitable[object]:
    return admin.create_topic(topic, partitions=2, replication_factor=3)
