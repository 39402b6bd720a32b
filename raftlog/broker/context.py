"""What a broker's handlers work with."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.broker.admin_gate import AdminGate
from raftlog.broker.controller_channel import ControllerChannel
from raftlog.broker.groups import GroupService
from raftlog.broker.internal_topics import InternalTopics
from raftlog.broker.lifecycle import BrokerLifecycle
from raftlog.broker.metadata_listener import MetadataListener
from raftlog.broker.metrics import Metrics
from raftlog.broker.producer_ids import ProducerIds
from raftlog.config import NodeConfig
from raftlog.coordinator.transaction.service import TransactionService
from raftlog.errors import ErrorCode, NotFoundError, StaleRouteError
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import Address, PartitionState, TopicId
from raftlog.partition.replica import Replica
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.runtime import Clock
from raftlog.serving.loop_watch import LoopWatch
from raftlog.transport import HttpSession


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerContext:
    """The parts of one broker."""

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
    metrics: Metrics
    watch: LoopWatch
    admin_gate: AdminGate

    @property
    def image(self) -> MetadataImage:
        """Return the newest metadata.

        Raises:
            RetriableError: this broker has none yet, so it must not say what exists.
        """
        return self.listener.require_image()

    def topic(self, name: str, topic_id: TopicId = "") -> TopicImage:
        """Return a topic.

        Args:
            topic_id: given by callers who know that the topic exists: this broker may not have heard of it yet.

        Raises:
            NotFoundError: there is none of that name.
            StaleRouteError: UNKNOWN_TOPIC_ID, not known here yet, or deleted and recreated.
        """
        topic = self.image.topic(name)
        if topic_id and (topic is None or topic.topic_id != topic_id):
            raise StaleRouteError(
                f"topic {name!r} with id {topic_id} is not known here, not yet or no longer",
                code=ErrorCode.UNKNOWN_TOPIC_ID,
            )
        if topic is None:
            raise NotFoundError(f"there is no topic {name!r}; create it with POST /v1/topics or raftlog topics create")
        return topic

    def partition(self, name: str, partition: int, topic_id: TopicId = "") -> PartitionState:
        """Return a partition's state; see `topic`.

        Raises:
            NotFoundError: there is no such topic or partition.
            StaleRouteError: UNKNOWN_TOPIC_ID, who names the topic's id has newer metadata: it may have grown since.
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
            NotFoundError: there is no such topic or partition.
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
            NotFoundError: there is no such topic or partition.
            StaleRouteError: this broker does not lead it.
            StorageError: its disk refused.
        """
        self.partition(name, partition, topic_id)
        return self.replicas.leader(name, partition, topic_id)

    def replica(self, name: str, partition: int, topic_id: TopicId = "") -> Replica:
        """Return this broker's replica of a partition, whatever its role; see `leader`."""
        self.partition(name, partition, topic_id)
        return self.replicas.replica(name, partition, topic_id)

    def holds(self, name: str, partition: int) -> bool:
        """Tell whether this broker has a replica of a partition, by its metadata."""
        return self.config.node_id in self.partition(name, partition).replicas

    def leads(self, name: str, partition: int) -> bool:
        """Tell whether this broker leads a partition, by its metadata."""
        return self.partition(name, partition).leader == self.config.node_id
