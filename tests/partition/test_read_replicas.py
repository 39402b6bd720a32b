"""Reading from followers (KIP-392): the preferred read replica; no consumer reads above the high watermark."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from replica_support import EPOCHS, Solo
from replication_support import World

from raftlog.errors import ErrorCode, OffsetOutOfRangeError, RaftlogError, RetriableError, StaleRouteError
from raftlog.model import Address, BrokerRegistration
from raftlog.partition.core.read_replicas import preferred_read_replica
from raftlog.partition.time_search import record_at
from raftlog.record import read_records
from raftlog.wire.data import FetchPartition, FetchRequest

RACKS = {1: "a", 2: "b", 3: "b"}


def brokers(**changes: dict[str, object]) -> dict[int, BrokerRegistration]:
    registered = {
        broker: BrokerRegistration(
            broker_id=broker,
            incarnation_id="i",
            broker_epoch=EPOCHS[broker],
            public=Address("h", 1),
            internal=Address("h", 2),
            rack=rack,
            fenced=False,
        )
        for broker, rack in RACKS.items()
    }
    return {broker: replace(known, **changes.get(f"b{broker}", {})) for broker, known in registered.items()}  # type: ignore[arg-type]


@pytest.fixture
async def led(tmp_path: Path):
    """Broker 1 leads ten records; broker 2 holds five of them, broker 3 eight: the high watermark is 5."""
    solo = Solo(tmp_path)
    for _ in range(10):
        await solo.append("x", acks=1)
    for follower, offset in ((2, 5), (3, 8)):
        solo.replica.on_follower_fetch(follower, broker_epoch=EPOCHS[follower], fetch_offset=offset, log_start_offset=0)
    assert solo.replica.high_watermark == 5
    yield solo
    await solo.close()


def preferred(solo: Solo, *, rack: str = "b", offset: int = 0, **changes: dict[str, object]) -> int | None:
    return preferred_read_replica(solo.replica.require_leader(), brokers(**changes), rack=rack, offset=offset)


async def test_the_furthest_in_sync_follower_of_the_rack_is_named(led: Solo):
    assert preferred(led) == 3
    assert preferred(led, offset=5) == 3
    assert preferred(led, b3={"rack": "c"}) == 2
    assert preferred(led, rack="c", b2={"rack": "c"}, offset=5) == 2


async def test_a_follower_that_starts_above_the_offset_is_not_preferred(led: Solo):
    """Its log may start later than the leader's. The consumer was sent there again after each refusal."""
    led.replica.on_follower_fetch(3, broker_epoch=EPOCHS[3], fetch_offset=8, log_start_offset=4)
    assert [preferred(led, offset=offset) for offset in (0, 3, 4, 5)] == [2, 2, 3, 3]
    led.replica.on_follower_fetch(2, broker_epoch=EPOCHS[2], fetch_offset=5, log_start_offset=1)
    assert preferred(led, offset=0) is None


async def test_no_read_replica_is_preferred_if_the_leader_is_as_good(led: Solo):
    assert preferred(led, rack="") is None
    assert preferred(led, rack="a") is None
    assert preferred(led, rack="elsewhere") is None
    assert preferred(led, offset=6) is None  # Above the high watermark: the leader's to judge.


@pytest.mark.parametrize("lost", [{"fenced": True}, {"in_controlled_shutdown": True}, {"broker_epoch": 99}])
async def test_a_fenced_or_restarted_follower_is_not_preferred(led: Solo, lost: dict[str, object]):
    assert preferred(led, b3=lost) == 2
    led.change(isr=(1, 2))
    assert preferred(led) == 2


async def read(world: World, broker: int, offset: int, **more: object) -> tuple[list[str], int]:
    """Read the partition at one broker; return values and what it says the high watermark is."""
    part = FetchPartition(topic="t", partition=0, offset=offset, any_replica=True)
    request = FetchRequest(**{"partitions": (part,), "max_wait_ms": 0, **more})
    ((result, data, *_),) = await world.brokers[broker].manager.fetch(request)
    if result.error is not None:
        raise result.error.to_error()
    values = [(record.value or b"").decode() for record in read_records(data, topic="t", partition=0)]
    return values, result.high_watermark


