"""Replicas whose disk no longer holds what they hold: nobody may count on them, if another one holds everything."""

from __future__ import annotations

from dataclasses import replace

from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, NotFoundError, RaftlogError, RetriableError
from raftlog.metadata_quorum.controller.brokers import require_current
from raftlog.metadata_quorum.controller.decision import Decision, change
from raftlog.metadata_quorum.controller.elections import elect, is_active, min_isr, moved
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
    """Take damaged replicas out of the ISR and the ELR, and give their leaderships to others; each by itself.

    Raises:
        FencedError: STALE_BROKER_EPOCH: the whole request comes from an earlier incarnation.
    """
    require_current(image, request.broker_id, request.broker_epoch)
    changes, results = list[ChangePartition](), list[AlterPartitionResult]()
    for asked in {(asked.topic_id, asked.partition): asked for asked in request.partitions}.values():
        named = {"topic_id": asked.topic_id, "partition": asked.partition}
        try:
            after = _judge(image, request.broker_id, asked)
        except RaftlogError as error:
            results.append(AlterPartitionResult(**named, error=WireError.of(error)))  # type: ignore[arg-type]
            continue
        changes.append(change(asked.topic_id, asked.partition, after))
        results.append(AlterPartitionResult(**named, state=after))  # type: ignore[arg-type]
    return Decision(tuple(changes), AlterPartitionsResponse(partitions=tuple(results)))


def _judge(image: MetadataImage, broker_id: BrokerId, asked: DamagedReplica) -> PartitionState:
    state = image.partition(asked.topic_id, asked.partition)
    if state is None or broker_id not in state.replicas:
        raise NotFoundError(
            f"broker {broker_id} has no replica of {asked.topic_id}-{asked.partition}", code=ErrorCode.UNKNOWN_TOPIC_ID
        )
    if asked.leader_epoch < state.leader_epoch:
        raise FencedError(f"leader epoch {asked.leader_epoch} has ended, the current one is {state.leader_epoch}")
    if asked.leader_epoch > state.leader_epoch:
        raise InvalidRequestError(
            f"leader epoch {asked.leader_epoch} is not known to this controller, which is at {state.leader_epoch}",
            code=ErrorCode.NOT_CONTROLLER,
        )
    return _without(image, image.topics[asked.topic_id], state, broker_id)


def _without(image: MetadataImage, topic: TopicImage, state: PartitionState, broker_id: BrokerId) -> PartitionState:
    """Return the next state; its leader epoch is another one even if its leader is not.

    What the replica has said in this epoch that it holds must not count in the next: it will drop it.
    """
    isr = tuple(member for member in state.isr if member != broker_id)
    elr = tuple(member for member in state.elr if member != broker_id)
    heir = elect(replace(state, isr=isr, elr=elr), lambda member: is_active(image, member))
    if heir < 0:
        raise RetriableError(
            f"{topic.topic}: nobody else who is alive holds everything that broker {broker_id} holds",
            code=ErrorCode.NOT_ENOUGH_REPLICAS,
            details={"isr": list(state.isr), "elr": list(state.elr)},
        )
    leader = state.leader if state.leader in isr else heir
    lost = frozenset({broker_id})
    after = moved(state, isr=isr, leader=leader, min_isr=min_isr(topic, state), lost=lost)
    return replace(after, leader_epoch=state.leader_epoch + 1)
