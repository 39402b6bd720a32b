"""`raftlog storage cut` interrupted at any step: the next start finds the damaged or the truncated log."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from storage_support import fill, open_log, values

from raftlog.errors import DamagedDataError
from raftlog.partition.storage.damage_truncation import cut_at_damage
from raftlog.partition.storage.data_dir import DataDir

CALLS = ("open", "mkdir", "pwrite", "fsync", "rename", "replace", "rmdir", "unlink")


class CrashError(BaseException):
    pass


@contextmanager
def crash_at(number: int) -> Iterator[list[str]]:
    """End at a system call, before it is done; name those that were made."""
    made: list[str] = []
    real = {name: getattr(os, name) for name in CALLS}

    def patched(name: str):
        def call(*arguments, **named):
            if len(made) == number:
                raise CrashError
            made.append(name)
            return real[name](*arguments, **named)

        return call

    with mock.patch.multiple(os, **{name: patched(name) for name in CALLS}):
        yield made


def reopen(path: Path) -> DataDir:
    return DataDir.open(path, cluster_id="c", node_id=1)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A partition of three records, of which the second is damaged."""
    data_dir = reopen(tmp_path / "d")
    folder = data_dir.partition_folder("t", 0, "f" * 32)
    log = open_log(folder)
    fill(log, 3, epoch=2)
    log.fsync()
    log.close()
    path = folder / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    path.with_suffix(".index").unlink(missing_ok=True)
    data_dir.close()
    return folder


def test_a_crash_at_every_point(tmp_path: Path, damaged: Path):
    original, seen = tmp_path / "original", set[bool]()
    shutil.copytree(tmp_path / "d", original)
    for number in range(1_000):
        shutil.rmtree(tmp_path / "d")
        shutil.copytree(original, tmp_path / "d")
        try:
            with crash_at(number):
                cut_at_damage(damaged)
        except CrashError:
            seen.add(is_cut(tmp_path / "d", damaged))
        else:
            break
    assert number > 15
    assert seen == {False, True}


def is_cut(path: Path, folder: Path) -> bool:
    """Tell what the next start finds."""
    reopen(path).close()
    assert list(folder.parent.glob("*.cut*")) == []
    try:
        log = open_log(folder)
    except DamagedDataError:
        cut_at_damage(folder)
        return False
    assert (values(log), log.epochs.entries) == (["0"], ((2, 0),))
    log.close()
    assert folder.with_name(folder.name + ".quarantined-1").exists()
    return True


def test_a_cut_that_is_repeated_after_a_crash_keeps_what_the_first_one_kept(damaged: Path):
    with crash_at(1_000) as made:
        cut_at_damage(damaged)
    last_rename = len(made) - 1 - made[::-1].index("rename")
    shutil.rmtree(damaged)
    damaged.with_name(damaged.name + ".quarantined-1").rename(damaged)
    with pytest.raises(CrashError), crash_at(last_rename):
        cut_at_damage(damaged)
    assert list(damaged.iterdir()) == []

    assert cut_at_damage(damaged)[0] == 1
