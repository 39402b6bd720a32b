"""Transaction markers: golden files, every damaged byte, and which batches readers leave out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raftlog.errors import CorruptBatchError
from raftlog.model import AbortedTransaction
from raftlog.record import (
    AbortedBatches,
    BatchHeader,
    Marker,
    NewRecord,
    build_batch,
    build_marker,
    iter_batches,
    parse_header,
    parse_marker,
    read_records,
    readable_batches,
    stamp,
    validate_batch,
)
from raftlog.record.compacted import keep_marker
from raftlog.record.control import MARKER_BYTES

GOLDEN = Path(__file__).parent / "golden"


def marker(name: str) -> tuple[Marker, bytes]:
    content = Marker(committed=name == "commit", coordinator_epoch=9, first_offset=1200, stable_offset=1210)
    batch = build_marker(content, producer_id=7, producer_epoch=4, timestamp_us=1_700_000_000_000_000)
    stamp(batch, base_offset=1234, leader_epoch=5)
    return content, bytes(batch)


@pytest.mark.parametrize("name", ["commit", "abort"])
def test_stored_markers_are_read_for_ever(name: str):
    content, built = marker(name)
    path = GOLDEN / f"marker-{name}.batch"
    if os.environ.get("REWRITE"):
        path.write_bytes(built)

    stored = path.read_bytes()

    assert stored == built
    header = parse_header(stored)
    assert parse_marker(header, stored) == content
    assert (header.is_control, header.is_transactional, header.record_count, len(stored)) == (True, True, 1, 88)
    assert (header.base_offset, header.next_offset, header.leader_epoch) == (1234, 1235, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 4, -1)


def test_every_damaged_byte_of_a_marker_is_noticed():
    _, sound = marker("commit")
    for at in range(MARKER_BYTES):
        damaged = bytearray(sound)
        damaged[at] ^= 0x10
        with pytest.raises(CorruptBatchError):
            parse_marker(parse_header(damaged), damaged)


def test_what_no_leader_writes_is_no_marker():
    data = build_batch([NewRecord(b"x")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    with pytest.raises(CorruptBatchError, match="is no transaction marker"):
        parse_marker(parse_header(data), data)


def test_a_client_can_produce_no_marker_and_no_transaction_without_a_producer():
    _, built = marker("commit")
    with pytest.raises(CorruptBatchError, match="control and compacted batches cannot be produced"):
        validate_batch(built, max_message_bytes=1 << 20)
    nobody = build_batch([NewRecord(b"x")], transactional=True)
    with pytest.raises(CorruptBatchError, match="a transactional batch names its producer"):
        validate_batch(nobody, max_message_bytes=1 << 20)
    somebody = build_batch([NewRecord(b"x")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert validate_batch(somebody, max_message_bytes=1 << 20).is_transactional


def test_a_marker_that_waits_for_its_removal_says_the_same():
    content, built = marker("abort")
    waiting = keep_marker(parse_header(built), built, cleaned_at_s=77)

    header = parse_header(waiting)

    assert (header.is_compacted, header.cleaned_at_s, header.is_control) == (True, 77, True)
    assert (parse_marker(header, waiting), header.base_offset, header.leader_epoch) == (content, 1234, 5)


def at(offset: int, *, producer: int = 7, transactional: bool = True) -> bytes:
    batch = build_batch(
        [NewRecord(f"{offset}".encode())],
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )
    stamp(batch, base_offset=offset, leader_epoch=0)
    return bytes(batch)


def test_readers_leave_out_markers_and_what_was_aborted():
    _, end = marker("abort")
    batches = at(0) + at(1, producer=8) + at(2, transactional=False) + at(3) + at(4) + end
    aborted = AbortedBatches(
        [
            AbortedTransaction(producer_id=7, first_offset=4, last_offset=9),
            AbortedTransaction(producer_id=7, first_offset=0, last_offset=2),
        ]
    )

    def values(left_out: AbortedBatches, from_offset: int = 0) -> list[bytes | None]:
        found = read_records(batches, topic="t", partition=0, aborted=left_out, from_offset=from_offset)
        return [record.value for record in found]

    assert values(AbortedBatches()) == [b"0", b"1", b"2", b"3", b"4"]
    assert values(aborted) == [b"1", b"2", b"3"]
    assert values(aborted, from_offset=2) == [b"2", b"3"]
    kept: list[BatchHeader] = [header for header, _ in readable_batches(iter_batches(batches), aborted, from_offset=3)]
    assert [header.base_offset for header in kept] == [3]