async def test_a_follower_shows_what_it_knows_to_be_below_the_high_watermark(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("acknowledged")
        await world.until(lambda: world.brokers[2].replica.high_watermark == 1)
        assert await read(world, 2, 0) == (["acknowledged"], 1)
        world.reachable = False  # The ISR stays, and with it the high watermark.
        await world.stop(3)
        unknown = asyncio.ensure_future(world.produce("held by two of three", timeout_ms=1_000))
        await world.until(lambda: world.brokers[2].replica.log.log_end_offset == 2)

        assert await read(world, 2, 0) == (["acknowledged"], 1)
        assert await read(world, 2, 1) == ([], 1)
        with pytest.raises(RetriableError) as above:
            await read(world, 2, 2)
        assert above.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
        assert (await asyncio.gather(unknown, return_exceptions=True))[0] is not None
        world.reachable = True


async def test_a_consumer_that_waits_at_a_follower_is_woken_by_the_high_watermark(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("first")
        await world.until(lambda: world.brokers[3].replica.high_watermark == 1)
        parked = asyncio.ensure_future(read(world, 3, 1, max_wait_ms=20_000))
        await asyncio.sleep(0)
        await world.produce("second")
        async with asyncio.timeout(5):
            assert await parked == (["second"], 2)


async def test_a_follower_refuses_readers_without_any_replica(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("x")
        part = FetchPartition(topic="t", partition=0, offset=0)
        ((result, *_),) = await world.brokers[2].manager.fetch(FetchRequest(partitions=(part,), max_wait_ms=0))
        assert result.error is not None
        assert (result.error.code, result.error.details["leader"]) == ("NOT_LEADER_OR_FOLLOWER", 1)

        world.state = replace(world.state, leader=-1, leader_epoch=1, partition_epoch=world.state.partition_epoch + 1)
        await world.push()
        with pytest.raises(StaleRouteError):
            await read(world, 2, 0)


async def test_followers_show_no_record_that_a_new_leader_cuts(tmp_path: Path):
    """A follower's tail is another history's until it has fetched in the new epoch: what it shows is not of it."""
    async with World(tmp_path) as world:
        await world.produce("kept")
        await world.until(lambda: all(b.replica.high_watermark == 1 for b in world.brokers.values()))
        world.reachable = False
        await world.stop(3)
        lost = asyncio.ensure_future(world.produce("cut", timeout_ms=300))
        await world.until(lambda: world.brokers[2].replica.log.log_end_offset == 2)
        await asyncio.gather(lost, return_exceptions=True)
        seen = [(await read(world, broker, 0))[0] for broker in (1, 2)]
        await world.start(3)
        world.reachable = True
        await world.elect(3, (3,))  # As if only it had counted.
        world.configs = {"min_insync_replicas": 1}
        await world.push()
        await world.produce("instead", broker=3)
        await world.until(lambda: all(b.replica.high_watermark == 2 for b in world.brokers.values()))

        assert seen == [["kept"], ["kept"]]
        assert [(await read(world, broker, 0))[0] for broker in (1, 2, 3)] == [["kept", "instead"]] * 3


async def test_a_follower_that_never_had_an_offset_says_so(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("x")
        world.brokers[2].replica.log.advance_log_start(1, 1)
        with pytest.raises(OffsetOutOfRangeError):
            await read(world, 2, 0)
        world.brokers[2].manager._drop(world.brokers[2].replica.assignment.key)
        with pytest.raises(RaftlogError) as gone:
            await read(world, 2, 0)
        assert gone.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await world.push()


async def test_during_leader_changes_no_reader_gets_records_that_are_truncated(tmp_path: Path):
    """Scenario KIP-392: appends, reads at every replica and fail-overs at once; what was read is in the final log."""
    async with World(tmp_path) as world:
        seen: dict[int, set[str]] = {}
        sent, ended = 0, False

        async def write() -> None:
            nonlocal sent
            while not ended:
                sent += 1
                try:
                    await world.produce(f"value {sent}", broker=world.state.leader, timeout_ms=200)
                except RaftlogError:
                    await asyncio.sleep(0.001)  # Unknown: it may be in the log, or be cut.

        async def read_at(broker: int) -> None:
            while not ended:
                try:
                    values, high_watermark = await read(world, broker, 0)
                except RaftlogError:
                    values, high_watermark = [], 0
                assert len(values) <= high_watermark or not values
                for offset, value in enumerate(values):
                    seen.setdefault(offset, set()).add(value)
                await asyncio.sleep(0.002)

        tasks = [asyncio.ensure_future(work) for work in (write(), *(read_at(broker) for broker in (1, 2, 3)))]
        for leader in (2, 3, 1, 3):
            end = world.brokers[world.state.leader].replica.high_watermark
            await world.until(lambda end=end: world.brokers[world.state.leader].replica.high_watermark >= end + 10)
            await world.elect(leader, (1, 2, 3), to={leader})  # The others hear of it later, and write meanwhile.
            await asyncio.sleep(0)
            await world.push()
        ended = True
        await asyncio.gather(*tasks)
        await world.produce("the end", broker=3)
        await world.until(lambda: len({tuple(broker.values()) for broker in world.brokers.values()}) == 1)

        final = world.brokers[3].values()
        assert len(seen) >= 20
        assert {offset: values for offset, values in seen.items() if values != {final[offset]}} == {}


async def test_the_end_offset_for_readers_never_decreases(led: Solo):
    """Found by chaos: all brokers were killed, and the first to lead again knew an old high watermark (KIP-207)."""
    replica = led.replica
    assert replica.end_offset() == 5

    led.change(leader_epoch=1)  # The log ends at 10: up to there readers of the epoch before may have seen it.
    for _ in range(2):
        with pytest.raises(RetriableError, match=r"high watermark 5 is below offset 10") as refused:
            replica.end_offset()
        with pytest.raises(RetriableError):
            await record_at(replica, 2_000_000)
        led.follow(2)
    assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE
    found, _ = await record_at(replica, 0)
    assert found is not None
    assert found.offset == 0

    led.follow(3)

    assert replica.end_offset() == 10
    assert await record_at(replica, 2_000_000) == (None, 10)
