"""Every system call of a log's life fails once: no acknowledged record is lost, none is invented."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from faults_support import Faults
from storage_support import batch, open_log, values

from raftlog.errors import StorageError
from raftlog.partition.core.producers import ProducerLimits, ProducerStates
from raftlog.partition.storage.file_pool import FilePool
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.producer_snapshots import recover_producers, save_producers

CONFIG = {"segment_bytes": 4096, "retention_bytes": 5_000, "retention_ms": -1}


class Life:
    """A log, and what must be, and what may be, in it."""

    def __init__(self, folder: Path) -> None:
        self.log = open_log(folder, pool=FilePool(2), **CONFIG)
        self.may_hold: dict[int, set[str]] = {}
        self.acknowledged = 0
        self.must_start_by = 0
        self.errors: list[StorageError] = []
        self.ended_by: StorageError | None = None

    def attempt(self, step: Callable[[], object]) -> bool:
        """Do one step, unless the log has failed; a failed step is an error of ours, never an `OSError`."""
        if self.log.failure is None:
            try:
                step()
            except StorageError as error:
                self.errors.append(error)
            else:
                return True
        return False

    def append(self, tag: str, epoch: int) -> None:
        offset = self.log.log_end_offset
        value = f"{offset}{tag}"
        built = batch(offset, value.ljust(20), epoch=epoch)
        self.may_hold.setdefault(offset, set()).add(value)
        if not self.attempt(lambda: self.log.append(built)) and self.log.failure is None:
            assert self.log.log_end_offset == offset
            self.may_hold[offset].discard(value)

    def sync(self) -> None:
        if self.attempt(self.log.fsync):
            self.acknowledged = self.log.log_end_offset

    def truncate(self, offset: int) -> None:
        self.acknowledged = min(self.acknowledged, offset)
        if self.attempt(lambda: self.log.truncate_to(offset)):
            assert self.log.log_end_offset == offset
            self.may_hold = {at: held for at, held in self.may_hold.items() if at < offset}

    def retain(self) -> None:
        before = [segment.base_offset for segment in self.log._segments]
        total = self.log.size_bytes
        for segment in self.log._segments[:-1]:
            if total - segment.size < CONFIG["retention_bytes"]:
                break
            total -= segment.size
            self.must_start_by = before[before.index(segment.base_offset) + 1]
        self.attempt(lambda: self.log.apply_retention(0, self.acknowledged))

    def checkpoint(self) -> None:
        def both() -> None:
            self.log.checkpoint(self.acknowledged, closing=True)
            save_producers(self.log.folder, self.log.log_end_offset, ProducerStates().to_plain())

        self.attempt(both)

    def live(self) -> None:
        for _ in range(8):
            self.append("a", 1)
        self.sync()
        self.checkpoint()
        for _ in range(11):
            self.append("b", 2)
        self.sync()
        self.truncate(self.log.log_end_offset - 8)
        for _ in range(10):
            self.append("c", 3)
        self.sync()
        self.retain()
        self.checkpoint()
        self.append("d", 3)
        self.sync()
        self.attempt(lambda: values(self.log))
        self.retain()


@pytest.fixture
def folder_in_memory() -> Iterator[Path]:
    """Thousands of syncs: on a disk they take a minute."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def live(folder: Path, error: int, fail_at: int) -> tuple[Life, Faults]:
    folder.parent.mkdir(exist_ok=True)
    life, faults = Life(folder), Faults(folder, error, fail_at)
    with faults.injected():
        life.live()
    life.ended_by = life.log.failure
    life.log.close()
    return life, faults


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_whatever_call_fails_nothing_acknowledged_is_lost_and_nothing_is_invented(folder_in_memory: Path, error: int):
    _, counted = live(folder_in_memory / "calm" / "p", error, -1)
    assert counted.count > 80
    failed = set()
    for number in range(counted.count):
        life, faults = live(folder_in_memory / str(number) / "p", error, number)
        failed.add(faults.failed)

        again = open_log(folder_in_memory / str(number) / "p", **CONFIG)
        held = values(again)
        recover_producers(again, limits=ProducerLimits(), now_ms=0)
        again.close()

        if error == errno.ENOSPC and any("cannot append" in refused.message for refused in life.errors):
            assert life.ended_by is None, "want of room ends no log"
        where = f"call {number} ({faults.failed}): {life.errors}"
        assert again.log_end_offset >= life.acknowledged, where
        assert again.log_start_offset <= life.must_start_by, where
        assert len(held) == again.log_end_offset - again.log_start_offset, where
        for offset, value in enumerate(held, again.log_start_offset):
            assert value in life.may_hold[offset], where
        epochs = [epoch for epoch, _ in again.epochs.entries]
        assert epochs == sorted({"abcd".index(value[-1]) + 1 if value[-1] != "d" else 3 for value in held}), where
    assert {"open", "pwrite", "fdatasync", "fsync", "replace", "rename", "unlink", "ftruncate"} <= failed


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_opening_that_fails_half_way_changes_nothing_that_matters(folder_in_memory: Path, error: int):
    def folder(number: int) -> Path:
        life, _ = live(folder_in_memory / str(number) / "p", error, -1)
        life.log.folder.joinpath("checkpoint.json").unlink()
        for path in life.log.folder.glob("*.index"):
            path.unlink()
        return life.log.folder

    def opened(path: Path) -> PartitionLog:
        return open_log(path, **CONFIG)

    whole = values(opened(folder(-1)))
    calm = Faults(path := folder(-2), error, -1)
    with calm.injected():
        opened(path).close()
    for number in range(calm.count):
        faults = Faults(path := folder(number), error, number)
        with faults.injected(), suppress(StorageError):
            opened(path).close()
        assert values(opened(path)) == whole, (number, faults.failed)
