"""The chaos suite's rot: it changes some copies of a batch, never all, and segments may be deleted meanwhile."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from chaos import rotting
from raftlog.record import NewRecord, build_batch


def folders(tmp_path: Path, batches: int) -> dict[str, Path]:
    """Return the data folders of three brokers that hold the same batches, a segment each."""
    data = [bytes(build_batch([NewRecord(b"%d" % number)])) for number in range(batches)]
    names = {f"broker-{number}": tmp_path / f"broker-{number}" for number in (1, 2, 3)}
    for folder in names.values():
        replica = folder / "partitions" / "t-0-id"
        replica.mkdir(parents=True)
        for number, batch in enumerate(data):
            (replica / f"{number:020}.log").write_bytes(batch)
    return names


def test_one_copy_of_each_batch_stays_whole(tmp_path: Path):
    names = folders(tmp_path, 200)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.log")}
    damaged = rotting.rot_apart(names, random.Random(1))
    changed = [path for path, data in before.items() if path.read_bytes() != data]
    assert len(changed) == damaged > 0
    assert all(sum(other.name == path.name for other in changed) < len(names) for path in changed)


def test_segments_that_are_deleted_meanwhile_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    names = folders(tmp_path, 200)
    found = rotting._batches

    def deleting(name: str, path: Path) -> Any:
        if path.name.endswith("7.log"):
            path.unlink()  # Before it is read.
        batches = found(name, path)
        if path.name.endswith("3.log"):
            path.unlink()  # Before it is changed.
        return batches

    monkeypatch.setattr(rotting, "_batches", deleting)
    damaged = rotting.rot_apart(names, random.Random(1))
    assert 0 < damaged < 40
