"""Reads in one pass: whole batches, both checksums of each, whatever their size and wherever the windows end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from storage_support import batch, fill, open_log, values

from raftlog.config import TopicConfig
from raftlog.errors import StorageError
from raftlog.partition.storage.file_pool import PooledFile
from raftlog.partition.storage.index import INTERVAL_BYTES
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.segment import NEWEST_BYTES, segment_path
from raftlog.partition.storage.verified_reads import (
    MOST_BATCHES,
    MOST_CHECKED_BYTES,
    SENDFILE_BYTES,
    WINDOW_BYTES,
    FileRange,
)
from raftlog.record import NewRecord, build_batch, stamp
from raftlog.record.batch import HEADER_BYTES

SIZES = (100, 1_000, SENDFILE_BYTES - 700, SENDFILE_BYTES, WINDOW_BYTES - 600, WINDOW_BYTES, 3 * WINDOW_BYTES + 8, 40)


def filled(folder: Path, sizes: tuple[int, ...] = SIZES) -> tuple[PartitionLog, list[bytes]]:
    """Return a log with a batch of two records for each size of value, and the batches."""
    log, batches = PartitionLog.open(folder, TopicConfig()), []
    for number, size in enumerate(sizes):
        built = build_batch([NewRecord(bytes([number]) * size, timestamp=1), NewRecord(b"", timestamp=1)])
        stamp(built, base_offset=log.log_end_offset, leader_epoch=0)
        log.append(built)
        batches.append(bytes(built))
    log.segments[-1].forget_recent()
    return log, batches


def flips(folder: Path, start: int, length: int) -> Iterator[tuple[int, bytes]]:
    """Damage one byte of a batch after another; yield which, and the whole file."""
    path = segment_path(folder, 0)
    whole = path.read_bytes()
    for at in (0, 9, 20, 25, 57, 64, length // 2, length - 1):
        damaged = bytearray(whole)
        damaged[start + at] ^= 1
        path.write_bytes(damaged)
        yield at, bytes(damaged)


def content(data: bytes | FileRange) -> bytes:
    return data if isinstance(data, bytes) else data.read()


def test_a_read_has_a_limit_of_batches(tmp_path: Path):
    """Each takes time on the event loop, whatever its size: 8 MB of records that are alone in their batches 265 ms."""
    log, count = PartitionLog.open(tmp_path / "p", TopicConfig()), 2 * MOST_BATCHES + 5
    small = [bytearray(build_batch([NewRecord(b"v", timestamp=1)], short=True)) for _ in range(count)]
    for offset, one in enumerate(small):
        stamp(one, base_offset=offset, leader_epoch=0)
    log.append(b"".join(small))

    ends, reads = [0], list[bytes]()
    while ends[-1] < count:
        found = log.find_verified(ends[-1], 8 << 20, limit_offset=count)
        ends.append(found.end_offset)
        reads.append(content(found.data))
        assert found.count == found.end_offset - ends[-2]
    assert ends == [0, MOST_BATCHES, 2 * MOST_BATCHES, count]
    assert b"".join(reads) == b"".join(small)


def test_a_read_has_a_limit_of_bytes_whose_payload_it_verifies(tmp_path: Path):
    """50 MB, the most that a fetch may ask for, held the event loop for 50 to 60 ms. Headers alone take little."""
    log, value = PartitionLog.open(tmp_path / "p", TopicConfig()), bytes(1 << 20)
    for offset in range(9):
        batch = bytearray(build_batch([NewRecord(value, timestamp=1)]))
        stamp(batch, base_offset=offset, leader_epoch=0)
        log.append(batch)

    ends = [0]
    while ends[-1] < 9:
        ends.append(log.find_verified(ends[-1], 50 << 20, limit_offset=9).end_offset)
    assert ends == [0, 3, 6, 9]
    assert MOST_CHECKED_BYTES == 4 << 20  # Three batches, which are a little larger than their values.
    assert log.find_verified(0, 50 << 20, limit_offset=9, check_crcs=False).end_offset == 9


def test_the_newest_small_batch_is_not_read_from_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = PartitionLog.open(tmp_path / "p", TopicConfig())
    fill(log, 3)
    expected = bytes(batch(2, "2".ljust(10)))
    monkeypatch.setattr(PooledFile, "use", no_file)
    for max_bytes, check_crcs in ((1, True), (1 << 20, False)):
        found = log.find_verified(2, max_bytes, limit_offset=3, check_crcs=check_crcs)
        assert (found.data, found.end_offset, found.problem, found.count) == (expected, 3, "", 1)
    assert log.find_verified(2, 1, limit_offset=2).data == b"", "consumers may not read it yet"
    with pytest.raises(StorageError, match="no file"):
        log.find_verified(1, 1, limit_offset=3)


def test_a_part_of_the_newest_batch_is_not_read(tmp_path: Path):
    log, batches = filled(tmp_path / "p", (10, 10))
    again = bytearray(build_batch([NewRecord(b"one", timestamp=1), NewRecord(b"two", timestamp=1)]))
    stamp(again, base_offset=4, leader_epoch=0)
    log.append(again)
    assert [log.find_verified(4, 1, limit_offset=limit).data for limit in (4, 5, 6)] == [b"", b"", bytes(again)]
    assert log.find_verified(5, 1, limit_offset=6).data == bytes(again), "it is read from the disk"
    assert content(log.find_verified(2, 1 << 20, limit_offset=5).data) == batches[1]


def no_file(_: PooledFile) -> NoReturn:
    raise OSError("no file")


def truncate(log: PartitionLog) -> None:
    log.truncate_to(3)


def append_two(log: PartitionLog) -> None:
    log.append(batch(4, "one") + batch(5, "two"))


def append_a_large_one(log: PartitionLog) -> None:
    built = build_batch([NewRecord(bytes(NEWEST_BYTES), timestamp=1)])
    stamp(built, base_offset=4, leader_epoch=0)
    log.append(built)


def rewrite(log: PartitionLog) -> None:
    """A repair with another replica's bytes."""
    assert log.rewrite(log.segments[-1], 0, bytes(batch(0, "x".ljust(10))), end_offset=1, cuts=log.cuts)


