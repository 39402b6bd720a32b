"""The journal: what is synced is there, torn tails are cut, other damage is refused. And the message codec."""

from __future__ import annotations

import errno
import itertools
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import mutants_support
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.errors import StorageError
from raftlog.metadata_quorum.raft.codec import MessageFormatError, decode, encode
from raftlog.metadata_quorum.raft.frames import framed_write, read_valid_records
from raftlog.metadata_quorum.raft.journal import RaftJournal
from raftlog.sectors import SECTOR_BYTES

HEAD_BYTES = 21


def filled(path: Path, count: int = 5) -> RaftJournal:
    journal = RaftJournal(path)
    journal.setCurrentTerm(3, "voter-1")
    for index in range(1, count + 1):
        journal.add(b"command %d" % index, index, 3)
    journal.sync()
    return journal


def one_by_one(path: Path, count: int = 5) -> RaftJournal:
    """As `filled`, but each entry is written and synced alone."""
    journal = filled(path, 0)
    for index in range(1, count + 1):
        journal.add(b"command %d" % index, index, 3)
        journal.sync()
    return journal


def reopened(path: Path) -> RaftJournal:
    return RaftJournal(path)


def test_what_is_synced_survives_and_what_is_buffered_does_not(tmp_path: Path):
    journal = filled(tmp_path / "j")
    journal.add(b"lost", 6, 3)
    journal.abandon()

    again = reopened(tmp_path / "j")

    assert [again[i] for i in range(len(again))] == [(b"command %d" % i, i, 3) for i in range(1, 6)]
    assert (again.getCurrentTerm(), again.getVotedForNodeId()) == (3, "voter-1")
    again.close()


