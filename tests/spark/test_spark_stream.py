"""Streams through a real Spark session, against a broker in a thread."""

from __future__ import annotations

import json
import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_log import FakeLog
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyspark_raftlog.lag import LagListener, lag, readable
from raftlog.model import TopicPartition

pytestmark = pytest.mark.spark

Start = Callable[..., StreamingQuery]


class Seen:
    """What each batch of a stream held, in the driver, by batch id: a replayed batch replaces the first attempt."""

    def __init__(self) -> None:
        self.batches: dict[int, list[tuple[int, int]]] = {}
        self.fail_at: int | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        rows = [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]
        if batch_id == self.fail_at:
            raise RuntimeError(f"batch {batch_id} fails after it has read {len(rows)} rows")
        self.batches[batch_id] = rows

    @property
    def rows(self) -> list[tuple[int, int]]:
        return sorted(row for rows in self.batches.values() for row in rows)

    @property
    def sizes(self) -> list[int]:
        return [len(self.batches[batch_id]) for batch_id in sorted(self.batches)]


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def start(spark: SparkSession, log: FakeLog, seen: Seen, tmp_path: Path) -> Iterator[Start]:
    queries: list[StreamingQuery] = []

    def run(trigger: dict[str, Any] | None = None, **options: Any) -> StreamingQuery:
        given = {"bootstrap": log.url, "subscribe": "events", "startingOffsets": "earliest"} | options
        given = {name: text for name, text in given.items() if text is not None}
        frame = spark.readStream.format("raftlog").options(**given).load()
        writer = frame.writeStream.foreachBatch(seen).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(**trigger or {"availableNow": True}).start()
        queries.append(query)
        return query

    yield run
    for query in queries:
        query.stop()


@pytest.fixture
def events(log: FakeLog) -> FakeLog:
    """Two partitions of `events`: 30 and 10 records."""
    log.create("events", partitions=2)
    for _ in range(3):
        log.append("events", [b"x"] * 10, 0)
    log.append("events", [b"x"] * 10, 1)
    return log


def offsets(*counts: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, count in enumerate(counts) for offset in range(count)]


def test_available_now_reads_what_is_there_and_a_restart_only_what_is_new(events, start, seen):
    start().awaitTermination()
    assert seen.rows == offsets(30, 10)

    events.append("events", [b"y"] * 5, 1)
    start().awaitTermination()

    assert seen.rows == offsets(30, 15)
    assert seen.sizes == [40, 5]


def test_a_limit_splits_a_backlog_into_batches_in_proportion(events, start, seen):
    start(maxOffsetsPerTrigger=20).awaitTermination()

    assert seen.sizes == [20, 20]
    assert sorted(seen.batches[0]) == offsets(15, 5)
    assert seen.rows == offsets(30, 10)


def test_a_batch_that_failed_is_replayed_with_the_same_offsets(events, start, seen):
    seen.fail_at = 1
    with pytest.raises(StreamingQueryException, match="batch 1 fails"):
        start(maxOffsetsPerTrigger=20).awaitTermination()
    events.append("events", [b"y"] * 100, 0)

    seen.fail_at = None
    start(maxOffsetsPerTrigger=1000).awaitTermination()

    assert seen.sizes == [20, 20, 100]
    assert seen.rows == offsets(130, 10)


def test_a_running_stream_waits_for_records_and_takes_them_as_they_come(events, start, seen):
    query = start({"processingTime": "0 seconds"}, startingOffsets="latest")
    query.processAllAvailable()
    assert seen.rows == []

    events.append("events", [b"y"] * 7, 0)
    query.processAllAvailable()

    assert seen.rows == [(0, offset) for offset in range(30, 37)]
    end = json.loads(query.lastProgress["sources"][0]["endOffset"])
    assert end["events"] == {"0": 37, "1": 10}


def test_progress_tells_how_far_a_stream_is_behind(spark, events, start):
    heard: queue.Queue[tuple[str, dict[TopicPartition, int]]] = queue.Queue()
    listener = LagListener(lambda name, behind: heard.put((name, behind)))
    spark.streams.addListener(listener)
    try:
        query = start(maxOffsetsPerTrigger=20)
        query.awaitTermination()
        first, second = heard.get(timeout=60), heard.get(timeout=60)
    finally:
        spark.streams.removeListener(listener)

    half = {TopicPartition("events", 0): 15, TopicPartition("events", 1): 5}
    assert first == (query.id, half)
    assert set(second[1].values()) == {0}
    assert [sum(lag(progress).values()) for progress in query.recentProgress if progress["numInputRows"]] == [20, 0]


