"""Index files replace a scan and are never used when they are wrong; few files are open at once."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from storage_support import batch, fill, headers, offset_since, open_log, values

from raftlog.partition.storage import index as index_module
from raftlog.partition.storage.file_pool import FilePool, PooledFile
from raftlog.partition.storage.index import SegmentFacts, SparseIndex, decode_index, encode_index
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.segment import Segment, segment_path


@pytest.fixture(autouse=True)
def dense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "INTERVAL_BYTES", 1)


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int, int]]]:
    """Every scan: file, from, to."""
    real, seen = Segment.scan, []

    def scan(self: Segment, position: int, end: int, *, verify: bool):
        seen.append((self.path.name, position, end))
        return real(self, position, end, verify=verify)

    monkeypatch.setattr(Segment, "scan", scan)
    return seen


def prepared(folder: Path, count: int = 40, **config: object) -> PartitionLog:
    log = open_log(folder, segment_bytes=4096, **config)
    for offset in range(count):
        log.append(batch(offset, f"{offset}".ljust(10), timestamp=1_000 * (offset + 1)))
    log.fsync()
    log.checkpoint(count, closing=True)
    log.close()
    return log


def test_opening_reads_no_segment_below_the_recovery_point(tmp_path: Path, scanned: list[tuple[str, int, int]]):
    prepared(tmp_path / "p")
    scanned.clear()

    log = open_log(tmp_path / "p", segment_bytes=4096)

    assert len(list((tmp_path / "p").glob("*.log"))) > 4
    assert all(end - position < 4096 for _, position, end in scanned)
    assert len({name for name, *_ in scanned}) <= 1
    assert log.log_end_offset == 40
    assert values(log) == [str(offset) for offset in range(40)]


def test_every_damaged_byte_of_an_index_is_noticed(tmp_path: Path):
    prepared(tmp_path / "p")
    path = sorted((tmp_path / "p").glob("*.index"))[1]
    sound = path.read_bytes()

    for at in range(len(sound)):
        for damaged in (sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :], sound[:at]):
            path.write_bytes(damaged)
            log = open_log(tmp_path / "p", segment_bytes=4096)
            assert values(log) == [str(offset) for offset in range(40)]
            assert offset_since(log, 20_500, limit=40) == 20
            log.close()


def test_a_missing_index_is_built_again_and_kept(tmp_path: Path, scanned: list[tuple[str, int, int]]):
    prepared(tmp_path / "p")
    paths = sorted((tmp_path / "p").glob("*.index"))
    before = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()

    open_log(tmp_path / "p", segment_bytes=4096).close()

    assert [path.read_bytes() for path in paths[:-1]] == before[:-1]


def test_a_valid_index_of_another_log_is_not_used(tmp_path: Path):
    """A lookup checks the batch that it lands on: here every position is one batch too far."""
    prepared(tmp_path / "p")
    path = sorted((tmp_path / "p").glob("*.index"))[1]
    facts, index = decode_index(path.read_bytes()) or pytest.fail("unreadable")
    shifted = SparseIndex()
    positions = [*index.positions[1:], facts.size - 8]
    for offset, position, newest in zip(index.offsets, [0, *positions[1:]], index.newest_before, strict=True):
        shifted.add(offset, position, newest)
    path.write_bytes(encode_index(facts, shifted))

    log = open_log(tmp_path / "p", segment_bytes=4096)

    assert values(log, facts.base_offset + 2)[0] == str(facts.base_offset + 2)
    assert values(log) == [str(offset) for offset in range(40)]


def test_a_segment_shorter_than_its_index_is_damaged(tmp_path: Path):
    prepared(tmp_path / "p")
    path = sorted((tmp_path / "p").glob("*.log"))[1]
    os.truncate(path, path.stat().st_size - len(batch(0, "0".ljust(10))))

    with pytest.raises(Exception, match="no segment holds offset"):
        open_log(tmp_path / "p", segment_bytes=4096)


def test_a_truncated_log_that_grows_again_has_another_index(tmp_path: Path):
    prepared(tmp_path / "p")
    log = open_log(tmp_path / "p", segment_bytes=4096)
    log.truncate_to(13)
    for offset in range(13, 40):
        log.append(batch(offset, f"{offset}".ljust(30), epoch=1))
    log.fsync()
    log.checkpoint(40, closing=True)
    log.close()

    again = open_log(tmp_path / "p", segment_bytes=4096)
    assert values(again) == [str(offset) for offset in range(40)]
    assert [header.base_offset for header in headers(again, 37)] == [37, 38, 39]


def test_times_are_found_through_index_files(tmp_path: Path):
    prepared(tmp_path / "p")
    log = open_log(tmp_path / "p", segment_bytes=4096)
    found = [offset_since(log, 1_000 * (offset + 1), limit=40) for offset in range(40)]
    assert found == list(range(40))
    assert offset_since(log, 40_001, limit=40) is None


def test_the_index_of_a_growing_segment_is_written_once_it_rests(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 5)
    log.fsync()
    path = segment_path(tmp_path / "p", 0).with_suffix(".index")

    log.checkpoint(5)
    assert not path.exists()
    log.checkpoint(5)
    assert decode_index(path.read_bytes())[0].next_offset == 5  # type: ignore[index]
    assert log.plan_checkpoint(5) is None


def test_files_beyond_the_limit_are_closed_and_opened_again(tmp_path: Path):
    pool = FilePool(4)
    logs = [open_log(tmp_path / str(number), pool=pool, segment_bytes=4096) for number in range(10)]
    for log in logs:
        fill(log, 20)
        log.fsync()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))

    for log in logs:
        assert values(log) == [str(offset) for offset in range(20)]
        fill(log, 1)
        log.fsync()

    assert pool.open_files <= 4
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors + 4
    for log in logs:
        log.close()
    assert pool.open_files == 0


def test_a_file_with_unsynced_bytes_stays_open(tmp_path: Path):
    pool = FilePool(1)
    first, second = (open_log(tmp_path / name, pool=pool) for name in "ab")
    fill(first, 1)
    kept = first._segments[-1].file.descriptor

    fill(second, 1)
    assert first._segments[-1].file.descriptor == kept >= 0
    first.fsync()
    values(second)
    assert first._segments[-1].file.descriptor == -1
    assert values(first) == ["0"]


def test_a_process_that_has_too_many_files_open_closes_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pool = FilePool(1_000)
    logs = [open_log(tmp_path / str(number), pool=pool) for number in range(5)]
    for log in logs:
        fill(log, 1)
        log.fsync()
    pool.close(logs[0]._segments[-1].file)
    real, refusals = os.open, [errno.EMFILE]

    def crowded(path: object, *arguments: int) -> int:
        if refusals and pool.open_files > 0:
            raise OSError(refusals[0], os.strerror(refusals[0]))
        return real(path, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", crowded)
    assert values(logs[0]) == ["0"]
    assert pool.open_files == 1


def test_an_idle_log_has_neither_file_nor_index_in_memory(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 5)
    log.fsync()
    for _ in range(5):
        log.checkpoint(5)

    assert (log._segments[-1].file.descriptor, log._segments[-1]._index) == (-1, None)
    fill(log, 1)
    assert values(log) == [str(offset) for offset in range(6)]


def test_an_index_speaks_of_one_size_only():
    index = SparseIndex()
    index.add(5, 0, -1)
    facts = SegmentFacts(5, 100, 6, 1, 1)
    assert decode_index(encode_index(facts, index)) is not None
    assert decode_index(encode_index(SegmentFacts(6, 100, 7, 1, 1), index)) is None
    assert decode_index(encode_index(SegmentFacts(5, 0, 5, 1, 1), index)) is None
    assert decode_index(encode_index(SegmentFacts(5, 100, 5, 1, 1), index)) is None


def test_every_byte_of_an_index_is_checked_by_itself():
    index = SparseIndex()
    for number in range(3):
        index.add(5 + number, 10 * number, 1_000 * number)
    sound = encode_index(SegmentFacts(5, 100, 9, 9_000, 1), index)
    assert decode_index(sound) is not None

    for at in range(len(sound)):
        assert decode_index(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :]) is None, at


def test_an_index_of_a_time_when_the_segment_was_smaller_is_not_read(tmp_path: Path):
    prepared(tmp_path / "p")
    log = open_log(tmp_path / "p", segment_bytes=4096)
    segment = log.segments[1]
    facts, whole = segment.facts, segment.load_index()
    entries = len(whole)
    earlier = SparseIndex()
    earlier.add(segment.base_offset, 0, whole.newest_before[0])
    size = whole.positions[1]
    smaller = SegmentFacts(facts.base_offset, size, facts.base_offset + 1, facts.max_timestamp, facts.first_timestamp)
    segment.index_path.write_bytes(encode_index(smaller, earlier))
    segment._index = None

    assert len(segment.load_index()) == entries > 1
    log.close()


def test_a_thread_that_reads_a_segment_after_its_end_does_not_open_it_again(tmp_path: Path):
    """Its space would never be freed once the file is removed. The scrubber and readers use threads of their own."""
    pool = FilePool(10)
    log = open_log(tmp_path / "p", pool=pool)
    fill(log, 1)
    (segment,) = log.segments
    log.close()
    assert segment.path.exists()
    with pytest.raises(FileNotFoundError):
        segment.file.pread(1, 0)
    assert pool.open_files == 0


@pytest.mark.parametrize("for_good", [False, True])
def test_a_file_that_is_closed_while_threads_use_it_never_becomes_another_one(for_good: bool, tmp_path: Path):
    """The system gives the number of a closed descriptor to the next file: a reader would get or send that one."""
    pool = FilePool()
    for name in "ab":
        (tmp_path / name).write_text(name)
    file, other = PooledFile(pool, tmp_path / "a"), PooledFile(pool, tmp_path / "b")
    with file.use() as first, file.use() as second:
        pool.close(file, for_good=for_good)
        assert (other.pread(1, 0), os.pread(first, 1, 0), pool.open_files) == (b"b", b"a", 1)
        if not for_good:
            with file.use() as again:
                assert again != first == second
    assert not Path(f"/proc/self/fd/{first}").exists()
    assert (file.users, pool.open_files) == (0, 1 if for_good else 2)
    other.close()
    file.close()
    assert pool.open_files == 0
