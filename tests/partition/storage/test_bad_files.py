"""Every byte and every length of a log's small files damaged: a clear error or the same log, never another log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from storage_support import fill, open_log, values

from raftlog.errors import ConfigError, DamagedDataError, StorageError
from raftlog.partition.storage.data_dir import DataDir
from raftlog.partition.storage.fsck import check_partition
from raftlog.partition.storage.log import PartitionLog


def damages(content: bytes) -> Iterator[bytes]:
    for at in range(len(content)):
        for mask in (0x01, 0x10, 0x80):
            yield content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]
        yield content[:at]


@pytest.fixture(scope="module")
def log_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log") / "p"
    log = open_log(folder, segment_bytes=4096, retention_bytes=5_000, retention_ms=-1)
    fill(log, 12, epoch=1)
    fill(log, 12, epoch=3)
    log.fsync()
    log.apply_retention(0, 24)
    log.checkpoint(23, closing=True)
    log.close()
    return folder


def test_a_damaged_checkpoint_is_refused_or_means_the_same(tmp_path: Path, log_folder: Path):
    folder, name = tmp_path / "p", "checkpoint.json"
    shutil.copytree(log_folder, folder)
    sound = open_log(log_folder, segment_bytes=4096)
    expected = values(sound), sound.epochs.entries, sound.log_start_offset, sound.high_watermark_checkpoint
    sound.close()
    assert check_partition(folder) == []
    refused = 0
    content = (folder / name).read_bytes()

    for damaged in damages(content):
        (folder / name).write_bytes(damaged)
        try:
            log = open_log(folder, segment_bytes=4096)
        except DamagedDataError:
            refused += 1
            assert (folder / name).read_bytes() == damaged
            assert any(finding.severity == "damage" for finding in check_partition(folder))
            continue
        assert (values(log), log.epochs.entries, log.log_start_offset, log.high_watermark_checkpoint) == expected
        log.close()
        (folder / name).write_bytes(content)
    assert refused > len(content)


def epochs_of(log: PartitionLog) -> list[int]:
    """Return the epoch of each record, by the table of epochs."""
    return [log.epochs.epoch_at(offset) for offset in range(log.log_start_offset, log.log_end_offset)]


def test_damaged_epochs_are_reported_and_rebuilt(tmp_path: Path, log_folder: Path):
    folder, name, told = tmp_path / "p", "leader-epochs.json", 0
    shutil.copytree(log_folder, folder)
    sound = open_log(log_folder, segment_bytes=4096)
    expected = values(sound), epochs_of(sound), sound.log_start_offset
    sound.close()
    content = (folder / name).read_bytes()

    for damaged in damages(content):
        (folder / name).write_bytes(damaged)
        told += any("built again from the log" in finding.what for finding in check_partition(folder))
        log = open_log(folder, segment_bytes=4096)
        assert (values(log), epochs_of(log), log.log_start_offset) == expected
        log.close()
    assert told > len(content)


@pytest.mark.parametrize("name", ["meta.json", "run.json"])
def test_a_damaged_data_folder_is_refused_or_the_same(tmp_path: Path, name: str):
    folder = tmp_path / "d"
    opened = DataDir.open(folder, cluster_id="cluster", node_id=7)
    storage_id = opened.storage_id
    opened.mark_clean()
    opened.close()
    content, run = (folder / name).read_bytes(), (folder / "run.json").read_bytes()

    for damaged in damages(content):
        (folder / "run.json").write_bytes(run)
        (folder / name).write_bytes(damaged)
        try:
            again = DataDir.open(folder, cluster_id="cluster", node_id=7)
        except (ConfigError, StorageError):
            continue
        assert (again.storage_id, again.unclean) == (storage_id, False)
        again.close()
        (folder / name).write_bytes(content)


def test_every_byte_of_the_log_itself(tmp_path: Path):
    """Above the last checkpoint: refused. After a power cut, cut where nothing sound follows: a torn write."""
    folder = tmp_path / "p"
    log = open_log(folder)
    fill(log, 3)
    log.close()
    path = folder / f"{0:020d}.log"
    sound = path.read_bytes()
    length = len(sound) // 3

    for at in range(len(sound)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 4]) + sound[at + 1 :])
        with pytest.raises(DamagedDataError, match=f"damaged at offset {at // length}"):
            open_log(folder, power_lost=at < 2 * length)
        assert path.stat().st_size == len(sound)
        if at >= 2 * length:
            again = open_log(folder, power_lost=True)
            assert values(again) == ["0", "1"]
            again.close()


def test_unknown_files_do_no_harm(tmp_path: Path, log_folder: Path):
    folder = tmp_path / "p"
    shutil.copytree(log_folder, folder)
    for name in ("checkpoint.json.new", "x.log", "x.producers", "99.index", "notes.txt", "abc.log.deleted"):
        (folder / name).write_bytes(b"\x00rubbish")
    log = open_log(folder, segment_bytes=4096)
    assert values(log)[-1] == "23"
    log.apply_retention(0, 24)
    assert (folder / "notes.txt").exists()
    assert not (folder / "abc.log.deleted").exists()
