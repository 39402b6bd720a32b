"""Traces in Spark's tasks: from the driver's span to requests and records, with and without OpenTelemetry there."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from fake_log import FakeLog
from span_support import Traces, traced

from pyspark_raftlog.background import close_background
from pyspark_raftlog.offsets import OffsetRange
from pyspark_raftlog.options import parse_options
from pyspark_raftlog.reader import RangePartition, read_task
from pyspark_raftlog.schema import source_schema
from pyspark_raftlog.sink import parse_sink_options
from pyspark_raftlog.writer import write_rows
from raftlog.errors import ConfigError
from raftlog.tracing import current_traceparent

DRIVER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def log() -> Iterator[FakeLog]:
    with FakeLog() as made:
        made.create("t")
        yield made
    close_background()


@pytest.fixture
def traces() -> Iterator[Traces]:
    with traced() as found:
        yield found


def write(log: FakeLog, traceparent: str, **columns: list[object]) -> None:
    given = {"bootstrap": log.url, "timeoutMs": "5000", "topic": "t", "traceparent": traceparent}
    rows = pa.RecordBatch.from_pydict({"value": [b"1", b"2"]} | columns)
    write_rows(parse_sink_options(given, overwrite=False), {name: name for name in rows.schema.names}, iter([rows]))


def test_without_opentelemetry_requests_and_records_carry_the_drivers_span(log: FakeLog):
    write(log, DRIVER)
    assert [record.headers for record in log.records("t")] == [(("traceparent", DRIVER.encode()),)] * 2
    assert log.traceparents == [DRIVER]


def test_a_task_has_a_span_below_the_drivers(log: FakeLog, traces: Traces):
    write(log, DRIVER)
    (span,) = traces.named("send")
    assert span.parent is not None
    assert (span.name, f"{span.parent.span_id:016x}") == ("send t", DRIVER[36:52])
    assert (span.attributes or {})["messaging.batch.message_count"] == 2
    assert log.traceparents == [f"{DRIVER[:36]}{span.get_span_context().span_id:016x}{log.traceparents[0][52:]}"]
    assert {record.headers[0][1] for record in log.records("t")} == {log.traceparents[0].encode()}


def test_headers_of_a_frame_stay(log: FakeLog):
    headers = pa.array([[("own", b"x")], None], pa.map_(pa.string(), pa.binary()))
    kind = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
    entries = [[{"key": key, "value": value} for key, value in row or ()] for row in headers.to_pylist()]
    write(log, DRIVER, headers=pa.array(entries, kind))
    assert [record.headers for record in log.records("t")] == [(("own", b"x"),), ()]


def test_without_a_span_of_the_driver_there_is_nothing(log: FakeLog):
    assert current_traceparent() == ""
    write(log, current_traceparent())
    assert [record.headers for record in log.records("t")] == [(), ()]
    assert log.traceparents == [""]


@pytest.mark.parametrize("wrong", ["x", DRIVER[:-1], DRIVER.replace("4bf9", "4BF9"), "00-é"])
def test_an_option_that_is_no_context_is_refused(wrong: str):
    with pytest.raises(ConfigError, match="traceparent"):
        parse_sink_options({"bootstrap": "h:1", "traceparent": wrong}, overwrite=False)
    with pytest.raises(ConfigError, match="traceparent"):
        parse_options({"bootstrap": "h:1", "subscribe": "t", "traceparent": wrong})


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_task_that_reads_has_a_span_which_ends_also_if_spark_stops_early(
    log: FakeLog, traces: Traces, is_stopped: bool
):
    log.append("t", [b"1", b"2", b"3"])
    given = {"bootstrap": log.url, "subscribe": "t", "timeoutMs": "5000", "traceparent": DRIVER}
    options = parse_options(given)
    reading = read_task(options, RangePartition((OffsetRange("t", 0, 0, 3),)), source_schema(include_headers=False))
    assert next(reading).num_rows == 3
    if is_stopped:
        reading.close()
    else:
        assert list(reading) == []
    (span,) = traces.named("fetch")
    assert (span.name, span.status.is_ok or span.status.is_unset) == ("fetch t", True)
    assert (span.attributes or {}).get("messaging.batch.message_count") == (None if is_stopped else 3)


def test_a_task_that_fails_has_a_failed_span(log: FakeLog, traces: Traces):
    with pytest.raises(ConfigError):
        write(log, DRIVER, partition=[7, 7])
    (span,) = traces.named("send")
    assert (span.attributes or {})["error.type"] == "INVALID_CONFIG"