def test_a_progress_can_be_read_as_kafkas(events, start):
    query = start(maxOffsetsPerTrigger=20)
    query.awaitTermination()

    first, second = [readable(progress)["sources"][0] for progress in query.recentProgress if progress["numInputRows"]]
    assert first["description"] == "raftlog[events]"
    assert first["startOffset"] is None
    assert first["endOffset"] == second["startOffset"] == {"events": {"0": 15, "1": 5}}
    assert first["latestOffset"] == second["endOffset"] == {"events": {"0": 30, "1": 10}}
    assert first["metrics"] == {
        "avgOffsetsBehindLatest": "10.0",
        "maxOffsetsBehindLatest": "15",
        "minOffsetsBehindLatest": "5",
    }
    assert set(second["metrics"].values()) == {"0", "0.0"}


def test_what_spark_shows_of_a_python_source_is_sparks(events, start):
    """Once this fails, Spark lets a source say more: `readable` may go, docs/how-to/read-with-spark.md too."""
    query = start()
    query.awaitTermination()

    source = query.lastProgress["sources"][0]
    assert "PythonMicroBatchStream" in source["description"]
    assert not source["metrics"]


def test_the_progress_of_other_sources_stays_as_it_is():
    other = {"description": "RateStreamV2", "startOffset": 0, "endOffset": 4, "latestOffset": None}

    assert readable({"name": "q", "sources": [other]}) == {"name": "q", "sources": [other]}


def test_a_new_partition_is_read_from_its_beginning(events, start, seen):
    start().awaitTermination()
    events.add_partition("events")
    events.append("events", [b"z"] * 4, 2)
    start().awaitTermination()

    assert seen.rows == offsets(30, 10, 4)


def test_records_deleted_while_the_stream_was_down_fail_it(events, start, seen):
    start().awaitTermination()
    events.append("events", [b"y"] * 10, 0)
    events.append("events", [b"y"] * 10, 0)
    events.delete_before("events", 40, 0)
    with pytest.raises(StreamingQueryException, match=r"events-0: offset 30 cannot be read: .*failOnDataLoss"):
        start().awaitTermination()

    start(failOnDataLoss="false").awaitTermination()

    assert seen.rows == offsets(30, 10)[:30] + [(0, offset) for offset in range(40, 50)] + offsets(0, 10)


def test_a_topic_created_again_while_the_stream_was_down_fails_it(events, start, seen):
    start().awaitTermination()
    events.create("events", partitions=2)
    events.append("events", [b"n"] * 3, 0)
    with pytest.raises(StreamingQueryException, match="deleted and recreated; the stream was at offset 30"):
        start(timeoutMs=300).awaitTermination()


def test_a_log_cut_while_the_stream_was_down_fails_it_or_is_read_again_from_there(events, start, seen):
    start().awaitTermination()
    events.truncate("events", 20, 0)
    events.append("events", [b"n"] * 20, 0)  # Longer than before: by offsets alone nothing is wrong.
    with pytest.raises(StreamingQueryException, match="events-0: the log was truncated: the record before offset 30"):
        start(timeoutMs=300).awaitTermination()

    seen.fail_at = 1
    with pytest.raises(StreamingQueryException, match="batch 1 fails after it has read 20 rows"):
        start(timeoutMs=300, failOnDataLoss="false").awaitTermination()
    seen.fail_at = None
    for _ in range(2):
        start(timeoutMs=300).awaitTermination()

    assert seen.batches[1] == [(0, offset) for offset in range(20, 40)]
    assert seen.sizes == [40, 20]


def test_an_end_has_no_meaning_in_a_stream(events, start):
    with pytest.raises(StreamingQueryException, match="for batch queries only"):
        start(endingOffsets="latest").awaitTermination()


def test_an_unknown_topic_fails_the_stream(events, start):
    with pytest.raises(StreamingQueryException, match="no such topic: evnets"):
        start(subscribe="evnets", timeoutMs=300).awaitTermination()
