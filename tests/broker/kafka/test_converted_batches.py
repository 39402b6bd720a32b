"""The batches that readers share are bounded in bytes, and a changed log never returns an old one."""

from __future__ import annotations

from raftlog.broker.kafka.converted import ConvertedBatches
from raftlog.record import BatchHeader, NewRecord, build_batch, parse_header, stamp
from raftlog.record.kafka.convert import to_kafka


def batch_at(offset: int, *, epoch: int = 0, size: int = 900) -> tuple[BatchHeader, bytes]:
    batch = build_batch([NewRecord(b"%d" % offset + bytes(size))])
    stamp(batch, base_offset=offset, leader_epoch=epoch)
    return parse_header(batch), bytes(batch)


def test_the_least_recently_used_are_dropped():
    kept = ConvertedBatches(10_000)
    batches = [batch_at(number) for number in range(20)]
    for one in batches:
        assert kept.get("id", 0, *one) == to_kafka(*one)
        kept.get("id", 0, *batches[0])
        assert kept.bytes <= 10_000
    assert (kept.misses, kept.hits) == (20, 20)
    kept.get("id", 0, *batches[0])
    kept.get("id", 0, *batches[1])
    assert (kept.misses, kept.hits) == (21, 21)


def test_a_large_batch_is_not_kept():
    kept = ConvertedBatches(10_000)
    large = batch_at(0, size=5_000)
    assert kept.get("id", 0, *large) == to_kafka(*large)
    assert kept.bytes == 0


def test_batches_of_other_logs_and_epochs_are_others():
    kept = ConvertedBatches()
    for topic_id, partition, one in (
        ("id", 0, batch_at(0)),
        ("id", 0, batch_at(0, epoch=1)),
        ("id", 1, batch_at(0)),
        ("other", 0, batch_at(0)),
        ("id", 0, batch_at(0, size=901)),
    ):
        assert kept.get(topic_id, partition, *one) == to_kafka(*one)
    assert (kept.misses, kept.hits) == (5, 0)
