"""Group members: while a heartbeat is interrupted, and with an instance id that is in use."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from raftlog.client import group_member
from raftlog.client.core.membership import MemberOptions, Membership
from raftlog.client.group_member import GroupMember
from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    RaftlogError,
    RetriableError,
    UnknownOutcomeError,
    UnreachableError,
)
from raftlog.transport import PeerAnswerError
from raftlog.wire.groups import LEAVE_EPOCH


class HeldLink:
    """A link to a coordinator that answers the first heartbeat at once, and holds the next ones."""

    key = "g"
    session = None

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self.left: list[int] = []
        """The epochs of the last heartbeats."""
        self._calls = 0

    async def call(self, *_: Any, **__: Any) -> Any:
        self._calls += 1
        if self._calls > 1:
            self.held.set()
            await asyncio.Event().wait()
        return SimpleNamespace(assignment=(), member_epoch=1, heartbeat_interval_ms=3_000)

    def routes(self) -> tuple[None, list[Any]]:
        return None, []

    async def persist(self, *_: Any, message: Any, **__: Any) -> None:
        self.left.append(message().member_epoch)


@pytest.fixture(autouse=True)
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    keepalive = SimpleNamespace(beat=lambda _: None, close=lambda: None)
    monkeypatch.setattr(group_member, "KeepAlive", lambda *_: keepalive)


def member_of(link: HeldLink, *, max_poll_interval_ms: int = 300_000, **options: Any) -> GroupMember:
    membership = Membership("m", MemberOptions(topics=("t",), **options))
    return GroupMember(cast("Any", link), membership, max_poll_interval_ms=max_poll_interval_ms, on_change=lambda: None)


@pytest.mark.parametrize("turns", range(6))
async def test_a_member_closes_while_a_held_heartbeat_is_interrupted(turns: int):
    """An interrupted call is cancelled: this must not swallow the cancellation of the task that waits for it."""
    link = HeldLink()
    member = member_of(link)
    await member.start(timeout_ms=1_000)
    await link.held.wait()
    member.heartbeat_now()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await member.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("turns", range(1, 4))
async def test_a_member_whose_close_is_cancelled_before_it_leaves_leaves(turns: int):
    """Its partitions had no reader for a session."""
    link = HeldLink()
    member = member_of(link)
    await member.start(timeout_ms=1_000)
    await link.held.wait()
    closing = asyncio.ensure_future(member.close())
    for _ in range(turns):
        await asyncio.sleep(0)
    assert not link.left
    closing.cancel()
    async with asyncio.timeout(10):
        with pytest.raises(asyncio.CancelledError):
            await closing
    assert link.left == [LEAVE_EPOCH]


class RefusingLink(HeldLink):
    """A link whose first heartbeats are refused, until `refusals` is empty."""

    def __init__(self, *refusals: RaftlogError) -> None:
        super().__init__()
        self.refusals = [*refusals]

    async def call(self, *_: Any, **__: Any) -> Any:
        if self.refusals:
            raise self.refusals[0] if len(self.refusals) == 1 else self.refusals.pop(0)
        return await super().call()


async def test_a_static_member_waits_longer_than_a_request_for_its_instance_id():
    """An earlier process with that id was killed: the coordinator keeps it until its session ends, after 45 s."""
    in_use = InvalidRequestError("instance a is in use", code=ErrorCode.UNRELEASED_INSTANCE_ID)
    link = RefusingLink(in_use)
    member = member_of(link, instance_id="a")
    starting = asyncio.create_task(member.start(timeout_ms=50))
    await asyncio.sleep(0.3)
    assert not starting.done()
    link.refusals.clear()
    async with asyncio.timeout(10):
        await starting
    await member.close()


@pytest.mark.parametrize("instance_id", ["a", None])
async def test_a_member_that_closes_while_it_joins_does_not_wait(instance_id: str | None):
    link = RefusingLink(InvalidRequestError("instance a is in use", code=ErrorCode.UNRELEASED_INSTANCE_ID))
    member = member_of(link, instance_id=instance_id)
    starting = asyncio.create_task(member.start(timeout_ms=60_000))
    await asyncio.sleep(0)
    await member.close()
    async with asyncio.timeout(5):
        with pytest.raises(InvalidRequestError, match="closed while it joined"):
            await starting


async def test_a_coordinator_that_does_not_answer_is_waited_for_no_longer_than_a_request():
    member = member_of(RefusingLink(RetriableError("it is not there")))
    with pytest.raises(RetriableError, match="cannot join group 'g' within 50 ms: it is not there"):
        await member.start(timeout_ms=50)
    await member.close()


async def test_a_page_in_place_of_an_answer_ends_no_membership():
    """Such as a proxy's, while it restarts."""
    link = RefusingLink(PeerAnswerError("status 502 without an error body: '<html>'"))
    member = member_of(link)
    starting = asyncio.create_task(member.start(timeout_ms=60_000))
    while member._refusal is None:
        await asyncio.sleep(0)
    link.refusals.clear()
    async with asyncio.timeout(10):
        await starting
    assert member.membership.phase == "member"
    await member.close()


