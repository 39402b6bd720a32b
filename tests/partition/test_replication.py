"""Replication over real HTTP and real files: acknowledgement, ISR changes, fail-over, divergence, restarts."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from replication_support import World

from raftlog.errors import ErrorCode, InvalidRequestError, RetriableError, StaleRouteError, UnknownOutcomeError
from raftlog.wire.data import FetchPartition, FetchRequest


async def test_an_acknowledged_record_is_on_every_in_sync_replica(tmp_path: Path):
    async with World(tmp_path) as world:
        assert [await world.produce(str(number)) for number in range(5)] == [(number, False) for number in range(5)]

        for broker in world.brokers.values():
            assert broker.values() == ["0", "1", "2", "3", "4"]
            assert broker.replica.log.durable_end_offset == 5
        await world.until(lambda: all(b.replica.high_watermark == 5 for b in world.brokers.values()))


async def test_nothing_is_acknowledged_before_every_replica_has_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real, release = os.fdatasync, asyncio.Event()
    loop = asyncio.get_running_loop()
    async with World(tmp_path) as world:
        slow = str(tmp_path / "3")

        def fdatasync(descriptor: int) -> None:
            if str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith(slow):
                asyncio.run_coroutine_threadsafe(release.wait(), loop).result(20)
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", fdatasync)
        world.reachable = False  # No ISR change may help.
        produced = asyncio.ensure_future(world.produce("x", timeout_ms=20_000))
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 1)
        await world.until(lambda: world.brokers[2].replica.log.durable_end_offset == 1)
        assert not produced.done()
        assert world.brokers[1].replica.high_watermark == 0
        release.set()

        assert await produced == (0, False)


async def test_a_silent_follower_leaves_the_isr_and_comes_back(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("before")
        await world.stop(3)
        started = time.monotonic()
        assert await world.produce("without 3") == (1, False)
        assert time.monotonic() - started < 5
        assert world.state.isr == (1, 2)

        await world.start(3)
        await world.push()
        await world.until(lambda: world.state.isr == (1, 2, 3))
        assert world.brokers[3].values() == ["before", "without 3"]


async def test_below_min_isr_writes_are_refused_and_reads_go_on(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("kept")
        await world.stop(2)
        await world.stop(3)
        with pytest.raises(UnknownOutcomeError) as appended:
            await world.produce("unknown")
        with pytest.raises(RetriableError) as refused:
            await world.produce("refused")
        request = FetchRequest(partitions=(FetchPartition(topic="t", partition=0, offset=0),), max_wait_ms=0)
        ((result, data, *_),) = await world.brokers[1].manager.fetch(request)

        assert appended.value.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert (result.high_watermark, len(data) > 0) == (1, True)
        assert world.brokers[1].values() == ["kept", "unknown"]


async def test_a_new_leader_goes_on_and_the_old_ones_unacknowledged_tail_is_cut(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("both")
        world.reachable = False
        world.brokers[1].deaf = True  # Followers no longer hear it: what it takes now stays its own.
        await asyncio.sleep(0.15)  # A fetch that was parked before ends.
        lost = asyncio.ensure_future(world.produce("only on 1", timeout_ms=3_000))
        await world.until(lambda: world.brokers[1].replica.log.log_end_offset == 2)
        await world.elect(2, (2, 3), to={2, 3})
        assert await world.produce("on 2 and 3", broker=2) == (1, False)

        world.reachable = True
        await world.push()
        with pytest.raises(UnknownOutcomeError) as unknown:
            await lost
        await world.until(lambda: world.state.isr == (1, 2, 3) or set(world.state.isr) == {1, 2, 3})

        assert unknown.value.details == {"appended": True}
        assert [broker.values() for broker in world.brokers.values()] == [["both", "on 2 and 3"]] * 3
        assert [e for e, _ in world.brokers[1].replica.log.epochs.entries] == [0, 1]
        with pytest.raises(StaleRouteError) as moved:
            await world.produce("x", broker=1)
        assert moved.value.details == {"leader": 2, "leader_epoch": 1}


async def test_repeats_are_answered_by_the_next_leader_too(tmp_path: Path):
    async with World(tmp_path) as world:
        identity = {"producer_id": 9, "producer_epoch": 0}
        assert await world.produce("a", "b", base_sequence=0, **identity) == (0, False)
        assert await world.produce("a", "b", base_sequence=0, **identity) == (0, True)
        await world.elect(3, (1, 2, 3))

        assert await world.produce("a", "b", broker=3, base_sequence=0, **identity) == (0, True)
        with pytest.raises(InvalidRequestError, match="expected sequence 2, received 3"):
            await world.produce("d", broker=3, base_sequence=3, **identity)
        assert await world.produce("c", broker=3, base_sequence=2, **identity) == (2, False)


async def test_everything_is_there_after_all_have_stopped(tmp_path: Path):
    async with World(tmp_path) as world:
        for number in range(20):
            await world.produce(str(number), producer_id=4, producer_epoch=0, base_sequence=number)
        for broker in (1, 2, 3):
            await world.stop(broker)
        for broker in (1, 2, 3):
            await world.start(broker)
        await world.elect(2, (1, 2, 3))

        expected = [str(number) for number in range(20)]
        assert [broker.values() for broker in world.brokers.values()] == [expected] * 3
        repeat = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 19}
        assert await world.produce("19", broker=2, **repeat) == (19, True)


async def test_a_replica_that_missed_everything_catches_up(tmp_path: Path):
    async with World(tmp_path, isr=(1, 2), configs={"segment_bytes": 4096}) as world:
        await world.stop(3)
        for number in range(60):
            await world.produce(str(number).ljust(500))
        await world.start(3)
        await world.push()
        await world.until(lambda: 3 in world.state.isr)

        assert world.brokers[3].values() == world.brokers[1].values()


async def test_a_replica_behind_the_log_start_starts_over(tmp_path: Path):
    configs = {"segment_bytes": 4096, "retention_bytes": 8192}
    async with World(tmp_path, isr=(1, 2), configs=configs) as world:
        await world.produce("first")
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 1)
        await world.stop(3)
        for number in range(60):
            await world.produce(str(number).ljust(500))
        log = world.brokers[1].replica.log
        assert log.apply_retention(0, log.log_end_offset) > 0
        await world.start(3)
        await world.push()
        await world.until(lambda: 3 in world.state.isr)

        assert world.brokers[3].replica.log.log_start_offset == log.log_start_offset > 1
        assert world.brokers[3].values() == world.brokers[1].values()


async def test_no_high_watermark_is_above_the_end_of_a_log_that_was_cut(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("0", "1")
        await world.produce("2")
        follower = world.brokers[2].replica
        await world.until(lambda: follower.high_watermark == 3)
        follower.truncate_to(2)
        assert (follower.high_watermark, follower.log.log_end_offset) == (2, 2)
        follower.start_over_at(1)
        assert (follower.high_watermark, follower.log.log_end_offset) == (1, 1)


async def test_a_fetch_of_an_earlier_epoch_counts_for_nothing(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("x")
        await world.elect(1, (1, 2, 3), to={1, 3})
        await world.stop(3)
        produced = asyncio.ensure_future(world.produce("y", timeout_ms=1_000))
        with pytest.raises((UnknownOutcomeError, RetriableError)):
            await produced

        assert world.brokers[2].values() == ["x"]
        assert world.brokers[1].replica.high_watermark == 1


async def test_a_recreated_topic_starts_empty_and_the_old_ones_files_go(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("old")
        old = world.topic_id
        world.topic_id = "d" * 32
        await world.push(complete=False)
        assert all((tmp_path / str(b) / "partitions" / f"t-0-{old}").exists() for b in world.brokers)
        await world.push(complete=True)

        assert await world.produce("new") == (0, False)
        assert [broker.values() for broker in world.brokers.values()] == [["new"]] * 3
        assert not any((tmp_path / str(b) / "partitions" / f"t-0-{old}").exists() for b in world.brokers)
        with pytest.raises(StaleRouteError) as stale:
            world.brokers[1].manager.leader("t", 0, old)
        assert stale.value.code is ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_parked_consumer_is_woken_when_the_high_watermark_moves(tmp_path: Path):
    async with World(tmp_path) as world:
        request = FetchRequest(partitions=(FetchPartition(topic="t", partition=0, offset=0),), max_wait_ms=20_000)
        parked = asyncio.ensure_future(world.brokers[1].manager.fetch(request))
        await world.produce("x")
        async with asyncio.timeout(5):
            ((result, data, *_),) = await parked

        assert (result.high_watermark, result.length) == (1, len(data))


async def test_a_cancelled_produce_leaves_the_record_and_the_log_intact(tmp_path: Path):
    async with World(tmp_path) as world:
        world.reachable = False
        for broker in (2, 3):
            await world.stop(broker)
        waiting = asyncio.ensure_future(world.produce("stays"))
        await world.until(lambda: world.brokers[1].replica.log.log_end_offset == 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        for broker in (2, 3):
            await world.start(broker)
        await world.push()

        assert await world.produce("next") == (1, False)
        assert [broker.values() for broker in world.brokers.values()] == [["stays", "next"]] * 3


async def test_a_disk_that_fails_to_sync_takes_the_replica_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with World(tmp_path) as world:
        await world.produce("kept")
        real, broken = os.fdatasync, str(tmp_path / "2")

        def fdatasync(descriptor: int) -> None:
            if str(Path(f"/proc/self/fd/{descriptor}").readlink()).startswith(broken):
                raise OSError(5, "Input/output error")
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", fdatasync)
        assert await world.produce("without 2") == (1, False)

        assert world.state.isr == (1, 3)
        assert world.brokers[2].replica.log.failure is not None
        monkeypatch.undo()


async def test_an_epoch_led_without_a_record_does_not_shut_out_the_next_leaders_older_records(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("both")
        world.reachable = False
        await world.stop(2)
        await world.stop(3)
        with pytest.raises(UnknownOutcomeError):
            await world.produce("epoch 0, only on 1", timeout_ms=50)
        await world.start(2)
        await world.start(3)
        world.brokers[1].deaf = True
        await world.elect(2, (1, 2, 3), to={2})
        world.reachable, world.brokers[1].deaf = True, False
        await world.elect(1, (1, 2, 3))

        assert await world.produce("next") == (2, False)
        assert world.brokers[2].values() == ["both", "epoch 0, only on 1", "next"]


async def test_an_unsynced_tail_of_a_former_leader_is_synced_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with World(tmp_path) as world:
        await world.produce("x")
        log = world.brokers[1].replica.log
        real, offsets = log.fsync, []
        monkeypatch.setattr(log, "fsync", lambda: offsets.append(log.log_end_offset) or log.durable_end_offset)
        world.reachable = False
        await world.stop(3)
        with pytest.raises(UnknownOutcomeError):
            await world.produce("not synced on 1", timeout_ms=100)
        monkeypatch.setattr(log, "fsync", lambda: offsets.append(-1) or real())
        await world.until(lambda: world.brokers[2].replica.log.log_end_offset == 2)
        await world.elect(2, (1, 2))
        await world.until(lambda: world.brokers[2].replica.high_watermark == 2)

        assert -1 in offsets
        assert log.durable_end_offset == 2
