"""What a controller decides: records to commit, and the answer once they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from raftlog.metadata_quorum.records import ChangePartition, Record
from raftlog.model import PartitionState, TopicId

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """No records: nothing changes."""

    records: tuple[Record, ...]
    response: R


def change(topic_id: TopicId, partition: int, state: PartitionState) -> ChangePartition:
    """Return the record that puts a partition into `state`."""
    return ChangePartition(
        topic_id=topic_id,
        partition=partition,
        replicas=state.replicas,
        isr=state.isr,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        elr=state.elr,
        adding=state.adding,
        removing=state.removing,
    )
