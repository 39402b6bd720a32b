"""What producers tell their callers: one future for each record, or a sequence for many."""

from __future__ import annotations

import asyncio

import pytest

from raftlog.client.deliveries import Acknowledged, Handle, Part, Placed, RecordMetadata, Run, acknowledge, fail
from raftlog.errors import RetriableError
from raftlog.model import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def metadata(offset: int, timestamp: int, partition: int = 0) -> RecordMetadata:
    return RecordMetadata("t", partition, offset, timestamp)


async def test_a_batch_of_single_records_and_of_runs():
    loop = asyncio.get_running_loop()
    first, last, run = loop.create_future(), loop.create_future(), Run(3)
    handles: list[Handle] = [first, Part(run, 0, 3), last]
    acknowledge(handles, [1, 2, 3, 4, 5], P0, 70)

    assert (first.result(), last.result()) == (metadata(70, 1), metadata(74, 5))
    assert list(Acknowledged(await run.outcome())) == [metadata(71, 2), metadata(72, 3), metadata(73, 4)]


async def test_nobody_says_where_records_are_with_acks_0():
    delivery, run = asyncio.get_running_loop().create_future(), Run(2)
    acknowledge([delivery], [1], P0, -1)
    acknowledge([Part(run, 0, 2)], [1, 2], P0, -1)

    assert delivery.result() == metadata(-1, 1)
    assert list(Acknowledged(await run.outcome())) == [metadata(-1, 1), metadata(-1, 2)]


async def test_a_run_ends_once_each_part_has_an_outcome_in_whatever_order():
    run = Run(4)
    whole = Part(run, 0, 4)
    front, back = whole.divided(1)
    waiting = asyncio.create_task(run.outcome())
    acknowledge([back], [2, 3, 4], P0, 11)
    await asyncio.sleep(0)
    assert not waiting.done()
    acknowledge([front], [1], P0, 10)

    assert list(Acknowledged(await waiting)) == [metadata(10 + n, 1 + n) for n in range(4)]
    assert run.error is None


async def test_a_failure_that_nobody_looks_at_is_no_warning():
    error = RetriableError("down")
    dropped, cancelled, run = asyncio.get_running_loop().create_future(), Run(1), Run(2)
    fail([dropped, Part(run, 0, 2), Part(cancelled, 0, 1)], error)
    assert await run.outcome() == []
    assert (run.error, cancelled.error) == (error, error)
    del dropped  # Warnings are errors here.


async def test_a_caller_who_went_away_is_not_told():
    gone = asyncio.get_running_loop().create_future()
    gone.cancel()
    run = Run(1)
    waiting = asyncio.create_task(run.outcome())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    acknowledge([gone, Part(run, 0, 1)], [1, 2], P0, 5)
    assert list(Acknowledged(await run.outcome())) == [metadata(6, 2)]


def test_many_records_are_a_sequence():
    many = Acknowledged([Placed(P0, 5, [1, 2, 3]), Placed(P1, 0, [4])])
    expected = [metadata(5, 1), metadata(6, 2), metadata(7, 3), metadata(0, 4, partition=1)]

    assert list(many) == expected
    assert (len(many), many[0], many[2], many[3], many[-1]) == (4, expected[0], expected[2], expected[3], expected[3])
    assert many[1:] == expected[1:]
    assert expected[1] in many
    for outside in (4, -5):
        with pytest.raises(IndexError, match=f"expected 0 to 3, received {outside}"):
            _ = many[outside]
    assert list(Acknowledged([])) == []
