"""Committed offsets: commit, fetch, delete, expire, and transactional commits (Kafka's TxnOffsetCommit)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from raftlog.config import GroupConfig
from raftlog.coordinator.group.classic_draft import ClassicDraft
from raftlog.coordinator.group.classic_in_consumer import keep_session, require_generation_of
from raftlog.coordinator.group.classic_state import ClassicGroup
from raftlog.coordinator.group.classic_views import require_classic_committer, subscribed_topics
from raftlog.coordinator.group.membership import require_group_id, require_member
from raftlog.coordinator.group.records import OffsetCommitted, OffsetPending
from raftlog.coordinator.group.state import Group, GroupsState
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime.codec import LogRecord, Tombstone, tombstone
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.errors import (
    ErrorCode,
    FencedError,
    InvalidRequestError,
    NotFoundError,
    RaftlogError,
    RetriableError,
    StaleRouteError,
)
from raftlog.model import ProducerEpoch, ProducerId, TopicPartition
from raftlog.wire.errors import WireError
from raftlog.wire.groups import (
    CommitOffset,
    CommittedOffset,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetResult,
    OffsetResults,
    count_of,
    flat,
)

MAX_OFFSETS = 10_000
"""In one request."""
OFFSETS_AT_ONCE = 1_000
"""The most offsets of one decision: each takes up to 16 µs of the event loop. The rest takes further ones."""
_MOST_RECORDS = 2 * OFFSETS_AT_ONCE
"""Of a commit: its offsets, and the deletions of pending ones that they replace. Those take a few µs each."""
_MOST_RECORDS_AT_END = 3 * OFFSETS_AT_ONCE
"""Of the end of a transaction, whose own pending offsets are deleted, too."""

EXAMINED_AT_ONCE = 20_000
"""The offsets that one tick examines for expiry: each takes up to 1 µs of the event loop."""


def decide_commit(
    state: GroupsState,
    now: Now,
    group_id: str,
    request: OffsetCommitRequest,
    *,
    topics: Topics,
    settings: GroupConfig,
    instance_id: str | None = None,
) -> Decision[OffsetResults]:
    """Commit offsets; an error of one partition is in its own result.

    Where many pending offsets are replaced, only the first offsets have a result: the others take a further decision.

    Args:
        instance_id: of a static member of a classic group.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, or STALE_MEMBER_EPOCH: send a heartbeat first. Nothing was
            done. In a classic group: see `require_classic_committer`.
    """
    require_group_id(group_id)
    require_limit(len(request.offsets))
    group = _require_committer(state, now, group_id, request, settings, instance_id)
    records: list[LogRecord] = []
    results = []
    for entry in request.offsets:
        try:
            _require_owner(group, entry, request.member_id)
            record, error = _offset_record(group_id, entry, now, topics, settings), None
        except RaftlogError as refused:
            error = WireError.of(refused)
        else:
            pending = _pending_before(state, group_id, TopicPartition(entry.topic, entry.partition))
            replaced = list(islice(pending, _MOST_RECORDS - 1))
            if records and len(records) + 1 + len(replaced) > _MOST_RECORDS:
                break
            records += [record, *replaced]
        results.append(OffsetResult(topic=entry.topic, partition=entry.partition, error=error))
    return Decision(records, OffsetResults(offsets=tuple(results)))


def _require_committer(
    state: GroupsState,
    now: Now,
    group_id: str,
    request: OffsetCommitRequest,
    settings: GroupConfig,
    instance_id: str | None,
    *,
    in_transaction: bool = False,
) -> Group:
    """Raise if the sender may not commit now; return the group, which is empty for a classic one."""
    if (classic := state.classic.get(group_id)) is not None:
        require_classic_committer(
            classic, request.member_id, request.member_epoch, instance_id, in_transaction=in_transaction
        )
        if request.member_id in classic.members:
            ClassicDraft(state, group_id, now, settings).renew(request.member_id)
        return Group(group_id)
    group = state.groups.get(group_id) or Group(group_id)
    if request.member_id in group.classic:
        require_generation_of(group, request.member_id, request.member_epoch, instance_id)
        keep_session(state, now, group, request.member_id)
    else:
        require_committer(group, request.member_id, request.member_epoch)
    return group


def require_committer(group: Group, member_id: str, member_epoch: int) -> None:
    """Raise if the sender may not commit for the group now.

    A sender without an epoch is not a member, and may commit for a group without members. It may have an id: librdkafka
    sends the one that it would join with.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or FENCED_MEMBER_EPOCH.
    """
    if member_epoch < 0 and not group.members:
        return
    if member_epoch < 0 and not member_id:
        raise FencedError(
            f"group {group.group_id!r} has {len(group.members)} members: only members may commit",
            code=ErrorCode.UNKNOWN_MEMBER_ID,
        )
    require_member(group, member_id)
    epoch = group.current[member_id].epoch
    if member_epoch == epoch:
        return
    code = ErrorCode.STALE_MEMBER_EPOCH if 0 <= member_epoch < epoch else ErrorCode.FENCED_MEMBER_EPOCH
    raise FencedError(
        f"member {member_id} of group {group.group_id!r} is in epoch {epoch}, received {member_epoch}",
        code=code,
        details={"member_epoch": epoch},
    )


def _require_owner(group: Group, entry: CommitOffset, member_id: str) -> None:
    """Raise if another member owns the partition now: a late commit would move the group's offset back."""
    owner = group.owners.get(TopicPartition(entry.topic, entry.partition), member_id)
    if owner != member_id:
        is_classic = member_id in group.classic
        raise FencedError(
            f"{entry.topic}-{entry.partition} is assigned to another member now",
            code=ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH,
        )


