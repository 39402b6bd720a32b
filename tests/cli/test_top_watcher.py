"""The nodes that `raftlog top` reads, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from raftlog.cli.top.watcher import MAX_NODES, Watcher
from raftlog.client.security import Security
from raftlog.errors import AuthorizationError
from raftlog.model import Address
from raftlog.wire.admin import QuorumResponse, VoterStatus
from raftlog.wire.metadata import BrokerInfo, ClusterInfo, ControllerInfo

ADDRESS = Address("127.0.0.1", 1)
VOTERS = tuple(
    VoterStatus(
        node_id=number, address=f"127.0.0.1:{number}", role="follower", log_end_offset=1, lag=0, last_heard_ms=1
    )
    for number in (101, 102, 103)
)
QUORUM = QuorumResponse(leader_id=101, term=1, controller_epoch=1, log_end_offset=1, committed_offset=1, voters=VOTERS)
CLUSTER = ClusterInfo(
    cluster_id="c",
    controller=ControllerInfo(controller_id=101, url="http://127.0.0.1:101"),
    brokers=tuple(BrokerInfo(broker_id=number, url=f"http://127.0.0.1:{number}") for number in range(1, 61)),
)


@pytest.fixture
async def watcher() -> Any:
    async with Watcher(["http://127.0.0.1:1"], Security()) as watcher:
        yield watcher


async def test_controllers_are_read_first_and_brokers_beyond_the_limit_are_counted(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
):
    async def answer(*_: object, **__: object) -> QuorumResponse:
        return QUORUM

    async def refuse(*_: object, **__: object) -> QuorumResponse:
        raise AuthorizationError("no")

    monkeypatch.setattr(watcher, "_call", answer)
    await watcher._note_members(ADDRESS, CLUSTER)
    reading = watcher.reading()
    assert [each.node_id for each in reading.nodes if each.kind == "controller"] == [101, 102, 103]
    assert [each.node_id for each in reading.nodes if each.kind == "broker"] == [*range(1, MAX_NODES - 2)]
    assert (reading.left_out, reading.voters_known) == (63 - MAX_NODES, True)

    monkeypatch.setattr(watcher, "_call", refuse)
    await watcher._note_members(ADDRESS, CLUSTER)
    assert watcher.reading() == reading


async def test_a_user_who_may_not_describe_the_quorum_does_not_know_all_voters(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
):
    async def refuse(*_: object, **__: object) -> QuorumResponse:
        raise AuthorizationError("no")

    monkeypatch.setattr(watcher, "_call", refuse)
    await watcher._note_members(ADDRESS, CLUSTER)
    reading = watcher.reading()
    assert [each.node_id for each in reading.nodes if each.kind == "controller"] == [101]
    assert (reading.left_out, reading.voters_known) == (61 - MAX_NODES, False)
