"""A log that was cut by an unclean election, and has grown again: by offsets alone nothing is wrong with it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fake_log import FakeLog
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pyspark_raftlog import stream
from pyspark_raftlog.background import background, close_background
from pyspark_raftlog.checkpoint import BEGIN, EPOCH_STARTS, EPOCHS, TOPIC_IDS, StreamPosition
from pyspark_raftlog.offsets import LogEnds, OffsetRange
from pyspark_raftlog.options import SourceOptions, parse_options
from pyspark_raftlog.pushdown import AllowedValues, Pruning
from pyspark_raftlog.reader import RangePartition, plan_batch, read_task
from pyspark_raftlog.schema import source_schema
from pyspark_raftlog.stream import RaftlogStreamReader
from raftlog import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import OffsetOutOfRangeError
from raftlog.model import TopicPartition
from raftlog.wire.data import EpochStart

ALL = ReadAllAvailable()
SCHEMA = source_schema(include_headers=False)


@pytest.fixture(autouse=True)
def _connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(stream, "IDLE_WAIT_MS", 10)
    yield
    close_background()


@pytest.fixture
def topic(log: FakeLog) -> FakeLog:
    """One partition with 4 batches of 10 records."""
    log.create("t")
    write(log, 4)
    return log


def write(log: FakeLog, batches: int) -> None:
    for _ in range(batches):
        log.append("t", [b"x"] * 10)


def options(url: str, topic: str = "t", **given: str) -> SourceOptions:
    common = {"bootstrap": url, "subscribe": topic, "startingOffsets": "earliest", "timeoutMs": "200"}
    return parse_options(common | given)


def reader(log: FakeLog, **given: str) -> RaftlogStreamReader:
    return RaftlogStreamReader(options(log.url, **given).for_stream(), SCHEMA)


def stored(position: dict[str, Any]) -> dict[str, Any]:
    """Return a position as it comes back from the checkpoint."""
    return json.loads(json.dumps(position))


def read_to_the_end(log: FakeLog) -> dict[str, Any]:
    first = reader(log)
    return stored(first.latestOffset(first.initialOffset(), ALL))


def epochs(position: dict[str, Any]) -> dict[str, Any]:
    return position[TOPIC_IDS].get(EPOCHS, {})


def planned(tasks: list[RangePartition]) -> list[tuple[int, int]]:
    return [(item.start, item.end) for task in tasks for item in task.ranges]


def rows(log: FakeLog, tasks: list[RangePartition], **given: str) -> list[int]:
    batches = [batch for task in tasks for batch in reader(log, **given).read(task)]
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


# The position in the checkpoint.


def test_a_position_has_the_epoch_of_the_last_record_that_is_read(topic):
    topic.topics["t"][0].leader_epoch = 7
    write(topic, 1)
    limited = reader(topic, maxOffsetsPerTrigger="35")
    begin = limited.initialOffset()

    first = limited.latestOffset(begin, ReadMaxRows(35))
    second = limited.latestOffset(first, ReadMaxRows(35))

    assert (epochs(begin), epochs(first), epochs(second)) == ({}, {"t": {"0": 0}}, {"t": {"0": 7}})
    assert second["t"] == {"0": 50}
    assert [task.ranges for task in limited.partitions(first, second)] == [(OffsetRange("t", 0, 35, 50, last_epoch=7),)]
    assert epochs(reader(topic, startingOffsets="latest").initialOffset()) == {"t": {"0": 7}}


@pytest.mark.parametrize("grown", [1, 3])
def test_a_stream_notices_that_what_it_has_read_was_replaced(topic, caplog, grown: int):
    position = read_to_the_end(topic)
    topic.truncate("t", 20)
    write(topic, grown)
    end = 20 + 10 * grown

    with pytest.raises(OffsetOutOfRangeError, match=r"t-0: .* offset 40.* failOnDataLoss"):
        reader(topic).latestOffset(position, ALL)

    tolerant = reader(topic, failOnDataLoss="false")
    later = stored(tolerant.latestOffset(position, ALL))
    assert (later["t"], epochs(later)) == ({"0": end}, {"t": {"0": 1}})
    assert rows(topic, tolerant.partitions(position, later)) == list(range(20, end))
    assert "t-0: " in caplog.text
    caplog.clear()
    assert tolerant.latestOffset(later, ALL) == later
    write(topic, 1)
    assert planned(tolerant.partitions(later, tolerant.latestOffset(later, ALL))) == [(end, end + 10)]
    assert caplog.text == ""


def test_the_error_says_what_happened(topic):
    position = read_to_the_end(topic)
    topic.truncate("t", 20)
    write(topic, 3)

    with pytest.raises(OffsetOutOfRangeError) as told:
        reader(topic).latestOffset(position, ALL)

    assert told.value.message.startswith(
        "t-0: the log was truncated: the record before offset 40 had leader epoch 0 when the stream read it, and has 1 "
        "now; what agrees ends at offset 20"
    )


def test_a_batch_that_goes_back_is_done_again_from_there(topic):
    """The query was killed in it: Spark plans it from the positions in its checkpoint."""
    position = read_to_the_end(topic)
    topic.truncate("t", 20)
    write(topic, 3)
    later = stored(reader(topic, failOnDataLoss="false").latestOffset(position, ALL))
    topic.requests.clear()

    again = reader(topic, failOnDataLoss="false")
    assert again.partitions(later, later) == []
    assert planned(again.partitions(position, later)) == [(20, 50)]
    assert topic.requests == []


def test_a_limited_stream_goes_back_as_well(topic):
    position = read_to_the_end(topic)
    topic.truncate("t", 20)
    write(topic, 3)
    limited = reader(topic, failOnDataLoss="false", maxOffsetsPerTrigger="5")

    first = limited.latestOffset(position, ReadMaxRows(5))
    second = limited.latestOffset(first, ReadMaxRows(5))

    assert [planned(limited.partitions(*pair)) for pair in ((position, first), (first, second))] == [
        [(20, 25)],
        [(25, 30)],
    ]


def test_an_available_now_run_goes_back_and_ends_where_the_log_ends_then(topic):
    begin = read_to_the_end(topic)
    bounded = reader(topic, failOnDataLoss="false")
    bounded.prepareForTriggerAvailableNow()
    assert bounded.latestOffset(begin, ALL) == begin
    topic.truncate("t", 20)
    write(topic, 1)

    end = bounded.latestOffset(begin, ALL)
    write(topic, 3)

    assert planned(bounded.partitions(begin, end)) == [(20, 30)]
    assert bounded.latestOffset(end, ALL) == end


def with_an_older_log(topic: FakeLog, *later: int) -> dict[str, Any]:
    """Read a log that was cut at offset 20, with an epoch for each 10 records since; then an older one comes back."""
    topic.truncate("t", 20)
    for epoch in later:
        topic.topics["t"][0].leader_epoch = epoch
        write(topic, 1)
    position = read_to_the_end(topic)
    topic.truncate("t", 20)
    topic.topics["t"][0].leader_epoch = 0
    write(topic, 3)
    return position


@pytest.mark.parametrize("later", [(1, 1), (1, 2), (2, 3, 4)])
def test_an_older_log_that_came_back_is_noticed(topic, later: tuple[int, ...]):
    """Its records are of earlier epochs than those that were read."""
    position = with_an_older_log(topic, *later)
    topic.topics["t"][0].leader_epoch = 5
    write(topic, 1)

    with pytest.raises(
        OffsetOutOfRangeError, match=f"had leader epoch {later[-1]} when .* what agrees ends at offset 20"
    ):
        reader(topic).latestOffset(position, ALL)

    tolerant = reader(topic, failOnDataLoss="false")
    end = tolerant.latestOffset(position, ALL)
    assert planned(tolerant.partitions(position, end)) == [(20, 60)]
    assert tolerant.latestOffset(stored(end), ALL) == stored(end)


def test_a_position_that_does_not_know_where_its_epochs_began_goes_on_where_it_is(topic):
    position = with_an_older_log(topic, 1, 1)
    del position[TOPIC_IDS][EPOCH_STARTS]

    tolerant = reader(topic, failOnDataLoss="false")
    assert planned(tolerant.partitions(position, tolerant.latestOffset(position, ALL))) == [(40, 50)]


@pytest.mark.parametrize(("knows_starts", "batch"), [(True, [(20, 40)]), (False, [])])
def test_a_loss_is_noted_once_also_if_nothing_was_written_since(
    topic, caplog, knows_starts: bool, batch: list[tuple[int, int]]
):
    topic.truncate("t", 20)
    write(topic, 2)
    position = read_to_the_end(topic)
    if not knows_starts:
        del position[TOPIC_IDS][EPOCH_STARTS]
    topic.truncate("t", 20)
    topic.topics["t"][0].leader_epoch = 0
    write(topic, 2)
    tolerant = reader(topic, failOnDataLoss="false")

    later = tolerant.latestOffset(position, ALL)
    assert (later["t"], epochs(later), planned(tolerant.partitions(position, later))) == (
        {"0": 40},
        {"t": {"0": 0}},
        batch,
    )
    later = stored(later)
    assert tolerant.latestOffset(later, ALL) == later
    assert caplog.text.count("was truncated") == 1


def test_a_topic_that_was_recreated_has_epochs_of_its_own(topic):
    position = read_to_the_end(topic)
    topic.create("t")

    later = reader(topic, failOnDataLoss="false").latestOffset(position, ALL)

    assert (later["t"], epochs(later)) == ({"0": 0}, {})


def test_a_leader_that_has_been_replaced_and_still_answers_is_no_loss(topic):
    position = read_to_the_end(topic)
    old = topic.topics["t"][0].batches[:]
    topic.truncate("t", 20)
    write(topic, 2)
    position = read_to_the_end(topic)
    new, topic.topics["t"][0].batches = topic.topics["t"][0].batches, old
    threading.Timer(0.3, setattr, (topic.topics["t"][0], "batches", new)).start()

    assert reader(topic, timeoutMs="10000").latestOffset(position, ALL) == position


def test_retention_is_no_truncation(topic):
    position = read_to_the_end(topic)
    topic.topics["t"][0].leader_epoch = 1
    write(topic, 2)
    for deleted in (30, 40, 50):
        topic.delete_before("t", deleted)
        assert planned(reader(topic).partitions(position, reader(topic).latestOffset(position, ALL))) == [(40, 60)]


def test_positions_without_epochs_and_brokers_without_them_go_on_unchecked(topic):
    position = read_to_the_end(topic)
    older = {"t": position["t"], TOPIC_IDS: {"t": position[TOPIC_IDS]["t"]}}
    assert reader(topic).latestOffset(older, ALL) == older, "the same offsets are the same text"
    topic.truncate("t", 20)
    write(topic, 3)

    assert planned(reader(topic).partitions(older, reader(topic).latestOffset(older, ALL))) == [(40, 50)]
    topic.names_epochs = False
    for before in (position, older):
        later = reader(topic).latestOffset(before, ALL)
        assert (later["t"], epochs(later)) == ({"0": 50}, {})
        assert [item.last_epoch for task in reader(topic).partitions(before, later) for item in task.ranges] == [-1]


# What a task reads.


def test_a_task_notices_that_its_records_were_replaced_after_it_was_planned(topic, caplog):
    first = reader(topic, failOnDataLoss="false")
    begin = first.initialOffset()
    end = stored(first.latestOffset(begin, ALL))
    topic.truncate("t", 20)
    write(topic, 3)

    with pytest.raises(OffsetOutOfRangeError, match=r"t-0: the log was truncated at offset 20 since .*failOnDataLoss"):
        rows(topic, reader(topic).partitions(begin, end))

    tolerant = reader(topic, failOnDataLoss="false")
    assert rows(topic, tolerant.partitions(begin, end), failOnDataLoss="false") == list(range(20))
    assert "t-0: the log was truncated at offset 20" in caplog.text
    later = tolerant.latestOffset(end, ALL)
    assert rows(topic, tolerant.partitions(end, later)) == list(range(20, 50)), "the next batch has what was written"


def test_every_task_of_a_range_notices(topic):
    first = reader(topic, minPartitions="4", failOnDataLoss="false")
    begin = first.initialOffset()
    end = first.latestOffset(begin, ALL)
    topic.truncate("t", 10)
    write(topic, 3)

    tasks = first.partitions(begin, end)

    assert planned(tasks) == [(0, 10), (10, 20), (20, 30), (30, 40)]
    assert rows(topic, tasks, failOnDataLoss="false") == list(range(10))


def test_records_after_the_range_may_be_of_any_epoch(topic):
    end = read_to_the_end(topic)
    topic.topics["t"][0].leader_epoch = 5
    write(topic, 1)

    assert rows(topic, reader(topic).partitions({"t": {"0": 0}}, end)) == list(range(40))


def test_a_batch_query_notices(topic):
    by_filters = Pruning(offset=AllowedValues(low=5, high=34), timestamp_us=AllowedValues(low=1))
    given, loop = options(topic.url), background()
    for pruning, kept in ((Pruning(), (0, 40)), (by_filters, (5, 35))):
        _, ranges = loop.run(plan_batch(loop.cluster(given), given.for_batch(), pruning))
        assert ranges == [OffsetRange("t", 0, *kept, last_epoch=0)]
    topic.truncate("t", 20)
    write(topic, 3)

    with pytest.raises(OffsetOutOfRangeError, match=r"t-0: the log was truncated at offset 20 since .* load"):
        list(read_task(given, RangePartition(tuple(ranges)), SCHEMA))


# The rules.

ENDS = LogEnds(
    10,
    40,
    undecided=5,
    epochs=(
        EpochStart(leader_epoch=2, start_offset=10),
        EpochStart(leader_epoch=3, start_offset=20),
        EpochStart(leader_epoch=7, start_offset=30),
    ),
)


@pytest.mark.parametrize(
    ("offset", "epoch"),
    [(5, -1), (10, -1), (11, 2), (20, 2), (21, 3), (30, 3), (31, 7), (40, 7), (45, 7), (46, -1)],
)
def test_the_epoch_before_an_offset(offset: int, epoch: int):
    assert ENDS.epoch_before(offset) == epoch
    assert ENDS._replace(epochs=()).epoch_before(offset) == -1


@pytest.mark.parametrize(
    ("offset", "epoch", "truncated", "agreed"),
    [
        (40, 7, False, 40),
        (43, 7, False, 43),
        (40, -1, False, 40),
        (40, 5, True, 30),
        (40, 3, True, 30),
        (40, 2, True, 20),
        (40, 1, True, 10),
        (25, 2, True, 20),
        (25, 3, False, 25),
        (25, 5, True, 25),
        (20, 2, False, 20),
        (10, 1, False, 10),
        (5, 1, False, 5),
        (99, 7, False, 40),
        (99, 3, False, 30),
        (99, -1, False, 40),
    ],
)
def test_where_a_log_agrees_with_what_was_read(offset: int, epoch: int, truncated: bool, agreed: int):
    assert ENDS.was_truncated(offset, epoch) is truncated
    assert ENDS.agreed(offset, epoch) == agreed


@pytest.mark.parametrize(
    ("read", "agreed"),
    [
        ([(2, 10), (3, 20), (7, 30)], 40),
        ([(2, 10), (3, 20), (5, 30)], 30),
        ([(2, 10), (3, 20), (5, 26)], 26),
        ([(2, 10), (3, 20), (4, 26), (5, 30)], 26),
        ([(2, 10), (4, 15), (5, 30)], 15),
        ([(2, 10), (5, 30)], 20),
        ([(2, 10)], 20),
        ([(4, 17), (5, 30)], 17),
        ([(4, 5), (5, 30)], 5),
        ([], 30),
    ],
)
def test_where_a_log_agrees_with_the_epochs_that_were_read(read: list[tuple[int, int]], agreed: int):
    starts = tuple(EpochStart(leader_epoch=epoch, start_offset=start) for epoch, start in read)
    assert ENDS.agreed(40, read[-1][0] if read else 5, starts) == agreed
    assert ENDS._replace(epochs=()).agreed(43, 5, starts) == 43, "a broker that names no epochs"


def test_the_epochs_that_were_read():
    assert [ENDS.epochs_before(offset) for offset in (10, 20, 21, 45, 46)] == [
        (),
        ENDS.epochs[:1],
        ENDS.epochs[:2],
        ENDS.epochs,
        (),
    ]
    many = tuple(EpochStart(leader_epoch=epoch, start_offset=epoch) for epoch in range(30))
    assert ENDS._replace(epochs=many).epochs_before(25) == many[15:25]


def test_where_nothing_was_read_the_epochs_of_what_was_read_stay():
    key, read = TopicPartition("t", 0), (EpochStart(leader_epoch=1, start_offset=0),)
    position = StreamPosition({key: 40}, {}, {key: 1}, {key: read})
    moved = [position.moved_to({key: offset}, {key: ENDS}, {}) for offset in (40, 41)]
    assert [(one.epochs[key], one.read[key]) for one in moved] == [(1, read), (7, ENDS.epochs)]


def test_a_later_end_is_of_an_unknown_epoch():
    assert ENDS.reaching(44).epoch_before(44) == 7
    assert ENDS.reaching(46).epoch_before(46) == -1


@pytest.mark.cluster
async def test_a_cluster_names_the_epochs_of_a_log(shared_cluster: LocalCluster, topic_name: str):
    url, key = shared_cluster.bootstrap, (topic_name, 0)
    async with Admin(url) as admin, Producer(url) as producer:
        await admin.create_topic(topic_name, partitions=1, replication_factor=3)
        await producer.send_many(topic_name, [b"x"] * 5)
        first = (await admin.describe_topic(topic_name)).partitions[0]
        await admin.reassign_partitions({key: [*first.replicas[1:], first.replicas[0]]})
        async with asyncio.timeout(30):
            while (second := (await admin.describe_topic(topic_name)).partitions[0]).leader_epoch == first.leader_epoch:
                await admin.elect_leaders([key])
                await asyncio.sleep(0.1)
        await producer.send_many(topic_name, [b"x"] * 5)
    given = options(url, topic_name, timeoutMs="30000")
    position = await asyncio.to_thread(_read_to, given, 10)
    assert epochs(position) == {topic_name: {"0": second.leader_epoch}}
    # As if the offsets 5 to 7 had been of the first epoch when they were read, and were cut away since.
    ids = {topic_name: position[TOPIC_IDS][topic_name], EPOCHS: {topic_name: {"0": first.leader_epoch}}}
    before = {topic_name: {"0": 8}, TOPIC_IDS: ids}

    strict = RaftlogStreamReader(options(url, topic_name, timeoutMs="200").for_stream(), SCHEMA)
    with pytest.raises(OffsetOutOfRangeError, match="what agrees ends at offset 5"):
        await asyncio.to_thread(strict.latestOffset, before, ALL)
    lenient = options(url, topic_name, timeoutMs="200", failOnDataLoss="false")
    tolerant = RaftlogStreamReader(lenient.for_stream(), SCHEMA)
    assert planned(tolerant.partitions(before, await asyncio.to_thread(tolerant.latestOffset, before, ALL))) == [
        (5, 10)
    ]
    # As if they had been replaced between planning and reading.
    (task,) = tolerant.partitions({topic_name: {"0": 0}}, before)
    with pytest.raises(OffsetOutOfRangeError, match="was truncated at offset 5"):
        await asyncio.to_thread(list, strict.read(task))


def _read_to(given: SourceOptions, end: int) -> dict[str, Any]:
    """Return the stream's position at `end`; the leader's high watermark may need a moment to get there."""
    whole = RaftlogStreamReader(given.for_stream(), SCHEMA)
    position = whole.initialOffset()
    while position[given.subscription.topics[0]]["0"] < end:  # type: ignore[union-attr]
        position = {name: value for name, value in whole.latestOffset(position, ALL).items() if name != BEGIN}
    return position
