"""What a broker's handlers work with."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.broker.controller_channel import ControllerChannel
from raftlog.broker.lifecycle import BrokerLifecycle
from raftlog.broker.metadata_listener import MetadataListener
from raftlog.broker.metrics import Metrics
from raftlog.broker.producer_ids import ProducerIds
from raftlog.config import NodeConfig
from raftlog.errors import ErrorCode, NotFoundError, StaleRouteError
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import Address, PartitionState
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.runtime import Clock
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
    session: HttpSession
    clock: Clock
    metrics: Metrics

    @property
    def image(self) -> MetadataImage:
        return self.listener.image

    def topic(self, name: str) -> TopicImage:
        """Return a topic.

        Raises:
            NotFoundError: there is none of that name.
        """
        topic = self.image.topic(name)
        if topic is None:
            raise NotFoundError(f"there is no topic {name!r}; create it with POST /v1/topics or raftlog topics create")
        return topic

    def partition(self, name: str, partition: int) -> PartitionState:
        """Return a partition's state.

        Raises:
            NotFoundError: there is no such topic or partition.
        """
        topic = self.topic(name)
        state = topic.partitions.get(partition)
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

    def leads(self, name: str, partition: int) -> bool:
        """Tell whether this broker leads a partition, by its metadata."""
        return self.partition(name, partition).leader == self.config.node_id
