"""Answers that only the controller in charge may give, and decisions larger than one command."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from controller_support import Bench, joined, turns

from raftlog.errors import (
    ErrorCode,
    OverloadedError,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.metadata_quorum import decision_writer
from raftlog.metadata_quorum.records import FEATURE_LEVEL, BeginEpoch, Command, SetFeatureLevel, encode_command
from raftlog.wire import paths
from raftlog.wire.admin import AlterTopicRequest
from raftlog.wire.metadata import CreateTopicRequest, DeleteTopicRequest


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with joined() as bench:
        yield bench


async def test_a_read_commits_and_readers_that_wait_share_one_commit(bench: Bench):
    bench.quorum.hold = asyncio.Event()
    first = asyncio.ensure_future(bench.controller.read())
    await turns()  # Its commit is under way: whoever comes now needs a later one.
    others = [asyncio.ensure_future(bench.controller.read()) for _ in range(5)]
    await turns()
    before = len(bench.quorum.log)
    bench.quorum.hold.set()
    offsets = await asyncio.gather(first, *others)

    assert len(bench.quorum.log) == before + 2
    assert offsets == [bench.controller.publisher.last_offset] * 6, "the commits themselves have nothing to tell"
    assert bench.controller.image.offset == offsets[0] + 2


async def test_a_reader_that_hangs_up_disturbs_no_other(bench: Bench):
    bench.quorum.hold = asyncio.Event()
    readers = [asyncio.ensure_future(bench.controller.read()) for _ in range(2)]
    await turns()
    readers[0].cancel()
    bench.quorum.hold.set()

    assert await readers[1] == bench.controller.publisher.last_offset
    assert bench.controller.is_active


async def test_a_deposed_controller_answers_no_read_and_no_refusal(bench: Bench):
    """It was paused, say: to itself it still leads, but nothing that it proposes is committed."""
    await bench.controller.create_topic(CreateTopicRequest(topic="t"))
    requests = [
        bench.controller.read,
        lambda: bench.controller.create_topic(CreateTopicRequest(topic="t")),
        lambda: bench.controller.create_topic(CreateTopicRequest(topic="t", if_not_exists=True)),
        lambda: bench.controller.administer(paths.DELETE_TOPIC, DeleteTopicRequest(topic="unknown")),
    ]
    for request in requests:
        bench.quorum.errors = [StaleRouteError("deposed", code=ErrorCode.NOT_CONTROLLER)]
        with pytest.raises(StaleRouteError):
            await request()


async def test_large_decisions_are_several_commands_and_one_change(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(decision_writer, "MAX_COMMAND_BYTES", 2_000)
    before = len(bench.quorum.log)
    published = len(bench.controller.publisher._entries)
    await bench.controller.create_topic(CreateTopicRequest(topic="wide", partitions=100))

    assert len(bench.quorum.log) - before > 5
    assert all(len(payload) < 2_500 for payload in bench.quorum.log[before:])
    topic = bench.controller.image.topic("wide")
    assert topic is not None
    assert len(topic.partitions) == 100
    assert len(bench.controller.publisher._entries) == published + 1


@pytest.mark.parametrize("failure", [OverloadedError("full"), UnknownOutcomeError("lost")])
async def test_a_decision_that_breaks_off_in_the_middle_is_void(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, failure: RaftlogError
):
    monkeypatch.setattr(decision_writer, "MAX_COMMAND_BYTES", 2_000)
    epoch = bench.controller.image.controller_epoch
    real, taken = bench.quorum.propose, 0

    async def fail_at_the_third(payload: bytes, *, timeout_ms: int) -> int:
        nonlocal taken
        taken += 1
        if taken == 3:
            bench.quorum.propose = real  # type: ignore[method-assign]
            raise failure
        return await real(payload, timeout_ms=timeout_ms)

    bench.quorum.propose = fail_at_the_third  # type: ignore[method-assign]
    with pytest.raises(RetriableError, match="nothing was done"):
        await bench.controller.create_topic(CreateTopicRequest(topic="wide", partitions=100))
    await bench.active()
    await bench.controller.create_topic(CreateTopicRequest(topic="next"))

    assert list(bench.controller.image.names) == ["next"]
    assert bench.controller.image.controller_epoch > epoch


async def test_altering_is_done_by_the_active_controller(bench: Bench):
    await bench.controller.create_topic(CreateTopicRequest(topic="t"))
    request = AlterTopicRequest(topic="t", configs={"retention_ms": 7}, partitions=3)
    answer = await bench.controller.administer(paths.ALTER_TOPIC, request)

    topic = bench.controller.image.topic("t")
    assert topic is not None
    assert (topic.configs["retention_ms"], len(topic.partitions)) == (7, 3)
    assert answer.metadata_offset == bench.controller.publisher.last_offset == bench.controller.image.offset


async def test_a_log_of_another_cluster_or_of_a_newer_version_is_not_acted_on(bench: Bench):
    assert bench.controller.image.cluster_id == "c"
    assert bench.controller.image.feature_level == FEATURE_LEVEL
    other = Bench("another")
    with pytest.raises(RaftlogError, match="belongs to cluster c, this node to cluster another"):
        other.controller.load_snapshot(99, bench.controller.take_snapshot())
    newer = encode_command(
        Command(controller_epoch=-1, sequence=-1, records=(BeginEpoch(controller_id=101), SetFeatureLevel(level=99)))
    )
    with pytest.raises(RaftlogError, match="install a newer raftlog"):
        bench.controller.apply(50, newer)
