"""Ticks of a shard with many groups: each examines what is due, and does a part that the log and the loop can take."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from classic_support import ClassicShard
from coordinator_support import Broker, Counters
from group_support import FakeTopics, Shard
from tick_support import group_of

from raftlog.coordinator.group import time_outs
from raftlog.coordinator.group.checks import Checks
from raftlog.coordinator.group.membership import decide_heartbeat
from raftlog.coordinator.group.records import GroupChanged, MemberChanged, TopicMetadata
from raftlog.coordinator.group.time_outs import ENOUGH_RECORDS, MAX_EXAMINED, MAX_EXPELLED
from raftlog.coordinator.runtime import LogRecord, Now, runtime
from raftlog.coordinator.runtime import shard as shard_module
from raftlog.errors import ErrorCode, RetriableError
from raftlog.wire.groups import GroupHeartbeatRequest

SESSION_MS, LONG_MS = 10_000, 1_800_000


def join(shard: Shard, group_id: str, member_id: str = "m", session_ms: int = SESSION_MS) -> None:
    request = GroupHeartbeatRequest(member_id=member_id, member_epoch=0, topics=("t",), session_timeout_ms=session_ms)
    shard.run(decide_heartbeat, group_id, request, topics=shard.topics, settings=shard.settings)


def tick(shard: Shard, *, refused: bool = False) -> list[LogRecord]:
    """Let 20 ms pass, and a tick, whose records the log may refuse."""
    shard.now_ms += 20
    records = list(shard.coordinator.on_tick(shard.state, shard.now))
    if not refused:
        shard.write(records)
    return records


def ticks_until_idle(shard: Shard, most: int = 1_000) -> list[list[LogRecord]]:
    """Let ticks pass while the coordinator is behind."""
    found = [tick(shard)]
    while shard.coordinator.is_behind(shard.state, shard.now):
        found.append(tick(shard))
        assert len(found) < most
    return found


def groups_of(records: list[LogRecord]) -> set[str]:
    return {group_of(record) for record in records}


def size_of(shard: Shard, records: list[LogRecord]) -> int:
    return sum(len(key) + len(value or b"") for key, value in map(shard.coordinator.codec.encode, records))


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The keys that ticks have examined."""
    keys: list[object] = []
    examine = time_outs._examine

    def counting(state, now, key, *rest):
        keys.append(key)
        return examine(state, now, key, *rest)

    monkeypatch.setattr(time_outs, "_examine", counting)
    return keys


def test_sessions_of_many_groups_end_in_their_order_over_several_ticks():
    shard = Shard()
    for number in range(1_000):
        join(shard, f"g{number}")
        shard.now_ms += 1
    shard.now_ms += SESSION_MS
    batches = [records for records in ticks_until_idle(shard) if records]
    assert max(map(len, batches)) <= ENOUGH_RECORDS + 4
    assert [group for records in batches for group in dict.fromkeys(map(group_of, records))] == [
        f"g{number}" for number in range(1_000)
    ]
    assert all(not group.members for group in shard.state.groups.values())
    assert shard.state.sessions == {}


def test_members_of_one_large_group_leave_in_several_steps():
    shard = Shard()
    for number in range(3 * MAX_EXPELLED):
        join(shard, "g", f"m{number}")
    shard.now_ms += SESSION_MS
    batches = [records for records in ticks_until_idle(shard) if records]
    assert len(batches) == 3
    assert max(map(len, batches)) <= 4 * MAX_EXPELLED + 1
    assert not shard.state.groups["g"].members


def test_groups_with_long_records_are_written_few_at_a_time():
    """Found by a review: twelve groups with a pattern over 10,000 topics made a batch that the log refused for ever."""
    topics = {f"department.application.events-{number:05}": 1 for number in range(10_000)}
    shard = Shard(FakeTopics(**topics))
    known = {name: TopicMetadata(topic_id="0" * 32, partitions=1) for name in topics}
    for number in range(12):
        shard.state.replay(GroupChanged(group_id=f"g{number}", epoch=1, topics=known))
        for name, session_ms in (("stays", LONG_MS), ("goes", SESSION_MS)):
            member = MemberChanged(
                group_id=f"g{number}",
                member_id=name,
                pattern=".*",
                session_timeout_ms=session_ms,
                rebalance_timeout_ms=LONG_MS,
            )
            shard.state.replay(member)
    shard.coordinator.on_loaded(shard.state, shard.now)
    shard.now_ms += SESSION_MS
    batches = [records for records in ticks_until_idle(shard) if records]
    assert [len(groups_of(records)) for records in batches] == [1] * 12
    assert max(size_of(shard, records) for records in batches) < 2 << 20
    assert all(set(group.members) == {"stays"} for group in shard.state.groups.values())


