"""What the nemesis draws, and what it can do to disks and processes."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from chaos import disks, shim
from chaos.capabilities import Capabilities, probe
from chaos.disks import FILLER, Disk
from chaos.faults import FAULTS, TARGETS, cells
from chaos.nemesis import Schedule
from chaos.options import Options
from raftlog.partition.storage.files import fsync_dir, read_json, write_json


def test_a_seed_names_one_schedule():
    first, second = ([str(drawn) for drawn in islice(Schedule(7).swarm(), 200)] for _ in range(2))

    assert first == second
    assert first != [str(drawn) for drawn in islice(Schedule(8).swarm(), 200)]


def test_a_sweep_is_every_cell_once_and_a_swarm_has_them_all():
    swept = [cell for drawn in Schedule(1).sweep() for cell in drawn.cells]
    swarmed = {cell for drawn in islice(Schedule(1).swarm(), 5_000) for cell in drawn.cells}

    assert sorted(swept) == sorted(cells())
    assert swarmed == set(swept)
    assert {cell.fault for cell in swept} == set(FAULTS)
    assert {cell.target for cell in swept} == set(TARGETS)


def test_what_would_exceed_the_promise_is_never_drawn():
    damage = {"bit flip", "truncated file"}
    for drawn in islice(Schedule(3).swarm(), 2_000):
        for cell in drawn.cells:
            assert not (cell.fault in damage and cell.target in {"all", "clients"})
            assert not (FAULTS[cell.fault].alone and len(drawn.cells) > 1)


def test_what_is_missing_is_told():
    capabilities = Capabilities({"shim": "there is no C compiler (cc)"})

    assert not capabilities.has("shim")
    assert capabilities.has("disk")
    assert capabilities.has(None)
    assert capabilities.warnings == [
        "SKIPPED: faults that need a library preloaded into each node (a C compiler): there is no C compiler (cc)"
    ]


def test_a_probe_leaves_nothing_behind(tmp_path: Path):
    probe(tmp_path)

    assert list(tmp_path.iterdir()) == []
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def test_options_come_from_the_environment():
    options = Options.of({"SEED": "7", "HOURS": "8", "DURATION": "", "KILLS": ""}, Capabilities())

    assert (options.seed, options.duration_s, options.hours, options.kills) == (7, None, 8, None)
    assert Options.of({"DURATION": "5"}, Capabilities()).duration_s == 5


SYNCS = """
import os, sys, time
for _ in sys.stdin:
    began, file = time.monotonic(), os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
    try:
        os.fdatasync(file)
        result = "synced"
    except OSError as error:
        result = error.strerror
    os.close(file)
    print(result, round(time.monotonic() - began, 1), round(time.time()), flush=True)
"""


def test_the_shim_changes_what_a_running_process_meets(tmp_path: Path):
    if not probe(tmp_path).has("shim"):
        pytest.skip("there is no C compiler")
    (tmp_path / "node-1").mkdir()
    loaded = shim.Shim(tmp_path)
    command = loaded.around([sys.executable, "-c", SYNCS, str(tmp_path / "file")])
    # As a launcher does, though this program has no use for it.
    command = (*command, "--config", str(tmp_path / "node-1" / "node.toml"))
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def sync() -> tuple[str, float, int]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        *result, seconds, wall = process.stdout.readline().split()
        return " ".join(result), float(seconds), int(wall)

    with process:
        first = sync()
        loaded.set("node-1", shim.FAILING_SYNC)
        failing = sync()
        loaded.set("node-1", shim.ShimFaults(sync_slow_ms=300, clock_shift_s=-86_400))
        slow = sync()
        loaded.clear("node-1")
        last = sync()
        assert process.stdin is not None
        process.stdin.close()

    assert first[0] == last[0] == slow[0] == "synced"
    assert failing[0] == "Input/output error"
    assert slow[1] >= 0.3
    assert 86_000 < first[2] - slow[2] < 87_000


@pytest.fixture
def disk(tmp_path: Path):
    if why := disks.why_not(tmp_path):
        pytest.skip(why)
    made = Disk(tmp_path, "node-1", size=16 << 20)
    made.make()
    made.mount()
    yield made
    made.unmount()


def test_a_power_cut_loses_what_was_not_synced(disk: Disk):
    data = disk.mount_point / "data"
    data.mkdir()
    write_json(data / "run.json", {"boot_id": "this one", "clean": False})
    (disk.mount_point / "unsynced").write_bytes(b"x")

    disk.cut_power()
    disk.power_up()

    assert read_json(data / "run.json") == {"boot_id": "before the power cut", "clean": False}
    assert not (disk.mount_point / "unsynced").exists()


def test_a_disk_fills_up_and_is_freed(disk: Disk):
    disk.fill()
    with pytest.raises(OSError, match="No space left"):
        (disk.mount_point / "more").write_bytes(bytes(1 << 16))
    disk.free()

    (disk.mount_point / "more").write_bytes(bytes(1 << 16))


def test_a_filler_that_a_power_cut_brings_back_is_removed(disk: Disk):
    data = disk.mount_point / "data"
    data.mkdir()
    write_json(data / "run.json", {"boot_id": "this one"})
    disk.fill()
    fsync_dir(disk.mount_point)
    disk.free()  # Not synced.

    disk.cut_power()
    disk.power_up()

    assert read_json(data / "run.json") == {"boot_id": "before the power cut"}
    assert not (disk.mount_point / FILLER).exists()


def test_a_disk_without_power_is_not_filled(disk: Disk):
    disk.cut_power()

    disk.fill()
    disk.free()

    assert list(disk.mount_point.iterdir()) == []
