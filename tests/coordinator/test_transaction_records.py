"""The records of `__transaction_state` are a format: what version 1 wrote must be read for ever."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raftlog.coordinator.runtime import LogRecord, tombstone
from raftlog.coordinator.transaction.core import TransactionCoordinator
from raftlog.coordinator.transaction.records import TransactionChanged, TransactionSetCommitted
from raftlog.coordinator.transaction.state import Transactions
from raftlog.wire.transactions import TransactionPartition

GOLDEN = Path(__file__).parent / "golden" / "transaction_records_v1.txt"
CODEC = TransactionCoordinator.codec
NEW = TransactionChanged(transactional_id="é", producer_id=7, producer_epoch=0, timeout_ms=60_000, changed_ms=1)
PARTITIONS = (
    TransactionPartition(topic="t", partition=3, topic_id="0123456789abcdef" * 2),
    TransactionPartition(topic="u", partition=0, topic_id="f" * 32),
)
RECORDS: list[LogRecord] = [
    NEW,
    TransactionChanged(
        transactional_id="id",
        producer_id=7,
        producer_epoch=3,
        phase="aborting",
        timeout_ms=1_000,
        began_ms=5,
        changed_ms=9,
        partitions=PARTITIONS,
        groups=("g", "h"),
        marker_id=7,
        marker_epoch=3,
        ended_id=7,
        ended_epoch=2,
        timed_out=True,
    ),
    tombstone(NEW),
    TransactionSetCommitted(set_id="s", run="a query", number=17, passing=True, changed_ms=3),
    tombstone(TransactionSetCommitted(set_id="s", run="", number=0, changed_ms=0)),
]


def lines() -> list[bytes]:
    written = [
        b" => ".join((key, b"(tombstone)" if value is None else value)) for key, value in map(CODEC.encode, RECORDS)
    ]
    if os.environ.get("REWRITE"):
        GOLDEN.write_bytes(b"\n".join(written) + b"\n")
    return written


@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_records_are_written_and_read_as_ever(number: int):
    stored = GOLDEN.read_bytes().splitlines()[number]
    assert lines()[number] == stored
    key, _, value = stored.partition(b" => ")
    assert CODEC.decode(key, None if value == b"(tombstone)" else value) == RECORDS[number]


def test_a_record_of_a_later_version_is_read_as_far_as_it_is_known():
    key, value = CODEC.encode(RECORDS[1])
    assert value is not None
    later = value.replace(b'"version":1', b'"version":2,"colour":"red"')
    assert CODEC.decode(key, later) == RECORDS[1]


def test_replay_is_total_whatever_compaction_left():
    coordinator, state = TransactionCoordinator(), Transactions()
    for record in (RECORDS[4], RECORDS[2], RECORDS[1], RECORDS[1], RECORDS[0], RECORDS[3], RECORDS[2]):
        coordinator.replay(state, record)
    assert [known.number for known in state.sets.values()] == [17]
    assert (list(state.by_id), list(state.ending), list(state.ongoing)) == (["id"], ["id"], [])
