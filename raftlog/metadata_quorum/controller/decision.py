"""A controller's decision: records to commit, and the response once they are committed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from raftlog.metadata_quorum.records import ChangePartition, Record
from raftlog.model import PartitionState, TopicId

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Decision(Generic[R]):
    """The outcome of a `decide_...` function."""

    records: tuple[Record, ...]
    """Empty: nothing changes."""
    response: R


def change(topic_id: TopicId, partition: int, state: PartitionState) -> ChangePartition:
    """Return the record that puts a partition into `state`."""
    return ChangePartition(topic_id=topic_id, partition=partition, state=state)
