"""A group's member whose coordinator answers for other partitions than those it was asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from raftlog.client.core.epochs_read import EpochsRead
from raftlog.client.group_commits import GroupCommits
from raftlog.client.group_session import GroupOptions, GroupSession
from raftlog.client.metrics import GroupCounters
from raftlog.client.offsets import OffsetAndMetadata
from raftlog.model import TopicPartition
from raftlog.runtime import Tasks
from raftlog.transport import PeerAnswerError
from raftlog.wire.groups import CommittedOffset, OffsetFetchResponse, OffsetResult, OffsetResults
from raftlog.wire.metadata import COMMITS_BY_TOPIC_ID

ASKED, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
COMMIT = {ASKED: OffsetAndMetadata(offset=7)}


class Coordinator:
    """Gives prepared answers."""

    key = "g"

    def __init__(self) -> None:
        self.answer: Any = None

    async def persist(self, *_: object, **__: object) -> Any:
        return self.answer


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


@pytest.fixture
def commits(coordinator: Coordinator) -> GroupCommits:
    membership = SimpleNamespace(phase="member", member_id="m", epoch=3, error=None, joins=1)
    reader = SimpleNamespace(
        positions={ASKED: 7},
        epochs={},
        epochs_read=EpochsRead(),
        fetcher=SimpleNamespace(topic_id=lambda _: ""),
        connection=SimpleNamespace(feature_level=COMMITS_BY_TOPIC_ID),
    )
    return GroupCommits(
        cast("Any", SimpleNamespace(membership=membership, link=coordinator)),
        cast("Any", reader),
        GroupCounters(),
        timeout_ms=1_000,
        tasks=Tasks("commits"),
    )


def results(*partitions: TopicPartition) -> OffsetResults:
    return OffsetResults(offsets=tuple(OffsetResult(topic=each.topic, partition=each.partition) for each in partitions))


@pytest.mark.parametrize("answered", [(), (OTHER,), (ASKED, OTHER)], ids=["none", "another", "one more"])
async def test_a_commit_that_is_answered_for_other_partitions_is_an_error(
    coordinator: Coordinator, commits: GroupCommits, answered: tuple[TopicPartition, ...]
):
    coordinator.answer = results(*answered)

    with pytest.raises(PeerAnswerError, match="for other partitions"):
        await commits.commit(COMMIT)
    await commits.commit_quietly(COMMIT)

    assert commits.positions([ASKED]) == COMMIT, "it is committed again"
    coordinator.answer = results(ASKED)
    await commits.commit(COMMIT)
    assert commits.positions([ASKED]) == {}


async def test_committed_offsets_of_other_partitions_do_not_count(coordinator: Coordinator, commits: GroupCommits):
    """A partition that the member reads already would go back to that offset."""
    session = GroupSession.__new__(GroupSession)
    session.commits = commits
    session._options = GroupOptions(reset=None, auto_commit_interval_ms=None, timeout_ms=1_000)
    coordinator.answer = OffsetFetchResponse(
        offsets=(
            CommittedOffset(topic="t", partition=0, offset=5, leader_epoch=2),
            CommittedOffset(topic="t", partition=1, offset=0, leader_epoch=1),
        )
    )

    assert await session.starting_offsets(frozenset({ASKED})) == ({ASKED: 5}, {ASKED: 2}, {ASKED: ""})
