"""AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders (KIP-455, KIP-460, KIP-860)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Final

from raftlog.broker.kafka.admin_calls import (
    LARGE_ENTRIES,
    AdminRequest,
    repeated,
    require_few,
    require_once,
    special_number,
)
from raftlog.broker.kafka.call import MANY_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError, RaftlogError
from raftlog.metadata_quorum.controller.reassignment import decide_reassignment
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import NO_LEADER, TopicPartition
from raftlog.runtime import in_slices
from raftlog.schema import from_plain
from raftlog.serving.workers import in_worker
from raftlog.wire import paths
from raftlog.wire.admin import (
    AdminResponse,
    ElectedLeader,
    ElectionPartition,
    ElectLeadersResponse,
    ReassignmentRequest,
    ReassignPartition,
)
from raftlog.wire.admin import ElectLeadersRequest as ElectionCommand
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import alter_partition_reassignments as alter
from raftlog.wire.kafka.messages import list_partition_reassignments as listing
from raftlog.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    PartitionResult,
    ReplicaElectionResult,
)
from raftlog.wire.kafka.messages.elect_leaders import (
    ElectLeadersResponse as KafkaElectLeadersResponse,
)
from raftlog.wire.kafka.reader import MAX_ELEMENTS

_Failures = dict[TopicPartition, RaftlogError]
PREFERRED, UNCLEAN = 0, 1
"""Types of elections."""


# AlterPartitionReassignments.


async def alter_reassignments(
    call: KafkaCall, request: alter.AlterPartitionReassignmentsRequest
) -> alter.AlterPartitionReassignmentsResponse:
    """Begin, change or cancel reassignments.

    Each partition has its own answer. Those that are possible begin together, by one decision.
    """
    named = [
        (TopicPartition(topic.name, one.partition_index), one.replicas)
        async for topic in in_slices(request.topics, 512)
        async for one in in_slices(topic.partitions, 512)
    ]
    failures: _Failures = {}
    if (refusal := require_few(call, named, "partitions")) is not None:
        failures = dict.fromkeys([partition for partition, _ in named], refusal)
    else:
        admin = AdminRequest.begin(call, request.timeout_ms)
        image = await admin.image()
        allowed = request.allow_replication_factor_change
        possible = [one async for one in _possible(image, named, failures, may_change_factor=allowed)]
        failures |= await _reassign(admin, possible)
    made = partial(_reassignments, request, failures)
    return await in_worker(made) if call.has_many else made()


def _reassignments(
    request: alter.AlterPartitionReassignmentsRequest, failures: _Failures
) -> alter.AlterPartitionReassignmentsResponse:
    return alter.AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            alter.ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _reassigned(one.partition_index, failures.get(TopicPartition(topic.name, one.partition_index)))
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


async def _possible(
    image: MetadataImage,
    named: Sequence[tuple[TopicPartition, list[int] | None]],
    failures: _Failures,
    *,
    may_change_factor: bool,
) -> AsyncIterator[ReassignPartition]:
    """Yield the reassignments that are possible now; note the errors of the others in `failures`."""
    twice = repeated(partition for partition, _ in named)
    async for partition, replicas in in_slices(named, 128):
        wanted = ReassignPartition(
            topic=partition.topic,
            partition=partition.partition,
            replicas=None if replicas is None else tuple(replicas),
        )
        try:
            require_once(partition, twice)
            decide_reassignment(image, ReassignmentRequest(partitions=(wanted,)))
            if not may_change_factor:
                _require_same_factor(image, wanted)
        except RaftlogError as error:
            failures[partition] = error
        else:
            yield wanted


def _require_same_factor(image: MetadataImage, wanted: ReassignPartition) -> None:
    topic = image.topic(wanted.topic)
    assert topic is not None
    state = topic.partitions[wanted.partition]
    factor = len([replica for replica in state.replicas if replica not in state.adding])
    if wanted.replicas is not None and len(wanted.replicas) != factor:
        raise InvalidRequestError(
            f"replicas: expected {factor} brokers, because the request does not allow another number, received "
            f"{len(wanted.replicas)}",
            code=ErrorCode.INVALID_REPLICATION_FACTOR,
        )


async def _reassign(admin: AdminRequest, possible: Sequence[ReassignPartition]) -> _Failures:
    if not possible:
        return {}
    try:
        await admin.send(paths.REASSIGN, ReassignmentRequest(partitions=tuple(possible)))
    except RaftlogError as error:
        return {TopicPartition(one.topic, one.partition): error for one in possible}
    return {}


def _reassigned(partition: int, error: RaftlogError | None) -> alter.ReassignablePartitionResponse:
    if error is None:
        return alter.ReassignablePartitionResponse(partition_index=partition, error_message=None)
    number = special_number(error) or error_number(error)
    return alter.ReassignablePartitionResponse(
        partition_index=partition, error_code=number, error_message=error.message
    )


# ListPartitionReassignments.


async def list_reassignments(
    call: KafkaCall, request: listing.ListPartitionReassignmentsRequest
) -> listing.ListPartitionReassignmentsResponse:
    """List the reassignments in progress, of all partitions or of some."""
    wanted = None
    if request.topics is not None:
        wanted = {(topic.name, number) for topic in request.topics for number in topic.partition_indexes}
    try:
        image = await AdminRequest.begin(call, request.timeout_ms).image()
    except RaftlogError as error:
        return listing.ListPartitionReassignmentsResponse(error_code=error_number(error), error_message=error.message)
    found: defaultdict[str, list[listing.OngoingPartitionReassignment]] = defaultdict(list)
    count = 0
    async for topic, number, state in in_slices(image.partitions(), 512):
        if (state.adding or state.removing) and (wanted is None or (topic.topic, number) in wanted):
            count += 1
            moving = listing.OngoingPartitionReassignment(
                partition_index=number,
                replicas=list(state.replicas),
                adding_replicas=list(state.adding),
                removing_replicas=list(state.removing),
            )
            found[topic.topic].append(moving)
    call.is_large = count > LARGE_ENTRIES
    topics = [listing.OngoingTopicReassignment(name=name, partitions=found[name]) for name in found]
    return listing.ListPartitionReassignmentsResponse(error_message=None, topics=topics)


# ElectLeaders.


async def elect_leaders(call: KafkaCall, request: ElectLeadersRequest) -> KafkaElectLeadersResponse:
    """Elect preferred leaders, or (unclean) any live replica of partitions without a leader."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return KafkaElectLeadersResponse(error_code=KafkaError.INVALID_REQUEST)
    admin = AdminRequest.begin(call, request.timeout_ms)
    try:
        image = await admin.image()
        if request.topic_partitions is not None:
            named = [
                TopicPartition(topic.topic, number)
                async for topic in in_slices(request.topic_partitions, 512)
                async for number in in_slices(topic.partitions, 512)
            ]
            results = await _elect_named(admin, image, request.election_type, named)
            return await in_worker(_elections, results) if call.has_many else _elections(results)
        call.is_large = True  # It may be about every partition of the cluster.
        if request.election_type == UNCLEAN:
            return await in_worker(lambda: _elections(_refused_unclean(image)))
        answer = await _elect(admin, PREFERRED, None)
        return await in_worker(lambda: _elections(_outcomes(image, PREFERRED, answer)))
    except RaftlogError as error:
        return KafkaElectLeadersResponse(error_code=error_number(error))


