"""Reading a range in this process: what is asked of brokers, what comes out, what happens when they fail."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace

import pytest
from fake_log import FakeLog

from pyspark_raftlog import fetch
from pyspark_raftlog.background import background, close_background
from pyspark_raftlog.fetch import TARGET_BYTES, Chunk, FetchSize, coalesce, read_range, records_in, rows_in
from pyspark_raftlog.offsets import LogEnds, OffsetRange
from pyspark_raftlog.options import SourceOptions, parse_options
from pyspark_raftlog.pushdown import ANYTHING
from pyspark_raftlog.schema import source_schema
from raftlog.errors import (
    CorruptBatchError,
    NotFoundError,
    OffsetOutOfRangeError,
    OverloadedError,
    RetriableError,
    StaleRouteError,
)
from raftlog.model import TopicPartition
from raftlog.record import NewRecord, build_batch
from raftlog.record.batch import parse_header
from raftlog.wire import paths
from raftlog.wire.data import EpochStart

SCHEMA = source_schema(include_headers=True)
T0 = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    close_background()


@pytest.fixture
def topic(log: FakeLog) -> FakeLog:
    """One partition with 10 batches of 10 records."""
    log.create("t")
    for i in range(10):
        log.append("t", [b"%d" % n for n in range(i * 10, i * 10 + 10)])
    return log


def options(log: FakeLog, **given: str) -> SourceOptions:
    return parse_options({"bootstrap": log.url, "subscribe": "t", "timeoutMs": "5000"} | given)


def offsets_of(log: FakeLog, start: int, end: int, *, topic_id: str = "", **given: str) -> list[int]:
    batches = read_range(options(log, **given), OffsetRange("t", 0, start, end), SCHEMA, topic_id=topic_id)
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize(("start", "end"), [(0, 100), (0, 1), (99, 100), (10, 20), (15, 16), (7, 93)])
def test_exactly_the_range_is_read(topic, start, end):
    assert offsets_of(topic, start, end) == list(range(start, end))


def test_rows_without_a_filter_are_those_of_the_batch_and_no_copies():
    batch = build_batch([NewRecord(b"%d" % n) for n in range(10)])
    chunk = Chunk(0, [(parse_header(batch), memoryview(batch))])

    (plain,) = records_in(OffsetRange("t", 0, 0, 10), chunk)
    (pickled,) = records_in(OffsetRange("t", 0, 0, 10), chunk, pickle.loads(pickle.dumps(ANYTHING)))

    values = [rows.column("value").buffers()[2].address for rows in (plain, pickled)]
    assert values[0] == values[1]


def test_small_batches_are_joined(topic):
    (batch,) = read_range(options(topic), OffsetRange("t", 0, 0, 100), SCHEMA)

    assert batch.num_rows == 100
    assert batch.column("value").to_pylist() == [b"%d" % n for n in range(100)]
    assert set(batch.column("topic").to_pylist()) == {"t"}


def test_a_joined_batch_is_bounded(topic, monkeypatch):
    monkeypatch.setattr(fetch, "TARGET_ROWS", 25)

    sizes = [batch.num_rows for batch in read_range(options(topic), OffsetRange("t", 0, 0, 100), SCHEMA)]

    assert sizes == [30, 30, 30, 10]


def test_a_small_fetch_size_needs_more_fetches_for_the_same_records(topic):
    assert offsets_of(topic, 0, 100, fetchBytes="1") == list(range(100))
    assert topic.requests.count(paths.FETCH) == 10


def test_the_next_fetch_is_sized_by_the_records_seen():
    size = FetchSize(limit_bytes=8 << 20)
    assert size.for_records(1) == 64 << 10
    assert size.for_records(1_000) == 1_280_000
    assert size.for_records(10**9) == 8 << 20

    size.records, size.bytes = 1_000, 100_000
    assert size.for_records(10_000) == 1_250_000


def test_whoever_stops_early_fetches_no_more(topic, monkeypatch):
    monkeypatch.setattr(fetch, "TARGET_ROWS", 1)
    batches = read_range(options(topic, fetchBytes="1"), OffsetRange("t", 0, 0, 100), SCHEMA)

    assert next(batches).num_rows == 10
    batches.close()

    assert topic.requests.count(paths.FETCH) <= 2 + fetch.PREFETCH


@pytest.mark.parametrize(
    "failure",
    [
        StaleRouteError("the leader moved"),
        OverloadedError("too many requests"),
        RetriableError("shutting down"),
        NotFoundError("not yet here"),
    ],
)
def test_a_passing_failure_is_retried(topic, failure):
    topic.failures += [failure, failure]

    assert offsets_of(topic, 0, 100) == list(range(100))


def test_a_failure_that_stays_ends_the_read(topic):
    topic.leaderless = True

    with pytest.raises(RetriableError, match="no success within 200 ms; the last error: t-0 has no leader"):
        offsets_of(topic, 0, 100, timeoutMs="200")


def test_records_below_the_end_that_never_come_end_the_read(topic):
    topic.topics["t"][0].unreplicated = 1
    with pytest.raises(RetriableError, match="t-0: no records from offset 100 within 200 ms"):
        offsets_of(topic, 90, 101, timeoutMs="200")


def test_a_log_that_was_cut_inside_the_range_is_a_loss(topic):
    """By an unclean election: no broker refuses the offset at which the log ends now, and nothing comes there."""
    with pytest.raises(OffsetOutOfRangeError, match="t-0: offset 100 cannot be read"):
        offsets_of(topic, 90, 110, timeoutMs="1500")

    assert offsets_of(topic, 90, 110, timeoutMs="1500", failOnDataLoss="false") == list(range(90, 100))


def test_deleted_records_are_an_error_or_skipped(topic):
    topic.delete_before("t", 40)
    with pytest.raises(OffsetOutOfRangeError, match="t-0: offset 15 cannot be read"):
        offsets_of(topic, 15, 60)

    assert offsets_of(topic, 15, 60, failOnDataLoss="false") == list(range(40, 60))
    assert offsets_of(topic, 15, 30, failOnDataLoss="false") == []
    topic.delete_before("t", 45)  # Inside a batch, which a broker sends as a whole.
    assert offsets_of(topic, 15, 60, failOnDataLoss="false") == list(range(45, 60))


def test_a_few_records_count_with_the_buffer_that_they_keep():
    """Most of a read_committed range may be aborted: the rest of each fetch is kept as long as its records are."""
    batch = build_batch([NewRecord(b"%d" % n) for n in range(10)])
    sparse = Chunk(0, [(parse_header(batch), memoryview(batch))], fetched_bytes=TARGET_BYTES // 4)

    groups = list(coalesce(rows_in(OffsetRange("t", 0, 0, 10), [sparse] * 10)))

    assert [len(group) for group in groups] == [5, 5]


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("start", [60, 40, 50])
def test_a_leader_that_was_replaced_and_does_not_know_loses_nothing(topic, start: int, fails: str):
    """A cut-off broker still answers: its log ends early, and its metadata names itself. It is the first bootstrap."""
    with FakeLog() as successor:
        successor.create("t")
        successor.topic_ids["t"] = topic.topic_ids["t"]
        successor.topics["t"] = [replace(topic.topics["t"][0])]
        successor.broker_id = successor.leader_id = 2
        successor.metadata_offset, successor.others = 2, {1: topic.url}
        topic.others = {2: successor.url}
        old = topic.topics["t"][0]
        old.batches, old.high_watermark = old.batches[:5], 50

        assert offsets_of(topic, start, 100, failOnDataLoss=fails, timeoutMs="20000") == list(range(start, 100))


def test_a_broker_that_lacks_the_topic_loses_nothing(topic):
    """It is cut off from the controllers since before the topic was created, and is the first bootstrap."""
    with FakeLog() as behind:
        behind.broker_id, behind.leader_id, behind.others = 2, 1, {1: topic.url}
        topic.others, topic.metadata_offset = {2: behind.url}, 1
        given = options(behind, failOnDataLoss="false", timeoutMs="20000")
        batches = read_range(given, OffsetRange("t", 0, 0, 100), SCHEMA)

        assert sum(batch.num_rows for batch in batches) == 100


def test_a_cluster_that_was_replaced_at_its_address_is_read(topic):
    """A worker's process is reused for years: it must not refuse the new cluster for ever."""
    assert offsets_of(topic, 0, 10) == list(range(10))
    topic.cluster_id, topic.metadata_offset = "another", 0
    loop = background()
    assert set(loop.run(loop.cluster(options(topic)).topics(["t"]))) == {"t"}
    assert offsets_of(topic, 0, 10) == list(range(10))
    topic.cluster_id, topic.metadata_offset = "a third", 0
    assert loop.run(loop.cluster(options(topic)).producer_id()).producer_id > 0


