"""Replicas that a reassignment adds are fetched within the limit; replicas in sync are never throttled."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import replication_support
from replication_support import FAST, World

from raftlog.partition.core.throttle import UNLIMITED, Throttle


def test_what_was_taken_is_paid_off_at_the_rate():
    throttle = Throttle()
    throttle.limit(1_000, 0)
    throttle.spend(2_500, 0)
    assert throttle.wait_ms(0) == 2_500
    assert throttle.wait_ms(2_000) == 500
    assert throttle.wait_ms(2_500) == 0


def test_no_more_than_a_second_is_saved_up():
    throttle = Throttle()
    throttle.limit(1_000, 0)
    throttle.spend(3_000, 60_000)
    assert throttle.wait_ms(60_000) == 2_000


def test_without_a_limit_nothing_waits_and_a_lifted_one_forgives():
    throttle = Throttle()
    throttle.spend(1 << 40, 0)
    assert throttle.wait_ms(0) == 0
    throttle.limit(10, 0)
    throttle.spend(1_000, 0)
    throttle.limit(20, 0)
    assert throttle.wait_ms(0) == 50_000
    throttle.limit(UNLIMITED, 0)
    assert throttle.wait_ms(0) == 0
    throttle.limit(10, 1)
    assert throttle.wait_ms(1) == 0


def test_a_clock_that_stands_still_or_jumps_back_gives_nothing():
    throttle = Throttle()
    throttle.limit(1_000, 5_000)
    throttle.spend(1_000, 5_000)
    assert throttle.wait_ms(4_000) == throttle.wait_ms(4_000) == 1_000


async def test_a_replica_that_is_added_waits_and_one_in_sync_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replication_support, "FAST", replace(FAST, replica_fetch_max_bytes=1))  # One batch a fetch.
    async with World(tmp_path, isr=(1, 2)) as world:
        await world.stop(3)
        for number in range(8):
            await world.produce(str(number).ljust(10_000))
        await world.start(3)
        throttled = world.brokers[3].manager
        throttled.limit_reassignments(1_000)
        world.brokers[2].manager.limit_reassignments(1_000)
        version = world.state.partition_epoch + 1
        world.state = replace(world.state, adding=(3,), partition_epoch=version)
        await world.push()
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 1)
        async with asyncio.timeout(5):
            await world.produce("acknowledged by 2, which is in sync".ljust(10_000))

        # One batch of 10 KB is 10 s worth.
        assert world.brokers[3].replica.log.log_end_offset == 1
        assert world.state.isr == (1, 2)
        throttled.limit_reassignments(UNLIMITED)
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 9)
        await world.until(lambda: set(world.state.isr) == {1, 2, 3})
