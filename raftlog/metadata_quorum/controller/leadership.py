"""Elections that somebody asks for: back to preferred leaders, or unclean ones; and the automatic rebalance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from raftlog.errors import InvalidRequestError, NotFoundError
from raftlog.metadata_quorum.controller.decision import Decision, change
from raftlog.metadata_quorum.controller.elections import elected, is_active, min_isr, moved
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.metadata_quorum.records import ChangePartition
from raftlog.model import NO_LEADER, BrokerId, PartitionState
from raftlog.wire.admin import ElectedLeader, ElectLeadersRequest, ElectLeadersResponse

MAX_IMBALANCE = 0.1
"""A broker may be without this share of the leaderships that it is preferred for."""

Named = tuple[TopicImage, int, PartitionState]


def decide_elections(image: MetadataImage, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Elect for each partition named (or all of them) its preferred leader, or anybody where there is no leader.

    Raises:
        NotFoundError: there is no such topic or partition.
        InvalidRequestError: an unclean election does not say which partitions it may cost records.
    """
    if request.election == "unclean" and request.partitions is None:
        raise InvalidRequestError("an unclean election loses records: name the partitions that it is for")
    changes, results = list[ChangePartition](), list[ElectedLeader]()
    for topic, number, state in _named(image, request):
        after, error = (_prefer if request.election == "preferred" else _force)(image, topic, state)
        if after is not state:
            changes.append(change(topic.topic_id, number, after))
        if after is not state or (error and request.partitions is not None):
            results.append(ElectedLeader(topic=topic.topic, partition=number, leader=after.leader, error=error))
    return Decision(tuple(changes), ElectLeadersResponse(partitions=tuple(results)))


def _named(image: MetadataImage, request: ElectLeadersRequest) -> Iterator[Named]:
    if request.partitions is None:
        yield from image.partitions()
        return
    for asked in dict.fromkeys(request.partitions):
        topic = image.topic(asked.topic)
        if topic is None or asked.partition not in topic.partitions:
            raise NotFoundError(f"there is no partition {asked.topic}-{asked.partition}")
        yield topic, asked.partition, topic.partitions[asked.partition]


def _prefer(image: MetadataImage, topic: TopicImage, state: PartitionState) -> tuple[PartitionState, str]:
    preferred = state.replicas[0]
    if state.leader == preferred:
        return state, "the preferred leader leads already"
    if preferred not in state.isr or not is_active(image, preferred):
        return state, f"the preferred leader, broker {preferred}, is not in sync or not alive"
    return moved(state, isr=state.isr, leader=preferred, min_isr=min_isr(topic, state)), ""


def _force(image: MetadataImage, topic: TopicImage, state: PartitionState) -> tuple[PartitionState, str]:
    if state.leader != NO_LEADER:
        return state, f"broker {state.leader} leads it: nothing has to be given up"
    after = elected(topic, state, lambda broker: is_active(image, broker), unclean=True)
    return after, "" if after is not state else f"none of its replicas {list(state.replicas)} is alive"


def decide_rebalance(image: MetadataImage) -> Decision[None]:
    """Give brokers back the leaderships that they are preferred for, where they are without too many of them."""
    preferred, missing = Counter[BrokerId](), Counter[BrokerId]()
    for _, _, state in image.partitions():
        preferred[state.replicas[0]] += 1
        missing[state.replicas[0]] += state.leader not in (state.replicas[0], NO_LEADER)
    unbalanced = {broker for broker, count in missing.items() if count > MAX_IMBALANCE * preferred[broker]}
    changes = []
    for topic, number, state in image.partitions():
        if state.leader != NO_LEADER and state.replicas[0] in unbalanced:
            after, _ = _prefer(image, topic, state)
            if after is not state:
                changes.append(change(topic.topic_id, number, after))
    return Decision(tuple(changes), None)
