"""Batch writes in `foreachBatch`: where the number of their micro-batch comes from, and what counts without one."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest
from fake_log import FakeLog
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_raftlog.source import DefaultSource
from pyspark_raftlog.writer import RaftlogWriter
from raftlog.errors import ConfigError, FencedError, InvalidRequestError

SCHEMA = StructType([StructField("value", StringType())])
NO_THREAD: Mapping[str, str] = {}
"""The properties of a task that a thread started without a micro-batch's number."""
IN_A_STREAM = {"spark.sql.streaming.internal.stateStore.partitions": "2"}
"""The same, of a task in a streaming query's session."""


class Task:
    """Spark's context of the only task of a job."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = properties

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802 -- Spark's name
        return self.properties.get(key)

    def partitionId(self) -> int:  # noqa: N802 -- Spark's name
        return 0

    attemptNumber = taskAttemptId = partitionId  # noqa: N815 -- Spark's names


def micro_batch(number: int, query: str = "query") -> Mapping[str, str]:
    """Return the properties of a task that the thread of `foreachBatch` started."""
    return {"streaming.sql.batchId": str(number), "sql.streaming.queryId": query, **IN_A_STREAM}


def source(log: FakeLog, **options: str) -> DefaultSource:
    return DefaultSource({"bootstrap": log.url, "topic": "out", **options})


@pytest.fixture
def out(log: FakeLog) -> FakeLog:
    log.create("out")
    return log


@pytest.fixture
def write(out, monkeypatch):
    """Return a function that does one batch write: its values, the properties of its task, its options."""

    def job(values: str, properties: Mapping[str, str], **options: str) -> None:
        writer = source(out, **{"transactionalId": "etl", **options}).writer(SCHEMA, overwrite=False)
        assert isinstance(writer, RaftlogWriter)
        monkeypatch.setattr(TaskContext, "get", lambda: Task(properties))
        written = writer.write(iter([pa.record_batch([pa.array(list(values))], ["value"])]))
        monkeypatch.setattr(TaskContext, "get", lambda: None)
        writer.commit([written])

    return job


def stored(log: FakeLog) -> str:
    return "".join((record.value or b"").decode() for record in log.records("out"))


def test_a_write_with_a_batch_id_counts_once_whichever_thread_repeats_it(out, write):
    write("a", NO_THREAD, batchId="0")
    write("a", micro_batch(0), batchId="0")
    write("b", micro_batch(1), batchId="1")
    write("b", NO_THREAD, batchId="1")
    assert stored(out) == "ab"


def test_a_write_that_gets_a_batch_id_when_its_micro_batch_is_repeated_counts_once(out, write):
    """The query stopped after its commit, and was started again with the option."""
    write("a", micro_batch(7))
    write("a", micro_batch(7), batchId="7")
    write("b", micro_batch(8), batchId="8")
    assert stored(out) == "ab"


def test_a_batch_id_that_is_not_the_threads_is_refused(out, write):
    """A thread that outlives its micro-batch keeps the number; so do closures."""
    with pytest.raises(ConfigError, match=r"option 'batchId' is 6, and the thread .* micro-batch 7"):
        write("a", micro_batch(7), batchId="6")
    assert stored(out) == ""


def test_a_batch_id_below_the_last_one_is_refused(out, write):
    """A query with a new checkpoint counts from 0 again: nothing of it was written, up to the last number."""
    write("a", NO_THREAD, batchId="5")
    with pytest.raises(
        ConfigError, match=r"'batchId': received 4, .* 5 was committed under 'etl/out'.*transactionalId"
    ):
        write("b", NO_THREAD, batchId="4")
    assert stored(out) == "a"


@pytest.mark.parametrize("options", [{}, {"batchId": "0"}], ids=["by-thread", "by-option"])
def test_a_write_without_a_number_does_not_make_a_micro_batch_count_again(out, write, options):
    write("a", micro_batch(0), **options)
    write("b", NO_THREAD)
    write("a", micro_batch(0), **options)
    assert stored(out) == "ab"


def test_a_write_without_a_number_commits_under_the_users_id(out):
    """A user may have the right to write only under ids with that prefix."""
    writer = source(out, transactionalId="etl").writer(SCHEMA, overwrite=False)
    assert isinstance(writer, RaftlogWriter)
    assert writer._work is not None
    assert writer._work.set_id.startswith("etl/out/")


@pytest.mark.parametrize("properties", [NO_THREAD, micro_batch(0)], ids=["thread", "foreachBatch"])
def test_an_abort_before_a_task_has_ended_leaves_nothing(out, monkeypatch, properties):
    """The driver does not know the number, which is in the messages of tasks that have ended."""
    writer = source(out, transactionalId="etl").writer(SCHEMA, overwrite=False)
    monkeypatch.setattr(TaskContext, "get", lambda: Task(properties))
    written = writer.write(iter([pa.record_batch([pa.array(["a"])], ["value"])]))
    writer.abort([None])
    with pytest.raises((FencedError, InvalidRequestError)):
        writer.commit([written])


@pytest.mark.parametrize(
    ("properties", "options", "warned"),
    [
        (IN_A_STREAM, {}, True),
        (IN_A_STREAM, {"batchId": "0"}, False),
        (micro_batch(0), {}, False),
        (NO_THREAD, {}, False),
    ],
    ids=["thread", "batchId", "foreachBatch", "batch-query"],
)
def test_a_write_in_a_stream_without_a_number_warns(out, write, caplog, properties, options, warned):
    write("a", properties, **options)
    assert [message for message in caplog.messages if "option('batchId', batch_id)" in message] == caplog.messages
    assert len(caplog.messages) == warned


@pytest.mark.parametrize("number", ["-1", "1.5", "", "true", str(2**63)])
def test_a_batch_id_is_a_whole_number(out, number):
    with pytest.raises(ConfigError, match="'batchId': expected a whole number of at least 0"):
        source(out, transactionalId="etl", batchId=number).writer(SCHEMA, overwrite=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option 'batchId' needs the option 'transactionalId'"),
        ({"guarantee": "at-least-once"}, "'batchId' has no meaning with guarantee 'at-least-once'"),
    ],
)
def test_a_batch_id_needs_a_transactional_id(out, options, message):
    with pytest.raises(ConfigError, match=message):
        source(out, batchId="0", **options).writer(SCHEMA, overwrite=False)


def test_a_stream_and_a_table_take_no_batch_id(out):
    """A table would write its first INSERT only."""
    options = {"transactionalId": "etl", "batchId": "0"}
    with pytest.raises(ConfigError, match="'batchId' is for a batch write in foreachBatch"):
        source(out, **options).streamWriter(SCHEMA, overwrite=False)
    created = {"provider": "raftlog", "owner": "me", "bootstrap": out.url, "subscribe": "out"}
    with pytest.raises(ConfigError, match="'batchId' is for a batch write in foreachBatch"):
        DefaultSource({**created, **options}).schema()
