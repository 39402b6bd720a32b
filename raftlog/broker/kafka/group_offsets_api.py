"""OffsetCommit, OffsetFetch and OffsetDelete: the offsets of groups, which clients of both protocols share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from raftlog.broker.kafka.audit import audited
from raftlog.broker.kafka.call import MANY_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import coordinator_number, error_number
from raftlog.broker.kafka.groups_api import timeout_ms
from raftlog.broker.kafka.topics import name_of, topic_id_of
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError
from raftlog.model import TopicId
from raftlog.runtime import in_slices
from raftlog.serving.workers import in_worker
from raftlog.wire.groups import (
    CommitOffset,
    CommittedOffset,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetResults,
    TopicPartitions,
)
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import offset_commit as commits
from raftlog.wire.kafka.messages import offset_delete as deletions
from raftlog.wire.kafka.messages import offset_fetch as fetches

_COMMITS_BY_ID = 10
_FETCHES_BY_ID = 10
_EPOCHS = 9
"""The first version of OffsetCommit whose number may be a member epoch (KIP-848)."""
_TOP_ERROR = 2
"""The first version of OffsetFetch with an error of the whole request."""
_SEVERAL_GROUPS = 8
_MAX_GROUPS = 1_000
_LARGE = 500
_SLICE = 512
_COUNTED_BYTES = 64 << 10
"""Smaller answers do not count: a member that reads its offsets must not wait for slow readers at its address."""
_OFFSET_BYTES = 50
"""About what an offset without its metadata takes in an answer."""
Wanted: TypeAlias = Mapping[str, Sequence[int]]
"""Partitions by topic."""
Listed: TypeAlias = Iterable[tuple[str, Sequence[int]]]
"""Partitions by topic. A topic may come more than once."""


async def handle_offset_commit(call: KafkaCall, request: commits.OffsetCommitRequest) -> commits.OffsetCommitResponse:
    """Commit offsets. A commit without a member is in the audit log: an administrator resets offsets so.

    Some clients without a group commit so, too, with an id of their own. These commits are summed up.
    """
    is_reset = request.generation_id_or_member_epoch < 0
    often = {"group": request.group_id, "member": request.member_id} if request.member_id else None
    response: commits.OffsetCommitResponse
    response = await audited(call, _commit(call, request), request, is_change=is_reset, often=often)
    return response


async def _commit(call: KafkaCall, request: commits.OffsetCommitRequest) -> commits.OffsetCommitResponse:
    call.is_large = sum(len(topic.partitions) for topic in request.topics) > _LARGE
    try:
        call.context.access.require(call.sender, "read", "group", request.group_id)
    except RaftlogError as error:
        refused = partial(_all_commits, request, coordinator_number(error))
        return await in_worker(refused) if call.has_many else refused()
    names, numbers = [], []
    async for topic in in_slices(request.topics, _SLICE):
        name, number = _readable(call, topic.name, topic.topic_id, by_id=call.api_version >= _COMMITS_BY_ID)
        names.append(name)
        numbers.append(number)
    offsets = [
        CommitOffset(
            topic=name,
            partition=one.partition_index,
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata or "",
            topic_id=topic_id_of(topic.topic_id) if call.api_version >= _COMMITS_BY_ID else "",
        )
        async for topic, name, number in in_slices(zip(request.topics, names, numbers, strict=True), _SLICE)
        if not number
        async for one in in_slices(topic.partitions, _SLICE)
    ]
    try:
        done = iter(await _store(call, request, offsets) if offsets else ())
    except RaftlogError as error:
        failed = _commit_number(call, error)
        numbers = [number or failed for number in numbers]
        done = iter(())
    made = partial(_committed, request, numbers, done)
    return await in_worker(made) if call.has_many else made()


async def _store(call: KafkaCall, request: commits.OffsetCommitRequest, offsets: Iterable[CommitOffset]) -> list[int]:
    command = OffsetCommitRequest(
        offsets=tuple(offsets),
        member_id=request.member_id,
        member_epoch=request.generation_id_or_member_epoch,
    )
    call.acts = True
    results = await call.context.groups.commit(
        request.group_id, command, timeout_ms=timeout_ms(call), instance_id=request.group_instance_id
    )
    return [error_number(one.error, "topic") for one in results.offsets]


def _committed(
    request: commits.OffsetCommitRequest, numbers: Iterable[int], done: Iterable[int]
) -> commits.OffsetCommitResponse:
    """Return the results in the order of the request.

    Args:
        numbers: the error of each topic; 0: its partitions have results in `done`.
    """
    results = iter(done)
    topics = [
        commits.OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                commits.OffsetCommitResponsePartition(
                    partition_index=one.partition_index, error_code=number or next(results)
                )
                for one in topic.partitions
            ],
        )
        for topic, number in zip(request.topics, numbers, strict=True)
    ]
    return commits.OffsetCommitResponse(topics=topics)


def _all_commits(request: commits.OffsetCommitRequest, number: int) -> commits.OffsetCommitResponse:
    """Return the same error for each partition."""
    return _committed(request, [number] * len(request.topics), ())


def _commit_number(call: KafkaCall, error: RaftlogError) -> int:
    """Return the number of an error; versions before member epochs have generations only."""
    if call.api_version < _EPOCHS and error.code in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH):
        return KafkaError.ILLEGAL_GENERATION
    return coordinator_number(error)


def _readable(call: KafkaCall, name: str, uuid: bytes, *, by_id: bool) -> tuple[str, int]:
    """Return a topic's name, and the error if the sender may not read it or its id is not known."""
    try:
        name = name_of(call.context.image, topic_id_of(uuid)) if by_id else name
        call.context.access.require(call.sender, "read", "topic", name)
    except RaftlogError as error:
        return name, error_number(error, "topic")
    return name, 0


