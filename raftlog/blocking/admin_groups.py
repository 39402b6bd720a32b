"""Administration of consumer groups without async."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from raftlog.blocking.admin_security import SecurityAdmin
from raftlog.client.start_offsets import Start
from raftlog.model import Offset, TopicPartition
from raftlog.wire.coordinators import CoordinatorInfo, CoordinatorKind
from raftlog.wire.groups import GroupDescription, GroupListing


class GroupAdmin(SecurityAdmin):
    """The part of `Admin` that is about consumer groups."""

    def find_coordinator(self, kind: CoordinatorKind, key: str) -> CoordinatorInfo:
        """Return the broker that coordinates a group or a transactional id.

        Args:
            kind: `group` or `transaction`.
            key: the group id or the transactional id.
        """
        return self._run(self._client.find_coordinator, kind, key)

    def list_groups(self) -> list[GroupListing]:
        """Return every group, sorted by id: groups with members, and groups that only have committed offsets."""
        return self._run(self._client.list_groups)

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group's members and the partitions that each reads.

        Args:
            group_id: the group's id.

        Raises:
            NotFoundError: GROUP_ID_NOT_FOUND, the group does not exist.
        """
        return self._run(self._client.describe_group, group_id)

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its committed offsets.

        Args:
            group_id: the group's id.

        Raises:
            NotFoundError: GROUP_ID_NOT_FOUND, the group does not exist.
            InvalidRequestError: NON_EMPTY_GROUP, the group has members.
            UnknownOutcomeError: no answer came; the group may be deleted.
        """
        self._run(self._client.delete_group, group_id)

    def group_offsets(self, group_id: str) -> dict[TopicPartition, Offset]:
        """Return every offset that a group has committed; return none if the group does not exist.

        Args:
            group_id: the group's id.
        """
        return self._run(self._client.group_offsets, group_id)

    def group_lag(self, group_id: str) -> dict[TopicPartition, int]:
        """Return how many offsets a group has still to read, for each partition with a committed offset.

        Partitions of deleted topics are left out; the coordinator removes their offsets a little later.

        Args:
            group_id: the group's id.
        """
        return self._run(self._client.group_lag, group_id)

    def alter_group_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], Offset]) -> None:
        """Commit offsets for a group that has no members: its next member begins there.

        Args:
            group_id: the group's id.
            offsets: for each (topic, partition), the offset of the next record to read.

        Raises:
            InvalidRequestError: NON_EMPTY_GROUP, or an offset is below 0.
            NotFoundError: a partition does not exist.
        """
        self._run(self._client.alter_group_offsets, group_id, offsets)

    def reset_group_offsets(
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
        return self._run(
            self._client.reset_group_offsets,
            group_id,
            to=to,
            to_offset=to_offset,
            shift_by=shift_by,
            partitions=partitions,
            dry_run=dry_run,
        )

    def delete_group_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Delete a group's committed offsets of some partitions.

        Args:
            group_id: the group's id.
            partitions: the (topic, partition) pairs.

        Raises:
            NotFoundError: GROUP_ID_NOT_FOUND, the group does not exist.
            InvalidRequestError: GROUP_SUBSCRIBED_TO_TOPIC, a member reads one of the topics.
        """
        self._run(self._client.delete_group_offsets, group_id, partitions)
