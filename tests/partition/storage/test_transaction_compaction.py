"""Compaction with transactions: committed records kept by key, aborted ones removed, markers kept longer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from cleaning_support import clean, open_compacted, producers_of, records
from storage_support import headers
from transactions_support import TransactionalLog

from raftlog.partition.storage.cleaner import CleanerState
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import AbortedBatches, Record, iter_batches, read_records

NOBODY: frozenset[int] = frozenset()


def make(folder: Path, seed: int = 0) -> TransactionalLog:
    return TransactionalLog(open_compacted(folder), random.Random(seed))


def committed(log: PartitionLog, end: int) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Read what readers of committed records get, below `end`."""
    position, found = log.log_start_offset, list[Record]()
    while data := log.read(position, 1 << 14, limit_offset=end):
        following = max(header.next_offset for header, _ in iter_batches(data))
        aborted = AbortedBatches(log.aborted_transactions(position, following))
        found += read_records(data, topic="t", partition=0, from_offset=position, aborted=aborted)
        position = following
    return {record.offset: (record.key, record.value) for record in found}


def all_offsets(log: PartitionLog) -> set[int]:
    return {record.offset for record in records(log)}


def markers(log: PartitionLog) -> list[int]:
    return [header.base_offset for header in headers(log) if header.is_control]


def closed(told: TransactionalLog) -> TransactionalLog:
    told.log.roll()
    told.log.fsync()
    return told


def test_aborted_records_go_whatever_their_key_and_committed_ones_count(tmp_path: Path):
    told = make(tmp_path / "p")
    told.send(1)
    told.send(2, 2)
    told.end(1, committed=False)
    told.end(2, committed=True)
    closed(told).send(3)

    clean(told.log)

    assert all_offsets(told.log) <= {1, 2, 5}
    kept = committed(told.log, told.stable)
    assert kept
    assert all(told.decided[offset] for offset in kept)


def test_what_is_not_decided_stays(tmp_path: Path):
    told = make(tmp_path / "p")
    told.send(1)
    closed(told).send(2)
    told.end(2, committed=False)
    closed(told).send(3)

    clean(told.log, high_watermark=told.stable)

    assert all_offsets(told.log) == {0, 1, 3}


def test_a_marker_goes_last_and_only_when_everybody_has_it(tmp_path: Path):
    told = make(tmp_path / "p")
    told.send(1)
    told.end(1, committed=False)
    closed(told).send(3)

    def cleaned(now_s: int, **rules: int) -> list[int]:
        clean(told.log, CleanerState(told.log.folder, told.log.log_end_offset), now_s=now_s, **rules)  # type: ignore[arg-type]
        return markers(told.log)

    assert cleaned(1_000) == [1]  # The producer is recognised by it.
    forgotten = {"delete_retention_ms": 10_000, "producer_batches": NOBODY}
    assert cleaned(1_001, **forgotten) == [1]  # Now it waits.
    assert all_offsets(told.log) == {2}
    assert cleaned(1_009, **forgotten) == [1]
    assert cleaned(1_020, **forgotten, replicated_below=1) == [1]
    assert cleaned(1_020, **forgotten, replicated_below=2) == []
    assert told.log.aborted_transactions(0, 2) == []


def test_a_marker_stays_as_long_as_a_record_of_its_transaction(tmp_path: Path):
    told = make(tmp_path / "p")
    told.send(1)
    told.end(1, committed=True)
    closed(told).send(3, transactional=False)

    for now_s in (1_000, 1_100, 1_200):
        state = CleanerState(told.log.folder, told.log.log_end_offset)
        clean(told.log, state, now_s=now_s, delete_retention_ms=1, producer_batches=NOBODY)

    assert (markers(told.log), 0 in all_offsets(told.log)) == ([1], True)
    states = producers_of(told.log)
    assert states.transactions.last_stable_offset(told.log.log_end_offset) == told.log.log_end_offset


@pytest.mark.parametrize("seed", range(10))
def test_readers_of_committed_records_find_the_last_record_of_each_key_and_nothing_that_was_aborted(
    tmp_path: Path, seed: int
):
    told = make(tmp_path / "p", seed)
    draw, state = random.Random(seed), CleanerState(told.log.folder, 0)
    for round_ in range(25):
        for _ in range(draw.randint(1, 25)):
            told.step()
        told.log.fsync()
        forgets = NOBODY if draw.random() < 0.3 else None
        clean(
            told.log,
            state,
            now_s=1_000 + 10 * round_,
            high_watermark=told.stable,
            delete_retention_ms=15_000,
            producer_batches=forgets,
        )
        if draw.random() < 0.3:
            told.log.checkpoint(told.stable, closing=draw.random() < 0.5)
            told.log.close()
            told.log = PartitionLog.open(told.log.folder, told.log.config)
        check(told)
    assert any(header.is_compacted for header in headers(told.log))


def check(told: TransactionalLog) -> None:
    found, last = committed(told.log, told.stable), dict[bytes, int]()
    for offset in sorted(told.decided):
        if offset < told.stable and told.decided[offset]:
            last[told.written[offset][0]] = offset
    assert all(told.written[offset] == pair and told.decided[offset] for offset, pair in found.items())
    assert set(last.values()) <= set(found)
    states = producers_of(told.log)
    assert dict(states.transactions.ongoing) == dict(told.states.transactions.ongoing)
    assert all_offsets(told.log) >= {offset for offset in told.written if offset >= told.stable}