def _offset_record(
    group_id: str, entry: CommitOffset, now: Now, topics: Topics, settings: GroupConfig
) -> OffsetCommitted:
    topic = topics.get(entry.topic)
    if entry.topic_id and (topic is None or topic.topic_id != entry.topic_id):
        raise StaleRouteError(
            f"topic {entry.topic!r} with id {entry.topic_id} is not in this coordinator's metadata, not yet or no "
            "longer",
            code=ErrorCode.UNKNOWN_TOPIC_ID,
        )
    if topic is None or not 0 <= entry.partition < topic.partitions:
        raise NotFoundError(f"there is no partition {entry.topic}-{entry.partition}")
    if entry.offset < 0:
        raise InvalidRequestError(f"offset: expected 0 or more, received {entry.offset}")
    if len(entry.metadata.encode()) > settings.offset_metadata_max_bytes:
        raise InvalidRequestError(
            f"metadata: expected at most {settings.offset_metadata_max_bytes} bytes, received "
            f"{len(entry.metadata.encode())}",
            code=ErrorCode.OFFSET_METADATA_TOO_LARGE,
        )
    return OffsetCommitted(
        group_id=group_id,
        topic=entry.topic,
        partition=entry.partition,
        offset=entry.offset,
        topic_id=topic.topic_id,
        leader_epoch=entry.leader_epoch,
        metadata=entry.metadata,
        committed_at_ms=now.wall_ms,
    )


class FoundOffset(NamedTuple):
    """What a group has committed for one partition."""

    partition: TopicPartition
    committed: OffsetCommitted | None
    is_unstable: bool
    """Whether an open transaction may commit another offset, and the sender asked for stable ones."""

    def described(self, topics: Topics) -> CommittedOffset:
        """Return what the sender sees; an offset of a deleted topic does not apply to a recreated one of its name."""
        partition, committed, is_unstable = self
        topic, number = partition
        if is_unstable:
            error = RetriableError(
                f"an open transaction may commit an offset of {partition}; send the request again when it has ended",
                code=ErrorCode.UNSTABLE_OFFSET_COMMIT,
            )
            return CommittedOffset(topic=topic, partition=number, error=WireError.of(error))
        existing = topics.get(topic)
        if committed is None or (existing is not None and committed.topic_id not in ("", existing.topic_id)):
            return CommittedOffset(topic=topic, partition=number)
        return CommittedOffset(
            topic=topic,
            partition=number,
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            committed_at_ms=committed.committed_at_ms,
            topic_id=committed.topic_id,
        )


def decide_fetch(
    state: GroupsState, _: Now, group_id: str, request: OffsetFetchRequest
) -> Decision[tuple[FoundOffset, ...]]:
    """Return committed offsets. The caller describes them, in several turns of the event loop if they are many.

    Raises:
        FencedError: the sender is not a member, or in another epoch.
    """
    require_group_id(group_id)
    group = state.groups.get(group_id) or Group(group_id)
    sends_epoch = group_id not in state.classic and request.member_id not in group.classic
    if request.member_id and sends_epoch:  # Classic members send none.
        require_committer(group, request.member_id, request.member_epoch)
    known = state.offsets.get(group_id, {})
    require_limit(len(known) if request.partitions is None else count_of(request.partitions))
    wanted = sorted(known) if request.partitions is None else sorted(flat(request.partitions))
    unstable = state.unstable.get(group_id, {}) if request.require_stable else {}
    return Decision((), tuple([FoundOffset(p, known.get(p), p in unstable) for p in wanted]), is_confirmed=True)


