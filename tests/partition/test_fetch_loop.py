"""The follower's fetch loop: a parked request is abandoned when partitions change, and ends with the loop."""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.config import ReplicationConfig
from raftlog.errors import InvalidRequestError, UnreachableError
from raftlog.model import Address, TopicIdPartition
from raftlog.partition.fetcher import LeaderFetcher
from raftlog.wire.packed_fetch import unpack_request
from raftlog.wire.replication import ReplicaFetchRequest, ReplicaFetchResponse, ReplicaFetchResult


class Leader:
    """Parks every request, until the test answers it."""

    def __init__(self) -> None:
        self.requests: list[ReplicaFetchRequest] = []
        self.packed: list[bool] = []
        """Whether each request was packed."""
        self.answers: list[asyncio.Future[ReplicaFetchResponse]] = []
        self.cancelled = 0

    async def call_frame(
        self, *_: Any, message: ReplicaFetchRequest | None = None, body: bytes = b"", **__: Any
    ) -> tuple[ReplicaFetchResponse, bytes]:
        self.requests.append(message or unpack_request(body))
        self.packed.append(message is None)
        self.answers.append(answer := asyncio.get_running_loop().create_future())
        try:
            return await answer, b""
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def until(self, requests: int) -> None:
        async with asyncio.timeout(5):
            while len(self.requests) < requests:
                await asyncio.sleep(0)


def replica(number: int, epoch: int = 0) -> Any:
    key = TopicIdPartition("0" * 32, number)
    log = SimpleNamespace(log_start_offset=0, log_end_offset=0, last_epoch=-1)
    state = SimpleNamespace(leader_epoch=epoch, adding=(), isr=(1, 2))
    assignment = SimpleNamespace(key=key)
    return SimpleNamespace(
        assignment=assignment,
        log=log,
        state=state,
        core=None,
        persisted_end_offset=0,
        finish_starting_over=lambda: None,
    )


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
def fetcher(leader: Leader) -> LeaderFetcher:
    return LeaderFetcher(
        SimpleNamespace(broker_id=2, internal=Address("127.0.0.1", 1)),  # type: ignore[arg-type]
        local=SimpleNamespace(broker_id=1, broker_epoch=7),  # type: ignore[arg-type]
        session=leader,  # type: ignore[arg-type]
        config=ReplicationConfig(replica_fetch_backoff_ms=1),
    )


def named(request: ReplicaFetchRequest) -> list[int]:
    return [position.partition for position in request.partitions]


async def stop(pulling: asyncio.Task[None]) -> None:
    pulling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pulling


async def test_a_parked_request_is_abandoned_when_the_partitions_change(fetcher: LeaderFetcher, leader: Leader):
    fetcher.follow([replica(0)])
    pulling = asyncio.create_task(fetcher.run())
    await leader.until(1)
    leader.answers[0].set_result(ReplicaFetchResponse(session_id="s", partitions=()))
    await leader.until(2)
    fetcher.follow([replica(0), replica(1)])
    fetcher.follow([replica(0), replica(1), replica(2)])  # Twice before the loop turns.
    await leader.until(3)

    assert (leader.cancelled, [named(request) for request in leader.requests]) == (1, [[0], [], [1, 2]])
    assert [request.session_epoch for request in leader.requests] == [0, 1, 2]
    assert [request.answers_lost for request in leader.requests] == [False, False, True]
    assert not pulling.done()
    await stop(pulling)
    assert leader.cancelled == 2


async def test_a_response_that_comes_with_a_change_is_either_taken_or_lost_and_never_both(
    fetcher: LeaderFetcher, leader: Leader
):
    fetcher.follow([replica(0)])
    pulling = asyncio.create_task(fetcher.run())
    await leader.until(1)
    leader.answers[0].set_result(ReplicaFetchResponse(session_id="s", partitions=()))
    await leader.until(2)
    leader.answers[1].set_result(ReplicaFetchResponse(session_id="s", partitions=()))
    fetcher.follow([replica(0), replica(1)])
    await leader.until(3)

    third = leader.requests[2]
    assert (third.session_id, third.session_epoch, named(third)) == ("s", 2, [1])
    await stop(pulling)


