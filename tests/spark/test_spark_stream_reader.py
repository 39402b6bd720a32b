"""The stream's positions, asked as Spark asks, without Spark."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fake_log import FIRST_TIMESTAMP_MS, FakeLog
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pyspark_raftlog import stream
from pyspark_raftlog.background import close_background
from pyspark_raftlog.checkpoint import BEGIN, TOPIC_IDS
from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.offsets import OffsetRange
from pyspark_raftlog.options import parse_options
from pyspark_raftlog.schema import source_schema
from pyspark_raftlog.stream import RaftlogStreamReader
from raftlog.errors import NotFoundError, OffsetOutOfRangeError
from raftlog.model import INTERNAL_TOPICS

ALL = ReadAllAvailable()


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    close_background()


@pytest.fixture
def topic(log: FakeLog) -> FakeLog:
    """Two partitions: 30 and 10 records."""
    log.create("t", partitions=2)
    log.append("t", [b"x"] * 30, 0)
    log.append("t", [b"x"] * 10, 1)
    return log


def reader(log: FakeLog, **given: str) -> RaftlogStreamReader:
    subscription = {} if {"subscribePattern", "assign"} & given.keys() else {"subscribe": "t"}
    options = {"bootstrap": log.url, "startingOffsets": "earliest", "timeoutMs": "5000"} | subscription | given
    return RaftlogStreamReader(parse_options(options).for_stream(), source_schema(include_headers=False))


def at(*offsets: int) -> dict[str, dict[str, int]]:
    return {"t": {str(partition): offset for partition, offset in enumerate(offsets)}}


def offsets(position: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {topic: by_partition for topic, by_partition in position.items() if topic not in (TOPIC_IDS, BEGIN)}


def test_a_stream_begins_where_it_is_told(topic):
    assert offsets(reader(topic).initialOffset()) == at(0, 0)
    assert offsets(reader(topic, startingOffsets="latest").initialOffset()) == at(30, 10)
    assert offsets(reader(topic, startingOffsets='{"t": {"0": 7, "1": -1}}').initialOffset()) == at(7, 10)
    with pytest.raises(OffsetOutOfRangeError, match=r"t-0: .* received 31"):
        reader(topic, startingOffsets='{"t": {"0": 31, "1": -1}}').initialOffset()


def test_a_stream_that_begins_at_the_end_has_one_beginning(topic):
    """Spark asks for it when it looks for records, and again when it plans them."""
    latest = reader(topic, startingOffsets="latest")
    start = latest.initialOffset()
    topic.append("t", [b"x"] * 5, 0)

    assert latest.initialOffset() == start
    assert offsets(latest.latestOffset(start, ALL)) == at(35, 10)


def test_a_first_batch_that_is_done_again_begins_where_it_began(topic):
    """Spark's checkpoint has the end of each batch: where the first one began, only its end can tell."""
    killed = reader(topic, startingOffsets="latest")
    killed.initialOffset()
    topic.append("t", [b"x"] * 5, 0)
    end = json.loads(json.dumps(killed.latestOffset(killed.initialOffset(), ALL)))
    topic.append("t", [b"x"] * 90, 0)

    again = reader(topic, startingOffsets="latest")
    (task,) = again.partitions(again.initialOffset(), end)
    assert task.ranges == (OffsetRange("t", 0, 30, 35, last_epoch=0),)
    later = again.latestOffset(end, ALL)
    assert (offsets(later), BEGIN in later) == (at(125, 10), False)
    (task,) = again.partitions(end, later)
    assert task.ranges == (OffsetRange("t", 0, 35, 125, last_epoch=0),)


@pytest.mark.parametrize("starting", ['{"t": {"0": 10, "1": -2}}', "latest"])
def test_a_stream_that_died_in_its_first_batch_begins_there_although_its_topic_grew(topic, starting):
    """Spark shows the logged end before it asks for the beginning. By the options, the new partition was missing."""
    killed = reader(topic, startingOffsets=starting)
    begin = killed.initialOffset()
    topic.append("t", [b"x"] * 5, 0)
    end = json.loads(json.dumps(killed.latestOffset(begin, ALL)))
    topic.add_partition("t")
    topic.append("t", [b"x"] * 5, 2)

    again = reader(topic, startingOffsets=starting)
    assert again.partitions(end, end) == []
    assert again.initialOffset() == begin
    assert again.partitions(again.initialOffset(), end) == killed.partitions(begin, end)
    assert offsets(again.latestOffset(end, ALL)) == {"t": {"0": 35, "1": 10, "2": 5}}


