"""The sink's commits: stories of tasks and drivers, against the coordinator's real core."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pytest
from fake_log import FakeLog

from pyspark_raftlog.commits import Attempt, Work, Written, batch_work, query_work
from pyspark_raftlog.sink import SinkOptions, parse_sink_options
from pyspark_raftlog.writer import RaftlogStreamWriter, RaftlogWriter, _abort, _commit, write_rows
from raftlog.errors import ConfigError, FencedError, InvalidRequestError, UnknownOutcomeError

WORK = Work("sink", run="query", number=0)


def options(log: FakeLog, **more: str) -> SinkOptions:
    return parse_sink_options({"bootstrap": log.url, "topic": "out", **more}, overwrite=False)


def task(log: FakeLog, attempt: str, values: Iterable[str], work: Work = WORK, task_id: int = 0) -> Written:
    rows = pa.record_batch([pa.array(list(values))], ["value"])
    return write_rows(options(log), {"value": "value"}, iter([rows]), work, Attempt(attempt, task_id))


def stored(log: FakeLog) -> list[str]:
    return sorted((record.value or b"").decode() for record in log.records("out"))


@pytest.fixture
def out(log: FakeLog) -> FakeLog:
    log.create("out", partitions=3)
    return log


def test_nothing_counts_before_the_commit_and_all_of_it_after(out):
    messages = [task(out, "0.0", "abc"), task(out, "1.0", "de"), task(out, "2.0", "")]
    assert (stored(out), [message.records for message in messages]) == ([], [3, 2, 0])
    _commit(options(out), messages)
    assert stored(out) == list("abcde")


def test_attempts_that_spark_did_not_choose_leave_nothing(out):
    """One failed half way, and one was a speculative twin."""
    task(out, "0.0", "ab")
    messages = [task(out, "0.1", "abc"), task(out, "1.0", "de")]
    task(out, "1.1", "de")
    _commit(options(out), messages)
    assert stored(out) == list("abcde")


def test_a_task_that_is_done_again_under_its_name_leaves_its_first_rows_out(out):
    task(out, "0.0", "abc")
    _commit(options(out), [task(out, "0.0", "abc")])
    assert stored(out) == list("abc")


@pytest.mark.parametrize("lost", [0, 2])
def test_a_batch_that_spark_does_again_after_its_commit_is_not_written_again(out, lost):
    out.lose_ends = lost
    first = [task(out, "0.0", "abc"), task(out, "1.0", "de")]
    _commit(options(out), first)
    again = [task(out, "0.0", "abc"), task(out, "1.0", "de")]
    assert [(message.records, message.member) for message in again] == [(0, None)] * 2
    _commit(options(out), again)
    assert stored(out) == list("abcde")

    later = replace(WORK, number=1)
    _commit(options(out), [task(out, "0.0", "f", later)])
    assert stored(out) == list("abcdef")


def test_tables_have_transactional_ids_of_their_own_however_many_topics_they_have(out):
    names = [f"sensors.measurements.{number}" for number in range(20)]
    few, many, other = (
        parse_sink_options({"bootstrap": out.url, "subscribe": topics, "transactionalId": "etl"}, overwrite=False)
        for topics in ("a", ",".join(names), ",".join(names[1:]))
    )
    assert (few.batch_set_id, few.earlier_batch_set_id) == ("etl/a", "etl/*")
    assert many.batch_set_id is not None
    assert many.batch_set_id != other.batch_set_id
    assert len(many.batch_set_id) < 50
    assert options(out, transactionalId="etl").earlier_batch_set_id == ""


def test_the_rows_of_a_batch_that_was_done_before_are_taken_all_the_same(out):
    """Spark commits the state of an aggregation when its rows have been read to their end."""
    _commit(options(out), [task(out, "0.0", "abc")])
    rows = iter([pa.record_batch([pa.array(["x"])], ["value"])] * 3)
    assert write_rows(options(out), {"value": "value"}, rows, WORK, Attempt("0.0")).was_done
    assert next(rows, None) is None


def test_an_attempt_whose_first_row_comes_after_the_commit_opens_no_transaction(out):
    """A speculative copy of a task: its transaction would stay open until it times out."""

    def late():
        _commit(options(out), [task(out, "0.0", "abc")])
        yield pa.record_batch([pa.array(["x"])], ["value"])

    written = write_rows(options(out), {"value": "value"}, late(), WORK, Attempt("0.1"))

    assert (written.was_done, written.member) == (True, None)
    assert stored(out) == list("abc")


def test_a_commit_without_an_answer_tells_of_the_doubt(out):
    """The user of a batch query would run it again, and have its rows twice."""
    messages = [task(out, "0.0", "abc")]
    out.lose_ends = 100
    with pytest.raises(UnknownOutcomeError, match=r"'sink' may be committed or not.*look whether its rows are there"):
        _commit(options(out, timeoutMs="200"), messages)
    assert stored(out) == list("abc")


def test_a_batch_that_was_done_before_is_said_to_be(out, caplog):
    """It is as it should be after a crash, and a loss where one micro-batch writes to one topic twice."""
    _commit(options(out), [task(out, "0.0", "abc")])
    assert not caplog.records

    _commit(options(out), [task(out, "0.0", "de")])
    (said,) = caplog.messages
    assert said.startswith("micro-batch 0 was committed under 'sink' before, so nothing was written")


def test_a_copy_of_a_checkpoint_writes_to_another_topic(out):
    """The copy is the same query to Spark, and its batches have the numbers that the first one's have."""
    out.create("fork")
    query, fork = query_work("q", 7, "out"), query_work("q", 7, "fork")
    _commit(options(out), [task(out, "0.0", "abc", query)])
    rows = pa.record_batch([pa.array(list("abc"))], ["value"])
    written = write_rows(options(out, topic="fork"), {"value": "value"}, iter([rows]), fork, Attempt("0.0"))
    _commit(options(out), [written])

    assert [record.value for record in out.records("fork")] == [b"a", b"b", b"c"]
    assert task(out, "0.0", "abc", query).was_done


