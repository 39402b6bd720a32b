"""DescribeLogDirs, DescribeQuorum, UnregisterBroker and ElectLeaders (KIP-113, KIP-595, KIP-631, KIP-460)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from raftlog.broker.kafka.admin_calls import MAX_ENTRIES, AdminRequest
from raftlog.broker.kafka.call import MANY_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.broker.log_dirs import describe_log_dirs as describe_folders
from raftlog.errors import ErrorCode, RaftlogError
from raftlog.model import Address
from raftlog.runtime import in_slices
from raftlog.wire import paths
from raftlog.wire.admin import LogDir, QuorumResponse, StoredReplica, UnregisterBrokerRequest, VoterStatus
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import describe_quorum as quorum
from raftlog.wire.kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from raftlog.wire.kafka.messages.unregister_broker import (
    UnregisterBrokerRequest as KafkaUnregisterBrokerRequest,
)
from raftlog.wire.kafka.messages.unregister_broker import UnregisterBrokerResponse
from raftlog.wire.kafka.reader import MAX_ELEMENTS

METADATA_TOPIC: Final = "__cluster_metadata"
"""What Kafka calls the metadata log in DescribeQuorum."""


# DescribeLogDirs.


async def describe_log_dirs(call: KafkaCall, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Return this broker's folders, and the sizes of its replicas in each."""
    wanted: Mapping[str, set[int]] | None = None
    if request.topics is not None:
        wanted = _by_topic((topic.topic, topic.partitions) for topic in request.topics)
    found = await describe_folders(call.context)
    call.is_large = sum(len(folder.replicas) for folder in found.log_dirs) > 500
    return DescribeLogDirsResponse(results=[await _folder(call, folder, wanted) for folder in found.log_dirs])


def _by_topic(topics: Iterable[tuple[str, Iterable[int]]]) -> Mapping[str, set[int]]:
    found: defaultdict[str, set[int]] = defaultdict(set)
    for topic, partitions in topics:
        found[topic].update(partitions)
    return found


async def _folder(call: KafkaCall, folder: LogDir, wanted: Mapping[str, set[int]] | None) -> DescribeLogDirsResult:
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    async for replica in in_slices(folder.replicas, 256):
        if wanted is None or replica.partition in wanted.get(replica.topic, ()):
            topics.setdefault(replica.topic, []).append(_partition(call, replica))
    return DescribeLogDirsResult(
        log_dir=folder.path,
        topics=[DescribeLogDirsTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()],
        total_bytes=folder.total_bytes,
        usable_bytes=folder.usable_bytes,
    )


def _partition(call: KafkaCall, replica: StoredReplica) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=replica.partition,
        partition_size=replica.size_bytes,
        offset_lag=0 if replica.leader else _lag(call, replica),
    )


def _lag(call: KafkaCall, replica: StoredReplica) -> int:
    """Return how many records below the high watermark a follower lacks, as far as it knows."""
    try:
        mark = call.context.replica(replica.topic, replica.partition).high_watermark
    except RaftlogError:
        return 0
    return max(0, mark - replica.log_end_offset)


# DescribeQuorum.


async def describe_quorum(call: KafkaCall, request: quorum.DescribeQuorumRequest) -> quorum.DescribeQuorumResponse:
    """Return how far each voter has replicated the metadata log."""
    if len(request.topics) + sum(len(topic.partitions) for topic in request.topics) > MAX_ENTRIES:
        return quorum.DescribeQuorumResponse(
            error_code=KafkaError.POLICY_VIOLATION,
            error_message=f"expected at most {MAX_ENTRIES:,} topics and partitions",
        )
    try:
        found = await call.context.channel.describe_quorum(timeout_ms=AdminRequest.begin(call).left_ms())
    except RaftlogError as error:
        return quorum.DescribeQuorumResponse(error_code=error_number(error), error_message=error.message)
    now_ms = call.context.clock.wall_us() // 1_000
    topics = [
        quorum.DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[_of_log(topic.topic_name, one.partition_index, found, now_ms) for one in topic.partitions],
        )
        for topic in request.topics
    ]
    answer = quorum.DescribeQuorumResponse(error_message=None, topics=topics)
    if call.api_version >= 2:
        answer.nodes = [quorum.Node(node_id=one.node_id, listeners=_listeners(one.address)) for one in found.voters]
    return answer


def _of_log(
    topic: str, partition: int, found: QuorumResponse, now_ms: int
) -> quorum.DescribeQuorumResponsePartitionData:
    if (topic, partition) != (METADATA_TOPIC, 0):
        return quorum.DescribeQuorumResponsePartitionData(
            partition_index=partition,
            error_code=KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
            error_message=f"expected {METADATA_TOPIC}, partition 0",
        )
    return quorum.DescribeQuorumResponsePartitionData(
        partition_index=0,
        error_message=None,
        leader_id=found.leader_id,
        leader_epoch=found.term,
        high_watermark=found.committed_offset,
        current_voters=[_voter(voter, now_ms) for voter in found.voters],
    )


def _voter(voter: VoterStatus, now_ms: int) -> quorum.ReplicaState:
    heard_ms = -1 if voter.last_heard_ms < 0 else now_ms - voter.last_heard_ms
    return quorum.ReplicaState(
        replica_id=voter.node_id,
        log_end_offset=voter.log_end_offset,
        last_fetch_timestamp=heard_ms,
        last_caught_up_timestamp=heard_ms if voter.lag == 0 else -1,
    )


def _listeners(address: str) -> list[quorum.Listener]:
    try:
        known = Address.parse(address)
    except ValueError:
        return []
    return [quorum.Listener(name="CONTROLLER", host=known.host, port=known.port)]


# UnregisterBroker.


async def unregister_broker(call: KafkaCall, request: KafkaUnregisterBrokerRequest) -> UnregisterBrokerResponse:
    """Remove the registration of a broker that will not restart."""
    try:
        command = UnregisterBrokerRequest(broker_id=request.broker_id)
        await AdminRequest.begin(call).send(paths.UNREGISTER_BROKER, command)
    except RaftlogError as error:
        absent = error.code is ErrorCode.RESOURCE_NOT_FOUND
        number = KafkaError.BROKER_ID_NOT_REGISTERED if absent else error_number(error)
        return UnregisterBrokerResponse(error_code=number, error_message=error.message)
    return UnregisterBrokerResponse(error_message=None)


HANDLERS: Final[Handlers] = {
    35: Served(handle=describe_log_dirs, most_elements=MANY_ELEMENTS),
    55: Served(handle=describe_quorum, last=2, most_elements=MAX_ELEMENTS),
    64: unregister_broker,
}