def test_a_stream_that_waits_after_its_first_batch_reads_it_no_more(topic, monkeypatch):
    monkeypatch.setattr(stream, "IDLE_WAIT_MS", 10)
    waiting = reader(topic)
    end = waiting.latestOffset(waiting.initialOffset(), ALL)

    assert waiting.latestOffset(end, ALL) == end
    assert waiting.partitions(end, end) == []


def test_the_engine_may_lift_the_limit(topic):
    limited = reader(topic, maxOffsetsPerTrigger="8")

    assert limited.getDefaultReadLimit() == ReadMaxRows(8)
    assert reader(topic).getDefaultReadLimit() == ALL
    assert offsets(limited.latestOffset(at(0, 0), ReadMaxRows(8))) == at(6, 2)
    assert offsets(limited.latestOffset(at(0, 0), ALL)) == at(30, 10)
    assert limited.reportLatestOffset() == at(30, 10)


def test_an_idle_stream_waits_for_a_record_and_no_longer(topic, monkeypatch):
    monkeypatch.setattr(stream, "IDLE_WAIT_MS", 60_000)
    idle = reader(topic)
    threading.Timer(0.1, topic.append, ("t", [b"news"], 1)).start()
    begun = time.monotonic()

    assert offsets(idle.latestOffset(at(30, 10), ALL)) == at(30, 11)
    assert time.monotonic() - begun < 20


def test_an_idle_stream_comes_back_unchanged(topic, monkeypatch):
    monkeypatch.setattr(stream, "IDLE_WAIT_MS", 50)

    assert offsets(reader(topic).latestOffset(at(30, 10), ALL)) == at(30, 10)


def test_a_pattern_may_match_nothing_yet(topic, monkeypatch):
    monkeypatch.setattr(stream, "IDLE_WAIT_MS", 10)
    waiting = reader(topic, subscribePattern="u.*")
    assert offsets(waiting.initialOffset()) == {}
    assert offsets(waiting.latestOffset({}, ALL)) == {}

    topic.create("u1")
    topic.append("u1", [b"x"] * 3)
    assert offsets(waiting.latestOffset({}, ALL)) == {"u1": {"0": 3}}


def test_a_pattern_matches_no_internal_topics(topic, monkeypatch):
    """Each exactly-once micro-batch would write records there for the next."""
    monkeypatch.setattr(stream, "SETTLE_MS", 0)
    for name in INTERNAL_TOPICS:
        topic.create(name)
        topic.append(name, [b"x"] * 3)
    everything = reader(topic, subscribePattern=".*")

    assert offsets(everything.initialOffset()) == at(0, 0)
    assert offsets(reader(topic, subscribe="__transaction_state").initialOffset()) == {"__transaction_state": {"0": 0}}
    # A checkpoint of a version that read them goes on without.
    assert offsets(everything.latestOffset(at(0, 0) | {"__transaction_state": {"0": 2}}, ALL)) == at(30, 10)


def test_available_now_ends_where_the_log_ended_when_it_began(topic):
    bounded = reader(topic, maxOffsetsPerTrigger="20")
    bounded.prepareForTriggerAvailableNow()

    assert offsets(bounded.latestOffset(at(0, 0), ReadMaxRows(20))) == at(15, 5)
    topic.append("t", [b"late"] * 100, 0)
    topic.add_partition("t")
    topic.append("t", [b"late"] * 100, 2)

    assert offsets(bounded.latestOffset(at(15, 5), ReadMaxRows(20))) == at(30, 10)
    assert offsets(bounded.latestOffset(at(30, 10), ReadMaxRows(20))) == at(30, 10)


