"""What each assignor promises, for any members, topics and histories."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.coordinator.group.assignors import ASSIGNORS, Assignment, Subscriber
from raftlog.model import TopicPartition

NAMES = "abcdef"
TOPICS = st.dictionaries(st.sampled_from(["t", "u", "v"]), st.integers(1, 7), min_size=1)


@st.composite
def members(draw: st.DrawFn, *, alike: bool = False) -> list[Subscriber]:
    names = draw(st.sets(st.sampled_from(NAMES), min_size=1))
    everything = frozenset("tuv")
    topics = st.just(everything) if alike else st.frozensets(st.sampled_from("tuv"))
    return [Subscriber(name, draw(topics), name) for name in sorted(names)]


def moved(before: Assignment, after: Assignment) -> int:
    """How many partitions a remaining member has lost."""
    return sum(len(before[member] - after[member]) for member in before if member in after)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(first=members(), then=members(), topics=TOPICS, later=TOPICS)
def test_everything_that_has_a_reader_is_read_by_one(name: str, first, then, topics, later):
    assign = ASSIGNORS[name]
    for group, counts, before in ((first, topics, {}), (then, later, assign(first, topics, {}))):
        given_ = assign(group, counts, before)
        assert set(given_) == {member.member_id for member in group}
        read = [partition for partitions in given_.values() for partition in partitions]
        wanted = {topic for member in group for topic in member.topics}
        assert sorted(read) == sorted(
            TopicPartition(topic, number)
            for topic, count in counts.items()
            if topic in wanted
            for number in range(count)
        )
        for member in group:
            assert {partition.topic for partition in given_[member.member_id]} <= member.topics


@pytest.mark.parametrize("name", ["uniform", "sticky"])
@given(group=members(), topics=TOPICS, history=members(), old=TOPICS)
def test_nothing_moves_without_a_reason(name: str, group, topics, history, old):
    assign = ASSIGNORS[name]
    once = assign(group, topics, assign(history, old, {}))
    assert assign(group, topics, once) == once


@pytest.mark.parametrize("name", ["uniform", "sticky"])
@given(group=members(alike=True), history=members(alike=True), topics=TOPICS)
def test_members_that_want_the_same_get_as_much(name: str, group, history, topics):
    after = ASSIGNORS[name](group, topics, ASSIGNORS[name](history, topics, {}))
    sizes = [len(partitions) for partitions in after.values()]
    assert max(sizes) - min(sizes) <= 1


@given(group=members(alike=True), history=members(alike=True), topics=TOPICS)
def test_uniform_spreads_every_topic(group, history, topics):
    after = ASSIGNORS["uniform"](group, topics, ASSIGNORS["uniform"](history, topics, {}))
    for topic in topics:
        sizes = [sum(partition.topic == topic for partition in partitions) for partitions in after.values()]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", ["uniform", "sticky"])
@given(group=members(alike=True), history=members(alike=True), count=st.integers(1, 20))
def test_no_more_moves_than_evenness_asks_for(name: str, group, history, count: int):
    """Of one topic: a remaining member loses only the partitions above its new share."""
    topics = {"t": count}
    before = ASSIGNORS[name](history, topics, {})
    after = ASSIGNORS[name](group, topics, before)
    staying = sorted((len(before[m.member_id]) for m in group if m.member_id in before), reverse=True)
    share, more = divmod(count, len(group))
    least = sum(max(0, had - (share + (position < more))) for position, had in enumerate(staying))
    assert moved(before, after) == least


@given(first=members(), topics=TOPICS, leaver=st.sampled_from(NAMES))
def test_sticky_moves_nothing_of_those_who_stay_when_somebody_leaves(first, topics, leaver):
    before = ASSIGNORS["sticky"](first, topics, {})
    staying = [member for member in first if member.member_id != leaver]
    if len({member.topics for member in first}) == 1 and staying:
        assert moved(before, ASSIGNORS["sticky"](staying, topics, before)) == 0


def test_ranges_are_read_together():
    group = [Subscriber(name, frozenset("tu"), order) for name, order in (("x", "2"), ("y", "1"), ("z", "3"))]
    given_ = ASSIGNORS["range"](group, {"t": 5, "u": 5}, {})
    assert {name: sorted(p.partition for p in given_[name] if p.topic == "t") for name in given_} == {
        "y": [0, 1],
        "x": [2, 3],
        "z": [4],
    }
    for partitions in given_.values():
        assert {p.partition for p in partitions if p.topic == "t"} == {
            p.partition for p in partitions if p.topic == "u"
        }


@pytest.mark.parametrize("name", ASSIGNORS)
def test_large_groups_are_assigned_in_time(name: str):
    group = [Subscriber(f"m{number}", frozenset("t"), str(number)) for number in range(100)]
    before = ASSIGNORS[name](group[:1], {"t": 1_000}, {})
    after = ASSIGNORS[name](group, {"t": 1_000}, before)
    assert {len(partitions) for partitions in after.values()} == {10}


@given(group=members(), history=st.lists(members(), max_size=2), topics=TOPICS, later=TOPICS)
def test_sticky_moves_as_its_plain_description_does(group, history, topics, later):
    before: Assignment = {}
    for past in history:
        before = ASSIGNORS["uniform"](past, topics, before)
    assert ASSIGNORS["sticky"](group, later, before) == _sticky_in_plain_words(group, later, before)


def _sticky_in_plain_words(group: list[Subscriber], topics: dict[str, int], before: Assignment) -> Assignment:
    reads = {member.member_id: member.topics & set(topics) for member in group}
    given_: dict[str, set[TopicPartition]] = {member: set() for member in reads}
    everything = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
    taken = set()
    for member in sorted(reads):
        given_[member] = {p for p in before.get(member, ()) if p in everything and p.topic in reads[member]} - taken
        taken |= given_[member]
    readers = {topic: [member for member in reads if topic in reads[member]] for topic in topics}
    for partition in sorted(set(everything) - taken, key=lambda p: (len(readers[p.topic]), p)):
        if readers[partition.topic]:
            given_[min(readers[partition.topic], key=lambda member: (len(given_[member]), member))].add(partition)
    while moves := [
        (len(given_[poor]), poor, -len(given_[rich]), rich)
        for poor in reads
        for rich in reads
        if len(given_[rich]) > len(given_[poor]) + 1 and any(p.topic in reads[poor] for p in given_[rich])
    ]:
        _, poor, _, rich = min(moves)
        partition = max(p for p in given_[rich] if p.topic in reads[poor])
        given_[rich].remove(partition)
        given_[poor].add(partition)
    return {member: frozenset(partitions) for member, partitions in given_.items()}


@given(group=members(), history=st.lists(members(), max_size=2), topics=TOPICS, later=TOPICS)
def test_uniform_assigns_as_its_plain_description_does(group, history, topics, later):
    before: Assignment = {}
    for past in history:
        before = ASSIGNORS["sticky"](past, topics, before)
    assert ASSIGNORS["uniform"](group, later, before) == _uniform_in_plain_words(group, later, before)


def _uniform_in_plain_words(group: list[Subscriber], topics: dict[str, int], before: Assignment) -> Assignment:
    """Look at each reader for each topic."""
    given_: dict[str, set[TopicPartition]] = {member.member_id: set() for member in group}
    for topic, count in sorted(topics.items()):
        everything = [TopicPartition(topic, number) for number in range(count)]
        readers = sorted(member.member_id for member in group if topic in member.topics)
        if not readers:
            continue
        kept = {reader: sorted(before.get(reader, frozenset()) & {*everything}) for reader in readers}
        share, more = divmod(count, len(readers))
        readers.sort(key=lambda reader: (len(given_[reader]), len(kept[reader]) <= share, reader))
        quota = {reader: share + (position < more) for position, reader in enumerate(readers)}
        taken = set[TopicPartition]()
        for reader in sorted(readers):
            keeps = [one for one in kept[reader] if one not in taken][: quota[reader]]
            given_[reader].update(keeps)
            taken.update(keeps)
            quota[reader] -= len(keeps)
        free = [one for one in everything if one not in taken]
        for reader in readers:
            given_[reader].update(free[: quota[reader]])
            del free[: quota[reader]]
    return {member: frozenset(partitions) for member, partitions in given_.items()}


@given(group=members(), topics=TOPICS)
def test_range_assigns_as_its_plain_description_does(group, topics):
    expected: dict[str, set[TopicPartition]] = {member.member_id: set() for member in group}
    for topic, count in topics.items():
        readers = [member.member_id for member in group if topic in member.topics]
        for position, reader in enumerate(readers):
            share, more = divmod(count, len(readers))
            first = position * share + min(position, more)
            expected[reader] |= {TopicPartition(topic, first + n) for n in range(share + (position < more))}
    assert ASSIGNORS["range"](group, topics, {}) == expected


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_member_more_does_not_cost_a_look_at_each_topic(name: str):
    """10,000 topics of one partition: a look at each member for each topic took 300 ms for 20, and 10 s for 1,000."""
    topics = {f"t{number}": 1 for number in range(10_000)}
    read, took = frozenset(topics), dict[int, float]()
    for count in (2, 1_000):
        group = [Subscriber(f"m{number}", read, str(number)) for number in range(count)]
        before, times = ASSIGNORS[name](group[:-1], topics, {}), []
        for _ in range(3):
            began = time.thread_time()
            after = ASSIGNORS[name](group, topics, before)
            times.append(time.thread_time() - began)
        assert sum(map(len, after.values())) == 10_000
        took[count] = min(times)
    assert took[1_000] < 3 * took[2]


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_second_reader_of_ten_thousand_partitions_is_given_half_of_them_in_time(name: str):
    group = [Subscriber(f"m{number}", frozenset("t"), str(number)) for number in range(2)]
    before = ASSIGNORS[name](group[:1], {"t": 10_000}, {})
    began = time.process_time()
    after = ASSIGNORS[name](group, {"t": 10_000}, before)
    assert time.process_time() - began < 1  # Some 0.03 s; with a look at every partition for each move, 5 s.
    assert {len(partitions) for partitions in after.values()} == {5_000}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_ten_thousand_topics_of_one_partition_are_assigned_in_time(name: str):
    topics = {f"t{number}": 1 for number in range(10_000)}
    group = [Subscriber(f"m{number}", frozenset(topics), str(number)) for number in range(10)]
    before = ASSIGNORS[name](group[:1], topics, {})
    began = time.process_time()
    ASSIGNORS[name](group, topics, before)
    assert time.process_time() - began < 2  # Some 0.1 s; with a look at what each member has for each topic, 20 s.
