"""The scrubber finds damage in records that are not read, and has it repaired from other replicas."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from replication_support import World

from raftlog.partition.scrubber import NEVER, Scrubber, ScrubSettings
from raftlog.partition.storage.scrub import STATE_FILE, ScrubState, SegmentScrub

VALUES = [str(number) * 500 for number in range(40)]
HOUR_MS = 3_600_000


class ManualClock:
    now_ms = 10**12

    def advance_ms(self, ms: int) -> None:
        self.now_ms += ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_us(self) -> int:
        return self.now_ms * 1_000


def log_files(world: World, broker: int) -> list[Path]:
    return sorted((world.folder / str(broker) / "partitions" / f"t-0-{world.topic_id}").glob("*.log"))


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


async def filled(world: World) -> None:
    for value in VALUES:
        await world.produce(value)
    await world.until(lambda: all(b.replica.log.log_end_offset == len(VALUES) for b in world.brokers.values()))
    assert all(len(log_files(world, broker)) > 3 for broker in (1, 2, 3))


def scrubber(world: World, broker: int, clock: Any = None, **settings: int) -> Scrubber:
    manager = world.brokers[broker].manager
    wanted = ScrubSettings(**{"interval_ms": HOUR_MS, "bytes_per_second": 1 << 30, **settings})
    return Scrubber(wanted, replicas=lambda: list(manager.replicas), clock=clock or ManualClock())


async def check_once(scrubs: Scrubber, until: Callable[[], bool]) -> None:
    task = asyncio.create_task(scrubs.run())
    async with asyncio.timeout(10):
        while not until():
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def small() -> dict[str, Any]:
    return {"segment_bytes": 4_096}


async def test_rot_in_unread_records_of_all_replicas_is_found_and_repaired(tmp_path: Path, small: dict[str, Any]):
    async with World(tmp_path, configs=small) as world:
        await filled(world)
        whole = [path.read_bytes() for path in log_files(world, 1)]
        # Each in another segment, one of them in the one that is written to.
        damaged = {1: ((0, 100), (4, 100)), 2: ((1, 100), (-1, 0)), 3: ((2, 100),)}
        for broker, places in damaged.items():
            for segment, position in places:
                flip(log_files(world, broker)[segment], position)
        for broker in (1, 2, 3):
            scrubs = scrubber(world, broker, interval_ms=NEVER)
            scrubs.ask()
            await check_once(scrubs, lambda: not scrubs.progress().replicas_left)  # noqa: B023
            assert scrubs.found == len(damaged[broker]), broker
            await world.until(lambda: world.brokers[broker].replica.damage is None)  # noqa: B023
        assert [[path.read_bytes() for path in log_files(world, broker)] for broker in (1, 2, 3)] == [whole] * 3
        assert (world.damage_reports, world.state.isr) == ([], (1, 2, 3))


async def test_it_checks_what_is_due_goes_on_where_it_stood_and_says_how_old_its_word_is(
    tmp_path: Path, small: dict[str, Any]
):
    async with World(tmp_path, configs=small) as world:
        await filled(world)
        clock = ManualClock()
        scrubs = scrubber(world, 1, clock)
        await check_once(scrubs, lambda: len(scrubs._states) == 1)
        assert scrubs.checked_bytes == scrubs.longest_unchecked_ms == 0  # It is new: nothing is due.
        clock.advance_ms(HOUR_MS // 2)
        assert scrubs.longest_unchecked_ms == HOUR_MS // 2

        clock.advance_ms(HOUR_MS)
        folder = log_files(world, 1)[0].parent
        slow = scrubber(world, 1, clock, bytes_per_second=10_000)  # 4 KiB for each batch, small as they are.
        await check_once(slow, lambda: ScrubState(folder, now_ms=0).checked_below > 0)
        stood = ScrubState(folder, now_ms=0).checked_below
        assert 0 < stood < len(VALUES)
        assert slow.checked_bytes < len(VALUES) * 4_096

        flip(log_files(world, 1)[0], 100)  # In what is checked already: the next pass finds it.
        resumed = scrubber(world, 1, clock)
        await check_once(resumed, lambda: ScrubState(folder, now_ms=0).finished_ms == clock.wall_us() // 1000)
        assert resumed.found == 0
        assert resumed.checked_bytes == (len(VALUES) - stood) * 4_096
        assert resumed.longest_unchecked_ms == 0

        clock.advance_ms(2 * HOUR_MS)
        again = scrubber(world, 1, clock)
        await check_once(again, lambda: again.found == 1)


@pytest.mark.parametrize("what", ["cut", "dropped", "closed"])
async def test_what_is_cut_dropped_or_closed_meanwhile_is_no_damage(
    tmp_path: Path, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch, what: str
):
    async with World(tmp_path, configs=small) as world:
        await filled(world)
        replica, step = world.brokers[1].replica, SegmentScrub.step
        segment = replica.log.segments[0]

        def amid(self: SegmentScrub) -> int:
            self.problem = "half of it is there"
            if what == "cut":
                segment.cuts += 1
            elif what == "dropped":
                replica.log.advance_log_start(segment.next_offset, len(VALUES))
                replica.log.apply_retention(0, len(VALUES))
            else:
                replica.log.close()
            return step(self)

        monkeypatch.setattr(SegmentScrub, "step", amid)
        goes_on = await scrubber(world, 1)._check_segment(replica, segment)
        assert (goes_on, replica.damage) == (what != "closed", None)


async def test_a_disk_that_cannot_read_a_sector_has_rotted_and_one_that_refuses_has_not(
    tmp_path: Path, small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    async with World(tmp_path, configs=small) as world:
        await filled(world)
        replica, pread, errors = world.brokers[1].replica, os.pread, [errno.ENOMEM]

        def failing(descriptor: int, length: int, position: int) -> bytes:
            if errors:
                raise OSError(errors.pop(), "from the disk")
            return pread(descriptor, length, position)

        monkeypatch.setattr("raftlog.partition.storage.scrub.os.pread", failing)
        scrubs = scrubber(world, 1, interval_ms=NEVER)
        scrubs.ask()
        await check_once(scrubs, lambda: not scrubs.progress().replicas_left)
        assert (scrubs.found, replica.damage, bool(scrubs._retry_at_ms)) == (0, None, True)
        assert scrubs.failed == 1, "`storage scrub` does not say that nothing is damaged"

        errors.append(errno.EIO)
        work = SegmentScrub(replica.log.segments[0])
        work.step()
        assert (work.done, work.offset) == (True, 0)
        assert "cannot be read" in work.problem


async def test_a_clock_that_was_set_back_puts_nothing_off(tmp_path: Path, small: dict[str, Any]):
    async with World(tmp_path, configs=small) as world:
        await filled(world)
        clock = ManualClock()
        scrubs = scrubber(world, 1, clock)
        await check_once(scrubs, lambda: len(scrubs._states) == 1)
        clock.now_ms -= 10 * HOUR_MS
        await check_once(scrubs, lambda: next(iter(scrubs._states.values())).finished_ms == clock.now_ms)
        assert scrubs.checked_bytes > 0
        assert scrubs.longest_unchecked_ms == 0


async def test_a_state_that_cannot_be_read_or_written_costs_work_and_nothing_else(tmp_path: Path):
    (tmp_path / STATE_FILE).write_bytes(b"{")
    state = ScrubState(tmp_path, now_ms=7)
    assert (state.checked_below, state.finished_ms) == (0, 0)  # Due at once.
    state.checked_below = 5
    state.save()
    assert ScrubState(tmp_path, now_ms=7).checked_below == 5
    gone = ScrubState(tmp_path / "gone", now_ms=7)
    gone.save()
    assert not (tmp_path / "gone").exists()


async def test_what_was_read_is_paid_for_in_time():
    scrubs = Scrubber(ScrubSettings(bytes_per_second=1_000_000), replicas=list, clock=ManualClock())
    began = asyncio.get_running_loop().time()
    for _ in range(3):
        await scrubs._throttle(10_000)
    assert asyncio.get_running_loop().time() - began >= 0.029


async def test_what_is_known_to_be_damaged_is_left_to_repair(tmp_path: Path, small: dict[str, Any]):
    async with World(tmp_path, configs=small) as world:
        await filled(world)
        replica = world.brokers[1].replica
        replica.note_damage(0, "as a reader says")
        assert replica.damage is not None
        scrubs = scrubber(world, 1, interval_ms=NEVER)
        scrubs.ask()
        assert scrubs.progress().replicas_left == 0
        await world.until(lambda: replica.damage is None)