def test_what_the_process_before_left_is_written_and_synced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A sync of it may have failed, or not have come: the system shows such bytes until the power is lost."""
    path = tmp_path / "j"
    filled(path).abandon()
    content = path.read_bytes()
    os.utime(path, ns=(0, 0))
    synced: list[tuple[str, int]] = []

    def fsync(descriptor: int) -> None:
        synced.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), os.fstat(descriptor).st_mtime_ns))

    monkeypatch.setattr(os, "fsync", fsync)
    reopened(path).abandon()

    ((name, written_ns),) = synced
    assert name == str(path)
    assert written_ns > 0, "the bytes are written again before the sync"
    assert path.read_bytes() == content


def test_a_journal_that_cannot_be_synced_again_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    filled(tmp_path / "j").abandon()
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(StorageError, match="No space left on device"):
        reopened(tmp_path / "j")


def test_a_full_disk_keeps_nothing_of_a_new_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "raft.journal"
    journal = filled(path)
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match="No space left"):
        journal._rewrite()
    assert [found.name for found in tmp_path.iterdir()] == ["raft.journal"]
    journal.close()


def test_truncation_and_trimming_survive(tmp_path: Path):
    journal = filled(tmp_path / "j")
    journal.deleteEntriesFrom(4)
    journal.add(b"other", 5, 4)
    journal.deleteEntriesTo(2)
    journal.setRaftCommitIndex(4)
    journal.onOneSecondTimer()
    journal.close()

    again = reopened(tmp_path / "j")

    assert [again[i] for i in range(len(again))] == [(b"command 3", 3, 3), (b"command 4", 4, 3), (b"other", 5, 4)]
    assert again.getRaftCommitIndex() == 4
    again.close()


def test_a_snapshot_keeps_the_acknowledged_entries_after_it(tmp_path: Path):
    """S4: a crash between storing the snapshot and trimming the journal must not clear it."""
    journal = filled(tmp_path / "j")

    journal.trim_to_snapshot((b"command 2", 2, 3), (b"command 3", 3, 3))

    assert [entry[1] for entry in journal[:]] == [2, 3, 4, 5]
    journal.trim_to_snapshot((b"another", 3, 9), (b"another", 4, 9))
    assert [entry[1] for entry in journal[:]] == [2, 3, 4, 5]
    journal.close()


def test_a_torn_tail_of_any_length_is_cut(tmp_path: Path):
    one_by_one(tmp_path / "j").close()
    whole = (tmp_path / "j").read_bytes()
    last = HEAD_BYTES + 1 + 16 + len(b"command 5") + 1

    for missing in range(1, last + 1):
        (tmp_path / "j").write_bytes(whole[:-missing])
        journal = reopened(tmp_path / "j")
        assert [entry[1] for entry in journal[:]] == [1, 2, 3, 4]
        journal.close()


@pytest.mark.parametrize("bytes_of_a_command", [10, 300, 600])
def test_a_write_of_which_any_sectors_reached_the_disk_is_cut_whole(tmp_path: Path, bytes_of_a_command: int):
    """A disk writes the sectors of a write in any order, so a later record may be there and an earlier one not."""
    path = tmp_path / "j"
    journal = one_by_one(path)
    synced = path.stat().st_size
    for index in range(6, 10):
        journal.add(b"%d" % index * bytes_of_a_command, index, 3)
    journal.close()
    whole = path.read_bytes()
    starts = range(synced - synced % SECTOR_BYTES, len(whole), SECTOR_BYTES)

    for lost in itertools.chain.from_iterable(itertools.combinations(starts, n) for n in range(1, len(starts) + 1)):
        torn = bytearray(whole)
        for start in lost:
            first, end = max(start, synced), min(start + SECTOR_BYTES, len(whole))
            torn[first:end] = bytes(end - first)
        path.write_bytes(torn)
        again = reopened(path)
        assert [entry[1] for entry in again[:]] == [1, 2, 3, 4, 5], lost
        assert path.stat().st_size == synced
        again.add(b"command 6", 6, 4)
        again.close()
        assert [entry[2] for entry in reopened(path)[:]] == [3, 3, 3, 3, 3, 4]


def test_zeros_of_a_write_before_the_last_one_are_damage(tmp_path: Path):
    """The disk lost what it had synced: a later write is there, or began."""
    path = tmp_path / "j"
    journal = one_by_one(path)
    journal.add(b"x" * 2_000, 6, 3)
    journal.close()
    whole = path.read_bytes()
    lost = whole[:SECTOR_BYTES] + bytes(SECTOR_BYTES) + whole[2 * SECTOR_BYTES :]
    path.write_bytes(lost + framed_write([b"C" + bytes(8)], 8)[:-1])
    assert [entry[1] for entry in reopened(path)[:]] == [1, 2, 3, 4, 5], "a torn write has no valid record"
    path.write_bytes(lost + framed_write([b"C" + bytes(8), b"C" + bytes(8)], 8)[:-1])
    with pytest.raises(StorageError, match=f"a valid record of a later write follows at byte {len(whole)}"):
        reopened(path)


@pytest.mark.parametrize("write", [0, 2, 4])
def test_a_write_with_another_number_than_the_next_is_damage(tmp_path: Path, write: int):
    """A write before it is missing, or the disk shows an old one."""
    path = tmp_path / "j"
    filled(path).close()
    end = path.stat().st_size
    assert read_valid_records(path).next_write == 3
    with path.open("ab") as file:
        file.write(framed_write([b"C" + bytes(8)], write))
    with pytest.raises(StorageError, match=f"damaged at byte {end}, and a valid record of a later write"):
        reopened(path)


def test_a_write_without_its_last_record_is_cut(tmp_path: Path):
    path = tmp_path / "j"
    filled(path).close()
    whole = path.read_bytes()
    write = framed_write([b"T" + bytes(8), b"C" + bytes(8)], 3)
    path.write_bytes(whole + write[: len(write) // 2])

    again = reopened(path)

    assert [entry[1] for entry in again[:]] == [1, 2, 3, 4, 5]
    again.close()
    assert path.read_bytes() == whole


def test_damage_before_sound_records_is_refused(tmp_path: Path):
    one_by_one(tmp_path / "j").close()
    whole = (tmp_path / "j").read_bytes()

    for byte in range(8, len(whole) - 50, 7):
        damaged = bytearray(whole)
        damaged[byte] ^= 1
        (tmp_path / "j").write_bytes(damaged)
        with pytest.raises(StorageError, match="a valid record of a later write follows"):
            reopened(tmp_path / "j")
    (tmp_path / "j").write_bytes(b"something else")
    with pytest.raises(StorageError, match="is not a Raft journal"):
        reopened(tmp_path / "j")


def test_a_changed_bit_in_the_last_record_is_no_torn_tail(tmp_path: Path):
    """It was acknowledged: to cut it would be to forget a command, and with another voter behind, to lose it."""
    filled(tmp_path / "j").close()
    whole = (tmp_path / "j").read_bytes()
    last = HEAD_BYTES + 1 + 16 + len(b"command 5") + 1

    for bit in range(8 * (len(whole) - last), 8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / "j").write_bytes(damaged)
        with pytest.raises(StorageError, match="no bytes are missing there"):
            reopened(tmp_path / "j")


@pytest.mark.parametrize("lost", [slice(512, 1024), slice(1024, 1536), slice(1536, None), slice(512, None)])
def test_a_last_record_of_which_a_sector_never_reached_the_disk_is_cut(tmp_path: Path, lost: slice):
    journal = filled(tmp_path / "j")
    whole = (tmp_path / "j").stat().st_size
    journal.add(b"\xee" * 1600, 6, 3)
    journal.close()
    data = bytearray((tmp_path / "j").read_bytes())
    data[lost] = bytes(len(data[lost]))
    (tmp_path / "j").write_bytes(data)

    again = reopened(tmp_path / "j")

    assert [entry[1] for entry in again[:]] == [1, 2, 3, 4, 5]
    assert (tmp_path / "j").stat().st_size == whole
    again.close()


def torn_after_a_vote(path: Path) -> Iterator[tuple[bytes, range]]:
    """Yield journals whose last write lacks a sector, and the place of the vote before it, which was synced."""
    for filler in range(300, 380):
        path.unlink(missing_ok=True)
        journal = RaftJournal(path)
        journal.add(b"x" * filler, 1, 1)
        journal.sync()
        journal.setCurrentTerm(9, "voter-2")
        synced = path.stat().st_size
        journal.add(b"y" * 20, 2, 9)
        journal.close()
        torn = bytearray(path.read_bytes())
        if synced < SECTOR_BYTES < len(torn):
            torn[SECTOR_BYTES:] = bytes(len(torn) - SECTOR_BYTES)
            yield bytes(torn), range(synced - len(framed_write([b"M" + bytes(8) + b"voter-2"], 0)), synced)


def is_refused(path: Path, content: bytes, changed: int) -> bool:
    damaged = bytearray(content)
    damaged[changed] ^= 1
    path.write_bytes(damaged)
    try:
        reopened(path)
    except StorageError as error:
        return "no bytes are missing there" in error.message
    return False


def test_a_synced_record_is_not_cut_because_a_later_write_lacks_a_sector(tmp_path: Path):
    """A vote was synced, and one of its bits changed. After it comes a write that a power failure tore."""
    path, tried = tmp_path / "j", 0
    for torn, vote in torn_after_a_vote(path):
        path.write_bytes(torn)
        again = reopened(path)
        assert (again.getCurrentTerm(), len(again)) == (9, 1)
        again.close()
        assert all(is_refused(path, torn, at) for at in vote)
        tried += 1
    assert tried > 5


def test_the_mutant_that_counts_such_sectors_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mutants_support.sectors_of_a_later_write_count_for_a_damaged_record(monkeypatch)
    torn, vote = next(torn_after_a_vote(tmp_path / "j"))
    assert not all(is_refused(tmp_path / "j", torn, at) for at in vote)


def test_zeros_where_a_record_was_to_be_are_cut(tmp_path: Path):
    filled(tmp_path / "j").close()
    with (tmp_path / "j").open("ab") as file:
        file.write(bytes(3000))

    again = reopened(tmp_path / "j")

    assert [entry[1] for entry in again[:]] == [1, 2, 3, 4, 5]
    again.close()


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_messages_come_back_as_they_were(value: object):
    assert decode(encode(value)) == value


@given(st.binary(max_size=100))
def test_hostile_bytes_build_nothing_but_plain_data(data: bytes):
    try:
        value = decode(data)
    except MessageFormatError:
        return
    assert isinstance(value, bool | int | float | str | bytes | list | dict | type(None))


LYING = {
    "bytes": b"\xc6\xff\xff\xff\xff",
    "text": b"\xdb\xff\xff\xff\xff",
    "list": b"\xdd\xff\xff\xff\xff",
    "lists": b"\xdd\xff\xff\xff\xff" * 100,
    "dictionary": b"\xdf\xff\xff\xff\xff\xa1k\xc0",
}
EXTENSION = b"\xd6\xff\x00\x00\x00\x00"  # A timestamp, which other decoders build.


@pytest.mark.parametrize("hostile", LYING.values(), ids=list(LYING))
def test_lengths_that_lie_allocate_nothing(hostile: bytes):
    tracemalloc.start()
    try:
        with pytest.raises(MessageFormatError):
            decode(hostile)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 100_000


@pytest.mark.parametrize("hostile", [EXTENSION, b"\x81\x01\x02", b"\x91" * 5_000, b"\xc1", b""])
def test_what_is_no_plain_data_is_refused(hostile: bytes):
    with pytest.raises(MessageFormatError):
        decode(hostile)