# OffsetFetch.


async def handle_offset_fetch(call: KafkaCall, request: fetches.OffsetFetchRequest) -> fetches.OffsetFetchResponse:
    """Return committed offsets, of several groups from version 8 on."""
    if call.api_version >= _SEVERAL_GROUPS:
        return await _fetch_groups(call, request)

    def asked() -> OffsetFetch:
        listed = None if request.topics is None else [(one.name, one.partition_indexes) for one in request.topics]
        return OffsetFetch(request.group_id, listed, request.require_stable)

    fetch = await in_worker(asked) if call.has_many else asked()
    error, found = 0, dict[str, list[CommittedOffset]]()
    try:
        found = await _found(call, fetch)
    except RaftlogError as reason:
        error = _fetch_number(reason)
    if error:  # In each partition, too: aiokafka looks nowhere else, and would begin at `auto_offset_reset`.
        found = {
            topic: [CommittedOffset(topic=topic, partition=number) async for number in in_slices(numbers, _SLICE)]
            async for topic, numbers in in_slices((fetch.wanted or {}).items(), _SLICE)
        }
    call.is_large = call.is_large or sum(map(len, found.values())) > _LARGE
    topics = [
        fetches.OffsetFetchResponseTopic(
            name=name, partitions=[_old_partition(call, one, error) async for one in in_slices(offsets, _SLICE)]
        )
        async for name, offsets in in_slices(found.items(), _SLICE)
    ]
    return fetches.OffsetFetchResponse(topics=topics, error_code=error if call.api_version >= _TOP_ERROR else 0)


class OffsetFetch:
    """What one group is asked for.

    Args:
        listed: partitions by topic, as the client lists them; None: every partition with an offset.
    """

    def __init__(
        self, group_id: str, listed: Listed | None, require_stable: bool, member_id: str = "", member_epoch: int = -1
    ) -> None:
        self.group_id = group_id
        self.wanted: Wanted | None = None if listed is None else _merged(listed)
        self.command = OffsetFetchRequest(
            partitions=None
            if self.wanted is None
            else tuple(TopicPartitions(topic=topic, partitions=tuple(nums)) for topic, nums in self.wanted.items()),
            member_id=member_id,
            member_epoch=member_epoch,
            require_stable=require_stable,
        )


def _merged(listed: Listed) -> dict[str, list[int]]:
    merged: dict[str, list[int]] = {}
    for topic, numbers in listed:
        merged.setdefault(topic, []).extend(numbers)
    return merged


