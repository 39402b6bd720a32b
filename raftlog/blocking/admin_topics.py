"""Administration of topics and their records without async."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raftlog.blocking.admin_groups import GroupAdmin
from raftlog.client.start_offsets import Start
from raftlog.model import Isolation, Offset
from raftlog.wire.data import OffsetResponse
from raftlog.wire.metadata import ConfigValue, TopicInfo


class TopicAdmin(GroupAdmin):
    """The part of `Admin` that is about topics."""

    def create_topic(
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
        return self._run(
            self._client.create_topic,
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs,
            if_not_exists=if_not_exists,
            validate_only=validate_only,
        )

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and its records.

        Args:
            topic: the topic's name.

        Raises:
            NotFoundError: no topic has that name.
        """
        self._run(self._client.delete_topic, topic)

    def alter_topic(
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
        return self._run(self._client.alter_topic, topic, configs=configs, partitions=partitions)

    def list_topics(self, *, local: bool = False) -> list[TopicInfo]:
        """Return every topic, sorted by name.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return self._run(self._client.list_topics, local=local)

    def describe_topic(self, topic: str, *, local: bool = False) -> TopicInfo:
        """Return one topic.

        Args:
            topic: the topic's name.
            local: ask one broker for what it knows, rather than the quorum.

        Raises:
            NotFoundError: no topic has that name.
        """
        return self._run(self._client.describe_topic, topic, local=local)

    def list_offsets(
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
        return self._run(self._client.list_offsets, topic, at, partitions=partitions, isolation=isolation)

    def delete_records(self, topic: str, partition: int, *, before: Offset | None = None) -> Offset:
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
        return self._run(self._client.delete_records, topic, partition, before=before)
