"""Administration: topics, brokers, the cluster, and who may do what."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from raftlog import wire
from raftlog.client.admin_groups import GroupAdmin
from raftlog.client.connection import parse_bootstrap
from raftlog.client.starts import Start, ask_offset
from raftlog.errors import ErrorCode, NotFoundError
from raftlog.model import BrokerId, Isolation, Offset, TopicPartition
from raftlog.wire import paths
from raftlog.wire.data import HIGH_WATERMARK, DeleteRecordsBody, DeleteRecordsResponse, OffsetResponse
from raftlog.wire.metadata import (
    BrokerInfo,
    BrokersResponse,
    ClusterInfo,
    ConfigValue,
    ControllerInfo,
    CreateTopicRequest,
    TopicInfo,
    TopicsResponse,
)

if TYPE_CHECKING:
    from raftlog.wire.admin import ElectedLeader, LogDirsResponse, QuorumResponse, Reassignment, ScrubResponse

R = TypeVar("R")


class Admin(GroupAdmin):
    """Administers a cluster. Use as an async context manager.

    Reads are linearizable: they show everything that was acknowledged before, to anybody, and need the metadata quorum.
    With `local=True` they show what the broker that answers knows: maybe old, but there without a quorum too.

    Args:
        bootstrap: URLs of one or more brokers, in a list or separated by commas.
        timeout_ms: how long one call may take, attempts included.
    """

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
        """Create a topic; what is not given is the cluster's default.

        Args:
            validate_only: create nothing; return what would be created, with an empty topic id.

        Raises:
            InvalidRequestError: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
                INVALID_REPLICATION_FACTOR or INVALID_CONFIG.
            UnknownOutcomeError: no answer came; it may have been created.
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

        Raises:
            NotFoundError: there is none of that name.
        """
        path = paths.fill(paths.TOPIC, topic=topic)
        await self._connection.ask_any(dict[str, Any], "DELETE", path, repeatable=False)

    async def alter_topic(
        self, topic: str, *, configs: Mapping[str, ConfigValue | None] | None = None, partitions: int | None = None
    ) -> TopicInfo:
        """Change some of a topic's settings (None: back to the default), or add partitions; return what it is then.

        Records keep their partitions; keys may go to others than before once there are more.

        Raises:
            NotFoundError: there is none of that name.
            InvalidRequestError: INVALID_CONFIG or INVALID_PARTITIONS; nothing was changed.
        """
        path = paths.fill(paths.TOPIC, topic=topic)
        body = wire.admin.AlterTopicBody(configs=configs or {}, partitions=partitions)
        return await self._connection.ask_any(TopicInfo, "PATCH", path, message=body)

    async def list_topics(self, *, local: bool = False) -> list[TopicInfo]:
        """Return every topic, sorted by name."""
        return list((await self._read(TopicsResponse, paths.TOPICS, local)).topics)

    async def describe_topic(self, topic: str, *, local: bool = False) -> TopicInfo:
        """Return one topic.

        Raises:
            NotFoundError: there is none of that name.
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
        """Return an offset of each of a topic's partitions (or of some), and both ends of their logs.

        Args:
            at: `earliest`, `latest`, or a time (µs since 1970 UTC, a datetime, or a timedelta ago; by the millisecond):
                the first offset at or after it, the end when there is none.
            isolation: `read_committed` takes the last stable offset for the end.

        Raises:
            NotFoundError: there is no such topic or partition.
        """
        if partitions is None:
            partitions = [info.partition for info in (await self.describe_topic(topic)).partitions]
        asked = [TopicPartition(topic, partition) for partition in partitions]
        return list(await asyncio.gather(*(ask_offset(self._connection, each, at, isolation) for each in asked)))

    async def delete_records(self, topic: str, partition: int, *, before: Offset | None = None) -> Offset:
        """Delete a partition's records below an offset, or (None) all that can be read now; return its new start.

        Raises:
            NotFoundError: there is no such topic or partition.
            OffsetOutOfRangeError: the offset is above the high watermark; nothing was deleted.
            UnknownOutcomeError: deleted at the leader, but not known to be everywhere: ask again.
        """
        path = paths.fill(paths.DELETE_RECORDS, topic=topic, partition=partition)
        body = DeleteRecordsBody(before_offset=HIGH_WATERMARK if before is None else before)
        answer = await self._connection.at_leader(DeleteRecordsResponse, "POST", topic, partition, path, message=body)
        return answer.log_start_offset

    async def reassign_partitions(
        self, target: Mapping[tuple[str, int], Sequence[BrokerId] | None]
    ) -> list[Reassignment]:
        """Move replicas: for each (topic, partition) the brokers that shall have one, preferred leader first.

        None cancels. Returns what is under way then; a partition moves once all its targets are in sync.

        Raises:
            InvalidRequestError: INVALID_REPLICA_ASSIGNMENT or NO_REASSIGNMENT_IN_PROGRESS; nothing was changed.
        """
        asked = tuple(
            wire.admin.ReassignPartition(
                topic=topic, partition=partition, replicas=None if brokers is None else tuple(brokers)
            )
            for (topic, partition), brokers in target.items()
        )
        request = wire.admin.ReassignmentRequest(partitions=asked)
        answer = await self._connection.ask_any(
            wire.admin.ReassignmentsResponse, "POST", paths.REASSIGNMENTS, message=request, repeatable=False
        )
        return list(answer.partitions)

    async def reassignments(self, *, local: bool = False) -> list[Reassignment]:
        """Return the reassignments that are under way."""
        return list((await self._read(wire.admin.ReassignmentsResponse, paths.REASSIGNMENTS, local)).partitions)

    async def elect_leaders(
        self, partitions: Sequence[tuple[str, int]] | None = None, *, unclean: bool = False
    ) -> list[ElectedLeader]:
        """Elect preferred leaders, of these partitions or (None) wherever another one leads.

        Args:
            unclean: for partitions that have no leader, elect any replica that is alive. Loses records!
        """
        named = (
            None
            if partitions is None
            else tuple(wire.admin.ElectionPartition(topic=t, partition=p) for t, p in partitions)
        )
        request = wire.admin.ElectLeadersRequest(election="unclean" if unclean else "preferred", partitions=named)
        answer = await self._connection.ask_any(
            wire.admin.ElectLeadersResponse, "POST", paths.LEADER_ELECTIONS, message=request, repeatable=not unclean
        )
        return list(answer.partitions)

    async def describe_cluster(self, *, local: bool = False) -> ClusterInfo:
        """Return the cluster's id, active controller and brokers."""
        return await self._read(ClusterInfo, paths.CLUSTER, local)

    async def describe_quorum(self) -> QuorumResponse:
        """Return how far each voter of the metadata quorum is."""
        return await self._connection.ask_any(wire.admin.QuorumResponse, "GET", paths.QUORUM)

    async def controller(self, *, local: bool = False) -> ControllerInfo:
        """Return who the active controller is."""
        return await self._read(ControllerInfo, paths.CONTROLLER, local)

    async def brokers(self, *, local: bool = False) -> list[BrokerInfo]:
        """Return every registered broker, sorted by id."""
        return list((await self._read(BrokersResponse, paths.BROKERS, local)).brokers)

    async def log_dirs(self, broker_ids: Sequence[BrokerId] | None = None) -> list[LogDirsResponse]:
        """Return some brokers' folders (None: those of all that are not fenced): disk space, and sizes of replicas.

        Raises:
            NotFoundError: there is no such broker.
            UnreachableError, UnknownOutcomeError: one of them does not answer.
        """
        return await self._ask_each(wire.admin.LogDirsResponse, "GET", paths.LOG_DIRS, broker_ids)

    async def scrub(
        self, broker_ids: Sequence[BrokerId] | None = None, topics: Sequence[str] = ()
    ) -> list[ScrubResponse]:
        """Have some brokers (None: all that are not fenced) read and check the logs of some topics (none: of all) now.

        It goes on in the background, within `broker.log_scrub_bytes_per_second`; `scrub_progress` says how far it is.

        Raises:
            NotFoundError: there is no such broker or topic.
            UnreachableError, UnknownOutcomeError: one of them does not answer.
        """
        return await self._ask_each(
            wire.admin.ScrubResponse, "POST", paths.SCRUB, broker_ids, wire.admin.ScrubBody(topics=tuple(topics))
        )

    async def scrub_progress(self, broker_ids: Sequence[BrokerId] | None = None) -> list[ScrubResponse]:
        """Return how far the scrubbers of some brokers (None: of all that are not fenced) are; see `scrub`."""
        return await self._ask_each(wire.admin.ScrubResponse, "GET", paths.SCRUB, broker_ids)

    async def _ask_each(
        self,
        answer: type[R],
        method: str,
        path: str,
        broker_ids: Sequence[BrokerId] | None,
        message: object | None = None,
    ) -> list[R]:
        """Ask some brokers what only they know."""
        known = {broker.broker_id: broker for broker in await self.brokers(local=True)}
        chosen = [b for b in known if not known[b].fenced] if broker_ids is None else list(broker_ids)
        if unknown := [broker for broker in chosen if broker not in known]:
            raise NotFoundError(f"there is no broker {unknown[0]}; there are {sorted(known)}", code=ErrorCode.NOT_FOUND)

        async def ask(broker: BrokerInfo) -> R:
            (address,) = parse_bootstrap(broker.url)
            return await self._connection.session.call(
                answer,
                method,
                address,
                paths.fill(path, broker=broker.broker_id),
                message=message,
                timeout_ms=self._connection.timeout_ms,
            )

        return list(await asyncio.gather(*(ask(known[broker]) for broker in chosen)))

    async def unregister_broker(self, broker_id: BrokerId) -> None:
        """Forget a broker that will not come back.

        Raises:
            NotFoundError: it is not registered.
            InvalidRequestError: it is alive, or partitions have a replica there.
        """
        path = paths.fill(paths.BROKER, broker=broker_id)
        await self._connection.ask_any(dict[str, Any], "DELETE", path, repeatable=False)

    async def broker_configs(self, broker_id: BrokerId | None = None, *, local: bool = False) -> dict[str, ConfigValue]:
        """Return the dynamic settings of one broker, or (None) those of all."""
        path = paths.fill(paths.BROKER_CONFIGS, broker="default" if broker_id is None else broker_id)
        return dict((await self._read(wire.admin.BrokerConfigsResponse, path, local)).configs)

    async def alter_broker_configs(
        self, configs: Mapping[str, ConfigValue | None], broker_id: BrokerId | None = None
    ) -> dict[str, ConfigValue]:
        """Change dynamic settings of one broker, or (None) of all: what topics without their own go by there."""
        path = paths.fill(paths.BROKER_CONFIGS, broker="default" if broker_id is None else broker_id)
        answer = await self._connection.ask_any(
            wire.admin.BrokerConfigsResponse, "PATCH", path, message=wire.admin.BrokerConfigsBody(configs=configs)
        )
        return dict(answer.configs)