async def _found(call: KafkaCall, fetch: OffsetFetch, *, is_alone: bool = True) -> dict[str, list[CommittedOffset]]:
    """Return a group's offsets by topic. Of topics that the sender may not describe, only requested ones are shown.

    Args:
        is_alone: the request asks for no other group.
    """
    access = call.context.access
    access.require(call.sender, "describe", "group", fetch.group_id)
    answer = await call.context.groups.fetch_offsets(fetch.group_id, fetch.command, timeout_ms=timeout_ms(call))
    found: dict[str, list[CommittedOffset]] = {topic: [] for topic in fetch.wanted or ()}
    size = 0
    async for one in in_slices(answer.offsets, _SLICE):
        found.setdefault(one.topic, []).append(one)
        size += _OFFSET_BYTES + len(one.metadata)
    if size > _COUNTED_BYTES or not is_alone:
        call.hold_answer(size)
    if access.sees_all(call.sender):
        return found
    by_topic = in_slices(found.items(), _SLICE)
    if fetch.wanted is None:
        return {topic: offsets async for topic, offsets in by_topic if access.sees(call.sender, "topic", topic)}
    return {
        topic: offsets
        if access.may(call.sender, "describe", "topic", topic)
        else [CommittedOffset(topic=topic, partition=one.partition) async for one in in_slices(offsets, _SLICE)]
        async for topic, offsets in by_topic
    }


def _fetch_number(error: RaftlogError) -> int:
    """Return the number of an error of OffsetFetch: Java's consumers before 3.9 end at all but these two (as Kafka)."""
    number = coordinator_number(error)
    is_unexpected = number in (KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.REQUEST_TIMED_OUT)
    return KafkaError.NOT_COORDINATOR if is_unexpected else number


def _offset_number(call: KafkaCall, one: CommittedOffset) -> int:
    if not call.context.access.sees(call.sender, "topic", one.topic):
        return KafkaError.TOPIC_AUTHORIZATION_FAILED
    return error_number(one.error, "topic")


def _old_partition(call: KafkaCall, one: CommittedOffset, error: int) -> fetches.OffsetFetchResponsePartition:
    return fetches.OffsetFetchResponsePartition(
        partition_index=one.partition,
        committed_offset=one.offset,
        committed_leader_epoch=one.leader_epoch,
        metadata=one.metadata,
        error_code=error or _offset_number(call, one),
    )


async def _fetch_groups(call: KafkaCall, request: fetches.OffsetFetchRequest) -> fetches.OffsetFetchResponse:
    if len(request.groups) > _MAX_GROUPS:
        raise InvalidRequestError(f"expected at most {_MAX_GROUPS} groups, received {len(request.groups)}")
    named = set[str]()
    groups = []
    async for one in in_slices(request.groups):
        if one.group_id in named:  # A small request could ask for a large answer many times.
            refused = fetches.OffsetFetchResponseGroup(group_id=one.group_id, error_code=KafkaError.INVALID_REQUEST)
            groups.append(refused)
            continue
        named.add(one.group_id)
        groups.append(await _fetch_group(call, one, request.require_stable, is_alone=len(request.groups) == 1))
    return fetches.OffsetFetchResponse(groups=groups)


async def _fetch_group(
    call: KafkaCall, asked: fetches.OffsetFetchRequestGroup, require_stable: bool, *, is_alone: bool
) -> fetches.OffsetFetchResponseGroup:
    by_id, image = call.api_version >= _FETCHES_BY_ID, call.context.image
    known, unknown = list[tuple[str, Sequence[int]]](), list[fetches.OffsetFetchResponseTopics]()
    async for topic in in_slices(asked.topics or (), _SLICE):
        try:
            name = name_of(image, topic_id_of(topic.topic_id)) if by_id else topic.name
            known.append((name, topic.partition_indexes))
        except RaftlogError as error:
            number = error_number(error, "topic")
            parts = [_missing(partition, number) async for partition in in_slices(topic.partition_indexes, _SLICE)]
            unknown.append(fetches.OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=parts))
    listed = None if asked.topics is None else known
    named = partial(OffsetFetch, asked.group_id, listed, require_stable, asked.member_id or "", asked.member_epoch)
    fetch = await in_worker(named) if call.has_many else named()
    try:
        found = await _found(call, fetch, is_alone=is_alone)
    except RaftlogError as error:
        return fetches.OffsetFetchResponseGroup(group_id=asked.group_id, error_code=_fetch_number(error))
    topics = []
    async for name, offsets in in_slices(found.items(), _SLICE):
        existing = image.topic(name)
        topic_id = existing.topic_id if by_id and existing is not None else ""
        parts = [_new_partition(call, _of_topic(one, topic_id)) async for one in in_slices(offsets, _SLICE)]
        if not by_id:
            topics.append(fetches.OffsetFetchResponseTopics(name=name, partitions=parts))
        elif existing is not None:
            uuid = bytes.fromhex(existing.topic_id)
            topics.append(fetches.OffsetFetchResponseTopics(topic_id=uuid, partitions=parts))
    return fetches.OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics + unknown)


