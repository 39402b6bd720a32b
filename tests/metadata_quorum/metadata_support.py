"""Images for decisions, and a quorum of one in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.quorum_interface import QuorumState, StateMachine
from raftlog.metadata_quorum.records import ChangePartition, CreateTopic, Record, RegisterBroker, UnfenceBroker
from raftlog.metadata_quorum.replay import replay
from raftlog.model import Address, PartitionState

TOPIC_ID = "a" * 32


def register(broker: int, incarnation: str = "", rack: str = "") -> RegisterBroker:
    return RegisterBroker(
        broker_id=broker,
        incarnation_id=incarnation or f"incarnation-{broker}",
        public=Address("h", 9400 + broker),
        internal=Address("h", 9410 + broker),
        rack=rack,
    )


def then(image: MetadataImage, *records: Record) -> MetadataImage:
    return replay(image, image.offset + 1, records)


def decided(image: MetadataImage, decision: Decision) -> MetadataImage:
    return then(image, *decision.records)


def cluster(brokers: Sequence[int] = (1, 2, 3), racks: Sequence[str] = ()) -> MetadataImage:
    """Return an image with these brokers unfenced; their epochs are 0, 1, 2, ..."""
    image = MetadataImage()
    for position, broker in enumerate(brokers):
        image = then(image, register(broker, rack=racks[position] if racks else ""))
    for broker in brokers:
        image = then(image, UnfenceBroker(broker_id=broker, broker_epoch=image.brokers[broker].broker_epoch))
    return image


def with_partition(image: MetadataImage, *, isr: tuple[int, ...], leader: int, leader_epoch: int = 5) -> MetadataImage:
    topic = CreateTopic(topic="t", topic_id=TOPIC_ID)
    state = PartitionState(replicas=(1, 2, 3), isr=isr, leader=leader, leader_epoch=leader_epoch, partition_epoch=7)
    return then(image, topic, ChangePartition(topic_id=TOPIC_ID, partition=0, state=state))


def state_of(image: MetadataImage) -> PartitionState:
    state = image.partition(TOPIC_ID, 0)
    assert state is not None
    return state


class MemoryQuorum:
    """A quorum of one voter; `hold` keeps proposals from being committed."""

    def __init__(self, machine: StateMachine, node_id: int = 101) -> None:
        self.machine = machine
        self.node_id = node_id
        self.leader: int | None = None
        self.log: list[bytes] = []
        self.hold: asyncio.Event | None = None
        self.held = 0
        """The number of proposals that `hold` has kept."""
        self.errors: list[Exception] = []
        """Raised by the next proposals, instead of an answer."""

    def status(self) -> QuorumState:
        end = len(self.log) + 1
        return QuorumState(term=1, log_end_offset=end, committed_offset=end - 1, voters=())

    async def start(self) -> None:
        self.elect(self.node_id)

    async def close(self) -> None:
        self.elect(None)

    def elect(self, leader: int | None) -> None:
        self.leader = leader
        self.machine.leadership_changed(leader)

    def commit(self, payload: bytes) -> int:
        self.log.append(payload)
        self.machine.apply(len(self.log), payload)
        return len(self.log)

    async def propose(self, payload: bytes, *, timeout_ms: int) -> int:
        if self.errors:
            raise self.errors.pop(0)
        if self.hold is not None:
            self.held += 1
            await self.hold.wait()
        return self.commit(payload)