UNREACHABLE = UnreachableError("connection refused")
UNKNOWN = UnknownOutcomeError("no answer")


class SilentLink(RefusingLink):
    """A link whose coordinator refuses some heartbeats, and then has each one, and answers none."""

    async def call(self, *_: Any, **__: Any) -> Any:
        if self.refusals:
            raise self.refusals.pop(0)
        self.held.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("refusals", [(), (UNREACHABLE,), (UNKNOWN, UNREACHABLE)])
async def test_a_join_that_is_cut_off_is_taken_back(refusals: tuple[RaftlogError, ...]):
    """The coordinator would keep its partitions until its session ends."""
    link = SilentLink(*refusals)
    member = member_of(link)
    starting = asyncio.create_task(member.start(timeout_ms=60_000))
    await link.held.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await member.close()
    assert link.left == [LEAVE_EPOCH]


@pytest.mark.parametrize(
    ("refusals", "left"),
    [
        ((UNREACHABLE,), []),
        ((InvalidRequestError("in use", code=ErrorCode.UNRELEASED_INSTANCE_ID),), []),
        ((UNKNOWN, UNREACHABLE), [LEAVE_EPOCH]),
        ((UNKNOWN,), [LEAVE_EPOCH]),
    ],
    ids=["unreachable", "in-use", "unknown-before", "unknown"],
)
async def test_a_join_is_taken_back_if_some_attempt_may_have_reached_the_coordinator(
    refusals: tuple[RaftlogError, ...], left: list[int]
):
    """A close that took back another one would wait for a coordinator that has nothing of this member."""
    link = RefusingLink(*refusals)
    member = member_of(link)
    starting = asyncio.create_task(member.start(timeout_ms=60_000))
    while member._refusal is not refusals[-1]:
        await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await member.close()
    assert link.left == left


async def test_the_error_of_a_membership_does_not_grow_with_the_calls_that_raise_it():
    member = member_of(RefusingLink(InvalidRequestError("no such name")))
    with pytest.raises(InvalidRequestError):
        await member.start(timeout_ms=60_000)
    frames = set[int]()
    for _ in range(3):
        with pytest.raises(InvalidRequestError) as raised:
            member.raise_failure()
        frames.add(len(raised.traceback))
    assert len(frames) == 1
    await member.close()


async def test_a_member_whose_join_has_no_answer_leaves_when_its_application_asks_for_nothing():
    link = SilentLink()
    member = member_of(link, max_poll_interval_ms=50)
    starting = asyncio.create_task(member.start(timeout_ms=60_000))
    async with asyncio.timeout(10):
        await starting
    assert (member.membership.phase, link.left) == ("lost", [LEAVE_EPOCH])
    await member.close()
    assert link.left == [LEAVE_EPOCH]
