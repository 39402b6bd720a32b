"""Administering consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from raftlog import wire
from raftlog.client.admin_security import SecurityAdmin
from raftlog.client.coordinator_link import CoordinatorLink
from raftlog.client.start_offsets import Start, ask_offset
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, NotFoundError
from raftlog.model import Offset, TopicPartition
from raftlog.runtime import concurrently
from raftlog.wire import paths
from raftlog.wire.coordinators import CoordinatorInfo, CoordinatorKind

if TYPE_CHECKING:
    from raftlog.wire.data import OffsetResponse
    from raftlog.wire.groups import GroupDescription, GroupListing, OffsetResults


class GroupAdmin(SecurityAdmin):
    """The part of `Admin` that is about consumer groups."""

    async def find_coordinator(self, kind: CoordinatorKind, key: str) -> CoordinatorInfo:
        """Return the broker that coordinates a group or a transactional id.

        Args:
            kind: `group` or `transaction`.
            key: the group id or the transactional id.
        """
        return await self._connection.ask_any(CoordinatorInfo, "GET", paths.fill(paths.COORDINATOR, kind=kind, key=key))

    async def list_groups(self) -> list[GroupListing]:
        """Return every group, sorted by id: groups with members, and groups that only have committed offsets."""
        return list((await self._connection.ask_any(wire.groups.GroupsResponse, "GET", paths.GROUPS)).groups)

    async def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group's members and the partitions that each reads.

        Args:
            group_id: the group's id.

        Raises:
            NotFoundError: GROUP_ID_NOT_FOUND, the group does not exist.
        """
        return await self._link(group_id).persist(
            wire.groups.GroupDescription, "GET", paths.GROUP, timeout_ms=self._timeout_ms
        )

    async def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its committed offsets.

        Args:
            group_id: the group's id.

        Raises:
            NotFoundError: GROUP_ID_NOT_FOUND, the group does not exist.
            InvalidRequestError: NON_EMPTY_GROUP, the group has members.
            UnknownOutcomeError: no answer came; the group may be deleted.
        """
        await self._link(group_id).persist(
            dict[str, Any], "DELETE", paths.GROUP, timeout_ms=self._timeout_ms, repeatable=False
        )

    async def group_offsets(self, group_id: str) -> dict[TopicPartition, Offset]:
        """Return every offset that a group has committed; return none if the group does not exist.

        Args:
            group_id: the group's id.
        """
        answer = await self._link(group_id).persist(
            wire.groups.OffsetFetchResponse, "GET", paths.GROUP_OFFSETS, timeout_ms=self._timeout_ms
        )
        return {TopicPartition(item.topic, item.partition): item.offset for item in answer.offsets if item.offset >= 0}

    async def group_lag(self, group_id: str) -> dict[TopicPartition, int]:
        """Return how many offsets a group has still to read, for each partition with a committed offset.

        Partitions of deleted topics are left out; the coordinator removes their offsets a little later.

        Args:
            group_id: the group's id.
        """
        offsets = await self.group_offsets(group_id)
        ends = await concurrently([self._offset_of(partition, "latest") for partition in offsets])
        return {
            partition: max(0, end.offset - offset)
            for (partition, offset), end in zip(offsets.items(), ends, strict=True)
            if end is not None
        }

    async def _offset_of(
        self, partition: TopicPartition, at: Start, *, required: bool = False
    ) -> OffsetResponse | None:
        """Return an offset of a partition; None if its topic was deleted, unless it is required."""
        try:
            return await ask_offset(self._connection, partition, at)
        except NotFoundError:
            if required:
                raise
            return None

    async def alter_group_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], Offset]) -> None:
        """Commit offsets for a group that has no members: its next member begins there.

        Args:
            group_id: the group's id.
            offsets: for each (topic, partition), the offset of the next record to read.

        Raises:
            InvalidRequestError: NON_EMPTY_GROUP, or an offset is below 0.
            NotFoundError: a partition does not exist.
        """
        entries = tuple(
            wire.groups.CommitOffset(topic=topic, partition=number, offset=at)
            for (topic, number), at in offsets.items()
        )
        try:
            answer = await self._link(group_id).persist(
                wire.groups.OffsetResults,
                "POST",
                paths.GROUP_OFFSETS,
                timeout_ms=self._timeout_ms,
                message=lambda: wire.groups.commit_message(
                    wire.groups.OffsetCommitRequest(offsets=entries), self._connection.feature_level
                ),
            )
        except FencedError as error:
            raise InvalidRequestError(
                f"group {group_id!r} has members; end them first", code=ErrorCode.NON_EMPTY_GROUP
            ) from error
        _require_done(answer)

    async def reset_group_offsets(
        self,
        group_id: str,
        *,
        to: Start | None = None,
        to_offset: Offset | None = None,
        shift_by: int = 0,
        partitions: Iterable[tuple[str, int]] | None = None,
        dry_run: bool = False,
    ) -> dict[TopicPartition, Offset]:
        """Commit new offsets for a group that has no members, and return them.

        Each new offset lies within the log: an offset beyond the end becomes the end, one below the start the start.

        Args:
            group_id: the group's id.
            to: `earliest`, `latest`, or a time (µs since 1970 UTC, a datetime, or a timedelta ago). None: the committed
                offsets are the starting point.
            to_offset: the same offset in every partition.
            shift_by: added to each offset; a negative number goes back.
            partitions: the (topic, partition) pairs to reset; None: all with a committed offset, except for those of
                deleted topics.
            dry_run: commit nothing; only return the new offsets.

        Raises:
            InvalidRequestError: NON_EMPTY_GROUP; or a partition that is to be shifted has no committed offset; or both
                `to` and `to_offset` are given.
            NotFoundError: one of `partitions` does not exist.
        """
        if to is not None and to_offset is not None:
            raise InvalidRequestError(f"give to or to_offset, not both; received {to!r} and {to_offset}")
        before = await self.group_offsets(group_id)
        chosen = list(before) if partitions is None else [TopicPartition(*partition) for partition in partitions]
        unknown = [partition for partition in chosen if partition not in before]
        if to is None and to_offset is None and unknown:
            raise InvalidRequestError(f"group {group_id!r} has committed no offset of {unknown[0]} to shift")
        at = "latest" if to is None else to
        answers = await concurrently([self._offset_of(one, at, required=partitions is not None) for one in chosen])
        after = {}
        for partition, answer in zip(chosen, answers, strict=True):
            if answer is None:
                continue
            base = answer.offset if to is not None else before[partition] if to_offset is None else to_offset
            after[partition] = min(max(base + shift_by, answer.log_start_offset), answer.high_watermark)
        if after and not dry_run:
            await self.alter_group_offsets(group_id, {(topic, number): at for (topic, number), at in after.items()})
        return after

    async def delete_group_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Delete a group's committed offsets of some partitions.

        Args:
            group_id: the group's id.
            partitions: the (topic, partition) pairs.

        Raises:
            NotFoundError: GROUP_ID_NOT_FOUND, the group does not exist.
            InvalidRequestError: GROUP_SUBSCRIBED_TO_TOPIC, a member reads one of the topics.
        """
        wanted = wire.groups.by_topic(TopicPartition(*partition) for partition in partitions)
        answer = await self._link(group_id).persist(
            wire.groups.OffsetResults,
            "POST",
            paths.GROUP_OFFSETS_DELETE,
            timeout_ms=self._timeout_ms,
            message=lambda: wire.groups.OffsetDeleteRequest(partitions=wanted),
        )
        _require_done(answer)

    def _link(self, group_id: str) -> CoordinatorLink:
        return CoordinatorLink(self._connection, "group", group_id)

    @property
    def _timeout_ms(self) -> int:
        return self._connection.timeout_ms


def _require_done(answer: OffsetResults) -> None:
    for result in answer.offsets:
        if result.error is not None:
            raise result.error.to_error()