def test_a_tick_with_enough_bytes_begins_no_other_group(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time_outs, "_size", lambda record: time_outs.ENOUGH_BYTES // 6)
    shard = Shard()
    for number in range(4):
        join(shard, f"g{number}")
    shard.now_ms += SESSION_MS
    written = [len(groups_of(records)) for records in ticks_until_idle(shard) if records]
    assert written == [2, 2], "each has four records, a third and more of what is enough"


def test_a_large_group_does_not_go_with_others(monkeypatch: pytest.MonkeyPatch):
    """It may be as large as a batch, so nothing may be added; and it is the first of the next tick."""
    sizes = {"large": time_outs.MAX_BYTES, "small": 1_000}
    monkeypatch.setattr(time_outs, "_size", lambda record: sizes[group_of(record)[:5]])
    shard = Shard()
    for group_id in ("small1", "large", "small2"):
        join(shard, group_id)
        shard.now_ms += 1
    shard.now_ms += SESSION_MS
    written = [groups_of(records) for records in ticks_until_idle(shard) if records]
    assert written == [{"small1"}, {"large"}, {"small2"}]


def test_a_group_whose_records_are_refused_lets_others_go_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time_outs, "ENOUGH_RECORDS", 1)
    shard = Shard()
    for group_id in ("refused", "a", "b"):
        join(shard, group_id)
    shard.now_ms += SESSION_MS
    assert groups_of(tick(shard, refused=True)) == {"refused"}
    assert [groups_of(tick(shard)) for _ in range(3)] == [{"a"}, {"b"}, {"refused"}]


def test_refused_records_of_classic_groups_are_decided_again():
    shard = ClassicShard()
    shard.join("a")
    shard.join("b")
    shard.now_ms += SESSION_MS
    first = tick(shard, refused=True)
    assert groups_of(first) == {"a", "b"}
    assert groups_of(tick(shard)) == {"a", "b"}
    assert not any(group.members for group in shard.state.classic.values())


@pytest.mark.parametrize("kind", ["consumer", "classic"])
def test_an_idle_tick_examines_no_group(kind: str, examined: list[object]):
    shard = ClassicShard()
    count = 3 * MAX_EXAMINED
    for number in range(count):
        if kind == "consumer":
            join(shard, f"g{number}", session_ms=LONG_MS)
        else:
            shard.join(f"g{number}", session_timeout_ms=LONG_MS, rebalance_timeout_ms=LONG_MS)
    for _ in range(10):
        before = len(examined)
        tick(shard)
        assert len(examined) - before <= MAX_EXAMINED
    assert not shard.coordinator.is_behind(shard.state, shard.now)
    shard.pass_time(shard.settings.initial_rebalance_delay_ms)
    ticks_until_idle(shard)
    examined.clear()
    for _ in range(20):
        shard.pass_time(200)
    assert examined == []


def test_heartbeats_cost_ticks_one_check_for_each_session(examined: list[object]):
    shard = Shard()
    join(shard, "g")
    epoch = shard.state.groups["g"].epoch
    for _ in range(100):
        request = GroupHeartbeatRequest(member_id="m", member_epoch=epoch)
        shard.run(decide_heartbeat, "g", request, topics=shard.topics, settings=shard.settings)
        shard.pass_time(SESSION_MS // 10)
    assert len(examined) <= 2 + 100 // 9
    assert shard.state.groups["g"].members
    assert len(shard.state.checks._heap) < 10


def test_the_next_tick_forgets_the_session_of_a_member_that_left():
    shard = Shard()
    join(shard, "g")
    shard.pass_time(200)
    request = GroupHeartbeatRequest(member_id="m", member_epoch=-1)
    shard.run(decide_heartbeat, "g", request, topics=shard.topics, settings=shard.settings)
    shard.pass_time(200)
    assert shard.state.sessions == {}


def test_checks_that_others_replaced_take_no_memory():
    checks = Checks()
    for number in range(10_000):
        checks.by(("g", "m"), 10_000 - number)
    assert len(checks) == 1
    assert len(checks._heap) < 200
    assert checks.take(0) is None
    assert (check := checks.take(1)) is not None
    assert check[::2] == (1, ("g", "m"))
    assert checks.take(10_000) is None


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path)
    yield broker
    await broker.close()


async def test_a_coordinator_that_is_behind_has_the_next_tick_soon(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    counters, pauses, left = broker.counters, list[float](), [4]
    done, sleep = asyncio.Event(), asyncio.sleep

    def on_tick(state: dict[str, int], now: Now) -> list[LogRecord]:
        left[0] -= 1
        return []

    async def sleeping(seconds: float) -> None:
        if seconds:
            pauses.append(1000 * seconds)
            if len(pauses) == 7:
                done.set()
        await sleep(0)

    monkeypatch.setattr(counters, "on_tick", on_tick)
    monkeypatch.setattr(counters, "is_behind", lambda state, now: left[0] > 0)
    broker.runtime.update_shards()
    async with asyncio.timeout(5):
        while 0 not in broker.runtime.active:
            await sleep(0.01)
    monkeypatch.setattr(runtime, "asyncio", SimpleNamespace(sleep=sleeping))
    await broker.runtime.start()
    async with asyncio.timeout(5):
        await done.wait()
    assert pauses[:7] == [200, 20, 20, 20, 200, 200, 200]


async def test_a_tick_that_the_log_refuses_is_not_repeated_soon(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    shard = shard_module.Shard(Counters(), broker.replica, broker.clock)
    await shard.load()
    monkeypatch.setattr(Counters, "is_behind", lambda self, state, now: True)
    shard.state["a"] = -1

    def refuse(*_: object, **__: object) -> None:
        raise RetriableError("too few replicas", code=ErrorCode.NOT_ENOUGH_REPLICAS)

    with monkeypatch.context() as patched:
        patched.setattr(broker.replica, "append_now", refuse)
        assert not shard.tick()
    assert shard.tick()
    assert shard.state == {}
