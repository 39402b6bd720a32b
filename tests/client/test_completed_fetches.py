"""Decoding what was fetched piece by piece: nothing unchecked, nothing twice, nothing left out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.client import completed_fetch as decoding
from raftlog.client.completed_fetch import CompletedFetch
from raftlog.errors import CorruptBatchError
from raftlog.model import AbortedTransaction, TopicPartition
from raftlog.record import AbortedBatches, NewRecord, build_batch, iter_batches, stamp

P0 = TopicPartition("t", 0)


def batch(base_offset: int, count: int, *, epoch: int = 0, **fields: int) -> bytes:
    built = build_batch([NewRecord(b"%d" % (base_offset + n), timestamp=1) for n in range(count)], **fields)  # type: ignore[arg-type]
    stamp(built, base_offset=base_offset, leader_epoch=epoch)
    return bytes(built)


def chunk(*batches: bytes, position: int = 0, aborted: AbortedBatches | None = None) -> CompletedFetch:
    data = b"".join(batches)
    return CompletedFetch(P0, list(iter_batches(data)), position, aborted or AbortedBatches())


def offsets(found: CompletedFetch, count: int) -> list[int]:
    records = found.take(count)
    assert [record.value for record in records] == [b"%d" % record.offset for record in records]
    return [record.offset for record in records]


def test_pieces_go_over_the_ends_of_batches():
    found = chunk(batch(0, 3), batch(3, 4), batch(7, 2), position=1)
    pieces = []
    while not found.is_read:
        pieces.append(offsets(found, 3))
        assert found.position == pieces[-1][-1] + 1

    assert pieces == [[1, 2, 3], [4, 5, 6], [7, 8]]
    assert found.take(3) == []


@given(
    sizes=st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.integers(0, 1)), min_size=1, max_size=20),
    pieces=st.lists(st.integers(1, 7), min_size=1, max_size=5),
    skip=st.integers(0, 2),
    tables=st.booleans(),
)
@settings(deadline=None, max_examples=300)
def test_short_batches_are_read_as_others(
    sizes: list[tuple[int, bool, int]], pieces: list[int], skip: int, tables: bool
):
    def read(*, short: bool) -> list[object]:
        batches, at, epoch = [], 0, 0
        for count, may_be_short, more in sizes:
            epoch += more
            batches.append(batch(at, count, epoch=epoch, short=short and may_be_short))
            at += count
        found, said = chunk(*batches, position=min(skip, sizes[0][0] - 1)), list[object]()
        for number in range(2 * at):
            if found.is_read:
                break
            if tables and number % 2:
                rows = found.arrow()
                said.append(None if rows is None else rows.to_pylist())
            else:
                said.append(offsets(found, pieces[number % len(pieces)]))
            said.append((found.position, found.leader_epoch))
        assert found.is_read
        return said

    assert read(short=True) == read(short=False)


def test_a_damaged_short_batch_leaves_the_position_before_it():
    damaged = bytearray(batch(1, 1, short=True))
    damaged[64] ^= 1
    found = chunk(batch(0, 1, short=True), bytes(damaged))
    assert offsets(found, 9) == [0]
    for _ in range(2):
        with pytest.raises(CorruptBatchError, match="payload checksum"):
            found.take(9)
    assert (found.position, found.is_read) == (1, False)


def test_a_piece_ends_where_another_leader_epoch_begins():
    found = chunk(batch(0, 2, epoch=4), batch(2, 2, epoch=6))
    told = []
    while not found.is_read:
        told.append((offsets(found, 1 if not told else 9), found.leader_epoch))

    assert told == [([0], 4), ([1], 4), ([2, 3], 6)]


def test_what_comes_before_a_damaged_batch_is_returned_first():
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 1
    found = chunk(batch(0, 2), bytes(damaged))

    assert offsets(found, 9) == [0, 1]
    for _ in range(2):
        with pytest.raises(CorruptBatchError, match="payload checksum"):
            found.take(9)
    assert (found.position, found.is_read) == (2, False)


def test_a_damaged_batch_leaves_a_table_where_it_was():
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 1
    found = chunk(batch(0, 2), bytes(damaged))

    with pytest.raises(CorruptBatchError, match="payload checksum"):
        found.arrow()
    assert found.position == 0


def test_what_was_aborted_is_passed_over_even_at_the_end():
    producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    aborted = AbortedBatches([AbortedTransaction(producer_id=7, first_offset=2, last_offset=3)])
    found = chunk(batch(0, 2), batch(2, 2, epoch=1, **producer), aborted=aborted)

    assert offsets(found, 9) == [0, 1]
    assert (found.is_read, found.position, found.leader_epoch) == (True, 4, 1)
    nothing = chunk(batch(2, 2, **producer), position=2, aborted=aborted)
    assert nothing.take(5) == []
    assert nothing.is_read


def test_the_rest_of_a_piece_is_a_table():
    found = chunk(batch(0, 3), batch(3, 2))
    assert offsets(found, 2) == [0, 1]

    rows = found.arrow()
    assert rows is not None
    assert rows.column("offset").to_pylist() == [2, 3, 4]
    assert found.is_read
    assert found.arrow() is None


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return three batches of two records that unpack to 2 MB each, of which 3 MB are unpacked at once."""
    monkeypatch.setattr(decoding, "MOST_UNPACKED_BYTES", 3_000_000)
    made = []
    for first in (0, 2, 4):
        built = build_batch([NewRecord(bytes(1_000_000), timestamp=1)] * 2, compression="zstd")
        stamp(built, base_offset=first, leader_epoch=first)
        made.append(bytes(built))
    return made


def test_small_batches_that_unpack_to_large_ones_are_unpacked_a_few_at_a_time(packed: list[bytes]):
    found = chunk(*packed)
    pieces = []
    while not found.is_read:
        rows = found.arrow()
        assert rows is not None
        pieces.append((rows.column("offset").to_pylist(), found.position, found.leader_epoch))

    assert pieces == [([0, 1], 2, 0), ([2, 3], 4, 2), ([4, 5], 6, 4)]
    assert found.arrow() is None


def test_no_more_records_are_made_of_them_than_fit(packed: list[bytes]):
    same_epoch = []
    for data in packed:
        built = bytearray(data)
        stamp(built, base_offset=len(same_epoch) * 2, leader_epoch=7)
        same_epoch.append(bytes(built))
    found = chunk(*same_epoch)
    pieces = []
    while not found.is_read:
        pieces.append([record.offset for record in found.take(500)])

    assert pieces == [[0, 1, 2, 3], [4, 5]]
