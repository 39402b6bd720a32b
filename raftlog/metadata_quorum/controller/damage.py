"""Damaged replicas: a replica that has lost records leaves ISR and ELR, if another one has them all (docs/adr/0011)."""

from __future__ import annotations

from dataclasses import replace

from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, NotFoundError, RaftlogError, RetriableError
from raftlog.metadata_quorum.controller.brokers import require_current
from raftlog.metadata_quorum.controller.decision import Decision, change
from raftlog.metadata_quorum.controller.elections import choose_leader, is_active, min_isr, next_state
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.records import ChangePartition
from raftlog.model import BrokerId, PartitionState
from raftlog.wire.controller import (
    AlterPartitionResult,
    AlterPartitionsResponse,
    DamagedReplica,
    DamagedReplicasRequest,
)
from raftlog.wire.errors import WireError


def decide_damaged_replicas(image: MetadataImage, request: DamagedReplicasRequest) -> Decision[AlterPartitionsResponse]:
    """Remove damaged replicas from ISR and ELR, and elect other leaders. Each partition has a result of its own.

    Raises:
        FencedError: STALE_BROKER_EPOCH: the request is from an earlier incarnation.
    """
    require_current(image, request.broker_id, request.broker_epoch)
    changes, results = list[ChangePartition](), list[AlterPartitionResult]()
    for damaged in {(damaged.topic_id, damaged.partition): damaged for damaged in request.partitions}.values():
        key = {"topic_id": damaged.topic_id, "partition": damaged.partition}
        try:
            after = _remove_damaged(image, request.broker_id, damaged)
        except RaftlogError as error:
            results.append(AlterPartitionResult(**key, error=WireError.of(error)))  # type: ignore[arg-type]
            continue
        changes.append(change(damaged.topic_id, damaged.partition, after))
        results.append(AlterPartitionResult(**key, state=after))  # type: ignore[arg-type]
    return Decision(tuple(changes), AlterPartitionsResponse(partitions=tuple(results)))


def _remove_damaged(image: MetadataImage, broker_id: BrokerId, damaged: DamagedReplica) -> PartitionState:
    state = image.partition(damaged.topic_id, damaged.partition)
    if state is None or broker_id not in state.replicas:
        raise NotFoundError(
            f"broker {broker_id} has no replica of {damaged.topic_id}-{damaged.partition}",
            code=ErrorCode.UNKNOWN_TOPIC_ID,
        )
    if damaged.leader_epoch < state.leader_epoch:
        raise FencedError(f"leader epoch {damaged.leader_epoch} has ended, the current one is {state.leader_epoch}")
    if damaged.leader_epoch > state.leader_epoch:
        raise InvalidRequestError(
            f"leader epoch {damaged.leader_epoch} is not known to this controller, which is at {state.leader_epoch}",
            code=ErrorCode.NOT_CONTROLLER,
        )
    return _without_replica(image, image.topics[damaged.topic_id], state, broker_id)


def _without_replica(
    image: MetadataImage, topic: TopicImage, state: PartitionState, broker_id: BrokerId
) -> PartitionState:
    """Return the next state, in a new leader epoch even if the leader stays.

    The replica is about to drop records, so the offsets that it acknowledged in this epoch must not count in the next.
    """
    isr = tuple(member for member in state.isr if member != broker_id)
    elr = tuple(member for member in state.elr if member != broker_id)
    candidate = choose_leader(replace(state, isr=isr, elr=elr), lambda member: is_active(image, member))
    if candidate < 0:
        raise RetriableError(
            f"{topic.topic}: no other live replica has all records of broker {broker_id}; send the request again later",
            code=ErrorCode.NOT_ENOUGH_REPLICAS,
            details={"isr": list(state.isr), "elr": list(state.elr)},
        )
    leader = state.leader if state.leader in isr else candidate
    lost = frozenset({broker_id})
    after = next_state(state, isr=isr, leader=leader, min_isr=min_isr(topic, state), lost=lost)
    return replace(after, leader_epoch=state.leader_epoch + 1)
