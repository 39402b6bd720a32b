"""Consumers in groups on a real cluster: sharing, going on, rebalancing, slow applications, commits, failovers."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import pytest
from unreliable_proxy import unreliable

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client.consumer import OffsetAndMetadata
from raftlog.errors import (
    ConfigError,
    ErrorCode,
    FencedError,
    InvalidRequestError,
    OffsetOutOfRangeError,
    RaftlogError,
    UnknownOutcomeError,
)
from raftlog.model import TopicPartition

pytestmark = pytest.mark.cluster


@pytest.fixture
def url(shared_cluster: LocalCluster) -> str:
    return shared_cluster.bootstrap


@pytest.fixture
def group(topic_name: str) -> str:
    return topic_name.replace("topic", "group")


async def fill(url: str, topic: str, count: int, *, partitions: int = 4, first: int = 0) -> None:
    async with Admin(url) as admin:
        await admin.create_topic(topic, partitions=partitions, replication_factor=3, if_not_exists=True)
    async with Producer(url) as producer:
        sent = [
            producer.send_nowait(topic, b"%d" % number, partition=number % partitions)
            for number in range(first, first + count)
        ]
        await asyncio.gather(*sent)


async def until(holds: Callable[[], bool], *consumers: Consumer, into: list[int] | None = None) -> None:
    """Let consumers poll until something holds; offsets of what they got meanwhile go into a list."""
    async with asyncio.timeout(20):
        while not holds():
            for records in await asyncio.gather(*(consumer.fetch(max_wait_ms=50) for consumer in consumers)):
                if into is not None:
                    into += [record.offset for record in records]


async def numbers(consumer: Consumer, count: int, seconds: float = 20) -> list[int]:
    seen: list[int] = []
    async with asyncio.timeout(seconds):
        while len(seen) < count:
            seen += [int(record.value or b"") for record in await consumer.fetch()]
    return seen


async def test_a_group_goes_on_where_it_has_committed(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 40)
    async with Consumer(url, topic_name, group_id=group, auto_offset_reset="earliest") as consumer:
        assert sorted(await numbers(consumer, 40)) == list(range(40))
    await fill(url, topic_name, 8, first=40)
    async with Consumer(url, topic_name, group_id=group) as consumer:
        assert sorted(await numbers(consumer, 8)) == list(range(40, 48))
        assert {consumer.lag(*partition) for partition in consumer.assignment} == {0}


async def test_members_share_the_partitions_and_only_moved_ones_stop(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 0, partitions=6)
    events: list[tuple[str, str, int]] = []

    def noting(name: str) -> dict[str, Callable[[list[TopicPartition]], Awaitable[None]]]:
        async def note(kind: str, partitions: list[TopicPartition]) -> None:
            events.append((name, kind, len(partitions)))

        return {f"on_{kind}": lambda p, kind=kind: note(kind, p) for kind in ("assigned", "revoked", "lost")}

    async with (
        Consumer(url, topic_name, group_id=group, **noting("a")) as a,
        Consumer(url, topic_name, group_id=group, **noting("b")) as b,
    ):
        await until(lambda: len(a.assignment) == len(b.assignment) == 3, a, b)
        kept = set(a.assignment)
        async with Consumer(url, topic_name, group_id=group, **noting("c")) as c:
            await until(lambda: len(a.assignment) == len(b.assignment) == len(c.assignment) == 2, a, b, c)
            assert set(a.assignment) < kept
        await until(lambda: len(a.assignment) == len(b.assignment) == 3, a, b)
    assert events.count(("c", "assigned", 1)) + 2 * events.count(("c", "assigned", 2)) == 2
    assert ("a", "revoked", 1) in events
    assert not [event for event in events if event[1] == "lost"]


async def test_iterating_commits_what_was_processed_and_not_what_an_error_interrupted(
    url: str, topic_name: str, group: str
):
    await fill(url, topic_name, 10, partitions=1)

    async def process() -> None:
        options = {"group_id": group, "auto_offset_reset": "earliest", "auto_commit_interval_ms": 1}
        async with Consumer(url, topic_name, **options) as consumer:
            async for record in consumer:
                if record.value == b"5":
                    async with asyncio.timeout(20):
                        while (await consumer.committed())[TopicPartition(topic_name, 0)] is None:
                            await asyncio.sleep(0.01)
                    raise RuntimeError("cannot process 5")
                await asyncio.sleep(0.005)

    with pytest.raises(RuntimeError, match="cannot process 5"):
        await process()
    async with Consumer(url, topic_name, group_id=group) as consumer:
        async for record in consumer:
            first = int(record.value or b"")
            break
        assert first <= 5  # Nothing was skipped.
        assert first >= 1  # What was processed is committed, as far as a commit got through.
        assert consumer.position(topic_name, 0) == first + 1
        assert sorted(await numbers(consumer, 9 - first)) == list(range(first + 1, 10))


async def test_explicit_commits(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 9, partitions=1)
    options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with Consumer(url, topic_name, **options) as consumer:
        assert len(await consumer.fetch(max_records=3, max_wait_ms=10_000)) == 3
        await consumer.commit()
        await consumer.fetch(max_records=2, max_wait_ms=10_000)
        first = consumer.commit_nowait()
        second = consumer.commit_nowait({(topic_name, 0): OffsetAndMetadata(offset=4, metadata="mine")})
        await asyncio.gather(first, second)
        assert await consumer.committed() == {
            TopicPartition(topic_name, 0): OffsetAndMetadata(offset=4, metadata="mine", leader_epoch=0)
        }
        with pytest.raises(RaftlogError, match="there is no partition"):
            await consumer.commit({("nowhere", 0): 1})
    async with Consumer(url, topic_name, **options) as consumer:
        assert (await numbers(consumer, 5))[0] == 4


async def test_where_a_group_begins(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 4, partitions=1)

    async def begins(reset, suffix: str) -> int:
        async with Consumer(url, topic_name, group_id=group + suffix, auto_offset_reset=reset) as consumer:
            consumed: list[int] = []
            await until(lambda: bool(consumer.assignment), consumer, into=consumed)
            return consumed[0] if consumed else consumer.position(topic_name, 0)

    async with Consumer(url, topic_name, group_id=group, auto_offset_reset="none") as consumer:
        with pytest.raises(OffsetOutOfRangeError, match="auto_offset_reset is none"):
            await consumer.fetch(max_wait_ms=10_000)
    assert await begins("latest", "l") == 4
    assert await begins(timedelta(seconds=0), "z") == 4
    assert await begins(timedelta(hours=1), "h") == 0
    assert await begins("earliest", "e") == 0
    with pytest.raises(ConfigError, match="auto_offset_reset: expected earliest"):
        Consumer(url, topic_name, group_id=group, auto_offset_reset="first")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="partitions: not with a group_id"):
        Consumer(url, topic_name, group_id=group, partitions=[0])
    async with Consumer(url, topic_name) as alone:
        with pytest.raises(InvalidRequestError, match="group_id: missing"):
            await alone.commit()


async def test_pausing_seeking_and_resuming(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 20, partitions=2)
    async with Consumer(url, topic_name, group_id=group, auto_offset_reset="earliest") as consumer:
        assert len(await numbers(consumer, 20)) == 20
        await consumer.seek_to("earliest")
        consumer.pause((topic_name, 0))
        assert sorted(await numbers(consumer, 10)) == list(range(1, 20, 2))
        assert await consumer.fetch(max_wait_ms=200) == []
        consumer.resume()
        assert sorted(await numbers(consumer, 10)) == list(range(0, 20, 2))
        await consumer.seek(topic_name, 1, 8)
        assert await numbers(consumer, 2) == [17, 19]
        await consumer.seek_to(timedelta(hours=1), (topic_name, 1))
        assert len(await numbers(consumer, 10)) == 10


async def test_a_slow_application_keeps_its_partitions_until_the_limit_and_is_told(
    url: str, topic_name: str, group: str
):
    await fill(url, topic_name, 8, partitions=2)
    lost: list[TopicPartition] = []
    options = {"group_id": group, "auto_offset_reset": "earliest", "session_timeout_ms": 2_000}
    async with (
        Consumer(url, topic_name, **options, max_poll_interval_ms=6_000, on_lost=lost.extend) as slow,
        Consumer(url, topic_name, **options) as other,
    ):
        await until(lambda: len(slow.assignment) == len(other.assignment) == 1, slow, other)
        mine = slow.assignment
        async with asyncio.timeout(5):
            for _ in range(15):  # Longer than its session: the heartbeats go on.
                await other.fetch(max_wait_ms=200)
        assert slow.assignment == mine
        assert len(other.assignment) == 1

        await until(lambda: len(other.assignment) == 2, other)
        with pytest.raises(FencedError, match="max_poll_interval_ms"):
            await slow.commit({(*mine[0],): 1})
        assert lost == []
        await slow.fetch(max_wait_ms=50)
        assert lost == mine
        await until(lambda: len(slow.assignment) == len(other.assignment) == 1, slow, other)


async def test_an_application_that_blocks_the_event_loop_stays_a_member(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 4, partitions=1)
    lost: list[TopicPartition] = []
    options = {"group_id": group, "auto_offset_reset": "earliest", "session_timeout_ms": 2_000}
    async with Consumer(url, topic_name, **options, on_lost=lost.extend) as consumer:
        assert len(await numbers(consumer, 4)) == 4
        time.sleep(5)  # noqa: ASYNC251  (what must not be done, is done, and must not hurt)
        await consumer.commit()
        await consumer.fetch(max_wait_ms=50)
        assert lost == []
        async with Admin(url) as admin:
            described = await admin.describe_group(group)
        assert (described.epoch, len(described.members)) == (1, 1)


async def test_what_is_given_up_at_the_end_is_told(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 3, partitions=1)
    done: list[tuple[str, int]] = []

    async def revoked(partitions: list[TopicPartition]) -> None:
        await consumer.commit({(*partitions[0],): 2})
        done.append(("revoked", len(partitions)))

    options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with Consumer(url, topic_name, **options, on_revoked=revoked) as consumer:
        await numbers(consumer, 3)
    assert done == [("revoked", 1)]
    async with Admin(url) as admin:
        assert list((await admin.group_offsets(group)).values()) == [2]


async def test_commits_of_a_member_that_the_group_went_on_without_are_refused(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 4, partitions=1)
    options = {"group_id": group, "auto_offset_reset": "earliest", "session_timeout_ms": 1_000}
    async with Consumer(url, topic_name, **options, enable_auto_commit=False) as zombie:
        await until(lambda: bool(zombie.assignment), zombie)
        assert zombie._group is not None
        await zombie._group.member._tasks.close()  # No heartbeats any more, as in a process that hangs.
        zombie._group.member._keepalive.beat(None)
        async with Consumer(url, topic_name, **options) as other:
            await until(lambda: bool(other.assignment), other)
            with pytest.raises(FencedError) as fenced:
                await zombie.commit({(topic_name, 0): 4})
            assert fenced.value.code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_member_that_was_dropped_goes_back_when_it_has_joined_anew(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 4, partitions=1)
    options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with Consumer(url, topic_name, **options) as consumer:
        assert await numbers(consumer, 4) == [0, 1, 2, 3]
        await consumer.commit({(topic_name, 0): 1})
        assert consumer._group is not None
        await consumer._group.member._send_leave(for_good=True)  # As when it was silent for too long.
        async with asyncio.timeout(20):
            await consumer.seek_to_committed()
        assert await numbers(consumer, 3) == [1, 2, 3]


async def test_commits_in_the_background_are_done_before_the_end(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 4, partitions=1)
    options = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with Consumer(url, topic_name, **options) as consumer:
        await numbers(consumer, 4)
        for offset in (1, 2, 3):
            consumer.commit_nowait({(topic_name, 0): offset})
    async with Admin(url) as admin:
        assert await admin.group_offsets(group) == {TopicPartition(topic_name, 0): 3}
        assert await admin.reset_group_offsets(group, to="earliest") == {TopicPartition(topic_name, 0): 0}
        assert await admin.group_lag(group) == {TopicPartition(topic_name, 0): 4}
        await admin.delete_topic(topic_name)
        assert await admin.group_lag(group) == {}
        assert await admin.reset_group_offsets(group, to="earliest") == {}


async def test_a_commit_whose_answer_was_lost_and_that_is_refused_later_may_count(
    url: str, topic_name: str, group: str, shared_cluster: LocalCluster
):
    await fill(url, topic_name, 4, partitions=1)
    options = {"group_id": group, "auto_offset_reset": "earliest", "session_timeout_ms": 1_000}
    async with Admin(url) as admin:
        found = await admin.find_coordinator("group", group)
    coordinator = shared_cluster.node(f"broker-{found.broker_id}").public
    assert coordinator is not None
    async with (
        unreliable(coordinator, "/offsets") as (proxy, dial),
        Consumer(url, topic_name, **options, enable_auto_commit=False, dial=dial) as zombie,
    ):
        assert await numbers(zombie, 4) == [0, 1, 2, 3]  # The epoch of a committed offset comes from the records read.
        assert zombie._group is not None
        await zombie._group.member._tasks.close()  # No heartbeats any more, as in a process that hangs.
        zombie._group.member._keepalive.beat(None)
        proxy.lose, proxy.then_hold = 1, "/offsets"
        commit = zombie.commit_nowait({(topic_name, 0): 3})
        await proxy.holding.wait()
        async with Consumer(url, topic_name, **options) as other:
            await until(lambda: bool(other.assignment), other)
            assert zombie.group_metadata.member_epoch > 0
            assert (await other.committed())[TopicPartition(topic_name, 0)] == OffsetAndMetadata(
                offset=3, leader_epoch=0
            )
            proxy.release.set()
            with pytest.raises(UnknownOutcomeError, match=r"may count or not: it is refused now \(UNKNOWN_MEMBER_ID"):
                await commit


async def test_automatic_commits_do_not_queue_up_behind_one_that_takes_long(
    url: str, topic_name: str, group: str, shared_cluster: LocalCluster
):
    await fill(url, topic_name, 20, partitions=1)
    async with Admin(url) as admin:
        found = await admin.find_coordinator("group", group)
    coordinator = shared_cluster.node(f"broker-{found.broker_id}").public
    assert coordinator is not None
    async with (
        unreliable(coordinator, "/offsets") as (proxy, dial),
        Consumer(
            url, topic_name, group_id=group, auto_offset_reset="earliest", auto_commit_interval_ms=1, dial=dial
        ) as consumer,
    ):
        await until(lambda: bool(consumer.assignment), consumer)
        await consumer.seek_to("earliest")
        proxy.hold = "/offsets"
        seen = 0
        async with asyncio.timeout(20):
            while seen < 20 or not proxy.holding.is_set():
                seen += len(await consumer.fetch(max_records=1, max_wait_ms=10))
        assert consumer._group is not None
        assert len(consumer._group._tasks._tasks) == 1
        proxy.release.set()
        await until(
            lambda: consumer._group is not None and not consumer._group.positions(consumer.assignment), consumer
        )


async def test_patterns_find_topics_that_come_later(url: str, topic_name: str, group: str):
    await fill(url, f"{topic_name}.one", 3, partitions=1)
    async with Consumer(
        url, pattern=rf"{topic_name}\.(one|two)", group_id=group, auto_offset_reset="earliest"
    ) as consumer:
        assert len(await numbers(consumer, 3)) == 3
        await fill(url, f"{topic_name}.two", 2, partitions=1)
        await fill(url, f"{topic_name}.three", 2, partitions=1)
        assert len(await numbers(consumer, 2)) == 2
        assert {partition.topic for partition in consumer.assignment} == {f"{topic_name}.one", f"{topic_name}.two"}
    with pytest.raises(InvalidRequestError) as refused:
        await Consumer(url, pattern="(", group_id=group).__aenter__()
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_a_static_member_comes_back_to_its_partitions(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 0, partitions=4)
    revoked: list[TopicPartition] = []
    async with Consumer(url, topic_name, group_id=group, on_revoked=revoked.extend) as other:
        async with Consumer(url, topic_name, group_id=group, group_instance_id="one") as first:
            await until(lambda: len(first.assignment) == len(other.assignment) == 2, first, other)
            had = first.assignment
        revoked.clear()
        async with Consumer(url, topic_name, group_id=group, group_instance_id="one") as again:
            await until(lambda: len(again.assignment) == 2, again, other)
            assert sorted(again.assignment) == sorted(had)
        assert revoked == []
        assert len(other.assignment) == 2


async def test_no_coordinator_is_an_error_in_time():
    with pytest.raises(RaftlogError, match=r"cannot (connect|join)"):
        async with Consumer("http://127.0.0.1:1", "t", group_id="g", request_timeout_ms=300):
            pass


@asynccontextmanager
async def processing(url: str, topic: str, group: str, members: int, seen: Counter[int]) -> AsyncIterator[None]:
    """Run consumers that process records one by one, until the block ends."""

    async def work() -> None:
        async with Consumer(
            url,
            topic,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=3_000,
            auto_commit_interval_ms=200,
        ) as consumer:
            async for record in consumer:
                seen[int(record.value or b"")] += 1

    async with AsyncExitStack() as stack:
        tasks = [asyncio.create_task(work()) for _ in range(members)]

        async def end() -> None:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert [result for result in results if not isinstance(result, asyncio.CancelledError)] == []

        stack.push_async_callback(end)
        yield


async def test_a_group_survives_the_kill_of_its_coordinators_broker_and_of_the_active_controller(
    tmp_path, topic_name: str, group: str
):
    with LocalCluster(tmp_path / "c", port=0) as cluster:
        url, seen = cluster.bootstrap, Counter[int]()
        await fill(url, topic_name, 300, partitions=6)
        async with Admin(url) as admin, processing(url, topic_name, group, 3, seen):
            async with asyncio.timeout(60):
                while len(seen) < 300:
                    await asyncio.sleep(0.05)
                found = await admin.find_coordinator("group", group)
                controller = (await admin.controller()).controller_id
                await asyncio.to_thread(cluster.kill, f"broker-{found.broker_id}")
                await asyncio.to_thread(cluster.kill, f"controller-{controller}")
                await fill(url, topic_name, 300, partitions=6, first=300)
                while len(seen) < 600:
                    await asyncio.sleep(0.05)
            # All that was processed before the kill and committed is not processed again.
            await asyncio.sleep(1)
        assert sorted(seen) == list(range(600))
        repeated = sum(count - 1 for count in seen.values())
        assert repeated <= 300, repeated


async def test_a_commit_after_seeking_back_counts(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 10, partitions=1)
    async with Consumer(
        url, topic_name, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        await numbers(consumer, 10)
        await consumer.commit()
        await consumer.seek(topic_name, 0, 3)
        await consumer.commit()
        found = await consumer.committed((topic_name, 0))
        assert found[TopicPartition(topic_name, 0)] == OffsetAndMetadata(offset=3)


async def test_a_commit_that_was_cancelled_hides_no_commit_of_the_position_before(
    url: str, topic_name: str, group: str
):
    await fill(url, topic_name, 10, partitions=1)
    async with Consumer(
        url, topic_name, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False
    ) as consumer:
        await numbers(consumer, 10)
        await consumer.seek(topic_name, 0, 3)
        await consumer.commit()
        await consumer.seek(topic_name, 0, 7)
        committing = asyncio.ensure_future(consumer.commit())
        async with asyncio.timeout(20):
            while (item := (await consumer.committed((topic_name, 0)))[TopicPartition(topic_name, 0)]) is None or (
                item.offset != 7 and not committing.done()
            ):
                await asyncio.sleep(0)
        committing.cancel()
        await asyncio.wait([committing])
        await consumer.seek(topic_name, 0, 3)
        await consumer.commit()
        found = await consumer.committed((topic_name, 0))
        assert found[TopicPartition(topic_name, 0)] == OffsetAndMetadata(offset=3)


async def test_no_record_comes_before_on_assigned_has_ended(url: str, topic_name: str, group: str):
    """A call for records that is cancelled meanwhile leaves the callback alone: it may seek, or load a state."""
    await fill(url, topic_name, 10, partitions=1)
    begun, go_on, calls = asyncio.Event(), asyncio.Event(), list[int]()

    async def assigned(_: list[TopicPartition]) -> None:
        calls.append(1)
        begun.set()
        await go_on.wait()
        await consumer.seek(topic_name, 0, 7)

    async with Consumer(
        url, topic_name, group_id=group, auto_offset_reset="earliest", on_assigned=assigned
    ) as consumer:
        reading = asyncio.ensure_future(consumer.fetch(max_wait_ms=20_000))
        await begun.wait()
        reading.cancel()
        await asyncio.wait([reading])
        go_on.set()
        assert await numbers(consumer, 3) == [7, 8, 9]
        assert calls == [1]


async def test_a_close_ends_a_callback_that_hangs(url: str, topic_name: str, group: str):
    await fill(url, topic_name, 10, partitions=1)
    begun = asyncio.Event()

    async def assigned(_: list[TopicPartition]) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with Consumer(url, topic_name, group_id=group, on_assigned=assigned) as consumer:
        reading = asyncio.ensure_future(consumer.fetch(max_wait_ms=20_000))
        await begun.wait()
        reading.cancel()
        await asyncio.wait([reading])
        closing = asyncio.ensure_future(consumer.close())
        await asyncio.wait([closing], timeout=10)
        assert closing.done()
