"""Requests to a group coordinator that take several decisions, none of which holds the event loop for long."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from raftlog.coordinator.group.offsets import OFFSETS_AT_ONCE, require_limit
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.runtime import CoordinatorRuntime, Decision, Now
from raftlog.wire.groups import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetResult,
    OffsetResults,
    by_topic,
    count_of,
    flat,
)

P = TypeVar("P")
T = TypeVar("T")


def parts_of_commit(request: OffsetCommitRequest) -> Sequence[OffsetCommitRequest]:
    """Return commits of at most `OFFSETS_AT_ONCE` offsets.

    Raises:
        InvalidRequestError: the request has too many offsets.
    """
    if len(request.offsets) <= OFFSETS_AT_ONCE:
        return [request]
    require_limit(len(request.offsets))
    return [replace(request, offsets=tuple(some)) for some in _pieces(request.offsets)]


def parts_of_deletion(request: OffsetDeleteRequest) -> Sequence[OffsetDeleteRequest]:
    """Return deletions of at most `OFFSETS_AT_ONCE` offsets.

    Raises:
        InvalidRequestError: the request has too many partitions.
    """
    require_limit(count_of(request.partitions))
    wanted = sorted(flat(request.partitions))
    return [replace(request, partitions=by_topic(some)) for some in _pieces(wanted)] or [request]


def _pieces(offsets: Sequence[T]) -> list[Sequence[T]]:
    return [offsets[begin : begin + OFFSETS_AT_ONCE] for begin in range(0, len(offsets), OFFSETS_AT_ONCE)]


async def decide_each(
    runtime: CoordinatorRuntime[GroupsState],
    group_id: str,
    parts: Sequence[P],
    decide: Callable[[P, GroupsState, Now], Decision[OffsetResults]],
    timeout_ms: int,
) -> OffsetResults:
    """Decide the parts of a request in order; all have the time-out together. Errors as `Shard.decide`.

    A commit whose decision has results of its first offsets only is decided again for the others.

    After an error the effects of earlier parts stay.
    """
    results, deadline = list[OffsetResult](), asyncio.get_running_loop().time() + timeout_ms / 1000
    left = deque(parts)
    while True:
        part = left.popleft()
        decided = await runtime.decide(group_id, partial(decide, part), timeout_ms=_left_ms(deadline))
        if isinstance(part, OffsetCommitRequest) and 0 < len(decided.offsets) < len(part.offsets):
            left.appendleft(replace(part, offsets=part.offsets[len(decided.offsets) :]))
        if not left and not results:
            return decided
        results += decided.offsets
        if not left:
            return OffsetResults(offsets=tuple(results))
        await asyncio.sleep(0)


async def decide_all(
    runtime: CoordinatorRuntime[GroupsState],
    group_id: str,
    decide: Callable[[GroupsState, Now], Decision[int]],
    timeout_ms: int,
) -> None:
    """Decide until none is left, which a response of 0 says. Errors as `Shard.decide`.

    All decisions have the time-out together. After an error the effects of earlier decisions stay.
    """
    deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
    while await runtime.decide(group_id, decide, timeout_ms=_left_ms(deadline)):
        await asyncio.sleep(0)


def _left_ms(deadline: float) -> int:
    return max(1, round(1000 * (deadline - asyncio.get_running_loop().time())))
