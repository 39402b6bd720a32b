"""Ordinary requests that wait share a commit: a burst of topics costs a few syncs, and each request its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from controller_support import Bench, joined, turns
from test_controller_doubt import create

from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    OverloadedError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.metadata_quorum import decision_writer
from raftlog.metadata_quorum.controller import grouping
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.wire.metadata import CreateTopicRequest


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with joined() as bench:
        yield bench


async def held(bench: Bench) -> tuple[asyncio.Event, asyncio.Future[str]]:
    """Keep a commit from ending; return what ends it, and its request."""
    bench.quorum.hold = hold = asyncio.Event()
    first = create(bench, "first")
    await bench.until(lambda: bench.quorum.held == 1)
    return hold, first


async def test_topics_of_a_burst_share_commits(bench: Bench):
    hold, first = await held(bench)
    commits = len(bench.quorum.log)
    burst = [create(bench, f"t{number}") for number in range(100)]
    await asyncio.sleep(0)
    hold.set()
    await asyncio.gather(first, *burst)

    assert len(bench.quorum.log) == commits + 1 + 2  # 100 are 64 and 36.
    assert set(bench.controller.image.names) == {"first", *(f"t{number}" for number in range(100))}
    ids = [topic.topic_id for topic in bench.controller.image.topics.values()]
    assert len(set(ids)) == 101


async def test_each_decision_sees_those_before_it(bench: Bench):
    hold, first = await held(bench)
    twice = [create(bench, "twice"), create(bench, "twice")]
    await asyncio.sleep(0)
    hold.set()
    _, created, refused = await asyncio.gather(first, *twice, return_exceptions=True)

    assert not isinstance(created, BaseException)
    assert isinstance(refused, InvalidRequestError)
    assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("failure", "answered"),
    [(StaleRouteError("deposed"), StaleRouteError), (UnknownOutcomeError("lost"), RetriableError)],
)
async def test_a_commit_that_fails_fails_for_all(bench: Bench, failure: Exception, answered: type[Exception]):
    """Also for a request that was refused because of an earlier one: that one did not take effect."""
    hold, first = await held(bench)
    waiting = [create(bench, "twice"), create(bench, "twice"), create(bench, "other")]
    await asyncio.sleep(0)
    hold.set()
    await first
    bench.quorum.errors = [failure]
    answers = await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(answer) for answer in answers] == [answered] * 3
    await bench.active()
    await create(bench, "next")
    assert set(bench.controller.image.names) == {"first", "next"}


async def test_a_bug_in_one_decision_is_its_own_callers(bench: Bench):
    def broken(_: object) -> Decision[None]:
        raise ZeroDivisionError

    hold, first = await held(bench)
    bug = asyncio.ensure_future(bench.controller._writer.decide(broken))
    other = create(bench, "other")
    await asyncio.sleep(0)
    hold.set()
    await asyncio.gather(first, other)

    with pytest.raises(ZeroDivisionError):
        await bug


async def test_no_decision_joins_a_group_that_is_large_enough(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(grouping, "MAX_RECORDS", 10)
    hold, first = await held(bench)
    commits = len(bench.quorum.log)
    wide = [
        asyncio.ensure_future(bench.controller.create_topic(CreateTopicRequest(topic=f"wide{n}", partitions=8)))
        for n in range(4)
    ]
    await asyncio.sleep(0)
    hold.set()
    await asyncio.gather(first, *wide)

    assert len(bench.quorum.log) == commits + 1 + 2  # Two topics have 18 records.
    assert list(bench.controller.image.names) == ["first", "wide0", "wide1", "wide2", "wide3"]


async def test_too_many_waiting_requests_are_refused_and_urgent_ones_are_not(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(decision_writer, "MAX_WAITING", 2)
    hold, first = await held(bench)
    waiting = [create(bench, "a"), create(bench, "b")]
    await asyncio.sleep(0)
    with pytest.raises(OverloadedError, match="2 requests wait"):
        await create(bench, "c")
    beat = asyncio.ensure_future(bench.join(2))
    await asyncio.sleep(0)
    assert not beat.done()
    hold.set()
    await asyncio.gather(first, *waiting, beat)

    assert 2 in bench.controller.image.brokers


async def test_reads_let_ordinary_requests_have_their_turn(bench: Bench):
    """Reads that followed each other were all decided first: topics were never created."""
    bench.quorum.hold = hold = asyncio.Event()
    first = asyncio.ensure_future(bench.controller.read())
    await bench.until(lambda: bench.quorum.held == 1)
    waiting = create(bench, "a")
    await turns()
    second = asyncio.ensure_future(bench.controller.read())
    await turns()
    hold.set()
    await second
    assert "a" in bench.controller.image.names
    await asyncio.gather(first, waiting)


async def test_requests_that_wait_end_with_their_controller(bench: Bench):
    hold, first = await held(bench)
    waiting = create(bench, "waiting")
    await asyncio.sleep(0)
    await bench.controller.close()
    answers = await asyncio.wait_for(asyncio.gather(first, waiting, return_exceptions=True), 5)

    assert [type(answer) for answer in answers] == [asyncio.CancelledError] * 2
    assert not hold.is_set()
