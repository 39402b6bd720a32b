"""AlterPartition (KIP-497, 841, 903): a leader's proposal of a new ISR, accepted as a compare-and-swap."""

from __future__ import annotations

from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, NotFoundError, RaftlogError
from raftlog.metadata_quorum.controller.brokers import require_current
from raftlog.metadata_quorum.controller.decision import Decision, change
from raftlog.metadata_quorum.controller.elections import is_active, min_isr, moved
from raftlog.metadata_quorum.controller.reassignment import completed
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import ChangePartition
from raftlog.model import PartitionState, TopicId
from raftlog.wire.controller import (
    AlterPartition,
    AlterPartitionResult,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
)
from raftlog.wire.errors import WireError


def decide_alter_partitions(image: MetadataImage, request: AlterPartitionsRequest) -> Decision[AlterPartitionsResponse]:
    """Judge each proposal by itself; those that stand are committed together.

    One that brings the last target of a reassignment in sync ends the reassignment.

    Raises:
        FencedError: STALE_BROKER_EPOCH: the whole request comes from an earlier incarnation.
    """
    require_current(image, request.broker_id, request.broker_epoch)
    records: list[ChangePartition] = []
    decided: dict[tuple[TopicId, int], PartitionState] = {}
    results = []
    for asked in request.partitions:
        named = {"topic_id": asked.topic_id, "partition": asked.partition}
        try:
            known = decided.get((asked.topic_id, asked.partition)) or image.partition(asked.topic_id, asked.partition)
            state = _judge(image, known, request.broker_id, asked)
        except RaftlogError as error:
            results.append(AlterPartitionResult(**named, error=WireError.of(error)))  # type: ignore[arg-type]
            continue
        decided[asked.topic_id, asked.partition] = state
        records.append(change(asked.topic_id, asked.partition, state))
        results.append(AlterPartitionResult(**named, state=state))  # type: ignore[arg-type]
    return Decision(tuple(records), AlterPartitionsResponse(partitions=tuple(results)))


def _judge(image: MetadataImage, state: PartitionState | None, broker_id: int, asked: AlterPartition) -> PartitionState:
    if state is None:
        raise NotFoundError(
            f"there is no partition {asked.topic_id}-{asked.partition}", code=ErrorCode.UNKNOWN_TOPIC_ID
        )
    _require_epochs(state, broker_id, asked)
    isr = tuple(member.broker_id for member in asked.new_isr)
    if broker_id not in isr or len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas):
        raise InvalidRequestError(
            f"an ISR holds the leader {broker_id} and others of the replicas {state.replicas}, received {isr}"
        )
    for member in asked.new_isr:
        broker = image.brokers.get(member.broker_id)
        if broker is None or broker.broker_epoch != member.broker_epoch or not is_active(image, member.broker_id):
            raise InvalidRequestError(
                f"broker {member.broker_id} in epoch {member.broker_epoch} is fenced, shutting down or replaced by "
                f"{broker.broker_epoch if broker else 'nobody'}: it cannot be in an ISR",
                code=ErrorCode.INELIGIBLE_REPLICA,
            )
    topic = image.topics[asked.topic_id]
    return completed(image, topic, state, moved(state, isr=isr, leader=broker_id, min_isr=min_isr(topic, state)))


def _require_epochs(state: PartitionState, broker_id: int, asked: AlterPartition) -> None:
    if asked.leader_epoch < state.leader_epoch:
        raise FencedError(f"leader epoch {asked.leader_epoch} has ended, the current one is {state.leader_epoch}")
    if asked.leader_epoch > state.leader_epoch or asked.partition_epoch > state.partition_epoch:
        raise InvalidRequestError(
            f"epochs {asked.leader_epoch}/{asked.partition_epoch} are not known to this controller, which is at "
            f"{state.leader_epoch}/{state.partition_epoch}",
            code=ErrorCode.NOT_CONTROLLER,
        )
    if state.leader != broker_id:
        raise InvalidRequestError(f"broker {broker_id} does not lead the partition, broker {state.leader} does")
    if asked.partition_epoch < state.partition_epoch:
        raise InvalidRequestError(
            f"partition epoch {asked.partition_epoch} was replaced by {state.partition_epoch}",
            code=ErrorCode.INVALID_UPDATE_VERSION,
        )
