"""Group members that close while a heartbeat is interrupted."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from raftlog.client import group_member
from raftlog.client.core.membership import MemberOptions, Membership
from raftlog.client.group_member import GroupMember


class HeldLink:
    """A link to a coordinator that answers the first heartbeat at once, and holds the next ones."""

    key = "g"
    session = None

    def __init__(self) -> None:
        self.held = asyncio.Event()
        self._calls = 0

    async def call(self, *_: Any, **__: Any) -> Any:
        self._calls += 1
        if self._calls > 1:
            self.held.set()
            await asyncio.Event().wait()
        return SimpleNamespace(assignment=(), member_epoch=1, heartbeat_interval_ms=3_000)

    def routes(self) -> tuple[None, list[Any]]:
        return None, []

    async def persist(self, *_: Any, **__: Any) -> None:
        return None


@pytest.mark.parametrize("turns", range(6))
async def test_a_member_closes_while_a_held_heartbeat_is_interrupted(turns: int, monkeypatch: pytest.MonkeyPatch):
    """An interrupted call is cancelled: this must not swallow the cancellation of the task that waits for it."""
    keepalive = SimpleNamespace(beat=lambda _: None, close=lambda: None)
    monkeypatch.setattr(group_member, "KeepAlive", lambda *_: keepalive)
    link = HeldLink()
    membership = Membership("m", MemberOptions(topics=("t",)))
    member = GroupMember(cast("Any", link), membership, max_poll_interval_ms=300_000, on_change=lambda: None)
    await member.start(timeout_ms=1_000)
    await link.held.wait()
    member.heartbeat_now()
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await member.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
