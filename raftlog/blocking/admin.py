"""Administration without async: topics, brokers, the cluster, and access control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raftlog.blocking.admin_topics import TopicAdmin
from raftlog.model import BrokerId
from raftlog.wire.admin import ElectedLeader, LogDirsResponse, QuorumResponse, Reassignment, ScrubResponse
from raftlog.wire.metadata import BrokerInfo, ClusterInfo, ConfigValue, ControllerInfo


class Admin(TopicAdmin):
    """Administers a cluster. Use as a context manager.

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

    def reassign_partitions(self, target: Mapping[tuple[str, int], Sequence[BrokerId] | None]) -> list[Reassignment]:
        """Move replicas, and return the reassignments under way afterwards.

        A partition's reassignment ends once all its target replicas are in sync.

        Args:
            target: for each (topic, partition), the brokers that shall have a replica, preferred leader first. None
                cancels the partition's reassignment.

        Raises:
            InvalidRequestError: INVALID_REPLICA_ASSIGNMENT or NO_REASSIGNMENT_IN_PROGRESS; nothing was changed.
        """
        return self._run(self._client.reassign_partitions, target)

    def reassignments(self, *, local: bool = False) -> list[Reassignment]:
        """Return the reassignments under way.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return self._run(self._client.reassignments, local=local)

    def elect_leaders(
        self, partitions: Sequence[tuple[str, int]] | None = None, *, unclean: bool = False
    ) -> list[ElectedLeader]:
        """Elect preferred leaders, and return the outcome for each partition.

        Args:
            partitions: the (topic, partition) pairs; None: every partition that another replica leads.
            unclean: for partitions without a leader, elect any replica that is alive. This loses records.
        """
        return self._run(self._client.elect_leaders, partitions, unclean=unclean)

    def describe_cluster(self, *, local: bool = False) -> ClusterInfo:
        """Return the cluster's id, active controller and brokers.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return self._run(self._client.describe_cluster, local=local)

    def describe_quorum(self) -> QuorumResponse:
        """Return how far each voter of the metadata quorum has replicated the log."""
        return self._run(self._client.describe_quorum)

    def controller(self, *, local: bool = False) -> ControllerInfo:
        """Return the active controller.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return self._run(self._client.controller, local=local)

    def brokers(self, *, local: bool = False) -> list[BrokerInfo]:
        """Return every registered broker, sorted by id.

        Args:
            local: ask one broker for what it knows, rather than the quorum.
        """
        return self._run(self._client.brokers, local=local)

    def log_dirs(self, broker_ids: Sequence[BrokerId] | None = None) -> list[LogDirsResponse]:
        """Return the data folders of some brokers: disk space, and the sizes of replicas.

        Args:
            broker_ids: the brokers; None: all that are not fenced.

        Raises:
            NotFoundError: a broker does not exist.
            UnreachableError, UnknownOutcomeError: a broker does not answer.
        """
        return self._run(self._client.log_dirs, broker_ids)

    def scrub(self, broker_ids: Sequence[BrokerId] | None = None, topics: Sequence[str] = ()) -> list[ScrubResponse]:
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
        return self._run(self._client.scrub, broker_ids, topics)

    def scrub_progress(self, broker_ids: Sequence[BrokerId] | None = None) -> list[ScrubResponse]:
        """Return how far the scrubbers of some brokers are; see `scrub`.

        Args:
            broker_ids: the brokers; None: all that are not fenced.

        Raises:
            NotFoundError: a broker does not exist.
            UnreachableError, UnknownOutcomeError: a broker does not answer.
        """
        return self._run(self._client.scrub_progress, broker_ids)

    def unregister_broker(self, broker_id: BrokerId) -> None:
        """Forget a broker that will not come back.

        Args:
            broker_id: the broker's id.

        Raises:
            NotFoundError: the broker is not registered.
            InvalidRequestError: the broker is alive, or has a replica of some partition.
        """
        self._run(self._client.unregister_broker, broker_id)

    def broker_configs(self, broker_id: BrokerId | None = None, *, local: bool = False) -> dict[str, ConfigValue]:
        """Return the dynamic settings of one broker, or those that all brokers have.

        Args:
            broker_id: the broker's id; None: the settings of all brokers.
            local: ask one broker for what it knows, rather than the quorum.
        """
        return self._run(self._client.broker_configs, broker_id, local=local)

    def alter_broker_configs(
        self, configs: Mapping[str, ConfigValue | None], broker_id: BrokerId | None = None
    ) -> dict[str, ConfigValue]:
        """Change dynamic settings of one broker, or of all, and return those that are set afterwards.

        Topics without a setting of their own use the broker's.

        Args:
            configs: new values by name; None removes a setting.
            broker_id: the broker's id; None: all brokers.
        """
        return self._run(self._client.alter_broker_configs, configs, broker_id)
