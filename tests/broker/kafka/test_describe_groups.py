"""DescribeGroups of several large groups: other requests have their turn after each."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from raftlog.broker.kafka.group_admin_api import handle_describe_groups
from raftlog.coordinator.group.classic_views import ClassicDescription
from raftlog.wire.kafka.messages.describe_groups import DescribeGroupsRequest

GROUPS = 20


async def test_groups_are_described_one_in_a_turn():
    turns, described_in = 0, list[int]()

    async def describe(group_id: str, **_: object) -> ClassicDescription:
        described_in.append(turns)
        return ClassicDescription(group_id=group_id, phase="Empty", protocol_type="", protocol="", members=())

    context = SimpleNamespace(
        access=SimpleNamespace(require=lambda *_: None),
        groups=SimpleNamespace(classic=SimpleNamespace(describe=describe)),
        config=SimpleNamespace(broker=SimpleNamespace(request_timeout_ms=1_000)),
    )
    call = SimpleNamespace(context=context, sender=None, hold_answer=lambda _: None, api_version=5, timeout_ms=1_000)
    request = DescribeGroupsRequest(groups=[f"g{one}" for one in range(GROUPS)], include_authorized_operations=False)
    done = asyncio.ensure_future(handle_describe_groups(cast("Any", call), request))
    while not done.done():
        await asyncio.sleep(0)
        turns += 1
    assert [one.group_id for one in (await done).groups] == request.groups
    assert len(set(described_in)) == GROUPS
