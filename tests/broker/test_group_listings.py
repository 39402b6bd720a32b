"""Listings of many groups: other requests are served meanwhile, pages hold few groups, and their lag is known."""

from __future__ import annotations

import asyncio
import gc
import time
from types import SimpleNamespace
from typing import Any, cast

from aiohttp.test_utils import make_mocked_request

from raftlog.broker.groups import GroupService
from raftlog.broker.paging import Wanted
from raftlog.broker.routes.groups import GroupRoutes
from raftlog.config import GroupConfig
from raftlog.coordinator.group.records import OffsetCommitted
from raftlog.coordinator.group.state import GroupsState
from raftlog.model import TopicPartition
from raftlog.runtime import SystemClock
from raftlog.transport.session import Answer
from raftlog.wire.codec import decode_json, encode_json
from raftlog.wire.groups import GroupListing, GroupsResponse

GROUPS, SHARDS = 20_000, 50
MANY = 60_000


class Replicas:
    """Replicas of one topic, whose log ends at 100."""

    broker_id = 1

    def find(self, topic: str, partition: int) -> Any:
        if topic != "flights":
            return None
        return SimpleNamespace(high_watermark=100, assignment=SimpleNamespace(topic_id="id"))


def service(count: int = GROUPS, topic: str = "flights", topic_id: str = "id") -> GroupService:
    found = GroupService(
        broker_id=1,
        config=GroupConfig(),
        replicas=cast("Any", Replicas()),
        clock=SystemClock(),
        max_parked=1,
        max_parked_members=1,
    )
    shards = {number: GroupsState() for number in range(SHARDS)}
    for number in range(count):
        name, places = f"group-{number:05d}", {}
        for partition in (0, 1):
            places[TopicPartition(topic, partition)] = OffsetCommitted(
                group_id=name, topic=topic, partition=partition, offset=40, topic_id=topic_id, committed_at_ms=0
            )
        shards[number % SHARDS].offsets[name] = places
    found.runtime = cast("Any", SimpleNamespace(update_shards=lambda: None, loading=False, active=shards))
    return found


async def turns_during(work: Any) -> tuple[int, Any]:
    """Return how often another task had its turn while some work was done, and the work's result."""
    turns, done = 0, asyncio.ensure_future(work)
    while not done.done():
        turns += 1
        await asyncio.sleep(0)
    return turns, await done


async def test_a_listing_of_20000_groups_lets_other_requests_have_their_turn():
    turns, (listed, page) = await turns_during(service().listed())
    assert [one.group_id for one in listed] == [f"group-{number:05d}" for number in range(GROUPS)]
    assert (page.matching, page.next) == (GROUPS, "")
    assert {one.lag_records for one in listed} == {-1}
    assert turns > SHARDS + 2 * GROUPS / 1_024


async def test_a_page_holds_few_groups_and_their_lag():
    listed, page = await service().listed(Wanted(contains="group-1", after="group-10000", limit=3))
    assert [one.group_id for one in listed] == ["group-10001", "group-10002", "group-10003"]
    assert (page.matching, page.next) == (10_000, "group-10003")
    assert [one.lag_records for one in listed] == [120] * 3


async def test_the_lag_is_unknown_without_a_replica_of_the_same_topic():
    for other in (service(1, topic="elsewhere"), service(1, topic_id="an earlier topic of this name")):
        (listed,), _ = await other.listed(Wanted(limit=5))
        assert listed.lag_records == -1


class OtherBroker:
    """A session with a broker that coordinates as many groups."""

    def __init__(self) -> None:
        groups = [
            GroupListing(group_id=f"there-{one:06d}", phase="Empty", members=0, coordinator=2) for one in range(MANY)
        ]
        self.body = bytes(encode_json(GroupsResponse(groups=tuple(groups), matching=MANY)))

    async def request(self, *_: object, **__: object) -> Answer:
        await asyncio.sleep(0)
        return Answer(status=200, body=self.body)


async def longest_turn_s(work: Any) -> tuple[float, Any]:
    """Return the most CPU time that the loop's thread used in one turn while some work was done, and its result.

    Garbage is not collected meanwhile: this process has that of other tests, too.
    """
    longest, done = 0.0, asyncio.ensure_future(work)
    gc.disable()
    try:
        while not done.done():
            began = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - began)
    finally:
        gc.enable()
    return longest, await done


async def test_a_listing_of_all_brokers_is_read_and_written_in_worker_threads():
    brokers = {number: SimpleNamespace(broker_id=number, fenced=False, public="b") for number in (1, 2)}
    context = SimpleNamespace(
        groups=service(MANY),
        access=SimpleNamespace(sees=lambda *_: True, is_off=True),
        config=SimpleNamespace(node_id=1),
        image=SimpleNamespace(brokers=brokers),
        quotas=SimpleNamespace(node_header=dict),
        session=OtherBroker(),
    )
    routes = GroupRoutes(cast("Any", context))
    longest = list[float]()
    for _ in range(3):  # On a busy machine a turn may use twice the CPU time that it needs.
        turn_s, response = await longest_turn_s(routes.groups(make_mocked_request("GET", "/v1/groups")))
        longest.append(turn_s)
    listed = decode_json(GroupsResponse, response.body)
    assert (len(listed.groups), listed.matching) == (2 * MANY, 2 * MANY)
    assert [one.group_id for one in listed.groups] == sorted(one.group_id for one in listed.groups)
    assert min(longest) < 0.025, longest
