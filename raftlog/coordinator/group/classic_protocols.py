"""The protocols of classic members: which one a group uses, and what consumers say in theirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from raftlog.coordinator.group.classic_state import ClassicMember
from raftlog.model import TopicPartition, numbers_by_topic, topic_partitions
from raftlog.wire.kafka.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
)

CONSUMER = "consumer"
"""The protocol type of consumers; Kafka Connect and others have their own."""
MAX_CONVERTED_BYTES = 32 << 10
"""Of all protocols and assignments of a group with members of both kinds.

A conversion is one decision on the event loop, and takes 3.5 us for each partition that they name: 28 ms.
"""
MAX_TOPICS = 10_000
"""Of one member."""
MAX_OWNED = 100_000
"""Partitions that one member reports: more would hold the coordinator."""
_LAST_VERSION = 3


class Subscription(NamedTuple):
    """What a consumer says when it joins."""

    version: int
    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    """What it reads while it joins; consumers that give up all partitions before have none."""
    generation: int
    """The generation of `owned`; -1: it did not say."""
    rack: str
    is_too_large: bool
    """It names more topics or partitions than a coordinator assigns; `owned` is empty then."""


def candidates(members: Sequence[ClassicMember]) -> frozenset[str]:
    """Return the protocols that all of some members have."""
    first, *others = members
    return frozenset(first.protocols).intersection(*(member.protocols for member in others))


def chosen_protocol(members: Iterable[ClassicMember]) -> str:
    """Return the protocol with the most votes; each member votes for its first one that all members have."""
    listed = list(members)
    common = candidates(listed)
    votes = Counter(member.vote(common) for member in listed)
    return max(votes, key=lambda name: votes[name])


def subscription_of(metadata: bytes) -> Subscription | None:
    """Return what a consumer's metadata says; None if it is malformed."""
    try:
        found = decode_subscription(metadata)
    except KafkaProtocolError:
        return None
    listed = found.owned_partitions
    is_too_large = len(found.topics) > MAX_TOPICS or sum(len(one.partitions) for one in listed) > MAX_OWNED
    listed = [] if is_too_large else listed
    owned = frozenset(chain.from_iterable(topic_partitions(one.topic, one.partitions) for one in listed))
    version = min(int.from_bytes(metadata[:2]), _LAST_VERSION)
    return Subscription(version, frozenset(found.topics), owned, found.generation_id, found.rack_id or "", is_too_large)


def partitions_of(assignment: bytes) -> frozenset[TopicPartition] | None:
    """Return the partitions of a consumer's assignment; None if it is malformed. No bytes are no partitions."""
    if not assignment:
        return frozenset()
    try:
        listed = decode_assignment(assignment).assigned_partitions
    except KafkaProtocolError:
        return None
    return frozenset(chain.from_iterable(topic_partitions(one.topic, one.partitions) for one in listed))


def assignment_of(partitions: Iterable[TopicPartition], version: int = 0) -> bytes:
    """Return a consumer's assignment."""
    listed = [
        ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=list(numbers))
        for topic, numbers in numbers_by_topic(partitions).items()
    ]
    return encode_assignment(version, ConsumerProtocolAssignment(assigned_partitions=listed))
