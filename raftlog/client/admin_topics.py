"""Administering topics and their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from raftlog import wire
from raftlog.client.admin_groups import GroupAdmin
from raftlog.client.start_offsets import Start, ask_offset, offset_at
from raftlog.errors import OffsetOutOfRangeError
from raftlog.model import Isolation, Offset, TopicPartition
from raftlog.runtime import concurrently
from raftlog.wire import paths
from raftlog.wire.data import DeleteRecordsBody, DeleteRecordsResponse, OffsetResponse
from raftlog.wire.metadata import ConfigValue, CreateTopicRequest, TopicInfo, TopicsResponse


class TopicAdmin(GroupAdmin):
    """The part of `Admin` that is about topics."""

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str | int | float | bool] | None = None,
        if_not_exists: bool = False,
        validate_only: bool = False,
    ) -> TopicInfo:
        """Create a topic, and return it.

        Args:
            topic: the topic's name.
            partitions: how many partitions; None: the cluster's default.
            replication_factor: how many replicas each partition has; None: the cluster's default.
            configs: settings by name; the others have the cluster's defaults.
            if_not_exists: return the topic if it exists already, rather than raise.
            validate_only: create nothing; return what would be created, with an empty topic id.

        Raises:
            InvalidRequestError: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
                INVALID_REPLICATION_FACTOR or INVALID_CONFIG.
            UnknownOutcomeError: no answer came; the topic may have been created.
        """
        request = CreateTopicRequest(
            topic=topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs or {},
            if_not_exists=if_not_exists,
            validate_only=validate_only,
        )
        return await self._connection.ask_any(
            TopicInfo, "POST", paths.TOPICS, message=request, repeatable=if_not_exists or validate_only
        )

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic and its records.

        Args:
            topic: the topic's name.

        Raises:
            NotFoundError: no topic has that name.
        """
        path = paths.fill(paths.TOPIC, topic=topic)
        await self._connection.ask_any(dict[str, Any], "DELETE", path, repeatable=False)

    async def alter_topic(
        self, topic: str, *, configs: Mapping[str, ConfigValue | None] | None = None, partitions: int | None = None
    ) -> TopicInfo:
        """Change some of a topic's settings, or add partitions, and return the topic.

        Records keep their partitions. Once there are more partitions, a key may go to another one than before.

        Args:
            topic: the topic's name.
            configs: new values by name; None sets a setting back to its default.
            partitions: how many partitions the topic has afterwards; None: as many as before.

        Raises:
            NotFoundError: no topic has that name.
            InvalidRequestError: INVALID_CONFIG or INVALID_PARTITIONS; nothing was changed.
        """
        path = paths.fill(paths.TOPIC, topic=topic)
        body = wire.admin.AlterTopicBody(configs=configs or {}, partitions=partitions)
        return await self._connection.ask_any(TopicInfo, "PATCH", path, message=body)

    async def list_topics(self, *, local: bool = False) -> list[TopicInfo]:
        """Return every topic, sorted by name.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return list((await self._read(TopicsResponse, paths.TOPICS, local)).topics)

    async def describe_topic(self, topic: str, *, local: bool = False) -> TopicInfo:
        """Return one topic.

        Args:
            topic: the topic's name.
            local: ask one broker for what it knows, rather than the quorum.

        Raises:
            NotFoundError: no topic has that name.
        """
        if local:
            self._connection.forget_leader_of([topic])
            return await self._connection.topic(topic)
        return await self._read(TopicInfo, paths.fill(paths.TOPIC, topic=topic), local)

    async def list_offsets(
        self,
        topic: str,
        at: Start = "latest",
        *,
        partitions: Sequence[int] | None = None,
        isolation: Isolation = "read_uncommitted",
    ) -> list[OffsetResponse]:
        """Return one offset, and both ends of the log, of each partition.

        Args:
            topic: the topic's name.
            at: `earliest`, `latest`, or a time (µs since 1970 UTC, a datetime, or a timedelta ago; by the millisecond).
                A time means the first offset at or after it, or the end if there is none.
            partitions: only these partitions; None: all.
            isolation: with `read_committed` the end is the last stable offset.

        Raises:
            NotFoundError: the topic or a partition does not exist.
        """
        if partitions is None:
            partitions = [info.partition for info in (await self.describe_topic(topic)).partitions]
        pairs = [TopicPartition(topic, partition) for partition in partitions]
        return await concurrently([ask_offset(self._connection, each, at, isolation) for each in pairs])

    async def delete_records(self, topic: str, partition: int, *, before: Offset | None = None) -> Offset:
        """Delete a partition's records below an offset, and return the new log start offset.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            before: the first offset that is kept; None: the high watermark at the time of the call.

        Raises:
            NotFoundError: the topic or the partition does not exist.
            OffsetOutOfRangeError: `before` is above the high watermark; nothing was deleted.
            UnknownOutcomeError: the records may be deleted on some replicas only. Call it again, with a `before`:
                without one, that call would also delete the records that were acknowledged meanwhile.
        """
        if before is not None:
            return await self._delete_before(topic, partition, before)
        # Not "the high watermark": a later attempt would delete what was acknowledged after an earlier one.
        end = await offset_at(self._connection, TopicPartition(topic, partition), "latest")
        try:
            return await self._delete_before(topic, partition, end)
        except OffsetOutOfRangeError:  # The high watermark of a new leader was lower, or it lost records.
            later_end = await offset_at(self._connection, TopicPartition(topic, partition), "latest")
            return await self._delete_before(topic, partition, min(end, later_end))

    async def _delete_before(self, topic: str, partition: int, offset: Offset) -> Offset:
        path = paths.fill(paths.DELETE_RECORDS, topic=topic, partition=partition)
        body = DeleteRecordsBody(before_offset=offset)
        answer = await self._connection.at_leader(DeleteRecordsResponse, "POST", topic, partition, path, message=body)
        return answer.log_start_offset
