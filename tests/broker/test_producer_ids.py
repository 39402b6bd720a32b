"""The producer ids that the cluster has issued: identified by a key, whatever ids a client makes up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftlog.broker.producer_ids import LAG, IssuedIds, numbers_ahead
from raftlog.errors import ErrorCode, InvalidRequestError, RetriableError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.wire.producer_ids import FIRST, KEY_BYTES, NUMBERS, is_of_transactions, number_of, shuffled

KEY = b"k" * KEY_BYTES
NUMBER = st.integers(min_value=0, max_value=NUMBERS - 1)
IMAGE = MetadataImage(next_producer_id=3_000, producer_id_key=KEY.hex(), plain_producer_ids=1_000)


@given(st.binary(min_size=KEY_BYTES, max_size=KEY_BYTES), NUMBER, st.booleans())
def test_an_id_leads_back_to_its_number(key: bytes, number: int, transactional: bool):
    made = shuffled(key, number, transactional=transactional)
    assert FIRST <= made < 2 * FIRST
    assert number_of(key, made) == number
    assert is_of_transactions(made) == transactional


def test_ids_differ_and_do_not_tell_the_next():
    ids = [shuffled(KEY, number, transactional=False) for number in range(10_000)]
    assert len(set(ids)) == len(ids)
    nearest = min(b - a for a, b in zip(sorted(ids), sorted(ids)[1:], strict=False))
    assert nearest > 1_000
    assert sum(number_of(KEY, FIRST + 2 * place) < len(ids) for place in range(10_000)) == 0
    assert ids[0] == 5_082_501_725_637_398  # A format: brokers of all versions must agree.


@pytest.mark.parametrize(
    ("producer_id", "is_given"),
    [
        (0, True),
        (999, True),
        (1_000, False),
        (FIRST - 1, False),
        (FIRST, False),
        (shuffled(KEY, 999, transactional=False), False),
        (shuffled(KEY, 1_000, transactional=False), True),
        (shuffled(KEY, 2_999, transactional=True), True),
        (shuffled(KEY, 3_000, transactional=True), False),
        (FIRST + 2 * NUMBERS, False),
        (2**63 - 1, False),
        (-5, False),
    ],
)
async def test_what_was_given_is_told_from_what_was_not(producer_id: int, is_given: bool):
    asked = 0

    async def catch_up() -> None:
        nonlocal asked
        asked += 1

    known = IssuedIds(lambda: IMAGE, catch_up)
    if is_given:
        await known.require(producer_id)
        return
    with pytest.raises(InvalidRequestError, match="was not issued by this cluster") as refused:
        await known.require(producer_id)
    assert refused.value.code is ErrorCode.UNKNOWN_PRODUCER_ID
    assert asked == (0 <= numbers_ahead(IMAGE, producer_id) < LAG)


async def test_what_is_too_new_for_this_broker_s_metadata_is_waited_for():
    image, asked = MetadataImage(), 0

    async def catch_up() -> None:
        nonlocal image, asked
        asked += 1
        await asyncio.sleep(0)
        image = replace(IMAGE, next_producer_id=4_000)

    known = IssuedIds(lambda: image, catch_up)
    await asyncio.gather(*(known.require(shuffled(KEY, 3_500, transactional=False)) for _ in range(5)))
    await known.require(shuffled(KEY, 3_900, transactional=False))
    assert asked == 1


async def test_who_comes_while_a_broker_catches_up_shares_the_next_time():
    """What is under way may have begun before the id was given."""
    begun: list[asyncio.Event] = []
    answers = [None, RetriableError("no controller answers"), None]

    async def catch_up() -> None:
        begun.append(asyncio.Event())
        error = answers[len(begun) - 1]
        await begun[-1].wait()
        if error is not None:
            raise error

    known = IssuedIds(lambda: IMAGE, catch_up)
    ask = lambda: asyncio.create_task(known.require(shuffled(KEY, 3_000, transactional=False)))  # noqa: E731
    waiting = [ask()]
    await asyncio.sleep(0)
    waiting += [ask() for _ in range(20)]
    for done in range(2):
        while len(begun) <= done:
            await asyncio.sleep(0)
        begun[done].set()
    first, *others = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(first, InvalidRequestError)
    assert {type(other) for other in others} == {RetriableError}
    assert len(begun) == 2

    cancelled, last = ask(), ask()
    await asyncio.sleep(0)
    cancelled.cancel()
    answers.append(None)
    while len(begun) < 4:
        await asyncio.sleep(0)
    begun[3].set()
    with pytest.raises(InvalidRequestError):
        await last


async def test_nobody_is_refused_for_want_of_a_controller():
    async def catch_up() -> None:
        raise RetriableError("no controller answers")

    with pytest.raises(RetriableError):
        await IssuedIds(lambda: IMAGE, catch_up).require(shuffled(KEY, 3_000, transactional=False))
    with pytest.raises(InvalidRequestError):
        await IssuedIds(lambda: IMAGE, catch_up).require(FIRST)
    plain = MetadataImage(next_producer_id=2_000)
    await IssuedIds(lambda: plain, catch_up).require(1_999)
    with pytest.raises(InvalidRequestError):
        await IssuedIds(lambda: plain, catch_up).require(2_000 + LAG)
