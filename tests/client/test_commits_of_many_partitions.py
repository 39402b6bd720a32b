"""A member with more partitions than one request may have commits and reads their offsets in several requests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from raftlog.client import group_commits
from raftlog.client.core.epochs_read import EpochsRead
from raftlog.client.group_commits import GroupCommits
from raftlog.client.metrics import GroupCounters
from raftlog.client.offsets import OffsetAndMetadata
from raftlog.errors import StaleRouteError
from raftlog.model import TopicPartition
from raftlog.runtime import Tasks
from raftlog.wire import paths
from raftlog.wire.errors import WireError
from raftlog.wire.groups import CommittedOffset, OffsetFetchResponse, OffsetResult, OffsetResults
from raftlog.wire.metadata import COMMITS_BY_TOPIC_ID

PARTITIONS = [TopicPartition("t", at) for at in range(5)]
COMMIT = {partition: OffsetAndMetadata(offset=7) for partition in PARTITIONS}


class Coordinator:
    """Refuses each partition of `refused` once."""

    key = "g"

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.refused: set[int] = set()

    async def persist(self, _: type, __: str, path: str, *, message: Any, **___: Any) -> Any:
        request = message()
        if path == paths.GROUP_OFFSETS_FETCH:
            asked = [at for of_topic in request.partitions for at in of_topic.partitions]
            self.asked.append(asked)
            return OffsetFetchResponse(
                offsets=tuple(CommittedOffset(topic="t", partition=at, offset=at, leader_epoch=1) for at in asked)
            )
        self.asked.append([one.partition for one in request.offsets])
        return OffsetResults(offsets=tuple(self.result(one.partition) for one in request.offsets))

    def result(self, partition: int) -> OffsetResult:
        if partition not in self.refused:
            return OffsetResult(topic="t", partition=partition)
        self.refused.discard(partition)
        return OffsetResult(topic="t", partition=partition, error=WireError.of(StaleRouteError("not yet known")))


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def commits(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> GroupCommits:
    async def none_is_final(*_: Any) -> dict[TopicPartition, Any]:
        return {}

    monkeypatch.setattr(group_commits, "final_errors", none_is_final)
    monkeypatch.setattr(group_commits, "MAX_OFFSETS", 2)
    membership = SimpleNamespace(phase="member", member_id="m", epoch=3, error=None, joins=1)
    reader = SimpleNamespace(
        positions=dict.fromkeys(PARTITIONS, 7),
        epochs={},
        epochs_read=EpochsRead(),
        fetcher=SimpleNamespace(topic_id=lambda _: ""),
        connection=SimpleNamespace(feature_level=COMMITS_BY_TOPIC_ID),
    )
    return GroupCommits(
        cast("Any", SimpleNamespace(membership=membership, link=coordinator)),
        cast("Any", reader),
        GroupCounters(),
        timeout_ms=10_000,
        tasks=Tasks("commits"),
    )


async def test_many_offsets_are_committed_in_several_requests(coordinator: Coordinator, commits: GroupCommits):
    coordinator.refused = {1, 4}
    await commits.commit(COMMIT)
    assert coordinator.asked == [[0, 1], [2, 3], [4], [1, 4]], "what is committed is not sent again"
    assert commits.positions(PARTITIONS) == {}


async def test_many_committed_offsets_are_read_in_several_requests(coordinator: Coordinator, commits: GroupCommits):
    found = await commits.committed(PARTITIONS)
    assert coordinator.asked == [[0, 1], [2, 3], [4]]
    assert [one.offset for one in found] == [0, 1, 2, 3, 4]


async def test_no_partitions_are_one_request(coordinator: Coordinator, commits: GroupCommits):
    assert await commits.committed([]) == []
    assert coordinator.asked == [[]]
