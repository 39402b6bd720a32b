"""What fails a run of a whole cluster, besides broken promises: a healthy cluster, and one thing that goes wrong."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from alone import alone

from chaos.history import Read
from raftlog.errors import CorruptBatchError, RaftlogError, StorageError
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from simulation.__main__ import report_on
from simulation.cluster import workload
from simulation.cluster.life import Life
from simulation.cluster.metadata import different_metadata
from simulation.cluster.settings import Settings
from simulation.cluster.simulate import Run
from simulation.cluster.watch import BrokenPromiseError
from simulation.cluster.world import World

GoesWrong = Callable[[World], None]


def live(folder: Path, goes_wrong: GoesWrong, settings: Settings | None = None) -> None:
    """Play a short run without faults, in which one thing goes wrong."""
    world = World(folder / "world", seed=1, settings=settings or Settings())

    async def chaos() -> None:
        await asyncio.sleep(2)
        goes_wrong(world)
        await asyncio.sleep(1)

    Life(world).run(chaos)


# Internal errors.


async def _fail(error: Exception) -> None:
    raise error


async def _log(error: Exception) -> None:
    try:
        raise error
    except Exception:
        logging.getLogger("raftlog.broker.http").exception("POST / failed")


def drop_a_bug(world: World) -> None:
    _at_a_broker(world, _fail, KeyError("a bug"))


def log_a_bug(world: World) -> None:
    _at_a_broker(world, _log, KeyError("a bug"))


def drop_and_log_what_faults_cause(world: World) -> None:
    for error in (StorageError("a disk"), ConnectionResetError("a network")):
        _at_a_broker(world, _fail, error)
        _at_a_broker(world, _log, error)


def _at_a_broker(world: World, work: Callable[[Exception], object], error: Exception) -> None:
    process = world.brokers[0].process
    assert process is not None
    world.loop.create_task(work(error), context=process.context)  # type: ignore[arg-type]


@pytest.mark.parametrize("goes_wrong", [drop_a_bug, log_a_bug])
def test_an_internal_error_fails_a_run(goes_wrong: GoesWrong, tmp_path: Path):
    with pytest.raises(BrokenPromiseError, match=r"an internal error of broker-1#1: .*KeyError\('a bug'\)"):
        alone(live, tmp_path, goes_wrong)


def test_errors_that_faults_cause_fail_no_run(tmp_path: Path):
    alone(live, tmp_path, drop_and_log_what_faults_cause)


# Clients.


@pytest.mark.parametrize(
    ("error", "shown"),
    [(CorruptBatchError("damaged"), "corrupt: tail-2: damaged"), (StorageError("gone"), "a client ended by itself")],
)
def test_a_reader_that_ends_fails_a_run(error: RaftlogError, shown: str, tmp_path: Path):
    with pytest.raises(BrokenPromiseError, match=shown):
        alone(live, tmp_path, partial(end_at_the_next_record, error))


def test_a_reader_that_stands_still_fails_a_run(tmp_path: Path):
    with pytest.raises(BrokenPromiseError, match="not within 90 s: the tails to have read everything"):
        alone(live, tmp_path, pause_the_readers)


def pause_the_readers(world: World) -> None:
    for consumer in world.clients._reading:
        consumer.pause()


def end_at_the_next_record(error: RaftlogError, world: World) -> None:
    """Have each reader of the workload, in this process of its own, meet an error."""

    def meet(*_: object) -> None:
        raise error

    workload.seen = meet  # type: ignore[assignment]


# Exits.


@pytest.mark.parametrize(("begins_again", "is_excused"), [(False, True), (True, False)])
def test_a_bad_disk_excuses_the_exit_of_the_process_that_met_it(begins_again: bool, is_excused: bool, tmp_path: Path):
    world = World(tmp_path / "world", seed=1, settings=Settings())
    node = world.brokers[0]
    disk, node.failure = world.disks.by_host[node.host], StorageError("a failed write")
    disk.failed_once = disk.was_full = True
    if begins_again:
        disk.begin()
    world.watch.on_failure(node)
    world.loop.close()

    assert (world.watch.broken is None) is is_excused


def test_a_disk_that_is_still_bad_excuses_the_next_process(tmp_path: Path):
    world = World(tmp_path / "world", seed=1, settings=Settings())
    disk = world.disks.by_host[world.brokers[0].host]
    disk.full = disk.was_full = disk.failing = disk.failed_once = True
    disk.begin()
    world.loop.close()

    assert disk.was_full
    assert disk.failed_once


# Metadata.


@pytest.mark.parametrize(
    ("changed", "agree"), [({}, True), ({"topics": {}}, False), ({"topics": {}, "offset": 8}, True)]
)
def test_nodes_that_have_applied_the_same_have_the_same_metadata(changed: dict[str, Any], agree: bool):
    image = MetadataImage(offset=7, topics={"id": TopicImage(topic="t", topic_id="id")})
    controller = SimpleNamespace(
        name="controller-1",
        running=True,
        broker=None,
        controller=SimpleNamespace(controller=SimpleNamespace(image=image)),
    )
    listener = SimpleNamespace(image=replace(image, **changed))
    broker = SimpleNamespace(name="broker-1", running=True, controller=None, broker=SimpleNamespace(listener=listener))
    found = different_metadata([controller, broker])  # type: ignore[list-item]
    assert found == (
        None if agree else "controller-1 and broker-1 have different metadata at offset 7 of the quorum's log"
    )


# Runs that end early.


@pytest.mark.parametrize("values", ["aa", "a", "ab"])
def test_a_run_that_ends_early_is_judged_by_what_it_showed_until_then(values: str, tmp_path: Path):
    world = World(tmp_path / "world", seed=1, settings=Settings())
    for number, value in enumerate(values):
        world.history.reads.append(Read(process=f"r-{number}", partition=0, offset=3, value=value, completed_ns=1))
    world.loop.close()

    with pytest.raises(BrokenPromiseError, match="inconsistent offset") if "b" in values else nullcontext():
        world.watch.judge_so_far()


@pytest.mark.parametrize(("void", "schedules", "is_ok"), [(15, 50, True), (16, 50, False), (5, 5, True)])
def test_a_report_fails_if_too_many_runs_ended_early(void: int, schedules: int, is_ok: bool):
    counts = dict.fromkeys(Run.__dataclass_fields__, 1)
    runs = [Run(**{**counts, "void": number < void, "trace": ""}) for number in range(schedules)]  # type: ignore[arg-type]

    assert report_on((number, run, "") for number, run in enumerate(runs))["ok"] is is_ok
