"""Shards: loading, deciding, answering only what is replicated, losing leadership, and what can go wrong."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from coordinator_support import TOPIC, Broker, Changed, Counters, add

from raftlog.coordinator.runtime import Decision, RecordCodec, Tombstone, tombstone
from raftlog.coordinator.runtime.codec import UnreadableRecordError
from raftlog.coordinator.runtime.runtime import RELOAD_MS
from raftlog.coordinator.runtime.shard import LOAD_RECORDS
from raftlog.errors import (
    DiskFullError,
    ErrorCode,
    InvalidRequestError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.model import ACKS_ALL
from raftlog.record import NewRecord, build_batch


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    broker = Broker(tmp_path)
    try:
        yield broker
    finally:
        await broker.close()


async def loaded(broker: Broker) -> None:
    before = len(broker.activated)
    broker.runtime.update_shards()
    async with asyncio.timeout(5):
        while len(broker.activated) == before:
            await asyncio.sleep(0)


def adding(broker: Broker, name: str, amount: int, timeout_ms: int = 5_000) -> asyncio.Task[int]:
    work = broker.runtime.decide(name, lambda state, _: add(state, name, amount), timeout_ms=timeout_ms)
    return asyncio.create_task(work)


async def test_an_answer_waits_until_its_record_is_replicated_but_the_next_decision_does_not(broker: Broker):
    await loaded(broker)
    first, second = adding(broker, "a", 1), adding(broker, "a", 2)
    await asyncio.sleep(0.01)
    assert not first.done()
    assert broker.runtime.active[0] == {"a": 3}

    broker.replicate()

    assert (await first, await second) == (1, 3)


async def test_a_read_waits_for_what_it_has_seen(broker: Broker):
    await loaded(broker)
    writing = adding(broker, "a", 1)
    await asyncio.sleep(0)
    reading = asyncio.create_task(
        broker.runtime.decide("a", lambda state, _: Decision((), state["a"]), timeout_ms=5_000)
    )
    await asyncio.sleep(0.01)
    assert not reading.done()
    broker.replicate()
    assert (await writing, await reading) == (1, 1)


def refusing(broker: Broker) -> asyncio.Task[int]:
    def refuse(*_: object) -> Decision[int]:
        raise InvalidRequestError("by what was seen", code=ErrorCode.INVALID_TXN_STATE)

    return asyncio.create_task(broker.runtime.decide("a", refuse, timeout_ms=5_000))


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_final_error_waits_until_what_it_is_about_is_replicated(replaced: bool, broker: Broker):
    """A client would act on what a failover undoes, for example on a time-out of its transaction."""
    await loaded(broker)
    writing = adding(broker, "a", 1)
    await asyncio.sleep(0)
    refused = refusing(broker)
    await asyncio.sleep(0.01)
    assert not refused.done()
    if replaced:
        broker.elect(2)
        with pytest.raises(RetriableError):
            await refused
        with pytest.raises(UnknownOutcomeError):
            await writing
    else:
        broker.replicate()
        with pytest.raises(InvalidRequestError, match="by what was seen"):
            await refused
        assert await writing == 1


async def test_a_full_disk_is_an_error_that_clients_retry(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    """Members of groups ended for good at the first one."""

    def full(*_: object, **__: object) -> None:
        raise DiskFullError("no room")

    await loaded(broker)
    monkeypatch.setattr(broker.replica, "append_now", full)
    with pytest.raises(RetriableError, match="no room") as refused:
        await adding(broker, "a", 1)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def reading(broker: Broker, name: str) -> asyncio.Task[int]:
    return asyncio.create_task(
        broker.runtime.decide(
            name, lambda state, _: Decision((), state.get(name, 0), is_confirmed=True), timeout_ms=5_000
        )
    )


async def test_a_confirmed_read_waits_until_the_replicas_in_sync_confirm_the_leader(
    broker: Broker, caplog: pytest.LogCaptureFixture
):
    await loaded(broker)
    waiting = reading(broker, "a")
    await asyncio.sleep(0.01)
    assert not waiting.done()
    broker.replicate()
    assert await waiting == 0

    broker.reopen()
    await loaded(broker)
    assert broker.runtime.active[0] == {}
    assert not caplog.records, "the record of a read is skipped without a word"


async def test_a_read_at_a_leader_that_was_replaced_is_not_answered(broker: Broker):
    """The former leader is cut off: followers of its successor fetch from it no more."""
    await loaded(broker)
    waiting = reading(broker, "a")
    await asyncio.sleep(0.01)
    broker.elect(2)
    with pytest.raises(UnknownOutcomeError) as lost:
        await waiting
    assert lost.value.code is ErrorCode.NOT_COORDINATOR


async def test_a_leader_that_no_other_replica_may_succeed_answers_reads_at_once(broker: Broker):
    await loaded(broker)
    broker.change(isr=(1,))
    assert await reading(broker, "a") == 0
    assert broker.replica.log.log_end_offset == 0


async def test_below_min_isr_the_controllers_confirm_a_read(broker: Broker):
    """Nothing is replicated there, and a replica of the ELR may lead."""
    asked = asyncio.Event()
    answered = asyncio.Event()

    async def catch_up() -> None:
        asked.set()
        await answered.wait()

    broker.runtime.catch_up = catch_up
    await loaded(broker)
    broker.change(isr=(1,), elr=(2,))
    waiting = reading(broker, "a")
    async with asyncio.timeout(5):
        await asked.wait()
    assert not waiting.done()
    answered.set()
    assert await waiting == 0
    assert broker.replica.log.log_end_offset == 0


async def test_below_min_isr_a_read_at_a_leader_that_was_replaced_is_not_answered(broker: Broker):
    """The former leader learns from the controllers that a replica of the ELR leads."""

    async def catch_up() -> None:
        broker.elect(2)

    broker.runtime.catch_up = catch_up
    await loaded(broker)
    broker.change(isr=(1,), elr=(2,))
    with pytest.raises(StaleRouteError) as lost:
        await reading(broker, "a")
    assert lost.value.code is ErrorCode.NOT_COORDINATOR


async def test_below_min_isr_a_read_waits_for_the_controllers_until_its_deadline(broker: Broker):
    async def catch_up() -> None:
        await asyncio.Event().wait()

    broker.runtime.catch_up = catch_up
    await loaded(broker)
    broker.change(isr=(1,), elr=(2,))
    reads = Decision((), 0, is_confirmed=True)
    async with asyncio.timeout(5):
        with pytest.raises(RetriableError, match="within 20 ms") as late:
            await broker.runtime.decide("a", lambda *_: reads, timeout_ms=20)
    assert late.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_below_min_isr_and_without_controllers_a_read_is_not_answered(broker: Broker):
    await loaded(broker)
    broker.change(isr=(1,), elr=(2,))
    with pytest.raises(RetriableError, match="no controllers") as refused:
        await reading(broker, "a")
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_the_next_leader_loads_what_was_written_and_drops_it_when_it_leads_no_longer(broker: Broker):
    await loaded(broker)
    for name in ("a", "b"):
        task = adding(broker, name, 5)
        await asyncio.sleep(0)
        broker.replicate()
        await task
    broker.elect(2)
    with pytest.raises(StaleRouteError) as refused:
        await adding(broker, "a", 1)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert refused.value.details == {"leader": 2}
    assert not broker.runtime.active

    broker.elect(1)
    with pytest.raises(RetriableError) as early:
        await adding(broker, "a", 1)
    assert early.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    await asyncio.sleep(0.01)

    assert broker.runtime.active == {0: {"a": 5, "b": 5}}
    assert broker.activated == [0, 0]
    assert broker.counters.loaded == 2


async def test_a_load_lets_the_loop_serve_others(broker: Broker, monkeypatch: pytest.MonkeyPatch):
    """Thousands of small records took more than 100 ms in one iteration."""
    encode = Counters.codec.encode
    for first in range(0, 3_000, 1_500):
        rows = [Changed(name=f"n{first + number}", total=1) for number in range(1_500)]
        broker.replica.append_now(
            build_batch([NewRecord(value, key, 0) for key, value in map(encode, rows)]), acks=ACKS_ALL
        )
    iterations, seen = 0, Counter[int]()

    def count() -> None:
        nonlocal iterations
        iterations += 1
        asyncio.get_running_loop().call_soon(count)

    replay = broker.counters.replay
    monkeypatch.setattr(broker.counters, "replay", lambda *args: (seen.update([iterations]), replay(*args)))
    count()
    await loaded(broker)

    assert sum(seen.values()) == 3_000
    assert max(seen.values()) <= LOAD_RECORDS


async def test_a_lost_leadership_ends_the_waiting(broker: Broker):
    await loaded(broker)
    waiting = adding(broker, "a", 1)
    await asyncio.sleep(0)
    broker.elect(2)

    with pytest.raises(UnknownOutcomeError) as lost:
        await waiting
    assert lost.value.code is ErrorCode.NOT_COORDINATOR
    assert lost.value.details == {"appended": True}


async def test_without_enough_replicas_nothing_is_written(broker: Broker):
    await loaded(broker)
    broker.change(isr=(1,))

    with pytest.raises(RetriableError) as refused:
        await adding(broker, "a", 1)

    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.runtime.active[0] == {}
    assert broker.replica.log.log_end_offset == 0


async def test_a_late_answer_is_an_unknown_outcome(broker: Broker):
    await loaded(broker)
    with pytest.raises(UnknownOutcomeError) as late:
        await adding(broker, "a", 1, timeout_ms=20)
    assert late.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_refusal_changes_nothing(broker: Broker):
    await loaded(broker)

    def refuse(*_: object) -> None:
        raise InvalidRequestError("no")

    with pytest.raises(InvalidRequestError, match="no"):
        await broker.runtime.decide("a", refuse, timeout_ms=100)  # type: ignore[arg-type]
    assert broker.replica.log.log_end_offset == 0


async def test_ticks_write_what_time_brings_about(broker: Broker):
    await loaded(broker)
    adding(broker, "a", -1)
    adding(broker, "b", 1)
    await asyncio.sleep(0)
    await broker.runtime.start()
    async with asyncio.timeout(5):
        while broker.runtime.active[0] != {"b": 1}:
            await asyncio.sleep(0.01)
    broker.replicate()
    broker.elect(2)
    broker.elect(1)
    await loaded(broker)
    assert broker.runtime.active[0] == {"b": 1}


async def test_a_bug_in_replay_drops_the_state_and_the_shard_loads_again(broker: Broker):
    await loaded(broker)
    broker.counters.fail_on = "bad"
    with pytest.raises(RuntimeError, match="a bug"):
        await adding(broker, "bad", 1)
    with pytest.raises(RetriableError) as failed:
        await adding(broker, "a", 1)
    assert failed.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE

    broker.counters.fail_on = None
    broker.clock.now_ms += RELOAD_MS
    await loaded(broker)
    assert broker.runtime.active[0] == {"bad": 1}


async def test_what_cannot_be_read_is_skipped(broker: Broker, caplog: pytest.LogCaptureFixture):
    rows = [
        NewRecord(b'{"version":1,"total":4}', b'{"kind":"Changed","name":"a"}'),
        NewRecord(b'{"version":1,"total":"many"}', b'{"kind":"Changed","name":"a"}'),
        NewRecord(b'{"version":9}', b'{"kind":"FromTheFuture","name":"a"}'),
        NewRecord(b"[]", b'{"kind":"Changed","name":"b"}'),
        NewRecord(None, b"not json"),
        NewRecord(b'{"version":2,"total":6,"more":1}', b'{"kind":"Changed","name":"c"}'),
    ]
    broker.replica.append_now(build_batch(rows), acks=ACKS_ALL)
    await loaded(broker)

    assert broker.runtime.active[0] == {"a": 4, "c": 6}
    assert caplog.text.count("skipping an unreadable record") == 3


async def test_a_restarted_broker_loads_its_log(broker: Broker):
    await loaded(broker)
    tasks = [adding(broker, f"n{number}", number) for number in range(500)]
    await asyncio.sleep(0)
    broker.replicate()
    await asyncio.gather(*tasks)

    broker.reopen()
    await loaded(broker)

    assert broker.runtime.active[0] == {f"n{number}": number for number in range(500)}


def test_keys_go_where_kafka_puts_them(broker: Broker):
    broker.runtime._partitions = lambda: 50  # type: ignore[method-assign]
    assert [broker.runtime.partition_of(key) for key in ("21", "foobar", "a-little-bit-long-string")] == [
        (number & 0x7FFFFFFF) % 50 for number in (-973932308, -790332482, -985981536)
    ]
    broker.runtime._partitions = lambda: 0  # type: ignore[method-assign]
    with pytest.raises(StaleRouteError, match=f"{TOPIC} does not exist yet"):
        broker.runtime.partition_of("a")


def test_records_come_back_as_they_were():
    codec = RecordCodec([Changed])
    record = Changed(name="é", total=3)
    key, value = codec.encode(record)
    assert (key, value) == ('{"kind":"Changed","name":"é"}'.encode(), b'{"version":1,"total":3}')
    assert codec.decode(key, value) == record
    assert codec.encode(tombstone(record)) == (key, None)
    assert codec.decode(key, None) == Tombstone(Changed, ("é",))
    with pytest.raises(UnreadableRecordError, match="name: expected a string"):
        codec.decode(b'{"kind":"Changed","name":1}', None)