def _of_topic(one: CommittedOffset, topic_id: TopicId) -> CommittedOffset:
    """Return an offset, or none if it is of a topic of the same name that was created after the request came.

    Args:
        topic_id: the id that the client asked for; empty: it asked for a name.
    """
    is_of_another = topic_id != "" and one.topic_id not in ("", topic_id)
    return CommittedOffset(topic=one.topic, partition=one.partition) if is_of_another else one


def _missing(partition: int, number: int) -> fetches.OffsetFetchResponsePartitions:
    return fetches.OffsetFetchResponsePartitions(partition_index=partition, committed_offset=-1, error_code=number)


def _new_partition(call: KafkaCall, one: CommittedOffset) -> fetches.OffsetFetchResponsePartitions:
    return fetches.OffsetFetchResponsePartitions(
        partition_index=one.partition,
        committed_offset=one.offset,
        committed_leader_epoch=one.leader_epoch,
        metadata=one.metadata,
        error_code=_offset_number(call, one),
    )


def _failed_fetch(call: KafkaCall, request: fetches.OffsetFetchRequest, number: int) -> fetches.OffsetFetchResponse:
    if call.api_version >= _SEVERAL_GROUPS:
        groups = [fetches.OffsetFetchResponseGroup(group_id=one.group_id, error_code=number) for one in request.groups]
        return fetches.OffsetFetchResponse(groups=groups)
    if call.api_version >= _TOP_ERROR:
        return fetches.OffsetFetchResponse(error_code=number)
    topics = [
        fetches.OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                fetches.OffsetFetchResponsePartition(partition_index=one, committed_offset=-1, error_code=number)
                for one in topic.partition_indexes
            ],
        )
        for topic in request.topics or ()
    ]
    return fetches.OffsetFetchResponse(topics=topics)


# OffsetDelete.


async def handle_offset_delete(
    call: KafkaCall, request: deletions.OffsetDeleteRequest
) -> deletions.OffsetDeleteResponse:
    """Delete offsets of topics that no member reads."""
    access = call.context.access
    topics = in_slices(request.topics, _SLICE)
    refused = {topic.name async for topic in topics if not access.may(call.sender, "read", "topic", topic.name)}
    deletion, answer = partial(_deletion, request, refused), partial(_deletion_response, request, refused)
    command = await in_worker(deletion) if call.has_many else deletion()
    try:
        access.require(call.sender, "delete", "group", request.group_id)
        call.acts = True
        done = await call.context.groups.delete_offsets(request.group_id, command, timeout_ms=timeout_ms(call))
    except RaftlogError as error:
        return deletions.OffsetDeleteResponse(error_code=coordinator_number(error))
    return await in_worker(answer, done) if call.has_many else answer(done)


def _deletion(request: deletions.OffsetDeleteRequest, refused: set[str]) -> OffsetDeleteRequest:
    wanted = _merged(
        (topic.name, [one.partition_index for one in topic.partitions])
        for topic in request.topics
        if topic.name not in refused
    )
    return OffsetDeleteRequest(
        partitions=tuple(TopicPartitions(topic=topic, partitions=tuple(numbers)) for topic, numbers in wanted.items())
    )


def _deletion_response(
    request: deletions.OffsetDeleteRequest, refused: set[str], done: OffsetResults
) -> deletions.OffsetDeleteResponse:
    numbers = {(one.topic, one.partition): error_number(one.error, "topic") for one in done.offsets}
    topics = [
        deletions.OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                deletions.OffsetDeleteResponsePartition(
                    partition_index=one.partition_index,
                    error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED
                    if topic.name in refused
                    else numbers.get((topic.name, one.partition_index), 0),
                )
                for one in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return deletions.OffsetDeleteResponse(topics=topics)


def _failed_commit(_: KafkaCall, request: commits.OffsetCommitRequest, number: int) -> commits.OffsetCommitResponse:
    return _all_commits(request, number)


HANDLERS: Final[Handlers] = {
    8: Served(handle=handle_offset_commit, failed=_failed_commit, most_elements=MANY_ELEMENTS),
    9: Served(handle=handle_offset_fetch, failed=_failed_fetch, most_elements=MANY_ELEMENTS),
    47: Served(handle=handle_offset_delete, most_elements=MANY_ELEMENTS),
}
