"""Who leads a partition: always a member of its ISR that is alive. Never unclean.

The last member of an ISR stays in it when it is fenced: its log may hold acknowledged records that no other log has.
The partition waits for it, without a leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from raftlog.metadata_quorum.controller.decision import change
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import ChangePartition
from raftlog.model import NO_LEADER, BrokerId, PartitionState


def is_active(image: MetadataImage, broker_id: BrokerId) -> bool:
    """Tell whether a broker may lead."""
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


def elect(state: PartitionState, may_lead: Callable[[BrokerId], bool]) -> BrokerId:
    """Return the first assigned replica that is in sync and may lead, or `NO_LEADER`."""
    return next((replica for replica in state.replicas if replica in state.isr and may_lead(replica)), NO_LEADER)


def moved(state: PartitionState, *, isr: tuple[BrokerId, ...], leader: BrokerId) -> PartitionState:
    """Return the next state: each change takes a partition epoch, each change of leader a leader epoch."""
    bump = leader != state.leader
    return replace(
        state,
        isr=isr,
        leader=leader,
        leader_epoch=state.leader_epoch + bump,
        partition_epoch=state.partition_epoch + 1,
    )


def take_out(image: MetadataImage, broker_id: BrokerId) -> list[ChangePartition]:
    """Return the changes that take a broker out of every ISR and every leadership."""

    def may_lead(candidate: BrokerId) -> bool:
        return candidate != broker_id and is_active(image, candidate)

    changes = []
    for topic, partition, state in image.partitions():
        if broker_id not in state.isr:
            continue
        isr = tuple(member for member in state.isr if member != broker_id) or state.isr
        leader = elect(replace(state, isr=isr), may_lead) if state.leader in (broker_id, NO_LEADER) else state.leader
        if (isr, leader) != (state.isr, state.leader):
            changes.append(change(topic.topic_id, partition, moved(state, isr=isr, leader=leader)))
    return changes


def elect_leaderless(image: MetadataImage, returning: BrokerId) -> Iterable[ChangePartition]:
    """Return the changes that give partitions without a leader to a broker that is about to be unfenced."""
    for topic, partition, state in image.partitions():
        if state.leader == NO_LEADER and returning in state.isr:
            yield change(topic.topic_id, partition, moved(state, isr=state.isr, leader=returning))
