"""Power cuts: synced records survive; unsynced ones never look like damage, whatever the order of page writes."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from cleaning_support import append, clean, open_compacted, pairs
from storage_support import batch, open_log, values

from raftlog.partition.storage.fsck import check_partition

SECTOR = 512
Pairs = dict[int, tuple[bytes | None, bytes | None]]


@pytest.fixture
def folder() -> Iterator[Path]:
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        yield Path(name)


def sizes(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_size for path in sorted(folder.glob("*.log"))}


def cut_power(folder: Path, synced: dict[Path, int], draw: random.Random) -> None:
    """Lose some of the sectors that were written after the sync, and perhaps the end of the file."""
    for path, size in sizes(folder).items():
        safe = synced.get(path, 0)
        content = bytearray(path.read_bytes())
        for start in range(safe - safe % SECTOR, size, SECTOR):
            if draw.random() < draw.choice((0.1, 0.5, 0.9)):
                lost = slice(max(start, safe), min(start + SECTOR, size))
                content[lost] = bytes(lost.stop - lost.start)
        end = draw.choice((size, safe, draw.randint(safe, size)))
        path.write_bytes(content[:end])


def write(folder: Path, draw: random.Random) -> tuple[int, list[str], dict[Path, int]]:
    """Append with a checkpoint, a sync after it, and more; return the synced end, what was written, synced sizes."""
    log, written, synced_end, synced = open_log(folder, segment_bytes=8192), list[str](), 0, dict[Path, int]()
    count = draw.randint(5, 40)
    checkpoint_at, sync_at = sorted(draw.choices(range(count), k=2))
    for offset in range(count):
        value = f"{offset}-" + "".join(draw.choices("abcdef", k=draw.randint(1, 900)))
        log.append(batch(offset, value))
        written.append(value)
        if offset == checkpoint_at:
            log.fsync()
            log.checkpoint(offset, closing=draw.random() < 0.5)
        if offset == sync_at:
            synced_end, synced = log.fsync(), sizes(folder)
    log.close()
    return synced_end, written, synced


def test_whatever_reached_the_disk_the_log_opens_with_all_that_was_synced(folder: Path):
    cut_short = 0
    for seed in range(300):
        draw = random.Random(seed)
        path = folder / str(seed)
        synced_end, written, synced = write(path, draw)
        cut_power(path, synced, draw)

        log = open_log(path, segment_bytes=8192, power_lost=True)
        held = values(log)
        assert len(held) >= synced_end, seed
        assert held == written[: len(held)], seed
        cut_short += len(held) < len(written)
        log.append(batch(log.log_end_offset, "goes on"))
        log.fsync()
        log.close()
        again = open_log(path, segment_bytes=8192)
        assert values(again) == [*held, "goes on"]
        again.close()
        shutil.rmtree(path)
    assert cut_short > 200


def compact(folder: Path, draw: random.Random) -> tuple[int, Pairs, dict[Path, int]]:
    """Append keys, sync, append more, and compact what was synced; return the synced end, the pairs, synced sizes."""
    log = open_compacted(folder)
    count = draw.randint(20, 60)
    sync_at = draw.randrange(count)
    synced_end, synced = 0, dict[Path, int]()
    for number in range(count):
        append(log, (f"k{draw.randint(0, 5)}", "x" * draw.randint(1, 900)))
        if number == sync_at:
            synced_end, synced = log.fsync(), sizes(folder)
    before = {path: path.read_bytes() for path in synced}
    clean(log, high_watermark=synced_end)
    removed = [path for path in before if not path.exists()]
    if draw.random() < 0.5:
        log.advance_log_start(draw.randint(0, synced_end), synced_end)
    else:
        for path in removed[draw.randint(0, len(removed)) :]:
            path.write_bytes(before[path])  # Its removal had not reached the disk.
    held = pairs(log)
    whole = {segment.path: segment.size for segment in log.segments if segment.next_offset <= synced_end}
    log.close()
    return synced_end, held, synced | whole


def test_a_power_cut_after_a_compaction_loses_nothing_that_was_synced(folder: Path):
    compacted = 0
    for seed in range(100):
        draw = random.Random(seed)
        path = folder / str(seed)
        synced_end, held, synced = compact(path, draw)
        compacted += bool(held) and len(held) < max(held) - min(held) + 1
        cut_power(path, synced, draw)

        log = open_compacted(path, power_lost=True)
        found = pairs(log)
        assert log.log_end_offset >= synced_end, seed
        assert {at: pair for at, pair in held.items() if at < log.log_end_offset} == found, seed
        assert check_partition(path) == [], seed
        log.close()
        shutil.rmtree(path)
    assert compacted > 50
