"""A run that has not opened its logs cannot say that they are synced: an earlier run may have left them unsynced."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from replication_support import World

from raftlog.partition.log_opener import LogOpener

BOOT_ID = "raftlog.partition.storage.data_dir.boot_id"


async def run_of_a_broker(world: World, *, opens: bool, killed: bool = False) -> None:
    """Start broker 1, end it as a broker does."""
    await world.start(1)
    broker = world.brokers[1]
    if opens:
        await world.push(to={1}, complete=True)
    if not killed and await broker.manager.close():
        broker.data_dir.mark_clean()
    await world.stop(1)


@pytest.mark.parametrize("killed", [True, False])
async def test_a_broker_that_is_stopped_before_it_opens_its_logs_ends_as_cleanly_as_the_run_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
):
    async with World(tmp_path, configs={"flush": "os"}) as world:
        await world.produce("x")
        await world.stop(1)
        await run_of_a_broker(world, opens=True, killed=killed)
        for _ in range(2):
            await run_of_a_broker(world, opens=False)
        with monkeypatch.context() as patched:
            patched.setattr(BOOT_ID, lambda: "another boot")
            await world.start(1)
        assert (world.brokers[1].data_dir.unclean, world.brokers[1].data_dir.power_lost) == (killed, killed)


async def test_a_run_that_opens_every_log_of_a_killed_one_ends_cleanly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with World(tmp_path, configs={"flush": "os"}) as world:
        await world.produce("x")
        await world.stop(1)
        await run_of_a_broker(world, opens=True)
        monkeypatch.setattr(BOOT_ID, lambda: "another boot")
        await world.start(1)
        assert not world.brokers[1].data_dir.unclean


async def test_a_broker_that_is_stopped_while_it_opens_its_logs_does_not_end_cleanly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    opening = asyncio.Event()

    async def never(*_: object) -> None:
        opening.set()
        await asyncio.Event().wait()

    async with World(tmp_path) as world:
        await world.produce("x")
        await world.stop(1)
        await world.start(1)
        monkeypatch.setattr(LogOpener, "open", never)
        applying = asyncio.create_task(world.push(to={1}, complete=True))
        await opening.wait()
        applying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await applying
        assert not await world.brokers[1].manager.close()
