"""Bits that change in what a voter has stored: it refuses to start, says why, and changes nothing."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quorum_support import Cluster, flip, write

from raftlog.checksum import crc32c
from raftlog.errors import StorageError
from raftlog.metadata_quorum.raft.frames import read_valid_records
from raftlog.metadata_quorum.raft.journal import RaftJournal
from raftlog.metadata_quorum.raft.scrub import JOURNAL, SNAPSHOT, find_corruption

HEAD_BYTES = 21
LAST_BYTES = HEAD_BYTES + 1 + 16 + len(b"command 5") + 1


def filled(path: Path) -> bytes:
    journal = RaftJournal(path)
    journal.setCurrentTerm(3, "voter-1")
    for index in range(1, 6):
        journal.add(b"command %d" % index, index, 3)
    journal.close()
    return path.read_bytes()


def changed(content: bytes, bits: set[int]) -> bytes:
    damaged = bytearray(content)
    for bit in bits:
        damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def format_before(path: Path) -> bytes:
    """A journal's records as they were written before records had the number of their write."""
    records = [b"RLRAFT02"]
    for body in read_valid_records(path).bodies:
        sizes = struct.pack("<II", len(body), crc32c(body))
        records.append(sizes + struct.pack("<I", crc32c(sizes)) + body + b"\xff")
    return b"".join(records)


def test_a_length_that_grew_makes_no_torn_tail_of_a_damaged_record(tmp_path: Path):
    """FAST '18: a voter that cuts its synced tail forgets what it has acknowledged."""
    whole = filled(tmp_path / "j")
    start = 8 * (len(whole) - LAST_BYTES)
    for length_bit in range(24):
        (tmp_path / "j").write_bytes(changed(whole, {start + 8 + length_bit, 8 * len(whole) - 20}))
        with pytest.raises(StorageError, match="no bytes are missing there"):
            RaftJournal(tmp_path / "j")


def test_a_record_that_ends_in_zeros_beyond_a_sector_is_not_taken_for_a_lost_write(tmp_path: Path):
    """A term without a vote ends in seven of them."""
    for filler in range(360, 440):
        path = tmp_path / f"j{filler}"
        journal = RaftJournal(path)
        journal.add(b"x" * filler, 1, 1)
        journal.setCurrentTerm(3, None)
        journal.close()
        flip(path, path.stat().st_size - 14)
        with pytest.raises(StorageError, match="no bytes are missing there"):
            RaftJournal(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300, deadline=None)
@given(data=st.data(), in_tail=st.booleans())
def test_whatever_bits_change_a_journal_holds_what_it_held_or_is_refused(
    tmp_path: Path, data: st.DataObject, in_tail: bool
):
    path = tmp_path / "j"
    path.unlink(missing_ok=True)
    whole = filled(path)
    first = 8 * (len(whole) - LAST_BYTES) if in_tail else 0
    bits = data.draw(st.sets(st.integers(first, 8 * len(whole) - 1), min_size=1, max_size=30))
    damaged = changed(whole, bits)
    path.write_bytes(damaged)
    with pytest.raises(StorageError, match="empty data folder"):
        RaftJournal(path)
    assert path.read_bytes() == damaged, "nothing is changed by who refuses it"


def test_the_first_record_is_never_torn(tmp_path: Path):
    """It is written with the file, and synced before the file gets its name."""
    whole = filled(tmp_path / "j")
    (tmp_path / "j").write_bytes(whole[:20])
    with pytest.raises(StorageError, match="written together with the file"):
        RaftJournal(tmp_path / "j")


@pytest.mark.parametrize("missing", [0, 1, 30])
def test_a_journal_of_the_format_before_is_taken_over_and_written_anew(tmp_path: Path, missing: int):
    filled(tmp_path / "j")
    old = format_before(tmp_path / "j")
    (tmp_path / "j").write_bytes(old[: len(old) - missing])
    kept = 5 if missing == 0 else 4

    for _ in range(2):
        journal = RaftJournal(tmp_path / "j")
        assert [entry[0] for entry in journal[:]] == [b"command %d" % index for index in range(1, kept + 1)]
        assert (journal.getCurrentTerm(), journal.getVotedForNodeId(), journal.standing) == (3, "voter-1", "blank")
        journal.close()
        assert read_valid_records(tmp_path / "j").is_current_format


def test_in_the_format_before_a_valid_record_after_an_invalid_one_is_damage(tmp_path: Path):
    filled(tmp_path / "j")
    old = bytearray(format_before(tmp_path / "j"))
    old[-50] ^= 1
    (tmp_path / "j").write_bytes(old)
    with pytest.raises(StorageError, match="a valid record of a later write follows"):
        RaftJournal(tmp_path / "j")
    old[-1] ^= 1
    (tmp_path / "j").write_bytes(old)
    with pytest.raises(StorageError, match="no bytes are missing there"):
        RaftJournal(tmp_path / "j")


def test_the_format_of_a_journal_stays(tmp_path: Path):
    journal = RaftJournal(tmp_path / "j")
    journal.setCurrentTerm(3, "v")
    journal.add(b"c", 1, 3)
    journal.close()
    assert (tmp_path / "j").read_bytes().hex() == GOLDEN


GOLDEN = (
    "524c524146543033ff060000003ba3c80f0000000000000000e783d10d53626c616e6bffff09000000c2b7a5f8000000"
    "00000000009de878c14d0000000000000000ffff090000002020b43a0100000000000000018169f94301000000000000"
    "00ffff0a000000191fa53e030000000000000061e142d44d030000000000000076ffff120000009066411b0500000000"
    "000000ddc9f59a450100000000000000030000000000000063ff"
)


async def test_a_voter_whose_snapshot_is_damaged_or_gone_refuses_to_start(
    tmp_path: Path, free_ports: Callable[[int], list[int]]
):
    async with Cluster(tmp_path, free_ports(3), snapshot_min_entries=20) as cluster:
        await write(cluster, 0, 60)
        await cluster.close(1)
        files = [tmp_path / "1" / JOURNAL, tmp_path / "1" / SNAPSHOT]
        flip(files[1], -5)
        before = [file.read_bytes() for file in files]
        with pytest.raises(StorageError, match=r"snapshot: the snapshot is damaged.*empty data folder"):
            await cluster.start(1)
        assert [file.read_bytes() for file in files] == before

        files[1].unlink()
        with pytest.raises(StorageError, match="no snapshot has the entries before"):
            await cluster.start(1)

        del cluster.quorums[1]
        shutil.rmtree(tmp_path / "1")
        await cluster.start(1)
        await cluster.all_applied(60)
        assert not cluster.fatal


async def test_a_snapshot_that_is_damaged_when_it_is_to_be_sent_is_taken_anew(
    tmp_path: Path, free_ports: Callable[[int], list[int]], caplog: pytest.LogCaptureFixture
):
    async with Cluster(tmp_path, free_ports(3), snapshot_min_entries=20) as cluster:
        await write(cluster, 0, 60)
        leader = await cluster.leader()
        guest = next(voter for voter in (1, 2, 3) if voter != leader)
        await cluster.close(guest)
        shutil.rmtree(tmp_path / str(guest))
        for voter in cluster.quorums:
            flip(tmp_path / str(voter) / SNAPSHOT, -5)
        await cluster.start(guest)
        await cluster.all_applied(60)
        assert "is replaced by a new snapshot" in caplog.text
        assert not find_corruption(tmp_path / str(await cluster.leader())).snapshot
        assert not cluster.fatal
