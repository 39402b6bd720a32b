"""A replica whose log is damaged when opened: not served, fetched again from a healthy leader, kept if last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from replication_support import World

from raftlog.errors import DamagedDataError, DiskFullError, StaleRouteError
from raftlog.model import NO_LEADER
from raftlog.partition import log_opener
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.segment import segment_path


def log_folder(world: World, broker: int) -> Path:
    return world.folder / str(broker) / "partitions" / f"t-0-{world.topic_id}"


def damage(world: World, broker: int, *, at: int = 300) -> bytes:
    path = segment_path(log_folder(world, broker), 0)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    return bytes(content)


def forget_checkpoint(world: World, broker: int) -> None:
    """As if the broker had been killed before its first checkpoint."""
    for name in ("checkpoint.json", f"{0:020d}.index"):
        (log_folder(world, broker) / name).unlink(missing_ok=True)


async def with_damage(world: World, broker: int) -> bytes:
    for number in range(5):
        await world.produce(str(number))
    await world.until(lambda: all(b.replica.log.log_end_offset == 5 for b in world.brokers.values()))
    await stop(world, broker)
    return damage(world, broker)


async def stop(world: World, broker: int) -> None:
    """Stop a broker; it will be another incarnation."""
    await world.stop(broker)
    world.epochs[broker] += 10
    forget_checkpoint(world, broker)


async def test_a_damaged_follower_keeps_its_log_while_in_isr_or_elr_and_then_fetches_it_again(tmp_path: Path):
    async with World(tmp_path, repairing=False) as world:
        damaged = await with_damage(world, 3)
        await world.start(3)
        await world.push()

        manager = world.brokers[3].manager
        assert list(manager.replicas) == []
        (error,) = manager.offline.values()
        assert isinstance(error, DamagedDataError)
        assert segment_path(log_folder(world, 3), 0).read_bytes() == damaged

        world.state = replace(world.state, isr=(1, 2), partition_epoch=world.state.partition_epoch + 1)
        await world.push()
        await world.until(lambda: 3 in world.state.isr)

        assert world.brokers[3].values() == ["0", "1", "2", "3", "4"]
        assert (dict(manager.offline), manager.quarantined) == ({}, 1)
        assert world.damage_reports == []  # Heartbeats tell of logs that could not be opened.
        aside = log_folder(world, 3).with_name(log_folder(world, 3).name + ".quarantined-1")
        assert segment_path(aside, 0).read_bytes() == damaged


@pytest.mark.parametrize("leader", [3, NO_LEADER])
async def test_the_last_replica_never_gives_up_its_data(tmp_path: Path, leader: int):
    async with World(tmp_path, repairing=False) as world:
        damaged = await with_damage(world, 3)
        isr, elr = ((3,), ()) if leader == 3 else ((), (3,))
        world.state = replace(world.state, leader=leader, isr=isr, elr=elr, leader_epoch=9, partition_epoch=99)
        await world.start(3)
        await world.push()
        await world.push()

        assert world.brokers[3].manager.quarantined == 0
        assert list(world.brokers[3].manager.offline) == [(world.topic_id, 0)]
        assert segment_path(log_folder(world, 3), 0).read_bytes() == damaged
        with pytest.raises(StaleRouteError, match=r"is being repaired from other replicas: .* damaged at offset"):
            world.brokers[3].manager.leader("t", 0)


async def test_quarantined_logs_are_bounded_and_deleted_with_their_topic(tmp_path: Path):
    async with World(tmp_path, repairing=False) as world:
        for turn in range(1, 5):
            await world.elect(1, (1, 2))
            await world.until(lambda: 3 in world.state.isr)
            await world.produce(*["x" * 100] * 10)
            await world.produce("y")
            await world.until(lambda: world.brokers[3].replica.log.log_end_offset >= 11)
            await stop(world, 3)
            damage(world, 3)
            world.state = replace(world.state, isr=(1, 2), partition_epoch=world.state.partition_epoch + 1)
            await world.start(3)
            await world.push()
            await world.until(lambda: bool(list(world.brokers[3].manager.replicas)))
            assert world.brokers[3].manager.quarantined == min(turn, 2)
        names = sorted(path.name for path in (tmp_path / "3" / "partitions").iterdir())
        assert [name.rpartition(".")[2] for name in names[1:]] == ["quarantined-3", "quarantined-4"]

        await world.brokers[3].manager.apply([], world.registrations(), complete=True)
        await world.until(lambda: list((tmp_path / "3" / "partitions").iterdir()) == [])


async def test_a_damaged_log_is_opened_as_after_a_power_loss_whatever_restarts_come_before_its_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its torn tail passed for damage once the process was restarted, and no other replica has that tail."""
    opened, real = list[bool](), PartitionLog.open

    def noting(folder: Path, *arguments: Any, **named: Any) -> PartitionLog:
        if "/3/" in str(folder):
            opened.append(named["power_lost"])
        return real(folder, *arguments, **named)

    async with World(tmp_path, repairing=False) as world:
        await with_damage(world, 3)
        monkeypatch.setattr("raftlog.partition.storage.data_dir.boot_id", lambda: "another boot")
        monkeypatch.setattr(PartitionLog, "open", noting)
        for start in range(4):
            if start == 2:
                damage(world, 3)  # The same bit: it is intact again.
            await world.start(3)
            world.brokers[3].data_dir.registered(1)
            await world.push(complete=True)
            assert not world.brokers[3].data_dir.power_lost
            await world.stop(3)
    assert opened == [True, True, True, False]


async def test_a_full_disk_leaves_every_log_one_that_may_have_lost_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    full = DiskFullError("No space left on device")
    async with World(tmp_path, repairing=False) as world:
        await with_damage(world, 3)
        monkeypatch.setattr("raftlog.partition.storage.data_dir.boot_id", lambda: "another boot")
        await world.start(3)
        with monkeypatch.context() as patched:
            patched.setattr(log_opener, "atomic_write", Mock(side_effect=full))
            await world.push(complete=True)
        assert world.brokers[3].data_dir.power_lost
        await world.push(complete=True)
        assert not world.brokers[3].data_dir.power_lost