def test_a_batch_that_an_older_version_committed_is_not_written_again(out):
    _commit(options(out), [task(out, "0.0", "abc", Work("spark-q", run="q", number=7))])

    _commit(options(out), [task(out, "0.0", "abc", query_work("q", 7, "out"))])
    _commit(options(out), [task(out, "0.0", "d", query_work("q", 8, "out"))])
    assert stored(out) == list("abcd")


def test_a_topic_of_any_length_has_a_name_to_commit_under():
    long = [query_work(str(uuid4()), 0, "x" * 240 + end).set_id for end in "ab"]
    assert all(len(name) <= 220 for name in long)
    assert long[0] != long[1]


def test_of_two_drivers_that_do_the_same_batch_one_commits(out):
    """One was thought dead: its tasks were done, and its commit comes late, or first."""
    zombie = [task(out, "0.0", "abc"), task(out, "1.0", "de")]
    mine = [task(out, "0.1", "abc"), task(out, "1.1", "de")]
    _commit(options(out), zombie)
    _commit(options(out), mine)
    assert stored(out) == list("abcde")


def test_a_task_of_another_driver_under_the_same_name_fences_nothing(out):
    """The driver that was thought dead commits all of its rows; its successor's count as a repetition."""
    zombie = [task(out, "0.0", "abc"), task(out, "1.0", "de")]
    mine = [task(out, "0.0", "abc", task_id=7)]
    _commit(options(out), zombie)
    _commit(options(out), mine)
    assert stored(out) == list("abcde")


