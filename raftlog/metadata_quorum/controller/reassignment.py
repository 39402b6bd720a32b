"""Moving replicas (KIP-455): add the targets, wait until all of them are in sync, then drop the others.

While it is under way a partition's replicas are the targets and, after them, those that will go. It can be cancelled
at any time before its end.
"""

from __future__ import annotations

from dataclasses import replace

from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision, change
from raftlog.metadata_quorum.controller.elections import elect, is_active, min_isr
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import NO_LEADER, BrokerId, PartitionState
from raftlog.wire.admin import ReassignmentRequest, ReassignPartition


def decide_reassignment(image: MetadataImage, request: ReassignmentRequest) -> Decision[None]:
    """Begin, redirect or cancel the reassignment of each partition; all of them or none.

    Raises:
        NotFoundError: there is no such topic or partition.
        InvalidRequestError: INVALID_REPLICA_ASSIGNMENT, or NO_REASSIGNMENT_IN_PROGRESS.
    """
    if len({(asked.topic, asked.partition) for asked in request.partitions}) != len(request.partitions):
        raise InvalidRequestError("a partition is named twice", code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    changes = []
    for asked in request.partitions:
        topic = image.topic(asked.topic)
        state = topic.partitions.get(asked.partition) if topic is not None else None
        if topic is None or state is None:
            raise NotFoundError(f"there is no partition {asked.topic}-{asked.partition}")
        after = _cancelled(image, topic, state, asked) if asked.replicas is None else _begun(image, topic, state, asked)
        if after is not state:
            changes.append(change(topic.topic_id, asked.partition, after))
    return Decision(tuple(changes), None)


def _begun(image: MetadataImage, topic: TopicImage, state: PartitionState, asked: ReassignPartition) -> PartitionState:
    target = asked.replicas or ()
    if not target or len(set(target)) != len(target) or not set(target) <= set(image.brokers):
        raise InvalidRequestError(
            f"{asked.topic}-{asked.partition}: expected different brokers of {sorted(image.brokers)}, "
            f"received {list(target)}",
            code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
    # A redirected reassignment counts from the replicas that the first one started with.
    original = [replica for replica in state.replicas if replica not in state.adding]
    begun = replace(
        state,
        adding=tuple(broker for broker in target if broker not in original),
        removing=tuple(broker for broker in original if broker not in target),
    )
    replicas = (*target, *begun.removing)
    if state.isr or state.elr:  # Else there is nothing to lose, and an unclean election decides.
        _require_kept(asked, state, replicas)
    return completed(image, topic, state, _placed(image, topic, state, begun, replicas))


def _cancelled(
    image: MetadataImage, topic: TopicImage, state: PartitionState, asked: ReassignPartition
) -> PartitionState:
    if not state.adding and not state.removing:
        raise InvalidRequestError(
            f"{asked.topic}-{asked.partition} is not being reassigned", code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        )
    original = tuple(replica for replica in state.replicas if replica not in state.adding)
    _require_kept(asked, state, original)
    return _placed(image, topic, state, replace(state, adding=(), removing=()), original)


def _require_kept(asked: ReassignPartition, state: PartitionState, replicas: tuple[BrokerId, ...]) -> None:
    """Refuse to drop every replica that is known to have all records: one that was added may be the last of them."""
    if not {*state.isr, *state.elr} & {*replicas}:
        raise InvalidRequestError(
            f"{asked.topic}-{asked.partition}: of the replicas {list(replicas)} that would stay none is in sync, "
            f"only {sorted({*state.isr, *state.elr})} are: wait until another one is, or keep one of them",
            code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )


def completed(image: MetadataImage, topic: TopicImage, before: PartitionState, state: PartitionState) -> PartitionState:
    """Return `state` with its reassignment ended if its targets are all in sync; else as it is.

    Args:
        before: what is in force: `state` may be one step ahead of it, and the end must not be a second one.
    """
    target = tuple(replica for replica in state.replicas if replica not in state.removing)
    if not (state.adding or state.removing) or not set(target) <= set(state.isr):
        return state
    return _placed(image, topic, before, replace(state, adding=(), removing=()), target)


def _placed(
    image: MetadataImage,
    topic: TopicImage,
    before: PartitionState,
    state: PartitionState,
    replicas: tuple[BrokerId, ...],
) -> PartitionState:
    """Return the state with these replicas: who is none of them leads and counts no longer."""
    if replicas == state.replicas and (state.adding, state.removing) == (before.adding, before.removing):
        return state
    isr = tuple(member for member in replicas if member in state.isr)
    elr = tuple(member for member in replicas if member in state.elr)
    inside = replace(state, replicas=replicas, isr=isr, elr=elr)
    leader = state.leader if state.leader in isr else elect(inside, lambda broker: is_active(image, broker))
    if leader not in (NO_LEADER, *isr):
        isr, elr = (leader,), tuple(member for member in elr if member != leader)
    # Replicas that were dropped must not take part in what follows: the epoch shuts them out.
    dropped = not set(before.replicas) <= set(replicas)
    return replace(
        inside,
        isr=isr,
        elr=() if len(isr) >= min_isr(topic, inside) else elr,
        leader=leader,
        leader_epoch=before.leader_epoch + (dropped or leader != before.leader),
        partition_epoch=before.partition_epoch + 1,
    )
