"""Reassignment of replicas (KIP-455): add the targets, wait until all of them are in sync, then remove the others.

Until then a partition's replicas are the targets followed by the replicas to remove. A reassignment can be cancelled
until it completes.
"""

from __future__ import annotations

from dataclasses import replace

from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision, change
from raftlog.metadata_quorum.controller.elections import choose_leader, is_active, min_isr
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import NO_LEADER, BrokerId, PartitionState
from raftlog.wire.admin import ReassignmentRequest, ReassignPartition


def decide_reassignment(image: MetadataImage, request: ReassignmentRequest) -> Decision[None]:
    """Begin, redirect or cancel the reassignment of each partition; all of them or none.

    Raises:
        NotFoundError: the topic or partition does not exist.
        InvalidRequestError: INVALID_REPLICA_ASSIGNMENT, or NO_REASSIGNMENT_IN_PROGRESS.
    """
    if len({(entry.topic, entry.partition) for entry in request.partitions}) != len(request.partitions):
        raise InvalidRequestError("partitions: a partition is listed twice", code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    changes = []
    for entry in request.partitions:
        topic = image.topic(entry.topic)
        state = topic.partitions.get(entry.partition) if topic is not None else None
        if topic is None or state is None:
            raise NotFoundError(f"there is no partition {entry.topic}-{entry.partition}")
        after = _cancel(image, topic, state, entry) if entry.replicas is None else _begin(image, topic, state, entry)
        if after is not state:
            changes.append(change(topic.topic_id, entry.partition, after))
    return Decision(tuple(changes), None)


def _begin(image: MetadataImage, topic: TopicImage, state: PartitionState, entry: ReassignPartition) -> PartitionState:
    target = entry.replicas or ()
    if not target or len(set(target)) != len(target) or not set(target) <= set(image.brokers):
        raise InvalidRequestError(
            f"{entry.topic}-{entry.partition}: expected different brokers of {sorted(image.brokers)}, "
            f"received {list(target)}",
            code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
    # A redirected reassignment starts from the replicas before the first one.
    original = [replica for replica in state.replicas if replica not in state.adding]
    begun = replace(
        state,
        adding=tuple(broker for broker in target if broker not in original),
        removing=tuple(broker for broker in original if broker not in target),
    )
    replicas = (*target, *begun.removing)
    if state.isr or state.elr:  # Otherwise only an unclean election can find a leader.
        _require_kept(entry, state, replicas)
    return with_reassignment_completed(image, topic, state, _with_replicas(image, topic, state, begun, replicas))


def _cancel(image: MetadataImage, topic: TopicImage, state: PartitionState, entry: ReassignPartition) -> PartitionState:
    if not state.adding and not state.removing:
        raise InvalidRequestError(
            f"{entry.topic}-{entry.partition} is not being reassigned", code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        )
    original = tuple(replica for replica in state.replicas if replica not in state.adding)
    if state.isr or state.elr:  # As when one begins.
        _require_kept(entry, state, original)
    return _with_replicas(image, topic, state, replace(state, adding=(), removing=()), original)


def _require_kept(entry: ReassignPartition, state: PartitionState, replicas: tuple[BrokerId, ...]) -> None:
    """Raise if no remaining replica is in ISR or ELR: an added replica may be the last one with all records."""
    if not {*state.isr, *state.elr} & {*replicas}:
        raise InvalidRequestError(
            f"{entry.topic}-{entry.partition}: none of the remaining replicas {list(replicas)} is in sync, only "
            f"{sorted({*state.isr, *state.elr})} are: keep one of these, or wait until another one is in sync",
            code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )


def with_reassignment_completed(
    image: MetadataImage, topic: TopicImage, before: PartitionState, state: PartitionState
) -> PartitionState:
    """Return `state` with its reassignment completed if all targets are in sync; otherwise unchanged.

    Args:
        before: the committed state. `state` may be one change ahead of it; completing must not add a second epoch.
    """
    target = tuple(replica for replica in state.replicas if replica not in state.removing)
    if not (state.adding or state.removing) or not set(target) <= set(state.isr):
        return state
    return _with_replicas(image, topic, before, replace(state, adding=(), removing=()), target)


def _with_replicas(
    image: MetadataImage,
    topic: TopicImage,
    before: PartitionState,
    state: PartitionState,
    replicas: tuple[BrokerId, ...],
) -> PartitionState:
    """Return the state with these replicas. Others lose leadership and their place in ISR and ELR."""
    if replicas == state.replicas and (state.adding, state.removing) == (before.adding, before.removing):
        return state
    isr = tuple(member for member in replicas if member in state.isr)
    elr = tuple(member for member in replicas if member in state.elr)
    inside = replace(state, replicas=replicas, isr=isr, elr=elr)
    leader = state.leader if state.leader in isr else choose_leader(inside, lambda broker: is_active(image, broker))
    if leader not in (NO_LEADER, *isr):
        isr, elr = (leader,), tuple(member for member in elr if member != leader)
    # A new leader epoch fences replicas that were removed.
    dropped = not set(before.replicas) <= set(replicas)
    return replace(
        inside,
        isr=isr,
        elr=() if len(isr) >= min_isr(topic, inside) else elr,
        leader=leader,
        leader_epoch=before.leader_epoch + (dropped or leader != before.leader),
        partition_epoch=before.partition_epoch + 1,
    )