def test_planning_the_same_positions_again_asks_nobody(topic):
    first = reader(topic, maxRecordsPerPartition="16")
    first.latestOffset(at(0, 0), ALL)
    topic.requests.clear()

    tasks = [part.ranges for part in first.partitions(at(0, 0), at(30, 10))]

    assert [(item.partition, item.start, item.end) for task in tasks for item in task] == [
        (0, 0, 15),
        (0, 15, 30),
        (1, 0, 10),
    ]
    assert [
        part.ranges for part in reader(topic, maxRecordsPerPartition="16").partitions(at(0, 0), at(30, 10))
    ] == tasks
    assert topic.requests == []
    assert first.partitions(at(30, 10), at(30, 10)) == []


def test_a_leader_that_is_behind_for_a_moment_is_no_loss(topic):
    partition = topic.topics["t"][0]
    partition.high_watermark = 5
    timer = threading.Timer(0.3, setattr, (partition, "high_watermark", 30))
    timer.start()

    assert offsets(reader(topic).latestOffset(at(29, 10), ALL)) == at(30, 10)


def test_a_log_that_stays_shorter_is_a_loss(topic):
    with pytest.raises(OffsetOutOfRangeError, match="t-0: the stream is at offset 99, the log ends at 30"):
        reader(topic, timeoutMs="200").latestOffset(at(99, 10), ALL)

    assert offsets(reader(topic, timeoutMs="200", failOnDataLoss="false").latestOffset(at(99, 10), ALL)) == at(30, 10)


def test_a_partition_that_went_away_is_a_loss(topic):
    with pytest.raises(OffsetOutOfRangeError, match="t-2: the partition no longer exists"):
        reader(topic, timeoutMs="200").latestOffset(at(0, 0, 5), ALL)

    assert offsets(reader(topic, timeoutMs="200", failOnDataLoss="false").latestOffset(at(0, 0, 5), ALL)) == at(30, 10)


def test_a_stream_stops_before_an_open_transaction_and_waits_for_its_end(topic, monkeypatch):
    monkeypatch.setattr(stream, "IDLE_WAIT_MS", 200)
    topic.topics["t"][0].open_from = 20
    committed = reader(topic)

    assert offsets(reader(topic, isolation="read_uncommitted").latestOffset(at(0, 0), ALL)) == at(30, 10)
    assert offsets(committed.latestOffset(at(0, 0), ALL)) == at(20, 10)
    topic.requests.clear()
    begun = time.monotonic()
    assert offsets(committed.latestOffset(at(20, 10), ALL)) == at(20, 10)
    assert time.monotonic() - begun >= 0.2, "records that nobody may read must not end the wait"
    assert len(topic.requests) < 12

    topic.topics["t"][0].open_from = None
    assert offsets(committed.latestOffset(at(20, 10), ALL)) == at(30, 10)


def test_a_stream_that_has_read_what_is_undecided_is_not_at_a_loss(topic, monkeypatch):
    monkeypatch.setattr(stream, "IDLE_WAIT_MS", 10)
    topic.topics["t"][0].open_from = 20

    assert offsets(reader(topic).latestOffset(at(25, 9), ALL)) == at(25, 10)
    assert offsets(reader(topic, startingOffsets='{"t": {"0": 25, "1": 0}}').initialOffset()) == at(25, 0)
    with pytest.raises(OffsetOutOfRangeError, match="t-0: the stream is at offset 31, the log ends at 20"):
        reader(topic, timeoutMs="200").latestOffset(at(31, 9), ALL)


