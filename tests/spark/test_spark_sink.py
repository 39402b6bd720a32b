"""Rows to record batches, and a task that writes them, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from fake_log import FakeLog
from pyspark.sql.types import StructType

from pyspark_raftlog.background import close_background
from pyspark_raftlog.sink import Router, SinkOptions, cut, parse_sink_options, sink_columns
from pyspark_raftlog.source import DefaultSource
from pyspark_raftlog.writer import write_rows
from raftlog.errors import ConfigError, NotFoundError
from raftlog.model import Address
from raftlog.record.batch import ATTRIBUTE_COMPRESSION, parse_header
from raftlog.record.partitioner import partition_for_key

OPTIONS = SinkOptions(bootstrap=(Address("h", 1),), topic="t")


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    close_background()


def schema(text: str) -> StructType:
    parsed = StructType()
    for item in text.split(", "):
        parsed.add(*item.split(" "))
    return parsed


def rows(**columns: list[object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def options(log: FakeLog, **given: str) -> SinkOptions:
    return parse_sink_options({"bootstrap": log.url, "timeoutMs": "5000"} | given, overwrite=False)


def test_a_topic_is_never_overwritten():
    with pytest.raises(ConfigError, match="cannot be overwritten: use mode"):
        parse_sink_options({"bootstrap": "h:1"}, overwrite=True)


def test_a_stream_that_would_overwrite_is_told_of_output_modes():
    source = DefaultSource({"bootstrap": "h:1", "topic": "t"})
    with pytest.raises(ConfigError, match=r"outputMode\('complete'\) would replace .* use 'update'"):
        source.streamWriter(schema("value string"), overwrite=True)


def test_an_unknown_option_is_answered_with_the_sinks():
    with pytest.raises(
        ConfigError, match=r"unknown option 'colour'; known options are bootstrap, dial, caFile, .*topic"
    ):
        parse_sink_options({"bootstrap": "h:1", "colour": "blue"}, overwrite=False)
    with pytest.raises(ConfigError, match=r"unknown option 'compresion' \(did you mean compression\?\)"):
        parse_sink_options({"bootstrap": "h:1", "compresion": "zstd"}, overwrite=False)


@pytest.mark.parametrize(
    ("given", "compression", "batch_bytes"),
    [
        ({}, None, 512 << 10),
        ({"compression": "none"}, None, 512 << 10),
        ({"compression.type": "ZSTD", "batch.size": "16384"}, "zstd", 16_384),
        ({"COMPRESSION": "lz4", "batchBytes": "1m"}, "lz4", 1 << 20),
    ],
)
def test_a_producers_settings_are_spelled_as_ours_or_as_kafkas(given, compression, batch_bytes):
    parsed = parse_sink_options({"bootstrap": "h:1"} | given, overwrite=False)

    assert (parsed.compression, parsed.batch_bytes) == (compression, batch_bytes)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"compression": "gzip"}, "expected none, lz4 or zstd; received 'gzip'"),
        ({"kafka.compression.type": "zstd"}, r"use .option\('compression', 'zstd'\)"),
        ({"kafka.bootstrap.servers": "h:9092"}, r"use .option\('bootstrap', 'http://HOST:PORT'\)"),
        ({"compression": "lz4", "compression.type": "zstd"}, "'compression' is set twice"),
        ({"retries": "3"}, "until timeoutMs is over; leave it out"),
        ({"path": "/data"}, "topics have no path"),
    ],
)
def test_other_settings_of_a_producer_are_answered(given, message):
    with pytest.raises(ConfigError, match=message):
        parse_sink_options({"bootstrap": "h:1"} | given, overwrite=False)


def test_rows_are_compressed_and_cut_as_the_options_say(log):
    log.create("t")
    given = {"topic": "t", "compression": "zstd", "batchBytes": "4k", "guarantee": "at-least-once"}

    write_rows(options(log, **given), {"value": "value"}, iter([rows(value=[b"x" * 1000] * 20)]))

    headers = [parse_header(batch) for batch in log.topics["t"][0].batches]
    assert len(headers) >= 5
    assert {header.attributes & ATTRIBUTE_COMPRESSION for header in headers} == {2}
    assert [record.value for record in log.records("t")] == [b"x" * 1000] * 20


def test_the_sink_takes_its_columns_by_name_and_ignores_others():
    assert sink_columns(schema("Value string, colour integer, KEY binary"), OPTIONS) == {"value": "Value", "key": "KEY"}


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ("key binary", "t", "needs a column 'value', received key"),
        ("value integer", "t", "column 'value' is int; the sink takes binary or string"),
        ("value binary", None, "no topic: set the option 'topic'"),
        ("value binary, partition long", "t", "'partition' is bigint; the sink takes int"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, topic, message):
    with pytest.raises(ConfigError, match=message):
        sink_columns(schema(columns), SinkOptions(bootstrap=(), topic=topic))


def test_rows_go_where_their_keys_say():
    router = Router({"value": "value", "key": "key"}, "t", {"t": 7})
    keys = [b"a", b"b", None, b"a", None]

    routed = {partition.partition: records for partition, records in
              router.route(rows(key=keys, value=["1", "2", "3", "4", "5"]), now_us=9)}  # fmt: skip

    by_key: dict[int, list[bytes]] = {}
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"4")):
        by_key.setdefault(partition_for_key(key, 7), []).append(value)
    for partition, values in by_key.items():
        assert [value for value in routed[partition].column("value").to_pylist() if value not in (b"3", b"5")] == values
    assert sum(records.num_rows for records in routed.values()) == 5


def test_rows_without_keys_take_turns():
    router = Router({"value": "value"}, "t", {"t": 3})

    numbers = [next(router.route(rows(value=[b"x"]), now_us=9))[0].partition for _ in range(6)]

    assert sorted(numbers) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_partition_that_does_not_exist_is_refused(partition):
    router = Router({"value": "value", "partition": "partition"}, "t", {"t": 3})
    batch = pa.record_batch([pa.array([b"x"] * 2), pa.array([0, partition], pa.int32())], ["value", "partition"])

    with pytest.raises(ConfigError, match="must hold 0 to 2 for topic 't', or null: by the key"):
        list(router.route(batch, now_us=9))


def test_a_partition_that_is_null_is_the_keys():
    """As in Kafka's sink: an INSERT that names no partition fills the column with nulls."""
    columns = {"value": "value", "key": "key", "partition": "partition"}
    batch = pa.RecordBatch.from_pydict(
        {"value": ["1", "2", "3"], "key": [b"a"] * 3, "partition": pa.array([None, None, 5], pa.int32())}
    )
    every_null = batch.slice(0, 2)

    routed = dict(Router(columns, "t", {"t": 7}).route(batch, now_us=9))
    assert sorted(partition.partition for partition in routed) == sorted({5, partition_for_key(b"a", 7)})
    (only,) = [partition.partition for partition, _ in Router(columns, "t", {"t": 7}).route(every_null, now_us=9)]
    assert only == partition_for_key(b"a", 7)


