"""The index of aborted transactions is right after any loss of its files, truncation or crash."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from storage_support import open_log
from transactions_support import TransactionalLog

from raftlog.partition.core.producers import ProducerLimits
from raftlog.partition.storage.fsck import check_partition
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.producer_snapshots import recover_producers, save_producers
from raftlog.partition.storage.transaction_index import AbortedEntry, decode_aborted, encode_aborted


def make(folder: Path, seed: int = 0, **config: object) -> TransactionalLog:
    return TransactionalLog(open_log(folder, segment_bytes=4096, **config), random.Random(seed))


def reopen(told: TransactionalLog) -> None:
    told.log.close()
    told.log = PartitionLog.open(told.log.folder, told.log.config)


def recovered(log: PartitionLog) -> object:
    states = recover_producers(log, limits=ProducerLimits(), now_ms=0)
    states.transactions.forget_decided(log.log_end_offset)
    return states.to_plain()


@pytest.mark.parametrize("seed", range(12))
def test_it_names_every_aborted_transaction_of_a_range_however_the_log_was_opened(tmp_path: Path, seed: int):
    told = make(tmp_path / "p", seed)
    draw = random.Random(seed)
    for _ in range(40):
        for _ in range(draw.randint(1, 12)):
            told.step()
        happens = draw.randint(0, 5)
        told.log.fsync()
        if happens == 0:
            told.log.checkpoint(told.stable)
            reopen(told)
        elif happens == 1:
            told.log.checkpoint(told.stable, closing=True)
            reopen(told)
        elif happens == 2:
            reopen(told)
        elif happens == 3:
            told.log.checkpoint(told.stable, closing=True)
            files = sorted(told.log.folder.glob("*.txnindex"))
            if files:
                file = draw.choice(files)
                damaged = bytearray(file.read_bytes())
                damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
                file.write_bytes(damaged)
            reopen(told)
        elif happens == 4:
            save_producers(told.log.folder, told.log.log_end_offset, told.states.to_plain())
        told.check_index()
        assert recovered(told.log) == told.states.to_plain()  # `check_index` has pruned it.
    assert told.aborted
    assert told.log.has_aborted
    for segment in told.log.segments:
        segment.load_aborted()  # What was damaged and is built again is written again.
    told.log.checkpoint(told.stable, closing=True)
    assert check_partition(told.log.folder) == []


def test_a_truncated_log_forgets_what_ended_beyond_the_cut(tmp_path: Path):
    told = make(tmp_path / "p")
    for producer in (1, 2, 3):
        told.send(producer)
    for producer in (1, 2, 3):  # Markers at 3, 4, 5.
        told.end(producer, committed=False)
    told.log.fsync()
    told.log.checkpoint(6, closing=True)

    told.log.truncate_to(5)

    assert [a.producer_id for a in told.log.aborted_transactions(0, 5)] == [1, 2]
    told.log.checkpoint(5, closing=True)
    reopen(told)
    assert [a.producer_id for a in told.log.aborted_transactions(0, 5)] == [1, 2]
    states = recover_producers(told.log, limits=ProducerLimits(), now_ms=0)
    assert (dict(states.transactions.ongoing), states.transactions.last_stable_offset(5)) == ({3: 2}, 2)
    told.log.truncate_to(2)
    assert not told.log.has_aborted
    assert list(told.log.folder.glob("*.txnindex")) == []


def test_a_search_ends_where_nothing_before_the_range_can_have_been_under_way(tmp_path: Path):
    told = make(tmp_path / "p")
    for _ in range(200):
        told.send(1)
        told.end(1, committed=False)
    told.log.fsync()
    told.log.checkpoint(told.stable, closing=True)
    reopen(told)

    assert len(told.log.aborted_transactions(0, 4)) == 2

    loaded = [segment for segment in told.log.segments[:-1] if segment._aborted is not None]
    assert (len(loaded), len(told.log.segments) > 5) == (1, True)


class Counted:
    """The index entry of a transaction that one marker follows at once; it counts how often it is looked at."""

    looks = 0

    def __init__(self, first_offset: int) -> None:
        self._first = first_offset
        self.producer_id = 1

    def _look(self, offset: int) -> int:
        Counted.looks += 1
        return offset

    first_offset = property(lambda self: self._look(self._first))
    last_offset = property(lambda self: self._look(self._first + 1))
    stable_offset = property(lambda self: self._look(self._first + 2))


def test_a_search_in_a_segment_with_many_aborted_transactions_looks_at_few(tmp_path: Path):
    """With 100,000 small aborted transactions in a segment, each read looked at all of them."""
    told, many = make(tmp_path / "p"), 10_000
    told.send(1)
    told.end(1, committed=False)
    (segment,) = told.log.segments
    segment._aborted = [Counted(2 * number) for number in range(many)]
    segment.aborted_count = many

    found = told.log.aborted_transactions(2 * many - 6, 2 * many - 2)

    assert [one.first_offset for one in found] == [2 * many - 6, 2 * many - 4]
    assert Counted.looks < 100
    told.log.close()


def test_retention_takes_the_index_of_a_segment_with_it(tmp_path: Path):
    told = make(tmp_path / "p", retention_ms=1, file_delete_delay_ms=0)
    for _ in range(60):
        told.send(1)
        told.end(1, committed=False)
    told.log.fsync()
    told.log.checkpoint(told.stable, closing=True)
    told.log.apply_retention(10_000_000, told.stable)

    left = {path.stem for path in told.log.folder.glob("*.log")}
    assert {path.stem for path in told.log.folder.glob("*.txnindex")} <= left
    assert len(left) == 1
    told.check_index()


def test_storage_check_names_a_damaged_index(tmp_path: Path):
    told = make(tmp_path / "p")
    told.send(1)
    told.end(1, committed=False)
    told.log.fsync()
    told.log.checkpoint(told.stable, closing=True)
    told.log.close()
    (path,) = told.log.folder.glob("*.txnindex")
    sound = path.read_bytes()
    for at in range(len(sound)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        (finding,) = check_partition(told.log.folder)
        assert (finding.path, finding.severity) == (str(path), "damage")
    path.unlink()
    assert "missing or damaged" in check_partition(told.log.folder)[0].what


def test_an_index_is_of_one_segment_at_one_size():
    entries = [AbortedEntry(7, 1, 3, 1)]
    content = encode_aborted(0, 100, entries)
    assert decode_aborted(content, 0, 100) == entries
    assert decode_aborted(content, 0, 101) is None
    assert decode_aborted(content, 5, 100) is None
