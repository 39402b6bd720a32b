"""New partitions on brokers that a request assigns."""

from __future__ import annotations

from collections.abc import Sequence

from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.metadata_quorum.controller.decision import change
from raftlog.metadata_quorum.controller.elections import is_active
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import ChangePartition
from raftlog.model import BrokerId, PartitionState, TopicId

MAX_PARTITIONS = 10_000
"""The most partitions of one topic."""


def assigned_partitions(
    image: MetadataImage,
    topic_id: TopicId,
    numbers: range,
    assignments: Sequence[tuple[BrokerId, ...]],
    replication_factor: int,
) -> list[ChangePartition]:
    """Return new partitions on assigned brokers. The live ones are in sync, and the first of these leads.

    Raises:
        InvalidRequestError: INVALID_PARTITIONS, or INVALID_REPLICA_ASSIGNMENT: there is not one assignment for each
            partition, a broker is unknown or listed twice, all of them are down, or their number differs.
    """
    if len(assignments) != len(numbers) or not assignments:
        raise _refused(f"expected one list of brokers for each of {len(numbers)} new partitions", len(assignments))
    if len(assignments) > MAX_PARTITIONS:
        raise InvalidRequestError(
            f"assignments: expected at most {MAX_PARTITIONS} partitions, received {len(assignments)}",
            code=ErrorCode.INVALID_PARTITIONS,
        )
    active = {broker for broker in image.brokers if is_active(image, broker)}
    created = []
    for number, replicas in zip(numbers, assignments, strict=True):
        _require_assignable(image, number, replicas, replication_factor)
        live = tuple(broker for broker in replicas if broker in active)
        if not live:
            raise _refused(f"partition {number}: expected at least one live broker", list(replicas))
        state = PartitionState(replicas=replicas, isr=live, leader=live[0], leader_epoch=0, partition_epoch=0)
        created.append(change(topic_id, number, state))
    return created


def _require_assignable(image: MetadataImage, number: int, replicas: tuple[BrokerId, ...], factor: int) -> None:
    if not replicas or len(set(replicas)) != len(replicas) or not set(replicas) <= set(image.brokers):
        known = ", ".join(map(str, sorted(image.brokers)))
        raise _refused(f"partition {number}: expected different brokers of {known}", list(replicas[:20]))
    if len(replicas) != factor:
        raise _refused(f"partition {number}: expected {factor} brokers, as other partitions have", list(replicas[:20]))


def _refused(expected: str, received: object) -> InvalidRequestError:
    return InvalidRequestError(
        f"assignments: {expected}, received {received}", code=ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )
