"""`Admin.reset_group_offsets` of a group that has committed offsets of a deleted topic, which expire later."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest

from raftlog.client import Admin, admin_groups
from raftlog.errors import NotFoundError
from raftlog.model import TopicPartition
from raftlog.wire.data import OffsetResponse

KEPT, DELETED = TopicPartition("kept", 0), TopicPartition("deleted", 0)


@pytest.fixture(autouse=True)
def offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_offset(connection: object, partition: TopicPartition, at: object) -> OffsetResponse:
        if partition == DELETED:
            raise NotFoundError("there is no topic 'deleted'")
        return OffsetResponse(topic=partition.topic, partition=0, offset=0, log_start_offset=0, high_watermark=10)

    monkeypatch.setattr(admin_groups, "ask_offset", ask_offset)
    monkeypatch.setattr(Admin, "group_offsets", AsyncMock(return_value={DELETED: 5, KEPT: 7}))


async def test_offsets_of_deleted_topics_are_left_out():
    """The reset of all other offsets failed until they had expired."""
    async with Admin("http://127.0.0.1:1") as admin:
        assert await admin.reset_group_offsets("g", to="earliest", dry_run=True) == {KEPT: 0}
        assert await admin.reset_group_offsets("g", shift_by=1, dry_run=True) == {KEPT: 8}


async def test_a_partition_that_is_named_must_exist():
    async with Admin("http://127.0.0.1:1") as admin:
        with pytest.raises(NotFoundError, match="no topic 'deleted'"):
            await admin.reset_group_offsets("g", to="earliest", partitions=[KEPT, DELETED], dry_run=True)