def be_idle(log: PartitionLog) -> None:
    for _ in range(2):
        log.segments[-1].release_if_idle()


@pytest.mark.parametrize("event", [truncate, append_two, append_a_large_one, rewrite, be_idle, PartitionLog.close])
def test_no_other_batch_is_kept_in_memory(tmp_path: Path, event: Callable[[PartitionLog], None]):
    log = PartitionLog.open(tmp_path / "p", TopicConfig())
    fill(log, 4)
    assert log.segments[-1].newest(3)
    event(log)
    assert [log.segments[-1].newest(offset) for offset in range(-1, 7)] == [b""] * 8


@pytest.mark.parametrize("check_crcs", [True, False])
@pytest.mark.parametrize("max_bytes", [1, 2_000, SENDFILE_BYTES, 200_000, 10_000_000])
def test_reads_begin_with_the_batch_that_holds_the_offset_and_end_with_a_whole_one(
    tmp_path: Path, max_bytes: int, check_crcs: bool
):
    log, batches = filled(tmp_path / "p")
    end = log.log_end_offset
    for offset in range(end):
        for limit in range(end + 1):
            expected, last = b"", offset // 2
            for number in range(offset // 2, len(batches)):
                over = expected and len(expected) + len(batches[number]) > max_bytes
                if 2 * number + 1 >= limit or over:
                    break
                expected, last = expected + batches[number], number
            found = log.find_verified(offset, max_bytes, limit_offset=limit, check_crcs=check_crcs)
            assert content(found.data) == expected == log.read(offset, max_bytes, limit_offset=limit)
            assert (found.end_offset, found.problem) == (2 * last + 2 if expected else -1, "")
            assert isinstance(found.data, FileRange) or len(expected) < WINDOW_BYTES


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_a_flipped_bit_ends_what_is_found(tmp_path: Path, number: int):
    log, batches = filled(tmp_path / "p")
    start = sum(map(len, batches[:number]))
    for _ in flips(tmp_path / "p", start, len(batches[number])):
        found = log.find_verified(0, 10_000_000, limit_offset=log.log_end_offset)
        assert content(found.data) == b"".join(batches[:number])
        assert f"batch at byte {start}" in found.problem
        at_it = log.find_verified(2 * number, 1, limit_offset=log.log_end_offset)
        assert (at_it.data, at_it.end_offset) == (b"", -1)
        assert at_it.problem


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_without_payload_checks_headers_are_checked_and_small_answers_too(tmp_path: Path, number: int):
    log, batches = filled(tmp_path / "p")
    start = sum(map(len, batches[:number]))
    for at, damaged in flips(tmp_path / "p", start, len(batches[number])):
        found = log.find_verified(0, 10_000_000, limit_offset=log.log_end_offset, check_crcs=False)
        alone = log.find_verified(2 * number, 1, limit_offset=log.log_end_offset, check_crcs=False)
        if at < HEADER_BYTES or len(batches[number]) < SENDFILE_BYTES:
            assert (alone.data, bool(alone.problem)) == (b"", True)
        if at < HEADER_BYTES:
            assert content(found.data) == b"".join(batches[:number])
            assert f"batch at byte {start}" in found.problem
        elif len(batches[number]) > WINDOW_BYTES:
            assert content(found.data) == bytes(damaged)
            assert content(alone.data) == damaged[start : start + len(batches[number])]


def test_without_payload_checks_only_headers_of_large_batches_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log, batches = filled(tmp_path / "p", (300_000,) * 20)
    real, read = os.pread, list[int]()

    def pread(descriptor: int, length: int, position: int) -> bytes:
        read.append(length)
        return real(descriptor, length, position)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", pread)
        found = log.find_verified(0, 10_000_000, limit_offset=40, check_crcs=False)
    assert len(found.data) == sum(map(len, batches))
    assert sum(read) < 200_000


def test_a_file_that_has_lost_its_end_is_noticed(tmp_path: Path):
    log, batches = filled(tmp_path / "p", (300_000, 300_000))
    path = segment_path(tmp_path / "p", 0)
    path.write_bytes(path.read_bytes()[: len(batches[0]) + 200_000])
    found = log.find_verified(0, 10_000_000, limit_offset=4)
    assert content(found.data) == batches[0]
    assert "ends at byte" in found.problem


def test_a_range_is_sent_to_a_socket(tmp_path: Path):
    log, batches = filled(tmp_path / "p", (100, 300_000, 100))
    found = log.find_verified(2, 1, limit_offset=6).data
    assert isinstance(found, FileRange)
    out, into = socket.socketpair()
    out.setblocking(False)
    received, sent, blocked = b"", 0, 0
    while len(received) < len(found):
        try:
            if sent < len(found):
                sent += found.send(out.fileno(), sent)
                continue
        except BlockingIOError:
            blocked += 1
        received += into.recv(100_000)
    assert received == batches[1]
    assert blocked > 0
    out.close()
    into.close()


@pytest.mark.parametrize("change", ["truncate", "start over", "close", "shrink"])
def test_what_was_cut_meanwhile_is_not_sent(tmp_path: Path, change: str):
    log, _ = filled(tmp_path / "p", (100, 300_000, 100))
    found = log.find_verified(2, 1, limit_offset=6).data
    assert isinstance(found, FileRange)
    if change == "truncate":
        log.truncate_to(4)
    elif change == "start over":
        log.reset_to(0)
    elif change == "close":
        log.close()
    else:
        path = segment_path(tmp_path / "p", 0)
        path.write_bytes(path.read_bytes()[:500])
    out, into = socket.socketpair()
    with out, into, pytest.raises(ConnectionAbortedError):
        found.send(out.fileno(), 1_000)
    with pytest.raises(ConnectionAbortedError):
        found.read()


def test_what_is_appended_meanwhile_does_not_matter(tmp_path: Path):
    log, batches = filled(tmp_path / "p", (300_000,))
    found = log.find_verified(0, 1, limit_offset=2).data
    more = build_batch([NewRecord(b"x", timestamp=1)])
    stamp(more, base_offset=2, leader_epoch=0)
    log.append(more)
    log.roll()
    assert content(found) == batches[0]


def test_a_read_at_the_end_of_a_log_steps_over_no_batches_from_an_index_entry_on(tmp_path: Path):
    log = open_log(tmp_path)
    fill(log, 20)
    (segment,) = log.segments
    length = segment.size // 20
    assert [segment.position_near(offset) for offset in (20, 19, 16, 15)] == [19 * length, 19 * length, 16 * length, 0]

    log.truncate_to(17)
    assert segment.position_near(18) == 0  # The batches that followed are gone.
    log.append(batch(17, "another", "length"))
    assert segment.position_near(18) == 17 * length
    assert values(log, 16) == ["16", "another", "length"]
    log.close()


def test_a_log_that_is_cut_during_a_read_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A worker thread reads a range while the log's owner truncates the file."""
    log, _ = filled(tmp_path / "p", (100, SENDFILE_BYTES))
    found = log.find_verified(2, 1, limit_offset=log.log_end_offset).data
    assert isinstance(found, FileRange)
    read, noted, cut = PooledFile.pread, list[str](), list[bool]()

    def pread(file: PooledFile, length: int, position: int) -> bytes:
        if not cut:
            cut.append(True)
            log.truncate_to(2)
        return read(file, length, position)

    monkeypatch.setattr(PooledFile, "pread", pread)
    found.on_damage = noted.append
    with pytest.raises(ConnectionAbortedError, match="cut or closed"):
        found.read()
    assert (noted, cut) == ([], [True])


def read_all(log: PartitionLog, offset: int, **options: bool) -> tuple[bytes, str]:
    found = log.find_verified(offset, 1 << 20, limit_offset=log.log_end_offset, **options)
    return content(found.data), found.problem


def damage_header(log: PartitionLog, batches: list[bytes], number: int) -> None:
    path = segment_path(log.folder, 0)
    damaged = bytearray(path.read_bytes())
    damaged[sum(map(len, batches[:number])) + 9] ^= 1
    path.write_bytes(damaged)


@pytest.mark.parametrize("number", [0, 2, 5], ids=["at-the-index-entry", "between", "next-to-last"])
@pytest.mark.parametrize("is_reopened", [False, True])
def test_batches_behind_a_damaged_header_are_read(tmp_path: Path, number: int, is_reopened: bool):
    """No other replica may have the damaged batch, or its records were deleted."""
    log, batches = filled(tmp_path / "p", (100, 300, 200, 100, 500, 100, 100))
    if is_reopened:
        log.close()
        log = PartitionLog.open(tmp_path / "p", TopicConfig())
    for segment in log.segments:
        segment.forget_recent()
    damage_header(log, batches, number)

    for offset in range(2 * number + 2, log.log_end_offset):
        data, problem = read_all(log, offset)
        assert data == b"".join(batches[offset // 2 :])
        assert "damaged" in problem or "checksum" in problem, "the damage is reported, so that it is repaired"
    for offset in (2 * number, 2 * number + 1):
        assert read_all(log, offset)[0] == b"", "no other records pass for the damaged ones"
    assert read_all(log, 0)[0] == b"".join(batches[:number])
    log.close()


@pytest.mark.parametrize("wanted", [4, 6])
def test_bytes_of_a_record_pass_for_no_batch(tmp_path: Path, wanted: int):
    """A producer sends what looks like a batch, with offsets of others; then its own batch's header is damaged."""
    planted = build_batch([NewRecord(b"planted", timestamp=1) for _ in range(6)])
    stamp(planted, base_offset=2, leader_epoch=0)
    value = b"\0" * (-HEADER_BYTES % 8) + bytes(planted)
    log, batches = PartitionLog.open(tmp_path / "p", TopicConfig()), []
    for one in (b"first", value, b"third", b"fourth"):
        built = build_batch([NewRecord(one, timestamp=1), NewRecord(b"", timestamp=1)])
        stamp(built, base_offset=log.log_end_offset, leader_epoch=0)
        log.append(built)
        batches.append(bytes(built))
    log.segments[0].forget_recent()
    damage_header(log, batches, 1)
    assert bytes(planted) in segment_path(log.folder, 0).read_bytes()

    assert read_all(log, wanted)[0] == b"".join(batches[wanted // 2 :])
    assert read_all(log, 2)[0] == read_all(log, 3)[0] == b""
    log.close()


def test_an_index_entry_behind_the_damage_bounds_the_search(tmp_path: Path):
    sizes = (100, 6_000, 6_000, 6_000, 100, 100, 6_000, 6_000)
    log, batches = filled(tmp_path / "p", sizes)
    log.segments[0].forget_recent()
    assert len(log.segments[0].load_index()) > 1
    for number in range(len(sizes)):
        damage_header(log, batches, number)
        for offset in range(log.log_end_offset):
            data = read_all(log, offset)[0]
            own = offset // 2
            until = number if own < number else len(batches)
            assert data == (b"" if own == number else b"".join(batches[own:until])), (number, offset)
        damage_header(log, batches, number)
    log.close()


def test_the_last_batch_before_an_index_entry_is_found(tmp_path: Path):
    """It may begin a few bytes before the place from which on a batch has an entry of its own."""
    log, batches = filled(tmp_path / "p", (100, 14_960, 100, 20_000, 100))
    starts = [sum(map(len, batches[:number])) for number in range(len(batches))]
    assert INTERVAL_BYTES - HEADER_BYTES < starts[2] < INTERVAL_BYTES
    assert list(log.segments[0].load_index().positions)[:2] == [0, starts[3]]
    log.segments[0].forget_recent()
    damage_header(log, batches, 0)
    for offset in range(2, log.log_end_offset):
        assert read_all(log, offset)[0] == b"".join(batches[offset // 2 :])
    log.close()
