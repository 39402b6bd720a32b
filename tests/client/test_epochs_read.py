"""In which epoch the record before an offset was read, as far as that is known."""

from __future__ import annotations

from raftlog.client.core.epochs_read import MAX_EPOCHS, MAX_LEFT, EpochsRead
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


def test_the_topic_id_stays_until_a_record_of_the_new_topic_is_read():
    read = EpochsRead()
    assert read.topic_id(P) == ""
    read.begin(P, 5, 1, "old", is_chosen=False)
    assert read.topic_id(P) == "old", "nothing else was read before"
    read.read(P, 9, 2, "old")
    read.begin(P, 0, -1, "new", is_chosen=False)
    copy = read.copy()
    assert copy.topic_id(P) == read.topic_id(P) == "old"
    read.read(P, 1, 0, "new")
    assert (copy.topic_id(P), read.topic_id(P)) == ("old", "new")
    read.begin(P, 7, -1, "newest")
    assert read.topic_id(P) == "newest", "the application chose it"


def test_the_topic_id_outlives_the_partition_s_loss():
    read = EpochsRead()
    read.read(P, 9, 2, "old")
    read.forget(P)
    read.begin(P, 0, -1, "new", is_chosen=False)
    assert read.topic_id(P) == "old"
    read.read(P, 1, 0, "new")
    assert read.topic_id(P) == "new"
    read.forget(P)
    for number in range(1, MAX_LEFT):
        read.read(TopicPartition("u", number), 1, 0, "u")
        read.forget(TopicPartition("u", number))
    assert read.topic_id(P) == "new"
    read.read(TopicPartition("u", 0), 1, 0, "u")
    read.forget(TopicPartition("u", 0))
    assert read.topic_id(P) == "", "only so many are kept"
