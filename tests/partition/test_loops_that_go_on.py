"""Background work goes on after an unexpected exception: a lack of memory, or a bug, must not end it for good."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from replication_support import World
from test_damaged_logs import with_damage

from raftlog import runtime
from raftlog.config import TopicConfig
from raftlog.model import TopicIdPartition
from raftlog.partition.group_commit import GroupCommit
from raftlog.partition.log_maintenance import LogMaintenance
from raftlog.partition.log_opener import LogOpener
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.replica import Replica
from raftlog.partition.scrubber import NEVER, Scrubber, ScrubSettings
from raftlog.runtime import SystemClock, Tasks

LOOPS = {
    "isr": ("isr", "check"),
    "checkpoints": ("_upkeep", "_write_due_checkpoints"),
    "retention": ("_upkeep", "_replicas"),
    "damage": ("damage", "_reports"),
    "scrubber": ("scrubber", "_overdue"),
    "cleaner": ("cleaner", "_dirtiest"),
}
"""Of a replica manager: the owner of each loop, and a method that the loop calls each time."""


async def test_a_loop_that_fails_begins_again_until_its_owner_closes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(runtime, "RESTART_S", 0.001)
    begun, parked = 0, asyncio.Event()

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise MemoryError
        parked.set()
        await asyncio.Event().wait()

    tasks = Tasks("node")
    task = tasks.keep(work, name="loop")
    async with asyncio.timeout(10):
        await parked.wait()
        await tasks.close()
    assert (begun, task.cancelled()) == (3, True)
    assert [record.message for record in caplog.records] == ["task node:loop failed; it begins again in 0.001 s"] * 2


async def test_a_loop_that_is_done_does_not_begin_again():
    begun = list[int]()

    async def work() -> None:
        begun.append(1)

    async with asyncio.timeout(10):
        await Tasks("node").keep(work, name="loop")
    assert begun == [1]


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_broker_s_loop_goes_on(loop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runtime, "RESTART_S", 0.001)
    owner_name, method = LOOPS[loop]
    async with World(tmp_path) as world:
        manager: Any = world.brokers[1].manager
        owner = getattr(manager, owner_name)
        for name in ("_checkpoint_interval_s", "_retention_check_interval_s"):
            monkeypatch.setattr(manager._upkeep, name, 0.001)
        real, calls = getattr(owner, method), 0

        def fail_first(*arguments: object) -> object:
            nonlocal calls
            calls += 1
            if calls == 1:
                raise MemoryError
            return real(*arguments)

        monkeypatch.setattr(owner, method, fail_first)
        manager._tasks.cancel()
        manager._tasks = Tasks("again")
        await manager.start()
        manager.damage._found.set()
        manager.scrubber.ask()
        await world.until(lambda: calls > 1)


def fail(*_: object) -> None:
    raise MemoryError


@pytest.mark.parametrize("work", ["checkpoint_regularly", "retain_regularly"])
async def test_one_log_does_not_keep_others_from_their_upkeep(work: str, tmp_path: Path):
    served = Counter[str]()

    def replica(retain: Any, plan: Any) -> Any:
        return SimpleNamespace(
            assignment=SimpleNamespace(topic_partition="t-0"),
            state=SimpleNamespace(leader=1),
            producers=(),
            log=SimpleNamespace(
                failure=None, folder=tmp_path / "partitions" / "t-0", take_deleted=lambda _: (), apply_retention=retain
            ),
            high_watermark=0,
            keep_producers=None,
            sync_soon=lambda: None,
            plan_checkpoint=plan,
        )

    unlucky = replica(fail, fail)
    lucky = replica(lambda *_, before: served.update(["retain"]) or 0, lambda: served.update(["checkpoint"]))
    upkeep = LogMaintenance(
        replicas=lambda: [unlucky, lucky],
        clock=SystemClock(),
        checkpoint_interval_ms=1,
        retention_check_interval_ms=1,
        metrics=PartitionMetrics(),
    )
    upkeep_of = {"checkpoint_regularly": "checkpoint", "retain_regularly": "retain"}[work]
    running = asyncio.create_task(getattr(upkeep, work)())
    async with asyncio.timeout(10):
        while served[upkeep_of] < 2:
            assert not running.done() or running.result()
            await asyncio.sleep(0.001)
    running.cancel()


async def test_a_log_that_cannot_be_checked_does_not_end_the_scrubber(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with World(tmp_path) as world:
        await world.produce("a")
        manager = world.brokers[1].manager
        scrubs = Scrubber(
            ScrubSettings(interval_ms=NEVER), replicas=lambda: list(manager.replicas), clock=SystemClock()
        )
        real = scrubs._check_segment
        monkeypatch.setattr(scrubs, "_check_segment", fail)
        scrubs.ask()
        running = asyncio.create_task(scrubs.run())
        await world.until(lambda: scrubs.failed == 1)
        monkeypatch.setattr(scrubs, "_check_segment", real)
        scrubs._retry_at_ms.clear()
        scrubs.ask()
        await world.until(lambda: scrubs.checked_bytes > 0)
        running.cancel()


async def test_a_sync_for_which_there_is_no_thread_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Else a record is acknowledged only once the next one is appended."""
    real, failed = GroupCommit._sync, list[int]()

    def sync(commit: GroupCommit) -> Any:
        if not failed:
            failed.append(1)
            raise RuntimeError("can't start new thread")
        return real(commit)

    async with World(tmp_path) as world:
        monkeypatch.setattr(GroupCommit, "_sync", sync)
        monkeypatch.setattr(Replica, "sync_soon", lambda _: None)  # With each checkpoint.
        async with asyncio.timeout(10):
            await world.produce("a")
        assert failed


@pytest.mark.parametrize("repairing", [True, False], ids=["repaired", "fetched again"])
async def test_a_log_that_cannot_be_opened_at_the_end_of_its_repair_is_opened_later(
    repairing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It stayed closed until the broker's next start."""
    real, opened = LogOpener.open, 0

    async def open_log(opener: LogOpener, key: TopicIdPartition, folder: Path, config: TopicConfig) -> Any:
        nonlocal opened
        opened += 1
        if opened == 2:
            raise RuntimeError("can't start new thread")
        return await real(opener, key, folder, config)

    async with World(tmp_path, repairing=repairing) as world:
        await with_damage(world, 3)
        world.state = replace(world.state, isr=(1, 2), partition_epoch=world.state.partition_epoch + 1)
        await world.start(3)
        monkeypatch.setattr(LogOpener, "open", open_log)
        await world.push(to={3})
        manager = world.brokers[3].manager
        await world.until(lambda: opened > 2 and bool(list(manager.replicas)))
        await world.push()
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 5)
        assert manager.quarantined == (0 if repairing else 1)
