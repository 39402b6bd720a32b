"""Administration without async."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from raftlog import client
from raftlog.blocking.facade import Facade
from raftlog.client.starts import Start
from raftlog.model import Acl, BrokerId, Offset, Quota, TopicPartition
from raftlog.wire.admin import ElectedLeader, LogDirsResponse, QuorumResponse, Reassignment, ScrubResponse, UserInfo
from raftlog.wire.coordinators import CoordinatorInfo, CoordinatorKind
from raftlog.wire.data import OffsetResponse
from raftlog.wire.groups import GroupDescription, GroupListing
from raftlog.wire.metadata import BrokerInfo, ClusterInfo, ConfigValue, ControllerInfo, TopicInfo


class Admin(Facade[client.Admin]):
    """Administers topics; takes the arguments of `raftlog.Admin`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(client.Admin, *arguments, **options)

    def create_topic(self, topic: str, **settings: Any) -> TopicInfo:
        """Create a topic; see `raftlog.Admin.create_topic`."""
        return self._run(self._client.create_topic, topic, **settings)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and its records."""
        self._run(self._client.delete_topic, topic)

    def alter_topic(self, topic: str, **changes: Any) -> TopicInfo:
        """Change a topic's settings, or add partitions; see `raftlog.Admin.alter_topic`."""
        return self._run(self._client.alter_topic, topic, **changes)

    def list_topics(self, *, local: bool = False) -> list[TopicInfo]:
        """Return every topic, sorted by name."""
        return self._run(self._client.list_topics, local=local)

    def describe_topic(self, topic: str, *, local: bool = False) -> TopicInfo:
        """Return one topic."""
        return self._run(self._client.describe_topic, topic, local=local)

    def list_offsets(self, topic: str, at: Start = "latest", **which: Any) -> list[OffsetResponse]:
        """Return an offset of each of a topic's partitions; see `raftlog.Admin.list_offsets`."""
        return self._run(self._client.list_offsets, topic, at, **which)

    def delete_records(self, topic: str, partition: int, *, before: Offset | None = None) -> Offset:
        """Delete a partition's records below an offset, or (None) all; see `raftlog.Admin.delete_records`."""
        return self._run(self._client.delete_records, topic, partition, before=before)

    def reassignments(self, *, local: bool = False) -> list[Reassignment]:
        """Return the reassignments that are under way."""
        return self._run(self._client.reassignments, local=local)

    def reassign_partitions(self, target: Mapping[tuple[str, int], Sequence[int] | None]) -> list[Reassignment]:
        """Move replicas; see `raftlog.Admin.reassign_partitions`."""
        return self._run(self._client.reassign_partitions, target)

    def elect_leaders(
        self, partitions: Sequence[tuple[str, int]] | None = None, *, unclean: bool = False
    ) -> list[ElectedLeader]:
        """Elect leaders; see `raftlog.Admin.elect_leaders`."""
        return self._run(self._client.elect_leaders, partitions, unclean=unclean)

    def list_groups(self) -> list[GroupListing]:
        """Return every consumer group."""
        return self._run(self._client.list_groups)

    def describe_group(self, group_id: str) -> GroupDescription:
        """Return a group's members, and what they read."""
        return self._run(self._client.describe_group, group_id)

    def group_offsets(self, group_id: str) -> dict[TopicPartition, Offset]:
        """Return every offset that a group has committed."""
        return self._run(self._client.group_offsets, group_id)

    def group_lag(self, group_id: str) -> dict[TopicPartition, int]:
        """Return how many offsets a group has still to read of each partition."""
        return self._run(self._client.group_lag, group_id)

    def alter_group_offsets(self, group_id: str, offsets: Mapping[tuple[str, int], Offset]) -> None:
        """Let a group without members go on elsewhere; see `raftlog.Admin.alter_group_offsets`."""
        self._run(self._client.alter_group_offsets, group_id, offsets)

    def delete_group_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Forget how far a group has read some partitions; see `raftlog.Admin.delete_group_offsets`."""
        self._run(self._client.delete_group_offsets, group_id, partitions)

    def find_coordinator(self, kind: CoordinatorKind, key: str) -> CoordinatorInfo:
        """Return which broker coordinates a group or a transactional id."""
        return self._run(self._client.find_coordinator, kind, key)

    def reset_group_offsets(self, group_id: str, **where: Any) -> dict[TopicPartition, Offset]:
        """Let a group without members read on elsewhere; see `raftlog.Admin.reset_group_offsets`."""
        return self._run(self._client.reset_group_offsets, group_id, **where)

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, and its offsets."""
        self._run(self._client.delete_group, group_id)

    def describe_cluster(self, *, local: bool = False) -> ClusterInfo:
        """Return the cluster's id, active controller and brokers."""
        return self._run(self._client.describe_cluster, local=local)

    def controller(self, *, local: bool = False) -> ControllerInfo:
        """Return who the active controller is."""
        return self._run(self._client.controller, local=local)

    def describe_quorum(self) -> QuorumResponse:
        """Return how far each voter of the metadata quorum is."""
        return self._run(self._client.describe_quorum)

    def brokers(self, *, local: bool = False) -> list[BrokerInfo]:
        """Return every registered broker."""
        return self._run(self._client.brokers, local=local)

    def unregister_broker(self, broker_id: BrokerId) -> None:
        """Forget a broker that will not come back; see `raftlog.Admin.unregister_broker`."""
        self._run(self._client.unregister_broker, broker_id)

    def log_dirs(self, broker_ids: Sequence[BrokerId] | None = None) -> list[LogDirsResponse]:
        """Return brokers' folders: disk space, and sizes of replicas; see `raftlog.Admin.log_dirs`."""
        return self._run(self._client.log_dirs, broker_ids)

    def scrub(self, broker_ids: Sequence[BrokerId] | None = None, topics: Sequence[str] = ()) -> list[ScrubResponse]:
        """Have brokers read and check logs now; see `raftlog.Admin.scrub`."""
        return self._run(self._client.scrub, broker_ids, topics)

    def scrub_progress(self, broker_ids: Sequence[BrokerId] | None = None) -> list[ScrubResponse]:
        """Return how far brokers' scrubbers are; see `raftlog.Admin.scrub_progress`."""
        return self._run(self._client.scrub_progress, broker_ids)

    def broker_configs(self, broker_id: BrokerId | None = None, *, local: bool = False) -> dict[str, ConfigValue]:
        """Return the dynamic settings of one broker, or (None) those of all."""
        return self._run(self._client.broker_configs, broker_id, local=local)

    def alter_broker_configs(
        self, configs: Mapping[str, ConfigValue | None], broker_id: BrokerId | None = None
    ) -> dict[str, ConfigValue]:
        """Change dynamic settings of one broker, or (None) of all; see `raftlog.Admin.alter_broker_configs`."""
        return self._run(self._client.alter_broker_configs, configs, broker_id)

    def users(self, *, local: bool = False) -> list[UserInfo]:
        """Return every user, sorted by name."""
        return self._run(self._client.users, local=local)

    def put_user(self, user: str, password: str) -> None:
        """Create a user, or give one another password."""
        self._run(self._client.put_user, user, password)

    def delete_user(self, user: str) -> None:
        """Forget a user."""
        self._run(self._client.delete_user, user)

    def acls(self, *, local: bool = False, **wanted: str) -> list[Acl]:
        """Return the access rules whose fields have the values wanted."""
        return self._run(self._client.acls, local=local, **wanted)

    def create_acls(self, acls: Sequence[Acl]) -> None:
        """Put access rules in force."""
        self._run(self._client.create_acls, acls)

    def delete_acls(self, **wanted: str) -> list[Acl]:
        """End the access rules whose fields have the values wanted; return them."""
        return self._run(self._client.delete_acls, **wanted)

    def quotas(self, *, local: bool = False) -> list[Quota]:
        """Return every quota."""
        return self._run(self._client.quotas, local=local)

    def alter_quota(self, limits: Mapping[str, float | None], *, user: str = "", client_id: str = "") -> None:
        """Change some limits of a user, a client id or both; see `raftlog.Admin.alter_quota`."""
        self._run(self._client.alter_quota, limits, user=user, client_id=client_id)