def test_many_topics_are_described_by_several_requests(topic):
    """A broker takes URLs of 8 kB."""
    names = [f"a-topic-with-a-name-of-some-length-{number}" for number in range(400)]
    for name in names:
        topic.create(name)
    loop = background()
    assert set(loop.run(loop.cluster(options(topic)).topics(names))) == set(names)


def test_a_topic_created_again_is_a_loss(topic):
    planned = topic.topic_ids["t"]
    topic.create("t")
    topic.append("t", [b"new"] * 100)
    with pytest.raises(OffsetOutOfRangeError, match="deleted and recreated"):
        offsets_of(topic, 0, 100, topic_id=planned, timeoutMs="200")

    assert offsets_of(topic, 0, 100, topic_id=planned, timeoutMs="200", failOnDataLoss="false") == []


def test_a_flipped_bit_is_found(topic):
    topic.corrupt("t")
    with pytest.raises(CorruptBatchError):
        offsets_of(topic, 0, 100)

    assert offsets_of(topic, 0, 90) == list(range(90))


def test_a_broker_whose_batch_is_damaged_is_asked_to_look(topic, caplog):
    topic.corrupt("t", heals=True)
    assert offsets_of(topic, 0, 100) == list(range(100))
    assert "payload checksum" in caplog.text


def test_the_ends_of_a_log_are_asked_of_its_leader(topic):
    topic.delete_before("t", 40)
    loop = background()
    cluster = loop.cluster(options(topic))

    assert loop.run(cluster.log_ends([T0])) == {T0: LogEnds(40, 100, 0, (EpochStart(leader_epoch=0, start_offset=40),))}
    with pytest.raises(NotFoundError, match="t-7: the topic has 1 partitions"):
        loop.run(loop.cluster(options(topic, timeoutMs="200")).log_ends([T0, TopicPartition("t", 7)]))
