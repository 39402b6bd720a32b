"""What the ledger of a compacted topic finds in logs that no replica had: records, transactions and their markers."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.model import NO_PRODUCER_ID, Offset
from simulation.cluster.keyed import KeyedEntry, KeyedLedger
from simulation.cluster.ledger import Entry

PRODUCER = 7
END = 6


class Scripted(KeyedLedger):
    """Reads logs that are lists."""

    def read(self, replica: Any, start: Offset, end: Offset) -> Iterator[Entry]:
        return (entry for entry in replica.entries if start <= entry.base_offset < end)


def log(*entries: KeyedEntry) -> Any:
    state = SimpleNamespace(leader_epoch=0, partition_epoch=0)
    return SimpleNamespace(
        entries=entries, log=SimpleNamespace(log_start_offset=0, log_end_offset=END), core=None, state=state
    )


def record(offset: Offset, key: bytes, *, of: int = NO_PRODUCER_ID, tombstone: bool = False) -> KeyedEntry:
    return KeyedEntry(offset, offset + 1, 0, 0, 0, key, tombstone, of)


def marker(offset: Offset, *, commits: bool) -> KeyedEntry:
    return KeyedEntry(offset, offset + 1, 0, 0, 0, transaction_of=PRODUCER, commits=commits)


OLD, NEW = record(0, b"k"), record(1, b"k", of=PRODUCER)
COMMIT, ABORT = marker(2, commits=True), marker(2, commits=False)
DELETED, DELETING = record(3, b"d"), record(4, b"d", tombstone=True)


@pytest.mark.parametrize(
    ("committed", "held", "wrong"),
    [
        ([OLD, NEW, COMMIT], [NEW, COMMIT], ""),
        ([OLD, NEW, COMMIT], [NEW], ""),
        ([OLD, NEW, COMMIT], [OLD, COMMIT], "the newest of its key"),
        ([OLD, NEW, ABORT], [OLD], ""),
        ([OLD, NEW, ABORT], [OLD, NEW], ""),
        ([OLD, NEW, ABORT], [NEW, ABORT], "it does not hold the record of b'k' at offset 0, the newest of its key"),
        ([OLD, NEW], [OLD], "whose transaction is open"),
        ([OLD, NEW], [NEW], "it does not hold the record of b'k' at offset 0"),
        ([DELETED, DELETING], [], ""),
        ([DELETED, DELETING], [DELETED], "holds what that deleted"),
        ([OLD, NEW, COMMIT], [OLD, NEW, ABORT], "it holds the marker at offset 2 where the marker"),
    ],
)
def test_the_newest_committed_record_of_each_key_stays(committed: list[KeyedEntry], held: list[KeyedEntry], wrong: str):
    ledger = Scripted()
    assert ledger.extend(log(*committed), END) is None

    found = ledger.differs(log(*held), END)

    assert (found is None) if not wrong else (found is not None and wrong in found), found


def test_the_end_of_a_transaction_counts_when_it_is_read_after_its_records():
    ledger = Scripted()
    for end, entries in ((2, [OLD, NEW]), (END, [OLD, NEW, ABORT])):
        assert ledger.extend(log(*entries), end) is None

    assert ledger.differs(log(OLD), END) is None
