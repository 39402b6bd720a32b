"""`BrokerContext`: the parts of a broker that request handlers use."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.broker.admin_limits import AdminLimits
from raftlog.broker.controller_channel import ControllerChannel
from raftlog.broker.groups import GroupService
from raftlog.broker.internal_topics import InternalTopics
from raftlog.broker.lifecycle import BrokerLifecycle
from raftlog.broker.metadata_listener import MetadataListener
from raftlog.broker.metrics.traffic import BrokerMetrics
from raftlog.broker.producer_ids import ProducerIds
from raftlog.broker.quotas import QuotaGate
from raftlog.config import NodeConfig
from raftlog.coordinator.transaction.service import TransactionService
from raftlog.errors import ErrorCode, NotFoundError, StaleRouteError
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import Address, PartitionState, TopicId
from raftlog.partition.replica import Replica
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.runtime import Clock
from raftlog.security.access import Access
from raftlog.security.logins import Logins
from raftlog.serving.node_metrics import NodeMetrics
from raftlog.transport import HttpSession


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerContext:
    """The parts of one broker, and lookups in them."""

    config: NodeConfig
    replicas: ReplicaManager
    listener: MetadataListener
    lifecycle: BrokerLifecycle
    channel: ControllerChannel
    producer_ids: ProducerIds
    internal_topics: InternalTopics
    groups: GroupService
    transactions: TransactionService
    session: HttpSession
    clock: Clock
    metrics: BrokerMetrics
    node: NodeMetrics
    admin_limits: AdminLimits
    access: Access
    logins: Logins | None
    """Logins by password; None: this node has no cluster key."""
    quotas: QuotaGate

    @property
    def image(self) -> MetadataImage:
        """Return the newest metadata.

        Raises:
            RetriableError: this broker has no metadata yet.
        """
        return self.listener.require_image()

    def topic(self, name: str, topic_id: TopicId = "") -> TopicImage:
        """Return a topic.

        Args:
            topic_id: the id, from callers that know that the topic exists: this broker's metadata may be older.

        Raises:
            NotFoundError: the topic does not exist.
            StaleRouteError: UNKNOWN_TOPIC_ID, this broker's metadata lacks the topic, or it was deleted and recreated.
        """
        topic = self.image.topic(name)
        if topic_id and (topic is None or topic.topic_id != topic_id):
            raise StaleRouteError(
                f"topic {name!r} with id {topic_id} is not in this broker's metadata, not yet or no longer",
                code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
        if topic is None:
            raise NotFoundError(f"there is no topic {name!r}; create it with POST /v1/topics or raftlog topics create")
        return topic

    def partition(self, name: str, partition: int, topic_id: TopicId = "") -> PartitionState:
        """Return a partition's state; see `topic`.

        Raises:
            NotFoundError: the topic or the partition does not exist.
            StaleRouteError: UNKNOWN_TOPIC_ID, the caller has the topic's id and may have newer metadata with more
                partitions.
        """
        topic = self.topic(name, topic_id)
        state = topic.partitions.get(partition)
        if state is None and topic_id:
            raise StaleRouteError(
                f"topic {name!r} has partitions 0 to {len(topic.partitions) - 1} here, not {partition}, or not yet",
                code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
        if state is None:
            raise NotFoundError(
                f"topic {name!r} has partitions 0 to {len(topic.partitions) - 1}, received {partition}",
                details={"partitions": len(topic.partitions)},
            )
        return state

    def leader_address(self, name: str, partition: int) -> Address:
        """Return the public address of a partition's leader.

        Raises:
            NotFoundError: the topic or the partition does not exist.
            StaleRouteError: LEADER_NOT_AVAILABLE.
        """
        state = self.partition(name, partition)
        broker = self.image.brokers.get(state.leader)
        if broker is None:
            raise StaleRouteError(
                f"{name}-{partition} has no leader: none of its in-sync replicas {list(state.isr)} is alive",
                code=ErrorCode.LEADER_NOT_AVAILABLE,
                details={"isr": list(state.isr)},
            )
        return broker.public

    def leader(self, name: str, partition: int, topic_id: TopicId = "") -> Replica:
        """Return the replica of a partition that this broker leads.

        Raises:
            NotFoundError: the topic or the partition does not exist.
            StaleRouteError: this broker does not lead it.
            StorageError: its log is damaged, and no other replica is in sync.
        """
        self.partition(name, partition, topic_id)
        return self.replicas.leader(name, partition, topic_id)

    def replica(self, name: str, partition: int, topic_id: TopicId = "") -> Replica:
        """Return this broker's replica of a partition, whatever its role; see `leader`."""
        self.partition(name, partition, topic_id)
        return self.replicas.replica(name, partition, topic_id)

    def holds(self, name: str, partition: int) -> bool:
        """Return whether the metadata assigns a replica of a partition to this broker."""
        return self.config.node_id in self.partition(name, partition).replicas

    def leads(self, name: str, partition: int) -> bool:
        """Return whether this broker leads a partition according to its metadata."""
        return self.partition(name, partition).leader == self.config.node_id