async def _elect_named(
    admin: AdminRequest, image: MetadataImage, kind: int, named: Sequence[TopicPartition]
) -> dict[TopicPartition, tuple[int, str | None]]:
    if (refusal := require_few(admin.call, named, "partitions")) is not None:
        return dict.fromkeys(named, (KafkaError.POLICY_VIOLATION.value, refusal.message))
    results: dict[TopicPartition, tuple[int, str | None]] = dict.fromkeys(named, (KafkaError.NONE.value, None))
    known = []
    for partition in results:
        topic = image.topic(partition.topic)
        if topic is not None and partition.partition in topic.partitions:
            known.append(partition)
        else:
            error = NotFoundError(f"there is no partition {partition}"[:300])
            results[partition] = error_number(error), error.message
    if known:
        results |= await in_worker(_outcomes, image, kind, await _elect(admin, kind, known))
    return results


async def _elect(admin: AdminRequest, kind: int, partitions: Sequence[TopicPartition] | None) -> AdminResponse:
    command = ElectionCommand(
        election="unclean" if kind == UNCLEAN else "preferred",
        partitions=None
        if partitions is None
        else tuple(ElectionPartition(topic=t, partition=n) for t, n in partitions),
    )
    return await admin.send(paths.ELECT_LEADERS, command)


def _outcomes(image: MetadataImage, kind: int, answer: AdminResponse) -> dict[TopicPartition, tuple[int, str | None]]:
    """Return the outcome of each election that the controller held or refused."""
    elected = from_plain(ElectLeadersResponse, answer.result, ignore_unknown=True).partitions
    return {TopicPartition(one.topic, one.partition): (_number(image, kind, one), one.error or None) for one in elected}


def _number(image: MetadataImage, kind: int, one: ElectedLeader) -> int:
    if not one.error:
        return KafkaError.NONE
    if kind == UNCLEAN:
        return KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE if one.leader == NO_LEADER else KafkaError.ELECTION_NOT_NEEDED
    topic = image.topic(one.topic)
    state = None if topic is None else topic.partitions.get(one.partition)
    leads = state is not None and one.leader == state.replicas[0]
    return KafkaError.ELECTION_NOT_NEEDED if leads else KafkaError.PREFERRED_LEADER_NOT_AVAILABLE


def _refused_unclean(image: MetadataImage) -> dict[TopicPartition, tuple[int, str | None]]:
    """Return the answer for each partition without a leader: an unclean election must name its partitions."""
    why = "an unclean election loses records, so name the partitions"
    return {
        TopicPartition(topic.topic, number): (KafkaError.INVALID_REQUEST.value, why)
        for topic, number, state in image.partitions()
        if state.leader == NO_LEADER
    }


def _elections(results: Mapping[TopicPartition, tuple[int, str | None]]) -> KafkaElectLeadersResponse:
    topics: defaultdict[str, list[PartitionResult]] = defaultdict(list)
    for (topic, partition), (number, message) in results.items():
        topics[topic].append(PartitionResult(partition_id=partition, error_code=number, error_message=message))
    return KafkaElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=topic, partition_result=found) for topic, found in topics.items()
        ]
    )


HANDLERS: Final[Handlers] = {
    43: Served(handle=elect_leaders, first=1, most_elements=MAX_ELEMENTS),
    45: Served(handle=alter_reassignments, most_elements=MAX_ELEMENTS),
    46: Served(handle=list_reassignments, most_elements=MANY_ELEMENTS),
}