@pytest.mark.parametrize("work", [WORK, batch_work("mine"), batch_work(None)], ids=["stream", "named", "batch"])
def test_a_repeated_stage_leaves_the_attempts_alone_that_spark_accepted(out, work):
    """A stage whose shuffle was lost numbers its attempts from 0 again, and the old ones run on."""
    accepted = task(out, "0.0", "abc", work, task_id=1)
    task(out, "0.0", "abc", work, task_id=3)
    _commit(options(out), [accepted, task(out, "1.0", "de", work, task_id=2)])
    assert stored(out) == list("abcde")


@pytest.mark.parametrize("work", [WORK, batch_work(None)], ids=["stream", "batch"])
def test_an_attempt_of_a_repeated_stage_may_be_the_accepted_one(out, work):
    task(out, "0.0", "a", work, task_id=1)
    _commit(options(out), [task(out, "0.0", "abc", work, task_id=3)])
    assert stored(out) == list("abc")


def test_the_ids_of_a_stream_are_used_again(out):
    """Partitions remember each producer for a day: a producer for each batch would be many."""
    first = task(out, "0.0", "a")
    _commit(options(out), [first])
    second = task(out, "0.0", "b", replace(WORK, number=1), task_id=9)
    assert first.member is not None
    assert second.member is not None
    assert second.member.transactional_id == first.member.transactional_id
    assert second.member.producer_id == first.member.producer_id


def test_an_abort_after_a_commit_undoes_nothing(out):
    """Spark aborts when `commit` raised, though it may have taken effect."""
    messages = [task(out, "0.0", "abc")]
    _commit(options(out), messages)
    _abort(options(out), messages)
    _abort(options(out), [None], [WORK])
    assert stored(out) == list("abc")


def test_an_abort_leaves_nothing(out):
    messages = [task(out, "0.0", "abc"), None]
    _abort(options(out), messages)
    with pytest.raises((FencedError, InvalidRequestError)):
        _commit(options(out), messages)
    assert stored(out) == []


def test_each_batch_query_commits_by_itself(out):
    one, other = batch_work(None), batch_work(None)
    _commit(options(out), [task(out, "0.0", "ab", one)])
    _commit(options(out), [task(out, "0.0", "ab", other)])
    assert stored(out) == list("aabb")
    mine = batch_work("mine")
    assert (mine.set_id, mine.passing, one.passing) == ("mine/~batch", False, True)


def test_at_least_once_counts_at_once(out):
    rows = pa.record_batch([pa.array(["a"])], ["value"])
    written = write_rows(options(out, guarantee="at-least-once"), {"value": "value"}, iter([rows]))
    _commit(options(out), [written])
    assert (stored(out), written.work, written.member) == (["a"], None, None)
    assert {path.split("/")[2] for path in out.requests} == {"metadata", "producers", "produce"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"guarantee": "twice"}, "'guarantee': expected exactly-once or at-least-once; received 'twice'"),
        ({"transactionalId": "a::b"}, "'transactionalId': expected a name without '::'"),
        ({"transactionTimeoutMs": "0"}, "transactionTimeoutMs"),
        ({"guarantee": "at-least-once", "transactionalId": "a"}, "'transactionalId' has no meaning"),
    ],
)
def test_options_that_do_not_fit_are_refused(out, given, message):
    with pytest.raises(ConfigError, match=message):
        options(out, **given)


def test_a_batch_writes_name_and_topic_fit_into_an_id(out):
    """A stream's sink commits under the name alone."""
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415

    schema = StructType([StructField("value", StringType())])
    RaftlogStreamWriter(options(out, transactionalId="a" * 217), schema)
    RaftlogWriter(options(out, transactionalId="a" * 216), schema)
    with pytest.raises(ConfigError, match="'transactionalId': expected at most 220 bytes together with the topic's"):
        RaftlogWriter(options(out, transactionalId="a" * 217), schema)


def test_a_writer_travels_with_its_work(out):
    import pickle  # noqa: PLC0415  (Spark's own way)

    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415

    writer = RaftlogWriter(options(out), StructType([StructField("value", StringType())]))
    assert pickle.loads(pickle.dumps(writer))._work == writer._work