async def test_a_change_between_two_requests_abandons_none(fetcher: LeaderFetcher, leader: Leader):
    fetcher.follow([replica(0)])
    pulling = asyncio.create_task(fetcher.run())
    fetcher.follow([replica(0), replica(1)])
    await leader.until(1)
    for _ in range(5):
        await asyncio.sleep(0)

    assert (leader.cancelled, [named(request) for request in leader.requests]) == (0, [[0, 1]])
    await stop(pulling)


async def test_stopping_at_the_moment_of_a_change_stops(fetcher: LeaderFetcher, leader: Leader):
    fetcher.follow([replica(0)])
    pulling = asyncio.create_task(fetcher.run())
    await leader.until(1)
    fetcher.follow([replica(0), replica(1)])
    async with asyncio.timeout(5):
        await stop(pulling)
    assert (len(leader.requests), leader.cancelled) == (1, 1)


async def test_a_request_that_fails_is_sent_again(fetcher: LeaderFetcher, leader: Leader):
    fetcher.follow([replica(0)])
    pulling = asyncio.create_task(fetcher.run())
    await leader.until(1)
    leader.answers[0].set_exception(UnreachableError("cannot connect"))
    await leader.until(2)
    assert [named(request) for request in leader.requests] == [[0], [0]]
    await stop(pulling)


async def test_requests_are_packed_while_the_leader_says_that_it_reads_them(fetcher: LeaderFetcher, leader: Leader):
    """After a failure the leader may be another process, of an earlier version."""
    fetcher.follow([replica(0)])
    pulling = asyncio.create_task(fetcher.run())
    for number, packs in enumerate((True, True, None, False, False, True)):
        await leader.until(number + 1)
        if packs is None:
            leader.answers[number].set_exception(InvalidRequestError("the body is not valid JSON"))
        else:
            answer = ReplicaFetchResponse(session_id="s", partitions=(), packs=packs)
            leader.answers[number].set_result(answer)
    await leader.until(7)
    assert leader.packed == [False, True, True, False, False, False, True]
    assert [request.session_epoch for request in leader.requests] == [0, 1, 2, 0, 1, 2, 3]
    assert [named(request) for request in leader.requests] == [[0], [], [], [0], [], [], []]
    await stop(pulling)


async def test_what_has_no_packed_form_is_sent_as_json(fetcher: LeaderFetcher, leader: Leader):
    fetcher.follow([replica(0), replica(1)])
    pulling = asyncio.create_task(fetcher.run())
    await leader.until(1)
    leader.answers[0].set_result(ReplicaFetchResponse(session_id="s", partitions=(), packs=True))
    await leader.until(2)
    fetcher.follow([replica(0)])
    await leader.until(3)
    assert leader.packed == [False, True, False]
    assert [len(request.forgotten) for request in leader.requests] == [0, 0, 1]
    await stop(pulling)


@pytest.mark.parametrize("deletes", [False, True])
async def test_a_response_with_many_partitions_is_taken_over_several_turns(
    fetcher: LeaderFetcher, leader: Leader, deletes: bool
):
    """A response with records, or deletions, of 10,000 partitions was applied in one turn of the event loop."""
    turn, taken, many = 0, list[int](), 300

    def followed(number: int) -> Any:
        one = replica(number)
        one.log.failure = None

        def update_marks(*_: int, **__: int) -> None:
            taken.append(turn)
            one.log.log_start_offset += deletes

        one.update_marks = update_marks
        return one

    fetcher.follow([followed(number) for number in range(many)])
    pulling = asyncio.create_task(fetcher.run())
    await leader.until(1)
    results = tuple(ReplicaFetchResult(topic_id="0" * 32, partition=number, leader_epoch=0) for number in range(many))
    leader.answers[0].set_result(ReplicaFetchResponse(session_id="s", partitions=results))
    async with asyncio.timeout(5):
        while len(leader.requests) < 2:
            turn += 1
            await asyncio.sleep(0)

    assert len(taken) == many
    assert max(Counter(taken).values()) <= (1 if deletes else 64)
    await stop(pulling)
