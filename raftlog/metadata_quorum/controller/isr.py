"""AlterPartition (KIP-497, 841, 903): a leader's proposal of a new ISR, accepted as a compare-and-swap."""

from __future__ import annotations

from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, NotFoundError, RaftlogError
from raftlog.metadata_quorum.controller.brokers import require_current
from raftlog.metadata_quorum.controller.decision import Decision, change
from raftlog.metadata_quorum.controller.elections import is_active, min_isr, next_state
from raftlog.metadata_quorum.controller.reassignment import with_reassignment_completed
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
    """Accept or reject each proposal on its own; accepted ones are committed together.

    A proposal that brings the last target of a reassignment into the ISR completes the reassignment.

    Raises:
        FencedError: STALE_BROKER_EPOCH: the request is from an earlier incarnation.
    """
    require_current(image, request.broker_id, request.broker_epoch)
    records: list[ChangePartition] = []
    decided: dict[tuple[TopicId, int], PartitionState] = {}
    results = []
    for proposal in request.partitions:
        topic_id, number = key = (proposal.topic_id, proposal.partition)
        try:
            current = decided.get(key) or image.partition(*key)
            state = _accept(image, current, request.broker_id, proposal)
        except RaftlogError as error:
            results.append(AlterPartitionResult(topic_id=topic_id, partition=number, error=WireError.of(error)))
            continue
        decided[key] = state
        records.append(change(topic_id, number, state))
        results.append(AlterPartitionResult(topic_id=topic_id, partition=number, state=state))
    return Decision(tuple(records), AlterPartitionsResponse(partitions=tuple(results)))


def _accept(
    image: MetadataImage, state: PartitionState | None, broker_id: int, proposal: AlterPartition
) -> PartitionState:
    if state is None:
        raise NotFoundError(
            f"there is no partition {proposal.topic_id}-{proposal.partition}", code=ErrorCode.UNKNOWN_TOPIC_ID
        )
    _require_epochs(state, broker_id, proposal)
    isr = tuple(member.broker_id for member in proposal.new_isr)
    if broker_id not in isr or len(set(isr)) != len(isr) or not set(isr) <= set(state.replicas):
        raise InvalidRequestError(
            f"new_isr: expected the leader {broker_id} and others of the replicas {state.replicas}, received {isr}"
        )
    for member in proposal.new_isr:
        broker = image.brokers.get(member.broker_id)
        if broker is None or broker.broker_epoch != member.broker_epoch or not is_active(image, member.broker_id):
            raise InvalidRequestError(
                f"broker {member.broker_id} in epoch {member.broker_epoch} is fenced, shutting down or replaced by "
                f"{broker.broker_epoch if broker else 'no registration'}: it cannot be in an ISR",
                code=ErrorCode.INELIGIBLE_REPLICA,
            )
    topic = image.topics[proposal.topic_id]
    return with_reassignment_completed(
        image, topic, state, next_state(state, isr=isr, leader=broker_id, min_isr=min_isr(topic, state))
    )


def _require_epochs(state: PartitionState, broker_id: int, proposal: AlterPartition) -> None:
    if proposal.leader_epoch < state.leader_epoch:
        raise FencedError(f"leader epoch {proposal.leader_epoch} has ended, the current one is {state.leader_epoch}")
    if proposal.leader_epoch > state.leader_epoch or proposal.partition_epoch > state.partition_epoch:
        raise InvalidRequestError(
            f"epochs {proposal.leader_epoch}/{proposal.partition_epoch} are not known to this controller, which is at "
            f"{state.leader_epoch}/{state.partition_epoch}",
            code=ErrorCode.NOT_CONTROLLER,
        )
    if state.leader != broker_id:
        raise InvalidRequestError(f"broker {broker_id} does not lead the partition, broker {state.leader} does")
    if proposal.partition_epoch < state.partition_epoch:
        raise InvalidRequestError(
            f"partition epoch {proposal.partition_epoch} was replaced by {state.partition_epoch}",
            code=ErrorCode.INVALID_UPDATE_VERSION,
        )
