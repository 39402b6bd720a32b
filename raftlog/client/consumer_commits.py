"""A consumer's place in its group, and the offsets that the group has committed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from raftlog.client.arguments import partition_argument
from raftlog.client.consumer_positions import ConsumerPositions
from raftlog.client.offsets import OffsetAndMetadata, OffsetsToCommit, full
from raftlog.model import TopicPartition

if TYPE_CHECKING:
    from raftlog.client.core.membership import GroupMetadata


class ConsumerCommits(ConsumerPositions):
    """The part of `Consumer` that is about its group and its commits."""

    @property
    def group_metadata(self) -> GroupMetadata:
        """Return this member's place in its group: the argument of `Transaction.send_offsets`.

        Raises:
            InvalidRequestError: this consumer is closed, or has no group.
        """
        return self._require_group().metadata

    async def seek_to_committed(self) -> None:
        """Continue at what the group has committed: later records are returned again.

        A member that the group has dropped joins again with the next call for records.

        Raises:
            InvalidRequestError: this consumer is closed, or has no group.
        """
        await self._ensure_started()
        await self._require_group().rewind(frozenset(self.assignment))

    async def commit(self, offsets: OffsetsToCommit | None = None) -> None:
        """Commit the group's offsets; return once they are replicated.

        Args:
            offsets: for each (topic, partition), the offset of the next record to read; None: what was returned so far.

        Raises:
            FencedError: the membership has ended, or another member has one of the partitions. That member goes on from
                the last commit. Nothing of that partition was committed.
            UnknownOutcomeError: no answer came, or an error after an attempt without an answer; the commit may count.
            NotFoundError: a topic or a partition does not exist, or the topic was deleted and created again since its
                records were read (UNKNOWN_TOPIC_ID). Nothing of that partition was committed. The consumer goes on in
                the new topic by `auto_offset_reset`.
            RetriableError: the coordinator cannot be reached; commit again.
            InvalidRequestError: this consumer is closed or has no group, or an offset is wrong.
        """
        group = self._require_group()
        await group.commits.commit(self._to_commit(offsets))

    def commit_nowait(self, offsets: OffsetsToCommit | None = None) -> asyncio.Task[None]:
        """Commit in the background, after earlier commits; return a future, which may be awaited or dropped.

        Args:
            offsets: for each (topic, partition), the offset of the next record to read; None: what was returned so far.

        Raises:
            InvalidRequestError: this consumer is closed or has no group, or an offset is wrong.
        """
        return self._require_group().commits.commit_soon(self._to_commit(offsets))

    async def committed(self, *partitions: tuple[str, int]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets; None stands for a partition without one.

        Args:
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: this consumer is closed, or has no group.
        """
        wanted = [partition_argument(partition) for partition in partitions] or self.assignment
        answer = await self._require_group().commits.committed(wanted)
        return {
            TopicPartition(item.topic, item.partition): OffsetAndMetadata(
                offset=item.offset, metadata=item.metadata, leader_epoch=item.leader_epoch, topic_id=item.topic_id
            )
            if item.offset >= 0
            else None
            for item in answer
        }

    def _to_commit(self, offsets: OffsetsToCommit | None) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._require_group().positions(self._reader.positions) if offsets is None else full(offsets)
