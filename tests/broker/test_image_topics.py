"""Topics of patterns: found in slices, kept up to date, and bounded."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.broker import image_topics
from raftlog.broker.groups import GroupService
from raftlog.broker.image_topics import ImageTopics, PatternTopics
from raftlog.config import GroupConfig
from raftlog.coordinator.group.patterns import Pattern
from raftlog.coordinator.group.records import TopicMetadata
from raftlog.errors import InvalidRequestError
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import INTERNAL_TOPICS, PartitionState
from raftlog.runtime import SystemClock
from raftlog.wire.groups import GroupHeartbeatRequest
from tests.broker.test_large_offset_requests import Runtime

NAMES = st.sets(st.sampled_from(["a", "b", "ab", "ba", "c", *INTERNAL_TOPICS]))
PATTERNS = ("a.*", ".*", "b|c", "z")


class Compiled(Pattern):
    """A pattern that counts the names at which it looks."""

    looks = 0

    def matches(self, name: str) -> bool:
        Compiled.looks += 1
        return super().matches(name)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> type[Compiled]:
    Compiled.looks = 0
    monkeypatch.setattr(image_topics, "compiled", Compiled)
    return Compiled


def names_of(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "id")


def many(count: int) -> dict[str, str]:
    return names_of(*(f"t{number}" for number in range(count)))


@given(
    histories=st.lists(NAMES, min_size=1, max_size=6),
    asked=st.lists(st.sampled_from(PATTERNS), max_size=6),
    data=st.data(),
)
def test_the_topics_of_a_pattern_are_those_whose_names_match(histories, asked, data: st.DataObject):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_topics, "MAX_CHANGES", data.draw(st.integers(0, 5)))
        patch.setattr(image_topics, "MAX_PATTERNS", data.draw(st.integers(1, 3)))
        patch.setattr(image_topics, "MAX_NAMES", data.draw(st.integers(1, 6)))
        topics = PatternTopics()
        for names in histories:
            topics.update(dict.fromkeys(names, "id"))
            for pattern in asked:
                fits = Pattern(pattern).matches
                assert sorted(topics.of(pattern)) == sorted(name for name in names - INTERNAL_TOPICS if fits(name))
            assert len(topics._found) <= image_topics.MAX_PATTERNS
            assert topics._kept == sum(len(found.names) for found in topics._found.values())


async def test_names_are_matched_in_slices(counted: type[Compiled]):
    topics, most, before = PatternTopics(), 0, 0
    topics.update(many(10_000))
    finding = asyncio.ensure_future(topics.find("t.*"))
    while not finding.done():
        before = counted.looks
        await asyncio.sleep(0)
        most = max(most, counted.looks - before)
    assert (counted.looks, most) == (10_000, image_topics.EACH)
    assert len(topics.of("t.*")) == 10_000
    assert counted.looks == 10_000
    with pytest.raises(InvalidRequestError):
        await topics.find("(")


async def test_members_that_ask_for_a_pattern_together_share_one_search(counted: type[Compiled]):
    """All members of a group do when its coordinator changes. One that is cancelled does not end the others'."""
    topics = PatternTopics()
    topics.update(many(10_000))
    finding = [asyncio.ensure_future(topics.find("t.*")) for _ in range(100)]
    await asyncio.sleep(0)
    finding[1].cancel()
    await asyncio.wait(finding)
    assert [one.cancelled() for one in finding] == [False, True, *[False] * 98]
    assert counted.looks == 10_000
    topics.update({**many(10_000), **{f"more{number}": "id" for number in range(2_000)}})
    counted.looks = 0
    first, second = (asyncio.ensure_future(topics.find("t.*")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert topics.is_known("t.*")


async def test_a_new_topic_costs_one_look(counted: type[Compiled]):
    topics = PatternTopics()
    topics.update(many(1_000))
    await topics.find("t.*")
    counted.looks = 0
    topics.update(many(1_001))
    await topics.find("t.*")
    assert (len(topics.of("t.*")), counted.looks) == (1_001, 1)
    topics.update(many(1_000))
    assert (len(topics.of("t.*")), counted.looks) == (1_000, 1)


async def test_changes_during_a_search_are_not_missed(counted: type[Compiled]):
    topics = PatternTopics()
    topics.update(many(10_000))
    finding = asyncio.ensure_future(topics.find("t.*"))
    await asyncio.sleep(0)
    topics.update({**many(10_000), "tail": "id"})
    await finding
    assert "tail" in topics.of("t.*")
    assert counted.looks == 10_001


def test_the_least_recently_used_patterns_are_forgotten(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(image_topics, "MAX_PATTERNS", 3)
    topics = PatternTopics()
    topics.update(names_of("a", "b", "__consumer_offsets"))
    for pattern in ("a", "b", "a|b", ".*", "a", "c"):
        topics.of(pattern)
    assert list(topics._found) == [".*", "a", "c"]
    monkeypatch.setattr(image_topics, "MAX_NAMES", 2)
    topics.of("b")
    assert list(topics._found) == ["a", "c", "b"]


def test_an_image_keeps_what_is_known_of_patterns(counted: type[Compiled]):
    topics = ImageTopics(MetadataImage(names=names_of("a", "b")))
    assert topics.matching("a") == ("a",)
    assert topics.of(replace(MetadataImage(names=names_of("a", "b")), offset=1)).matching("a") == ("a",)
    assert counted.looks == 2
    assert topics.of(MetadataImage(names=names_of("c"))).matching("c|a") == ("c",)


def image_of(*, offset: int, topics: int) -> MetadataImage:
    found = {name: cast("Any", SimpleNamespace(topic_id=name, partitions=range(1))) for name in many(topics)}
    return MetadataImage(offset=offset, names={name: name for name in found}, topics=found)


def topic_of(partitions: int, topic_id: str = "1") -> TopicImage:
    state = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
    return TopicImage(topic="t", topic_id=topic_id, configs={}, partitions=dict.fromkeys(range(partitions), state))


def test_the_version_changes_with_topics_and_their_partitions_only():
    """10,000 topics are looked at again in 15 ms, for each group of a pattern."""
    first = MetadataImage(names={"t": "1"}, topics={"1": topic_of(2)})
    topics = ImageTopics(first)
    led = topic_of(2)
    state = replace(led.partitions[0], leader=2, leader_epoch=1, isr=(2,))
    led = replace(led, partitions={**led.partitions, 0: state})
    for same in (replace(first, offset=9), replace(first, topics={"1": led}), replace(first, names={"t": "1"})):
        topics = topics.of(same)
        assert topics.version == 0
    assert topics.of(replace(first, topics={"1": topic_of(3)})).version == 1
    assert topics.of(MetadataImage()).version == 1
    assert topics.of(MetadataImage(names={"t": "2"}, topics={"2": topic_of(2, "2")})).version == 1
    added = replace(first, names={"t": "1", "u": "2"}, topics={"1": topic_of(2), "2": topic_of(1, "2")})
    assert topics.of(added).of(added).version == 1
    assert topics.of(added).get("u") == TopicMetadata(topic_id="2", partitions=1)


class GroupRuntime(Runtime):
    """One shard, of which a heartbeat may look at the state."""

    def state_of(self, key: str) -> Any:
        return self.shard.state


async def test_no_decision_about_a_heartbeat_matches_all_names(counted: type[Compiled]):
    """Each member of a group has its own pattern, and topics come and go faster than members ask."""
    found = GroupService(
        broker_id=1,
        config=GroupConfig(),
        replicas=cast("Any", None),
        clock=SystemClock(),
        max_parked=0,
        max_parked_members=1,
    )
    runtime = found.runtime = cast("Any", GroupRuntime())
    in_decisions, decide = list[int](), runtime.decide

    async def watched(*args: Any, **named: Any) -> Any:
        before = counted.looks
        answer = await decide(*args, **named)
        in_decisions.append(counted.looks - before)
        return answer

    runtime.decide = watched
    images = [image_of(offset=number, topics=2_000 * number) for number in range(1, 5)]
    epochs = {}
    for image in images:
        found._topics = found._topics.of(image)
        for number in range(4):
            pattern = None if number in epochs else f"t{number}.*"
            request = GroupHeartbeatRequest(
                member_id=f"m{number}", member_epoch=epochs.get(number, 0), pattern=pattern, max_wait_ms=0
            )
            answer = await found.heartbeat("g", request, client_host="", timeout_ms=1_000)
            epochs[number] = answer.member_epoch
        leaves = GroupHeartbeatRequest(member_id="m3", member_epoch=-1)
        await found.heartbeat("g", leaves, client_host="", timeout_ms=1_000)
        del epochs[3]
    assert (max(in_decisions), len(in_decisions)) == (0, 20)
    assert counted.looks >= 8_000