def test_a_batch_that_would_be_too_small_is_held_back(topic, monkeypatch):
    monkeypatch.setattr(stream, "IDLE_WAIT_MS", 10)
    patient = reader(topic, minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    limit = patient.getDefaultReadLimit()
    assert offsets(patient.latestOffset(at(0, 0), limit)) == at(30, 10)

    topic.append("t", [b"x"] * 9, 1)
    assert offsets(patient.latestOffset(at(30, 10), limit)) == at(30, 10)
    assert offsets(patient.latestOffset(at(30, 10), ALL)) == at(30, 19), "the engine may lift the limit"
    topic.append("t", [b"x"], 0)
    assert offsets(patient.latestOffset(at(30, 10), limit)) == at(31, 19)


def test_a_held_back_batch_goes_as_soon_as_it_is_large_enough(topic, monkeypatch):
    monkeypatch.setattr(stream, "IDLE_WAIT_MS", 60_000)
    patient = reader(topic, minOffsetsPerTrigger="10", maxTriggerDelay="1h")
    limit = patient.getDefaultReadLimit()
    patient.latestOffset(at(0, 0), limit)
    topic.append("t", [b"x"] * 5, 1)
    threading.Timer(0.1, topic.append, ("t", [b"x"] * 5, 1)).start()
    begun = time.monotonic()

    assert offsets(patient.latestOffset(at(30, 10), limit)) == at(30, 20)
    assert time.monotonic() - begun < 20


def test_an_available_now_run_holds_nothing_back(topic):
    patient = reader(topic, minOffsetsPerTrigger="1000", maxTriggerDelay="1h")
    patient.prepareForTriggerAvailableNow()

    assert offsets(patient.latestOffset(at(30, 9), patient.getDefaultReadLimit())) == at(30, 10)


def test_bytes_are_limited_by_what_the_backlog_begins_with(topic):
    topic.create("big")
    for _ in range(20):
        topic.append("big", [bytes(10_000)] * 10)
    limited = reader(topic, subscribe="big", maxBytesPerTrigger="500k")
    limit = limited.getDefaultReadLimit()

    end = limited.latestOffset({"big": {"0": 0}}, limit)["big"]["0"]

    assert 45 <= end <= 51
    assert limited.latestOffset({"big": {"0": end}}, limit)["big"]["0"] == 2 * end
    assert offsets(reader(topic, subscribe="big", maxBytesPerTrigger="1").latestOffset({"big": {"0": 7}}, limit)) == {
        "big": {"0": 8}
    }


def test_limits_count_only_records_that_exist(topic):
    """Retention has deleted what a stream had not read: it does not make hundreds of empty micro-batches of that."""
    topic.delete_before("t", 25, 0)
    limited = reader(topic, timeoutMs="200", failOnDataLoss="false", maxOffsetsPerTrigger="5")
    assert offsets(limited.latestOffset(at(2, 10), ReadMaxRows(5))) == at(30, 10)

    held = {"minOffsetsPerTrigger": "20", "maxTriggerDelay": "60s", "failOnDataLoss": "false"}
    patient = reader(topic, **held)
    limit = patient.getDefaultReadLimit()
    first = patient.latestOffset(at(24, 10), limit)
    topic.append("t", [b"x"] * 100, 0)
    topic.delete_before("t", 125, 0)
    assert patient.latestOffset(first, limit) == first


def test_a_stream_begins_at_a_record_that_is_newer_than_the_end_it_asked_for(topic, monkeypatch):
    found = Cluster.first_offsets_at

    async def append_first(*args: Any) -> Any:
        topic.append("t", [b"x"] * 2, 0)
        return await found(*args)

    monkeypatch.setattr(Cluster, "first_offsets_at", append_first)
    since = str(FIRST_TIMESTAMP_MS + 31_000)
    given = {"startingTimestamp": since, "startingOffsetsByTimestampStrategy": "latest"}

    assert offsets(reader(topic, **given).initialOffset()) == at(31, 10)


def test_a_broker_that_lacks_the_topic_loses_nothing(topic):
    """It is cut off, and is the first bootstrap: the stream would begin the topic again when it sees it again."""
    with FakeLog() as behind:
        behind.broker_id, behind.leader_id, behind.others = 2, 1, {1: topic.url}
        topic.others, topic.metadata_offset = {2: behind.url}, 1
        tolerant = reader(behind, failOnDataLoss="false")

        assert offsets(tolerant.latestOffset(at(30, 9), ALL)) == at(30, 10)


def test_a_topic_that_was_recreated_is_a_loss_between_runs_and_while_running(topic):
    position = reader(topic).latestOffset(reader(topic).initialOffset(), ALL)
    running = reader(topic, timeoutMs="200")
    assert running.latestOffset(position, ALL) == position
    topic.create("t", partitions=2)
    topic.append("t", [b"new"] * 40, 0)  # More than there were: by offsets alone nothing is wrong.
    topic.append("t", [b"new"] * 12, 1)

    for again in (running, reader(topic, timeoutMs="200")):
        with pytest.raises(OffsetOutOfRangeError, match="t-0: the topic was deleted and recreated; the stream was at"):
            again.latestOffset(position, ALL)

    tolerant = reader(topic, timeoutMs="200", failOnDataLoss="false")
    end = tolerant.latestOffset(position, ALL)
    assert offsets(end) == at(40, 12)
    tasks = tolerant.partitions(position, end)
    assert [(item.partition, item.start, item.end) for task in tasks for item in task.ranges] == [
        (0, 0, 40),
        (1, 0, 12),
    ]
    assert tolerant.latestOffset(end, ALL) == end


def test_an_available_now_run_ends_where_a_topic_ends_that_was_recreated_meanwhile(topic):
    """Not at the offset where the one before ended: the new one may never have so many records."""
    bounded = reader(topic, timeoutMs="200", failOnDataLoss="false", maxOffsetsPerTrigger="20")
    bounded.prepareForTriggerAvailableNow()
    first = bounded.latestOffset(bounded.initialOffset(), ReadMaxRows(20))
    topic.create("t", partitions=2)
    topic.append("t", [b"new"] * 3, 0)

    second = bounded.latestOffset(first, ReadMaxRows(20))
    assert offsets(second) == at(3, 0)
    topic.append("t", [b"late"] * 3, 0)
    assert bounded.latestOffset(second, ReadMaxRows(20)) == second


@pytest.mark.parametrize("subscription", [{"subscribe": "t,other"}, {"assign": '{"t": [0, 1], "other": [0]}'}])
def test_a_stream_goes_on_without_a_topic_that_was_deleted_if_losses_are_allowed(topic, subscription):
    topic.create("other")
    topic.append("other", [b"kept"] * 3)
    given = {**subscription, "timeoutMs": "200"}
    begin = reader(topic, **given).initialOffset()
    position = reader(topic, **given).latestOffset(begin, ALL)
    assert offsets(position) == at(30, 10) | {"other": {"0": 3}}
    del topic.topics["t"], topic.topic_ids["t"]
    topic.append("other", [b"new"] * 2)

    with pytest.raises(NotFoundError, match="no such topic: t "):
        reader(topic, **given).latestOffset(position, ALL)

    tolerant = reader(topic, **given, failOnDataLoss="false")
    end = tolerant.latestOffset(position, ALL)
    assert offsets(end) == {"other": {"0": 5}}
    assert [item.topic for task in tolerant.partitions(position, end) for item in task.ranges] == ["other"]
    for planned in tolerant.partitions(begin, position):  # A batch that the restarted query does again.
        rows = sum(batch.num_rows for batch in tolerant.read(planned))
        assert rows == sum(item.end - item.start for item in planned.ranges if item.topic == "other")
    assert offsets(tolerant.latestOffset(end, ALL)) == {"other": {"0": 5}}
    with pytest.raises(NotFoundError, match="no such topic: t "):
        reader(topic, **given, failOnDataLoss="false").initialOffset()  # Nothing was read of it: a wrong name.


def test_a_batch_that_is_planned_again_is_of_the_topic_it_was_planned_for(topic):
    begin = reader(topic).initialOffset()
    end = reader(topic).latestOffset(begin, ALL)
    topic.create("t", partitions=2)
    topic.append("t", [b"new"] * 40, 0)

    (first, _) = reader(topic).partitions(begin, end)

    with pytest.raises(OffsetOutOfRangeError, match="t-0"):
        list(reader(topic, timeoutMs="300").read(first))


def test_checkpoints_without_ids_of_topics_go_on(topic):
    end = reader(topic).latestOffset(at(5, 5), ALL)

    assert offsets(end) == at(30, 10)
    assert [part.ranges[0].start for part in reader(topic).partitions(at(5, 5), end)] == [5, 5]
    assert [part.topic_ids["t"] for part in reader(topic).partitions(at(5, 5), at(30, 10))] == ["", ""]


def test_a_broker_that_names_an_older_topic_for_a_moment_is_no_loss(topic):
    older = dict(topic.topic_ids)
    topic.create("t", partitions=2)
    topic.append("t", [b"new"] * 5, 0)
    position = reader(topic).latestOffset(reader(topic).initialOffset(), ALL)
    newer, topic.topic_ids = dict(topic.topic_ids), older
    threading.Timer(0.3, setattr, (topic, "topic_ids", newer)).start()

    assert reader(topic).latestOffset(position, ALL) == position