def test_rows_of_a_table_go_to_its_topics_only():
    router = Router({"value": "value", "topic": "topic"}, None, {"t": 1}, table=("t",))
    own = pa.record_batch([pa.array([b"1", b"2"]), pa.array([None, "t"], pa.string())], ["value", "topic"])
    others = pa.record_batch([pa.array([b"1"]), pa.array(["u"], pa.string())], ["value", "topic"])

    assert router.topics_of(own) == ["t"]
    assert sum(records.num_rows for _, records in router.route(own, now_us=9)) == 2
    with pytest.raises(ConfigError, match="'topic' holds 'u', and this table is of t: leave the column out"):
        router.topics_of(others)
    with pytest.raises(ConfigError, match="holds null"):
        Router({"value": "value", "topic": "topic"}, None, {}, table=("t", "u")).topics_of(own)


def test_columns_that_the_log_fills_in_are_not_thrown_away_in_silence():
    given = parse_sink_options({"bootstrap": "h:1", "subscribe": "t"}, overwrite=False)
    columns = sink_columns(schema("value string, offset long"), given)
    router = Router(columns, None, {"t": 1}, table=given.table)

    with pytest.raises(ConfigError, match="column 'offset' is filled in by the log: leave it out of INSERT"):
        router.topics_of(pa.RecordBatch.from_pydict({"value": ["1"], "offset": pa.array([7], pa.int64())}))


def test_large_batches_are_cut():
    pieces = list(cut(rows(value=[b"x" * 100] * 1000), limit_bytes=10_000))

    assert sum(piece.num_rows for piece in pieces) == 1000
    assert all(piece.nbytes <= 10_000 for piece in pieces)
    assert [piece.num_rows for piece in cut(rows(value=[b"x" * 100] * 2), limit_bytes=10)] == [1, 1]


def test_a_task_stores_each_row_once_though_answers_are_lost(log):
    log.create("t", partitions=3)
    log.lose_answers = 4
    batches = [rows(value=[b"%d-%d" % (i, n) for n in range(100)]) for i in range(5)]

    written = write_rows(options(log, topic="t"), {"value": "value"}, iter(batches))

    assert written.records == 500
    stored = [record.value for record in log.records("t")]
    assert sorted(stored) == sorted(b"%d-%d" % (i, n) for i in range(5) for n in range(100))
    assert all(record.timestamp > 0 for record in log.records("t"))


def test_rows_may_name_their_topics(log):
    log.create("a")
    log.create("b")
    batch = rows(value=[b"1", b"2", b"3"], topic=["a", "b", "a"])

    write_rows(options(log), {"value": "value", "topic": "topic"}, iter([batch]))

    assert [record.value for record in log.records("a")] == [b"1", b"3"]
    assert [record.value for record in log.records("b")] == [b"2"]


@pytest.mark.parametrize(("topics", "error"), [(["nope"], NotFoundError), ([None], ConfigError)])
def test_rows_for_no_topic_fail(log, topics, error):
    batch = pa.record_batch([pa.array([b"1"]), pa.array(topics, pa.string())], ["value", "topic"])
    with pytest.raises(error, match=r"no such topic: nope|holds null"):
        write_rows(options(log, timeoutMs="200"), {"value": "value", "topic": "topic"}, iter([batch]))


def test_nothing_to_write_is_fine(log):
    assert write_rows(options(log, topic="t"), {"value": "value"}, iter([])).records == 0


def test_columns_that_differ_in_case_only_are_refused():
    with pytest.raises(ConfigError, match="columns 'Value' and 'value' are both the 'value' of the record: drop one"):
        sink_columns(schema("Value string, value string"), OPTIONS)
    with pytest.raises(ConfigError, match="columns 'key' and 'key' are both"):
        sink_columns(schema("key string, key string, value string"), OPTIONS)


@pytest.mark.parametrize("headers", [[{"key": None, "value": b"x"}], [{"key": "k", "value": b"x"}, None]])
def test_a_header_without_a_key_is_said_to_be_the_mistake(headers):
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    frame = pa.RecordBatch.from_arrays(
        [pa.array(["a", "b"]), pa.array([None, headers], kind)], names=["value", "headers"]
    )
    router = Router({"value": "value", "headers": "headers"}, "t", {"t": 1})

    with pytest.raises(ConfigError, match="column 'headers' holds null for a header, or for its key"):
        list(router.route(frame, now_us=1))
