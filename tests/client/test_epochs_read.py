"""In which epoch the record before an offset was read, as far as that is known."""

from __future__ import annotations

from raftlog.client.core.epochs_read import MAX_EPOCHS, EpochsRead
from raftlog.model import TopicPartition

P = TopicPartition("t", 0)


def test_the_record_before_an_offset_is_of_the_epoch_that_was_read():
    read = EpochsRead()
    assert read.before(P, 5) == -1
    read.begin(P, 10, 2)
    assert [read.before(P, offset) for offset in (9, 10, 11)] == [-1, 2, -1]
    read.read(P, 15, 2)
    read.read(P, 20, 4)
    read.read(P, 25, 4)
    assert [read.before(P, offset) for offset in (10, 15, 16, 25, 26)] == [2, 2, 4, 4, -1]

    kept = read.copy()
    read.begin(P, 3, -1)
    read.read(P, 6, 4)
    assert [read.before(P, offset) for offset in (3, 4, 6, 16)] == [-1, 4, 4, -1]
    assert kept.before(P, 16) == 4
    read.forget(P)
    assert read.before(P, 6) == -1


def test_partitions_whose_leaders_change_often_are_bounded():
    read = EpochsRead()
    read.begin(P, 0, -1)
    for epoch in range(3 * MAX_EPOCHS):
        read.read(P, epoch + 1, epoch)

    assert read.before(P, 3 * MAX_EPOCHS) == 3 * MAX_EPOCHS - 1
    assert read.before(P, 5) == -1
    assert len(read.copy()._starts[P]) == MAX_EPOCHS
