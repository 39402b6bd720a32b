"""A power cut at every system call of a log's life: unsynced names and unsynced content may be lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from storage_support import open_log, values
from test_storage_faults import CONFIG, Life

from simulation.cluster.disk import Disks, Fuse
from simulation.cluster.loop import CURRENT, Process, ProcessDiedError


@pytest.fixture
def memory() -> Iterator[Path]:
    shared = Path("/dev/shm")
    with TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
        yield Path(folder)


def live_until(folder: Path, operations: int, seed: int) -> tuple[Life | None, bool]:
    """Live until the power goes in the middle of an operation; return what lived, and whether it came to its end."""
    process = Process("p", "h")

    def on_fuse(dying: Process, _: Fuse) -> None:
        dying.alive = False

    disks = Disks(folder, random.Random(seed), on_fuse)
    disks.add("h", folder / "h")
    disks.by_host["h"].fuse = (operations, "power")
    life, token = None, CURRENT.set(process)
    try:
        with disks.hooked():
            life = Life(folder / "h" / "p")
            life.live()
    except ProcessDiedError:
        ended = False
    else:
        ended = True
    finally:
        CURRENT.reset(token)
    if life is not None:
        life.log.close()
    disks.lose_power("h")
    return life, ended


def test_a_power_cut_at_any_point_loses_nothing_that_was_synced(memory: Path):
    ended, number = False, 0
    while not ended:
        number += 1
        folder = memory / str(number)
        life, ended = live_until(folder, number, number)
        again = open_log(folder / "h" / "p", power_lost=True, **CONFIG)
        held = values(again)
        if life is not None:
            assert again.log_end_offset >= life.acknowledged, number
            for offset, value in enumerate(held, again.log_start_offset):
                assert value in life.may_hold[offset], (number, offset)
        again.close()
    assert number > 80
