"""Administration: topics, brokers, the cluster, and access control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from raftlog import wire
from raftlog.client.addresses import address_of
from raftlog.client.admin_topics import TopicAdmin
from raftlog.errors import ErrorCode, NotFoundError
from raftlog.model import BrokerId
from raftlog.runtime import concurrently
from raftlog.wire import paths
from raftlog.wire.metadata import BrokerInfo, BrokersResponse, ClusterInfo, ConfigValue, ControllerInfo

if TYPE_CHECKING:
    from raftlog.wire.admin import ElectedLeader, LogDirsResponse, QuorumResponse, Reassignment, ScrubResponse

R = TypeVar("R")


class Admin(TopicAdmin):
    """Administers a cluster. Use as an async context manager.

    Reads are linearizable: they show everything that was acknowledged before, to any client, and need the metadata
    quorum. With `local=True` one broker answers with what it knows: the answer may be old, but needs no quorum.
    Every call raises `RetriableError` if no broker answers in time.

    Args:
        bootstrap: URLs of one or more brokers, in a list or separated by commas.
        timeout_ms: how long one call may take, attempts included.
        dial: for each address as brokers announce it (`host:port`), the address to connect to instead.
        security: TLS files and credentials; None: those of the environment (`raftlog.Security.from_environment`).
        client_id: the application's name, for quotas; "": the variable
            `RAFTLOG_CLIENT_ID`, or none.
    """

    async def reassign_partitions(
        self, target: Mapping[tuple[str, int], Sequence[BrokerId] | None]
    ) -> list[Reassignment]:
        """Move replicas, and return the reassignments under way afterwards.

        A partition's reassignment ends once all its target replicas are in sync.

        Args:
            target: for each (topic, partition), the brokers that shall have a replica, preferred leader first. None
                cancels the partition's reassignment.

        Raises:
            InvalidRequestError: INVALID_REPLICA_ASSIGNMENT or NO_REASSIGNMENT_IN_PROGRESS; nothing was changed.
        """
        entries = tuple(
            wire.admin.ReassignPartition(
                topic=topic, partition=partition, replicas=None if brokers is None else tuple(brokers)
            )
            for (topic, partition), brokers in target.items()
        )
        request = wire.admin.ReassignmentRequest(partitions=entries)
        answer = await self._connection.ask_any(
            wire.admin.ReassignmentsResponse, "POST", paths.REASSIGNMENTS, message=request, repeatable=False
        )
        return list(answer.partitions)

    async def reassignments(self, *, local: bool = False) -> list[Reassignment]:
        """Return the reassignments under way.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return list((await self._read(wire.admin.ReassignmentsResponse, paths.REASSIGNMENTS, local)).partitions)

    async def elect_leaders(
        self, partitions: Sequence[tuple[str, int]] | None = None, *, unclean: bool = False
    ) -> list[ElectedLeader]:
        """Elect preferred leaders, and return the outcome for each partition.

        Args:
            partitions: the (topic, partition) pairs; None: every partition that another replica leads.
            unclean: for partitions without a leader, elect any replica that is alive. This loses records.
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
        """Return the cluster's id, active controller and brokers.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return await self._read(ClusterInfo, paths.CLUSTER, local)

    async def describe_quorum(self) -> QuorumResponse:
        """Return how far each voter of the metadata quorum has replicated the log."""
        return await self._connection.ask_any(wire.admin.QuorumResponse, "GET", paths.QUORUM)

    async def controller(self, *, local: bool = False) -> ControllerInfo:
        """Return the active controller.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return await self._read(ControllerInfo, paths.CONTROLLER, local)

    async def brokers(self, *, local: bool = False) -> list[BrokerInfo]:
        """Return every registered broker, sorted by id.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return list((await self._read(BrokersResponse, paths.BROKERS, local)).brokers)

    async def log_dirs(self, broker_ids: Sequence[BrokerId] | None = None) -> list[LogDirsResponse]:
        """Return the data folders of some brokers: disk space, and the sizes of replicas.

        Args:
            broker_ids: the brokers; None: all that are not fenced.

        Raises:
            NotFoundError: a broker does not exist.
            UnreachableError, UnknownOutcomeError: a broker does not answer.
        """
        return await self._ask_each(wire.admin.LogDirsResponse, "GET", paths.LOG_DIRS, broker_ids)

    async def scrub(
        self, broker_ids: Sequence[BrokerId] | None = None, topics: Sequence[str] = ()
    ) -> list[ScrubResponse]:
        """Have some brokers read and check the logs of some topics now.

        A broker scrubs in the background, at most at `broker.log_scrub_bytes_per_second`. `scrub_progress` returns how
        far it is.

        Args:
            broker_ids: the brokers; None: all that are not fenced.
            topics: the topics' names; none: every topic.

        Raises:
            NotFoundError: a broker or a topic does not exist.
            UnreachableError, UnknownOutcomeError: a broker does not answer.
        """
        return await self._ask_each(
            wire.admin.ScrubResponse, "POST", paths.SCRUB, broker_ids, wire.admin.ScrubBody(topics=tuple(topics))
        )

    async def scrub_progress(self, broker_ids: Sequence[BrokerId] | None = None) -> list[ScrubResponse]:
        """Return how far the scrubbers of some brokers are; see `scrub`.

        Args:
            broker_ids: the brokers; None: all that are not fenced.

        Raises:
            NotFoundError: a broker does not exist.
            UnreachableError, UnknownOutcomeError: a broker does not answer.
        """
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
            return await self._connection.session.call(
                answer,
                method,
                address_of(broker.url),
                paths.fill(path, broker=broker.broker_id),
                message=message,
                timeout_ms=self._connection.timeout_ms,
            )

        return await concurrently([ask(known[broker]) for broker in chosen])

    async def unregister_broker(self, broker_id: BrokerId) -> None:
        """Forget a broker that will not come back.

        Args:
            broker_id: the broker's id.

        Raises:
            NotFoundError: the broker is not registered.
            InvalidRequestError: the broker is alive, or has a replica of some partition.
        """
        path = paths.fill(paths.BROKER, broker=broker_id)
        await self._connection.ask_any(dict[str, Any], "DELETE", path, repeatable=False)

    async def broker_configs(self, broker_id: BrokerId | None = None, *, local: bool = False) -> dict[str, ConfigValue]:
        """Return the dynamic settings of one broker, or those that all brokers have.

        Args:
            broker_id: the broker's id; None: the settings of all brokers.
            local: ask one broker for what it knows, rather than the quorum.
        """
        path = paths.fill(paths.BROKER_CONFIGS, broker="default" if broker_id is None else broker_id)
        return dict((await self._read(wire.admin.BrokerConfigsResponse, path, local)).configs)

    async def alter_broker_configs(
        self, configs: Mapping[str, ConfigValue | None], broker_id: BrokerId | None = None
    ) -> dict[str, ConfigValue]:
        """Change dynamic settings of one broker, or of all, and return those that are set afterwards.

        Topics without a setting of their own use the broker's.

        Args:
            configs: new values by name; None removes a setting.
            broker_id: the broker's id; None: all brokers.
        """
        path = paths.fill(paths.BROKER_CONFIGS, broker="default" if broker_id is None else broker_id)
        answer = await self._connection.ask_any(
            wire.admin.BrokerConfigsResponse, "PATCH", path, message=wire.admin.BrokerConfigsBody(configs=configs)
        )
        return dict(answer.configs)
