"""Writes through a real Spark session, against a broker in a thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException

from pyspark_raftlog.commits import is_in_stream

pytestmark = pytest.mark.spark


def test_a_frame_is_appended_to_a_topic(spark, log):
    log.create("out", partitions=3)
    frame = spark.range(1000).selectExpr(
        "cast(id % 10 as string) key",
        "cast(id as string) value",
        "array(named_struct('key', 'n', 'value', cast('1' as binary))) headers",
    )

    frame.write.format("raftlog").option("bootstrap", log.url).option("topic", "out").mode("append").save()

    records = log.records("out")
    assert sorted(int(record.value) for record in records) == list(range(1000))
    assert {record.headers for record in records} == {(("n", b"1"),)}
    homes = {(record.key, record.partition) for record in records}
    assert len(homes) == 10


def test_what_was_written_is_read_back(spark, log):
    log.create("out", partitions=2)
    frame = spark.createDataFrame([(None, b"a"), (b"k", b"b")], "key binary, value binary")
    frame.write.format("raftlog").options(bootstrap=log.url, topic="out").mode("append").save()

    back = spark.read.format("raftlog").options(bootstrap=log.url, subscribe="out").load()

    assert {(row.key, row.value) for row in back.collect()} == {(None, b"a"), (b"k", b"b")}


def test_a_stream_is_copied_to_a_topic(spark, log, tmp_path):
    log.create("in", partitions=2)
    log.create("out")
    log.append("in", [b"%d" % n for n in range(50)], 1)
    source = spark.readStream.format("raftlog").options(bootstrap=log.url, subscribe="in", startingOffsets="earliest")

    query = (
        source.schema("value binary").load().writeStream.format("raftlog").options(bootstrap=log.url, topic="out")
        .option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()

    assert [record.value for record in log.records("out")] == [b"%d" % n for n in range(50)]


def test_a_write_in_foreach_batch_is_one_with_its_micro_batch(spark, log, tmp_path):
    """Each micro-batch is done twice, as after a driver's death."""
    log.create("in")
    log.create("out")
    log.append("in", [b"%d" % n for n in range(30)])
    source = spark.readStream.format("raftlog").options(
        bootstrap=log.url, subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger=10
    )

    def twice(frame, _):
        for _ in range(2):
            sink = frame.select("value").write.format("raftlog").options(bootstrap=log.url, topic="out")
            sink.option("transactionalId", "mine").mode("append").save()

    query = source.load().writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()

    assert [record.value for record in log.records("out")] == [b"%d" % n for n in range(30)]


def test_a_write_of_another_thread_in_foreach_batch_is_one_with_the_batch_id_that_it_states(spark, log, tmp_path):
    """Each micro-batch is written three times, and between them a write without a number commits under the same id.

    Spark passes the number of a micro-batch to no other thread. Its frames have a session that is a stream's.
    """
    log.create("in")
    log.create("out")
    log.append("in", [b"%d" % n for n in range(20)])
    source = spark.readStream.format("raftlog").options(
        bootstrap=log.url, subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger=10
    )

    def save(frame, **options):
        sink = frame.write.format("raftlog").options(bootstrap=log.url, topic="out", transactionalId="mine", **options)
        sink.mode("append").save()

    def tell_session(batches):
        for _ in batches:
            yield pa.record_batch([pa.array([str(is_in_stream())])], ["value"])

    def each(frame, batch_id):
        rows = frame.select("value").coalesce(1)
        # Spark looks for Python's data sources in a thread's active session, which this sets.
        activate = frame.sparkSession.createDataFrame
        with ThreadPoolExecutor(1, initializer=activate, initargs=([], "nothing int")) as another_thread:
            another_thread.submit(save, rows, batchId=batch_id).result()
            another_thread.submit(save, rows.mapInArrow(tell_session, "value string")).result()
            another_thread.submit(save, rows, batchId=batch_id).result()
        save(rows, batchId=batch_id)

    query = source.load().writeStream.foreachBatch(each).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()

    numbers = [b"%d" % n for n in range(20)]
    assert [record.value for record in log.records("out")] == [*numbers[:10], b"True", *numbers[10:], b"True"]


@pytest.mark.parametrize("option", ["topic", "subscribe"], ids=["topics", "tables"])
def test_writes_to_two_topics_in_foreach_batch_may_have_one_transactional_id(spark, log, tmp_path, option):
    """Each micro-batch is done twice, as after a driver's death; the second topic had nothing, without a word."""
    log.create("in")
    log.append("in", [b"%d" % n for n in range(30)])
    for topic in ("left", "right"):
        log.create(topic)
    source = spark.readStream.format("raftlog").options(
        bootstrap=log.url, subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger=10
    )

    def both(frame, _):
        for topic in ("left", "right") * 2:
            sink = frame.select("value").write.format("raftlog").options(bootstrap=log.url).option(option, topic)
            sink.option("transactionalId", "mine").mode("append").save()

    query = source.load().writeStream.foreachBatch(both).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()

    for topic in ("left", "right"):
        assert [record.value for record in log.records(topic)] == [b"%d" % n for n in range(30)]


def test_mistakes_say_what_to_do(spark, log):
    log.create("out")
    writer = spark.range(1).selectExpr("cast(id as string) value").write.format("raftlog").option("bootstrap", log.url)

    with pytest.raises(AnalysisException, match="no topic: set the option 'topic'"):
        writer.mode("append").save()
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        writer.option("topic", "out").mode("overwrite").save()
    with pytest.raises(PySparkException, match="no such topic: tuo"):
        writer.option("topic", "tuo").option("timeoutMs", "200").mode("append").save()