def decide_offset_deletion(
    state: GroupsState, _: Now, group_id: str, request: OffsetDeleteRequest
) -> Decision[OffsetResults]:
    """Delete offsets, except of topics that members subscribe to (GROUP_SUBSCRIBED_TO_TOPIC).

    Raises:
        InvalidRequestError: NON_EMPTY_GROUP, the members' protocol does not say which topics they read.
        NotFoundError: GROUP_ID_NOT_FOUND.
    """
    group, known = state.groups.get(group_id), state.offsets.get(group_id, {})
    classic = state.classic.get(group_id)
    if group is None and classic is None and not known:
        raise NotFoundError(f"there is no group {group_id!r}", code=ErrorCode.GROUP_ID_NOT_FOUND)
    require_limit(count_of(request.partitions))
    wanted = sorted(flat(request.partitions))
    read = group.topics if group is not None and group.members else subscribed_topics(classic)
    if read is None:
        raise InvalidRequestError(
            f"group {group_id!r} has members, whose topics its coordinator does not know; stop them first",
            code=ErrorCode.NON_EMPTY_GROUP,
        )
    records, results = list[LogRecord](), []
    for partition in wanted:
        error = None
        if partition.topic in read:
            refused = InvalidRequestError(
                f"members of group {group_id!r} subscribe to {partition.topic}; stop them first",
                code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            )
            error = WireError.of(refused)
        elif partition in known:
            records.append(tombstone(known[partition]))
        results.append(OffsetResult(topic=partition.topic, partition=partition.partition, error=error))
    return Decision(records, OffsetResults(offsets=tuple(results)))


def decide_transactional_commit(
    state: GroupsState,
    now: Now,
    group_id: str,
    request: OffsetCommitRequest,
    *,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
    topics: Topics,
    settings: GroupConfig,
    instance_id: str | None = None,
) -> Decision[OffsetResults]:
    """Store offsets that take effect when the producer's transaction commits (Kafka's TxnOffsetCommit).

    The caller has checked that the transaction is open and includes this group. A request without a member id is from
    a producer that did not pass its consumer's membership: only the producer epoch fences it.

    A topic with another id is refused in its partition's result. No offset of the request is stored then.

    Raises:
        FencedError: INVALID_PRODUCER_EPOCH, or the member's; see `decide_commit`.
    """
    require_group_id(group_id)
    require_limit(len(request.offsets))
    pending = state.pending.get(producer_id, {})
    if any(other.producer_epoch > producer_epoch for other in pending.values()):
        raise FencedError(
            f"producer_epoch: a later one of producer {producer_id} has replaced {producer_epoch}",
            code=ErrorCode.INVALID_PRODUCER_EPOCH,
        )
    group = Group(group_id)
    if request.member_id or request.member_epoch >= 0:
        group = _require_committer(state, now, group_id, request, settings, instance_id, in_transaction=True)
    records: list[LogRecord] = []
    results = []
    for entry in request.offsets:  # All or none, unlike `decide_commit`: a transaction is atomic.
        if request.member_id:
            _require_owner(group, entry, request.member_id)
        error = None
        try:
            committed = _offset_record(group_id, entry, now, topics, settings)
            records.append(_pending(committed, producer_id, producer_epoch))
        except StaleRouteError as refused:  # An error of the whole request would make clients look for a coordinator.
            error = WireError.of(refused)
        results.append(OffsetResult(topic=entry.topic, partition=entry.partition, error=error))
    is_refused = any(result.error for result in results)
    return Decision([] if is_refused else records, OffsetResults(offsets=tuple(results)))


