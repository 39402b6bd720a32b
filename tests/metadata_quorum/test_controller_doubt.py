"""A controller that cannot know what became of a command, or whether it still decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from controller_support import Bench, joined, turns
from metadata_support import MemoryQuorum

from raftlog.errors import (
    ErrorCode,
    OverloadedError,
    RaftlogError,
    RetriableError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.metadata_quorum import decision_writer
from raftlog.metadata_quorum.records import BeginEpoch, Command, encode_command
from raftlog.wire.metadata import CreateTopicRequest

SUCCESSOR = encode_command(Command(controller_epoch=-1, sequence=-1, records=(BeginEpoch(controller_id=102),)))
"""What controller 102 commits first after its election."""


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with joined() as bench:
        yield bench


def create(bench: Bench, topic: str) -> asyncio.Future[str]:
    return asyncio.ensure_future(bench.controller.create_topic(CreateTopicRequest(topic=topic)))


async def test_a_command_that_nobody_took_costs_no_epoch(bench: Bench):
    epoch = bench.controller.image.controller_epoch
    bench.quorum.errors = [OverloadedError("full")]
    with pytest.raises(OverloadedError):
        await create(bench, "refused")
    await create(bench, "taken")

    assert bench.controller.image.controller_epoch == epoch
    assert list(bench.controller.image.names) == ["taken"]


async def test_an_urgent_caller_that_gives_up_leaves_a_doubt_that_a_new_epoch_ends(bench: Bench):
    await bench.join(1)
    epoch = bench.controller.image.controller_epoch
    bench.quorum.hold = asyncio.Event()
    fencing = asyncio.create_task(bench.controller._fence(1, bench.controller.image.brokers[1].broker_epoch, "test"))
    await bench.until(lambda: bench.quorum.held == 1)
    fencing.cancel()
    await asyncio.gather(fencing, return_exceptions=True)
    assert not bench.controller.is_active
    with pytest.raises(RetriableError) as refused:
        bench.controller._writer._require_active()
    assert refused.value.code is ErrorCode.QUORUM_NOT_AVAILABLE

    bench.quorum.hold.set()
    await bench.active()
    await create(bench, "next")
    assert bench.controller.image.controller_epoch > epoch
    assert list(bench.controller.image.names) == ["next"]


async def test_an_ordinary_caller_that_gives_up_disturbs_no_other(bench: Bench):
    """Before its decision is made it is not made; later it is committed all the same."""
    epoch = bench.controller.image.controller_epoch
    bench.quorum.hold = asyncio.Event()
    committing = create(bench, "committing")
    await bench.until(lambda: bench.quorum.held == 1)
    waiting, other = create(bench, "waiting"), create(bench, "other")
    await asyncio.sleep(0)
    for given_up in (committing, waiting):
        given_up.cancel()
    await asyncio.gather(committing, waiting, return_exceptions=True)

    bench.quorum.hold.set()
    await other

    assert bench.controller.image.controller_epoch == epoch
    assert list(bench.controller.image.names) == ["committing", "other"]


async def test_a_controller_that_closes_while_it_fences_a_broker_ends():
    bench = Bench()
    await bench.controller.start()
    await bench.quorum.start()
    await bench.active()
    await bench.join(1)
    bench.quorum.hold = asyncio.Event()
    bench.clock.now_ms += 10_000
    await bench.until(lambda: bench.quorum.held == 1)

    async with asyncio.timeout(5):
        await bench.controller.close()

    assert not bench.controller.is_active


async def test_a_command_that_was_lost_and_then_applied_counts_and_the_next_decision_sees_it(bench: Bench):
    real = bench.quorum.propose

    async def lose_the_answer(payload: bytes, *, timeout_ms: int) -> int:
        bench.quorum.propose = real  # type: ignore[method-assign]
        bench.quorum.commit(payload)
        raise UnknownOutcomeError("the answer was lost")

    bench.quorum.propose = lose_the_answer  # type: ignore[method-assign]
    await create(bench, "t")
    await bench.active()
    with pytest.raises(RaftlogError) as again:
        await create(bench, "t")

    assert again.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


async def test_a_decision_that_a_successors_epoch_overtook_is_void(bench: Bench):
    bench.quorum.hold = asyncio.Event()
    overtaken = create(bench, "overtaken")
    await bench.until(lambda: bench.quorum.held == 1)
    bench.quorum.commit(SUCCESSOR)
    bench.quorum.hold.set()

    with pytest.raises(RetriableError, match="a new controller epoch began; nothing was done") as refused:
        await overtaken
    assert refused.value.code is ErrorCode.QUORUM_NOT_AVAILABLE
    assert bench.controller.image.names == {}
    assert bench.controller.image.controller_id == 102


async def replaced(bench: Bench, *topics: str) -> tuple[list[asyncio.Future[str]], list[bytes]]:
    """Let controller 102 replace this one while topics are created; return the requests and what was proposed."""
    proposed, real = list[bytes](), bench.quorum.propose

    async def lose(payload: bytes, *, timeout_ms: int) -> int:
        proposed.append(payload)
        bench.quorum.propose = real  # type: ignore[method-assign]
        bench.quorum.elect(None)
        raise UnknownOutcomeError("this controller was replaced")

    bench.quorum.propose = lose  # type: ignore[method-assign]
    requests = [create(bench, topic) for topic in topics]
    await bench.until(lambda: bool(proposed))
    await turns()
    bench.quorum.elect(102)
    return requests, proposed


async def test_a_replaced_controller_answers_once_its_successor_has_committed_its_decision(bench: Bench):
    requests, (proposed,) = await replaced(bench, "a", "b")
    assert not any(request.done() for request in requests)

    bench.quorum.commit(proposed)
    bench.quorum.commit(SUCCESSOR)  # Both in one turn, as after one message of the successor.
    answers = await asyncio.gather(*requests)

    assert [answer.result for answer in answers] == [bench.controller.image.names[topic] for topic in ("a", "b")]


async def test_a_replaced_controller_says_that_nothing_was_done_once_its_successor_has_begun_without_it(bench: Bench):
    (request,), (proposed,) = await replaced(bench, "t")
    bench.quorum.commit(SUCCESSOR)
    with pytest.raises(RetriableError, match="nothing was done") as refused:
        await request
    assert refused.value.code is ErrorCode.QUORUM_NOT_AVAILABLE

    bench.quorum.commit(proposed)  # Raft does not do that; if it did, the entry would change nothing.
    assert bench.controller.image.names == {}


async def test_requests_that_wait_behind_a_decision_in_doubt_are_sent_on_at_once(bench: Bench):
    requests, (proposed,) = await replaced(bench, "doubtful")
    with pytest.raises(StaleRouteError):
        await create(bench, "next")
    with pytest.raises(StaleRouteError):
        await bench.controller.read()
    assert not requests[0].done()
    bench.quorum.commit(proposed)
    await requests[0]


async def test_an_outcome_that_the_log_does_not_show_in_time_is_said_to_be_unknown(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(decision_writer, "_ELECTION_S", 0.01)
    monkeypatch.setattr(decision_writer, "_LATE_S", 0.01)
    requests, _ = await replaced(bench, "t", "u")
    for request in requests:
        with pytest.raises(UnknownOutcomeError, match="this controller was replaced"):
            await request
    assert bench.controller._writer.effects._pending == {}


async def test_a_snapshot_in_place_of_the_entries_leaves_the_outcome_unknown(bench: Bench):
    (request,), _ = await replaced(bench, "t")
    other = Bench()
    other.quorum.commit(SUCCESSOR)
    other.quorum.commit(SUCCESSOR)
    other.quorum.log *= 5
    image = replace(
        other.controller.image, controller_epoch=10, offset=10, cluster_id=bench.controller.image.cluster_id
    )
    other.controller.image = image
    bench.controller.load_snapshot(10, other.controller.take_snapshot())
    with pytest.raises(UnknownOutcomeError, match="this controller was replaced"):
        await request
    await other.controller.close()


async def test_a_controller_that_closes_answers_that_a_decision_in_doubt_is_unknown(bench: Bench):
    (request,), _ = await replaced(bench, "t")
    await bench.controller.close()
    with pytest.raises(UnknownOutcomeError):
        await request


async def test_a_refusal_by_a_controller_that_is_replaced_is_sent_on(bench: Bench):
    """It decided on an image that may be stale, and changed nothing: the next active controller is to decide."""
    await create(bench, "t")
    (request,), _ = await replaced(bench, "t")
    with pytest.raises(RetriableError, match="nothing was done") as refused:
        await request
    assert refused.value.code is ErrorCode.QUORUM_NOT_AVAILABLE


async def test_beginning_an_epoch_is_tried_until_it_succeeds_or_another_leads():
    bench = Bench()
    bench.quorum.errors = [UnknownOutcomeError("lost"), OverloadedError("full")]
    bench.quorum.elect(101)
    await bench.active()
    assert bench.controller.image.controller_epoch == 1

    other = Bench()
    other.quorum.errors = [UnknownOutcomeError("lost")]
    other.quorum.elect(101)
    await turns()
    assert other.quorum.errors == []
    other.quorum.elect(103)
    await other.until(lambda: not other.controller._tasks._tasks)
    assert (other.controller.is_active, other.quorum.log) == (False, [])
    await bench.controller.close()
    await other.controller.close()


async def test_a_leadership_lost_while_the_epoch_begins_never_acts():
    bench = Bench()
    bench.quorum.hold = asyncio.Event()
    bench.quorum.elect(101)
    await turns()
    bench.quorum.elect(103)
    bench.quorum.hold.set()
    await bench.until(lambda: len(bench.quorum.log) == 1)
    await turns()

    assert not bench.controller.is_active
    await bench.controller.close()


async def test_replaying_the_log_anywhere_gives_the_same_image(bench: Bench):
    """A standby that joins late, and this controller itself after a restart."""
    await bench.join(2)
    await create(bench, "a")
    bench.quorum.elect(None)
    bench.quorum.elect(101)
    await bench.active()
    await create(bench, "b")

    standby = Bench()
    replayed = MemoryQuorum(standby.controller)
    for payload in bench.quorum.log:
        replayed.commit(payload)
    assert standby.controller.image == bench.controller.image
    assert standby.controller.take_snapshot() == bench.controller.take_snapshot()


async def test_a_snapshot_that_cannot_be_read_is_no_empty_cluster(bench: Bench):
    before = bench.controller.image
    for data in (b"", b"{}", b"[]", b'{"offset":1}', bench.controller.take_snapshot()[:-10]):
        with pytest.raises(RaftlogError):
            bench.controller.load_snapshot(10, data)

    assert bench.controller.image is before
