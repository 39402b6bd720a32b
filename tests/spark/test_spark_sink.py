"""Rows to record batches, and a task that writes them, without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from fake_log import FakeLog
from pyspark.sql.types import StructType

from pyspark_raftlog.background import close_background
from pyspark_raftlog.sink import Router, SinkOptions, cut, parse_sink_options, sink_columns
from pyspark_raftlog.writer import write_rows
from raftlog.errors import ConfigError, NotFoundError
from raftlog.model import Address
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
    with pytest.raises(ConfigError, match="unknown option 'subscribe'; known options are bootstrap, dial, topic"):
        parse_sink_options({"bootstrap": "h:1", "subscribe": "t"}, overwrite=False)


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


@pytest.mark.parametrize("partition", [-1, 3, None])
def test_a_partition_that_does_not_exist_is_refused(partition):
    router = Router({"value": "value", "partition": "partition"}, "t", {"t": 3})
    batch = pa.record_batch([pa.array([b"x"] * 2), pa.array([0, partition], pa.int32())], ["value", "partition"])

    with pytest.raises(ConfigError, match="must hold 0 to 2 for topic 't', without nulls"):
        list(router.route(batch, now_us=9))


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
