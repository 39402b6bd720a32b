"""Planning: which offsets a query reads, and how they are cut into tasks."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_raftlog.checkpoint import (
    EPOCH_STARTS,
    EPOCHS,
    TOPIC_IDS,
    StreamPosition,
    decode_positions,
    encode_positions,
)
from pyspark_raftlog.offsets import (
    LogEnds,
    OffsetRange,
    ending_offsets,
    expand,
    limit_offsets,
    ranges_between,
    require_readable,
    share_ranges,
    split_ranges,
    starting_offsets,
)
from pyspark_raftlog.parsing import AtTime
from raftlog.errors import ConfigError, OffsetOutOfRangeError
from raftlog.model import TopicPartition
from raftlog.wire.data import EpochStart

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b.c", "d-e"]), st.integers(0, 20))
sizes = st.dictionaries(partitions, st.integers(0, 10**12), max_size=12)


def test_one_position_holds_for_every_partition():
    assert expand("earliest", [A0, B0], option="startingOffsets") == {A0: "earliest", B0: "earliest"}


def test_positions_must_name_exactly_the_partitions_read():
    with pytest.raises(ConfigError, match=r"startingOffsets .* missing: a-1, not read: b-0"):
        expand({A0: 1, B0: 2}, [A0, A1], option="startingOffsets")


def test_positions_become_offsets():
    ends = {A0: LogEnds(5, 20), A1: LogEnds(0, 9), B0: LogEnds(3, 8)}
    positions = {A0: "earliest", A1: 4, B0: AtTime(1_000)}

    assert starting_offsets(positions, ends, {B0: 6}, without_match="error") == {A0: 5, A1: 4, B0: 6}
    assert ending_offsets({A0: "latest", A1: 4, B0: AtTime(1)}, ends, {B0: None}) == {A0: 20, A1: 4, B0: 8}


def test_a_starting_time_after_every_record_is_an_error_unless_asked_otherwise():
    ends = {A0: LogEnds(5, 20)}
    with pytest.raises(ConfigError, match="a-0 has no record at or after 1000 ms"):
        starting_offsets({A0: AtTime(1_000)}, ends, {A0: None}, without_match="error")

    assert starting_offsets({A0: AtTime(1_000)}, ends, {A0: None}, without_match="latest") == {A0: 20}


@pytest.mark.parametrize(
    ("offset", "inside", "message"),
    [
        (4, 5, r"a-0: offset 4 was requested, the log has \[5, 20\).* failOnDataLoss"),
        (5, 5, None),
        (20, 20, None),
        (
            21,
            20,
            "a-0: expected an offset up to the end of the log, 20, received 21.* an offset from 5 to 20, or latest",
        ),
    ],
)
def test_an_offset_before_the_log_is_a_loss_and_one_beyond_its_end_a_mistake(offset, inside, message):
    ends = LogEnds(5, 20)
    assert require_readable(A0, offset, ends, fail_on_data_loss=False) == inside
    if message is not None:
        with pytest.raises(OffsetOutOfRangeError, match=message) as raised:
            require_readable(A0, offset, ends, fail_on_data_loss=True)
        assert ("failOnDataLoss" in raised.value.message) is (offset < inside)


def test_ranges_skip_what_is_empty_and_begin_new_partitions_at_zero():
    start, end = {A0: 3, A1: 7}, {A0: 9, A1: 7, B0: 2}

    assert ranges_between(start, end) == [OffsetRange("a", 0, 3, 9), OffsetRange("b", 0, 0, 2)]
    assert ranges_between(start, end, {A0: 4, A1: 5}) == [OffsetRange("a", 0, 3, 9, 4), OffsetRange("b", 0, 0, 2, -1)]


def test_the_parts_of_a_range_keep_the_epoch_of_its_last_record():
    whole = [OffsetRange("a", 0, 0, 300, 4), OffsetRange("b", 0, 0, 300, 6)]

    parts = [*split_ranges(whole, max_records=70), *(part for task in share_ranges(whole, 1) for part in task)]

    assert {(part.topic, part.last_epoch) for part in parts} == {("a", 4), ("b", 6)}


def test_a_position_that_moved_back_reads_nothing():
    assert ranges_between({A0: 9}, {A0: 3}) == []


def test_ranges_are_cut_evenly():
    assert split_ranges([OffsetRange("a", 0, 0, 10)], max_records=4) == [
        OffsetRange("a", 0, 0, 3),
        OffsetRange("a", 0, 3, 6),
        OffsetRange("a", 0, 6, 10),
    ]


def test_the_largest_range_is_cut_first():
    cut = split_ranges([OffsetRange("a", 0, 0, 10), OffsetRange("a", 1, 0, 100)], min_partitions=4)

    assert [item.partition for item in cut] == [0, 1, 1, 1]


@given(sizes, st.integers(1, 40), st.one_of(st.none(), st.integers(10**11, 10**13)))
def test_cutting_loses_nothing_and_keeps_its_promises(backlog, min_partitions, max_records):
    ranges = [OffsetRange(*key, 5, 5 + size) for key, size in backlog.items() if size]

    cut = split_ranges(ranges, min_partitions=min_partitions, max_records=max_records)

    joined = {item.topic_partition: [piece for piece in cut if piece.topic_partition == item.topic_partition]
              for item in ranges}  # fmt: skip
    for item in ranges:
        pieces = joined[item.topic_partition]
        assert [pieces[0].start, pieces[-1].end] == [item.start, item.end]
        assert all(left.end == right.start for left, right in pairwise(pieces))
    assert all(0 < item.size <= (max_records or 10**13) for item in cut)
    assert len(cut) >= min(min_partitions, sum(item.size for item in ranges))


def test_ranges_share_tasks_in_order_and_one_is_cut_where_two_tasks_meet():
    ranges = [OffsetRange("a", partition, 0, 100) for partition in range(3)]

    assert share_ranges(ranges) == share_ranges(ranges, 3) == [(item,) for item in ranges]
    assert share_ranges(ranges, 2) == [
        (ranges[0], OffsetRange("a", 1, 0, 50)),
        (OffsetRange("a", 1, 50, 100), ranges[2]),
    ]


def test_nothing_is_cut_for_a_tenth_of_a_task():
    ranges = [OffsetRange("a", 0, 0, 104), OffsetRange("a", 1, 0, 100), OffsetRange("a", 2, 0, 199)]

    assert share_ranges(ranges, 2) == [(ranges[0], ranges[1]), (ranges[2],)]


@given(sizes, st.integers(1, 8))
def test_sharing_tasks_loses_nothing_and_no_task_is_much_larger_than_another(backlog, max_tasks):
    ranges = [OffsetRange(*key, 5, 5 + size) for key, size in backlog.items() if size]

    tasks = share_ranges(ranges, max_tasks)

    joined = [item for task in tasks for item in task]
    assert sum(item.size for item in joined) == sum(item.size for item in ranges)
    assert list(dict.fromkeys(item.topic_partition for item in joined)) == [item.topic_partition for item in ranges]
    for left, right in pairwise(joined):
        assert left.end == right.start or left.topic_partition != right.topic_partition
    assert all(item.size > 0 for item in joined)
    assert len(tasks) == min(max_tasks, len(ranges))
    if max_tasks < len(ranges):
        fair = sum(item.size for item in ranges) / max_tasks
        assert all(sum(item.size for item in task) <= 1.4 * fair + 1 for task in tasks)


@given(sizes, st.integers(1, 10**12))
def test_a_limit_is_shared_in_proportion_and_used_fully(backlog, limit):
    start = dict.fromkeys(backlog, 7)
    end = {key: 7 + size for key, size in backlog.items()}

    limited = limit_offsets(start, end, limit)

    total = sum(backlog.values())
    assert sum(limited[key] - start[key] for key in end) == min(limit, total)
    for key, size in backlog.items():
        share = min(limit, total) * size / total if total else 0
        assert start[key] <= limited[key] <= end[key]
        assert abs(limited[key] - start[key] - share) <= 1 + share * 1e-9


def test_a_limit_leaves_a_position_that_moved_back():
    assert limit_offsets({A0: 9, A1: 0}, {A0: 3, A1: 100}, 10) == {A0: 3, A1: 10}


@given(st.dictionaries(partitions, st.integers(0, 2**63 - 1), max_size=12))
def test_positions_survive_the_checkpoint_and_encode_alike(positions):
    text = json.dumps(encode_positions(positions))
    reordered = dict(sorted(positions.items(), reverse=True))

    assert decode_positions(json.loads(text)) == positions
    assert json.dumps(encode_positions(reordered)) == text


@given(
    st.dictionaries(partitions, st.integers(0, 2**63 - 1), max_size=12),
    st.dictionaries(partitions, st.integers(0, 9), max_size=12),
    st.dictionaries(st.sampled_from(["a", "b.c", "d-e"]), st.sampled_from(["5f0c", "77ab"])),
)
def test_epochs_and_topic_ids_survive_the_checkpoint(offsets, epochs, ids):
    position = StreamPosition(
        offsets,
        {topic: name for topic, name in ids.items() if topic in {key.topic for key in offsets}},
        {key: epoch for key, epoch in epochs.items() if key in offsets},
    )

    assert StreamPosition.decode(json.loads(json.dumps(position.encode()))) == position
    assert decode_positions(position.encode()) == offsets


def test_a_checkpoint_is_read_by_versions_that_know_no_epochs_or_no_topic_ids():
    """Versions without epochs take them for the id of a topic that they do not read."""
    with_epochs = {"a": {"0": 7, "1": 9}, TOPIC_IDS: {"a": "5f0c", EPOCHS: {"a": {"0": 3}}}}
    position = StreamPosition({A0: 7, A1: 9}, {"a": "5f0c"}, {A0: 3, A1: -1})

    assert json.dumps(position.encode()) == json.dumps(with_epochs)
    assert StreamPosition.decode({"a": {"0": 7}}) == StreamPosition({A0: 7})
    assert StreamPosition.decode({"a": {"0": 7}, TOPIC_IDS: {"a": "5f0c"}}) == StreamPosition({A0: 7}, {"a": "5f0c"})


def test_a_checkpoint_has_the_epochs_that_were_read():
    starts = (EpochStart(leader_epoch=1, start_offset=0), EpochStart(leader_epoch=3, start_offset=5))
    position = StreamPosition({A0: 7, A1: 9}, {"a": "5f0c"}, {A0: 3}, {A0: starts})
    ids = {"a": "5f0c", EPOCHS: {"a": {"0": 3}}, EPOCH_STARTS: {"a": {"0": [[1, 0], [3, 5]]}}}

    assert json.dumps(position.encode()) == json.dumps({"a": {"0": 7, "1": 9}, TOPIC_IDS: ids})
    assert StreamPosition.decode(json.loads(json.dumps(position.encode()))) == position


@pytest.mark.parametrize("foreign", [3, {"a": 3}, {"a": {"0": 3}}, {"a": {"0": [3]}}, {"a": {"0": [[1, None]]}}])
def test_foreign_epochs_are_refused(foreign):
    with pytest.raises(ConfigError, match="no raftlog epochs"):
        StreamPosition.decode({"a": {"0": 7}, TOPIC_IDS: {EPOCH_STARTS: foreign}})


@pytest.mark.parametrize("foreign", [{"t": 3}, {"t": {"x": 1}}, {"t": {"0": None}}])
def test_a_foreign_checkpoint_is_refused(foreign):
    with pytest.raises(ConfigError, match="no raftlog offsets"):
        decode_positions(foreign)