def _pending(committed: OffsetCommitted, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> OffsetPending:
    return OffsetPending(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        group_id=committed.group_id,
        topic=committed.topic,
        partition=committed.partition,
        offset=committed.offset,
        topic_id=committed.topic_id,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        committed_at_ms=committed.committed_at_ms,
    )


def _pending_before(
    state: GroupsState, group_id: str, partition: TopicPartition, producer_id: ProducerId | None = None
) -> Iterator[Tombstone]:
    """Yield the deletion of each pending offset that is older than the producer's; without one, of all.

    The newer commit replaces them: if their transactions commit later, the group's offset does not go back. Callers
    bound how many one decision deletes. Of more for a single partition, some stay, and may still move it back: each is
    of another open transaction.
    """
    for other in state.unstable.get(group_id, {}).get(partition, ()):
        if other == producer_id:
            return
        yield Tombstone(OffsetPending, (other, group_id, *partition))


def decide_end_of_transaction(
    state: GroupsState, _: Now, *, producer_id: ProducerId, producer_epoch: ProducerEpoch, commit: bool
) -> Decision[int]:
    """Commit a producer's pending offsets, or drop them; the response is 0 once none is left. Idempotent.

    One decision ends at most `OFFSETS_AT_ONCE` of a shard. Until all have ended, a fetch that requires stable offsets
    refuses those that are left. Pending offsets of a later producer epoch stay: a late marker does not touch the next
    transaction (KIP-890).

    The newest commit of a partition counts, as in Kafka: of two open transactions, the one that sent its offset last,
    in whatever order they end.

    Also without pending offsets the replicas confirm the leader: a successor may have them, and need the marker.
    """
    records: list[LogRecord] = []
    pending_offsets = state.pending.get(producer_id, {}).values()
    ended = (pending for pending in pending_offsets if pending.producer_epoch <= producer_epoch)
    found = list(islice(ended, OFFSETS_AT_ONCE + 1))
    done = 0
    for pending in found[:OFFSETS_AT_ONCE]:
        if commit:
            partition = TopicPartition(pending.topic, pending.partition)
            older = _pending_before(state, pending.group_id, partition, producer_id)
            replaced = list(islice(older, _MOST_RECORDS_AT_END - 2))
            if records and len(records) + len(replaced) + 2 > _MOST_RECORDS_AT_END:
                break
            records += replaced
            records.append(
                OffsetCommitted(
                    group_id=pending.group_id,
                    topic=pending.topic,
                    partition=pending.partition,
                    offset=pending.offset,
                    topic_id=pending.topic_id,
                    leader_epoch=pending.leader_epoch,
                    metadata=pending.metadata,
                    committed_at_ms=pending.committed_at_ms,
                )
            )
        records.append(tombstone(pending))
        done += 1
    return Decision(records, len(found) - done, is_confirmed=True)


def expired_offsets(
    state: GroupsState, now: Now, *, topics: Topics, settings: GroupConfig, limit: int
) -> list[LogRecord]:
    """Return tombstones of offsets that are older than the retention time, or whose topic was deleted.

    Offsets of topics that members subscribe to do not expire. Those of an empty group age from the time at which its
    last member left. One call looks at groups of `state.unchecked`, until it has seen `EXAMINED_AT_ONCE` offsets or
    found `limit`; the next call continues.
    """
    records: list[LogRecord] = []
    examined = 0
    while state.unchecked and examined < EXAMINED_AT_ONCE:
        group_id = state.unchecked[-1]
        known = state.offsets.get(group_id, {})
        examined += len(known) + 1
        expired = _expired_of_group(state, group_id, now, topics, settings)
        pending = state.unstable.get(group_id, {})
        found = (partition for partition in expired if partition not in pending)
        records += (Tombstone(OffsetCommitted, (group_id, *each)) for each in islice(found, limit - len(records)))
        if len(records) >= limit:
            break  # The group may have more.
        state.unchecked.pop()
    return records


def _expired_of_group(
    state: GroupsState, group_id: str, now: Now, topics: Topics, settings: GroupConfig
) -> Iterator[TopicPartition]:
    group, classic = state.groups.get(group_id), state.classic.get(group_id)
    read = subscribed_topics(classic)
    for partition, committed in state.offsets.get(group_id, {}).items():
        existing = topics.get(partition.topic)
        deleted = existing is None or committed.topic_id not in ("", existing.topic_id)
        if not deleted and (read is None or partition.topic in read):
            continue
        if deleted or _is_expired(group or classic, committed, now, settings):
            yield partition


def _is_expired(
    group: Group | ClassicGroup | None, committed: OffsetCommitted, now: Now, settings: GroupConfig
) -> bool:
    since = committed.committed_at_ms
    if group is not None:
        if isinstance(group, Group) and group.members and committed.topic in group.topics:
            return False
        since = max(since, group.empty_since_ms)
    return now.wall_ms - since > settings.offsets_retention_ms


def require_limit(count: int) -> None:
    """Raise InvalidRequestError if a request has too many partitions."""
    if count > MAX_OFFSETS:
        raise InvalidRequestError(f"expected at most {MAX_OFFSETS} partitions at once, received {count}")
