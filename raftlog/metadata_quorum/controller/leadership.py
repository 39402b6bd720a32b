"""Elections on request (preferred or unclean), and the automatic election of preferred leaders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from raftlog.errors import InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision, change
from raftlog.metadata_quorum.controller.elections import is_active, min_isr, next_state, with_new_leader
from raftlog.metadata_quorum.controller.reassignment import with_reassignment_completed
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.records import ChangePartition
from raftlog.model import NO_LEADER, BrokerId, PartitionState
from raftlog.wire.admin import ElectedLeader, ElectLeadersRequest, ElectLeadersResponse

MAX_IMBALANCE = 0.1
"""The share of its preferred leaderships that a broker may lack before a rebalance."""

PartitionEntry = tuple[TopicImage, int, PartitionState]


def decide_elections(image: MetadataImage, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Elect the preferred leader of each requested partition (or of all); or hold unclean elections.

    Raises:
        NotFoundError: the topic or partition does not exist.
        InvalidRequestError: an unclean election without a list of partitions.
    """
    if request.election == "unclean" and request.partitions is None:
        raise InvalidRequestError("partitions: missing; an unclean election loses records, so list the partitions")
    changes, results = list[ChangePartition](), list[ElectedLeader]()
    for topic, number, state in _requested_partitions(image, request):
        after, error = (_elect_preferred if request.election == "preferred" else _elect_unclean)(image, topic, state)
        if after is not state:
            changes.append(change(topic.topic_id, number, after))
        if after is not state or (error and request.partitions is not None):
            results.append(ElectedLeader(topic=topic.topic, partition=number, leader=after.leader, error=error))
    return Decision(tuple(changes), ElectLeadersResponse(partitions=tuple(results)))


def _requested_partitions(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[PartitionEntry]:
    if request.partitions is None:
        yield from image.partitions()
        return
    for entry in dict.fromkeys(request.partitions):
        topic = image.topic(entry.topic)
        if topic is None or entry.partition not in topic.partitions:
            raise NotFoundError(f"there is no partition {entry.topic}-{entry.partition}")
        yield topic, entry.partition, topic.partitions[entry.partition]


def _elect_preferred(image: MetadataImage, topic: TopicImage, state: PartitionState) -> tuple[PartitionState, str]:
    preferred = state.replicas[0]
    if state.leader == preferred:
        return state, "the preferred leader is the leader already"
    if preferred not in state.isr or not is_active(image, preferred):
        return state, f"the preferred leader, broker {preferred}, is not in sync or not alive"
    return next_state(state, isr=state.isr, leader=preferred, min_isr=min_isr(topic, state)), ""


def _elect_unclean(image: MetadataImage, topic: TopicImage, state: PartitionState) -> tuple[PartitionState, str]:
    if state.leader != NO_LEADER:
        return state, f"broker {state.leader} leads it: an unclean election is not needed"
    # A replica of ISR or ELR whose broker is alive leads already, unless its log cannot be opened: it comes last.
    eligible = {*state.isr, *state.elr}
    after = with_new_leader(
        topic, state, lambda broker: broker not in eligible and is_active(image, broker), unclean=True
    )
    if after is state:
        after = with_new_leader(topic, state, lambda broker: is_active(image, broker), unclean=True)
    if after is state:
        return state, f"none of its replicas {list(state.replicas)} is alive"
    # The only target of a reassignment completes it here: as the leader it has no ISR change to propose.
    return with_reassignment_completed(image, topic, state, after), ""


def decide_rebalance(image: MetadataImage) -> Decision[None]:
    """Elect preferred leaders for brokers that lack more than `MAX_IMBALANCE` of their preferred leaderships."""
    preferred, missing = Counter[BrokerId](), Counter[BrokerId]()
    for _, _, state in image.partitions():
        preferred[state.replicas[0]] += 1
        missing[state.replicas[0]] += state.leader not in (state.replicas[0], NO_LEADER)
    unbalanced = {broker for broker, count in missing.items() if count > MAX_IMBALANCE * preferred[broker]}
    changes = []
    for topic, number, state in image.partitions():
        if state.leader != NO_LEADER and state.replicas[0] in unbalanced:
            after, _ = _elect_preferred(image, topic, state)
            if after is not state:
                changes.append(change(topic.topic_id, number, after))
    return Decision(tuple(changes), None)
