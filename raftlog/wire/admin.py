"""Administration: what brokers pass on to the active controller (`/internal/v1/admin/...`), and what clients see of it.

Requests without partitions, or fields that are None, mean all, as it is, or remove, as their documentation says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from raftlog.model import Acl, AclOperation, AclResource, BrokerId, Offset, Quota, UserCredential
from raftlog.wire.metadata import ConfigValue


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminResponse:
    """Answer of a controller: done (or found) at this offset of the metadata log."""

    metadata_offset: Offset
    result: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Ask for the offset that a linearizable read must have seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicBody:
    """JSON sent to `PATCH paths.TOPIC`. A setting of None goes back to its default; partitions can only be added."""

    configs: Mapping[str, ConfigValue | None] = field(default_factory=dict)
    partitions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicRequest(AlterTopicBody):
    """The same, for one topic."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignPartition:
    """Where one partition's replicas shall be, preferred leader first; None cancels a reassignment."""

    topic: str
    partition: int
    replicas: tuple[BrokerId, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentRequest:
    """JSON sent to `POST paths.REASSIGNMENTS`."""

    partitions: tuple[ReassignPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """A reassignment under way."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number."""
    replicas: tuple[BrokerId, ...]
    """The brokers that have a replica now, those being added among them."""
    adding: tuple[BrokerId, ...]
    """The brokers that get a replica."""
    removing: tuple[BrokerId, ...]
    """The brokers that lose theirs once the reassignment ends."""
    isr: tuple[BrokerId, ...]
    """The brokers whose replicas are in sync."""
    records_left: int | None = None
    """How many records the slowest added replica is behind the leader; None when the leader did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentsResponse:
    """Answer of `GET paths.REASSIGNMENTS`."""

    partitions: tuple[Reassignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionPartition:
    """A partition by name."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersRequest:
    """JSON sent to `POST paths.LEADER_ELECTIONS`. None: every partition; unclean elections must name theirs."""

    election: Literal["preferred", "unclean"] = "preferred"
    partitions: tuple[ElectionPartition, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedLeader:
    """What an election came to: the new leader, or why there is none."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number."""
    leader: BrokerId = -1
    """The broker that leads afterwards; -1: none."""
    error: str = ""
    """Why no leader was elected; empty: one was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeadersResponse:
    """Partitions whose leader changed, and those named that could not."""

    partitions: tuple[ElectedLeader, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigsBody:
    """JSON sent to `PATCH paths.BROKER_CONFIGS` (broker `default`: all). A setting of None is removed."""

    configs: Mapping[str, ConfigValue | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigsRequest(BrokerConfigsBody):
    """The same, for one broker, or -1 for all."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigsResponse:
    """Answer of `GET paths.BROKER_CONFIGS`: its own dynamic settings, not those it starts with."""

    configs: Mapping[str, ConfigValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplica:
    """A replica's log on one disk; `size_bytes` counts its segments."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number."""
    leader: bool
    """Whether this replica leads."""
    size_bytes: int
    """The size of the replica's segments."""
    log_start_offset: Offset
    """The first offset of the replica's log."""
    log_end_offset: Offset
    """The offset after the last one of the replica's log."""
    damage: str = ""
    """What was found damaged and is not repaired yet."""
    lost_batches: tuple[Offset, ...] = ()
    """First offsets of the damaged batches that no replica has whole, as far as is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableReplica:
    """A replica whose log cannot be used, and why."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number."""
    error: str
    """Why the replica cannot be used."""
    lost_batches: tuple[Offset, ...] = ()
    """See `StoredReplica`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDir:
    """A folder of a broker; bytes of its whole disk, and those that are free, -1 when the disk does not say."""

    path: str
    """The folder's path on the broker."""
    total_bytes: int
    """The size of the whole disk; -1: unknown."""
    usable_bytes: int
    """The free bytes of the disk; -1: unknown."""
    replicas: tuple[StoredReplica, ...]
    """The replicas in this folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirsResponse:
    """Answer of `GET paths.LOG_DIRS`: one broker's folders, its replicas in each, and those that it cannot use."""

    broker_id: BrokerId
    """The broker's id."""
    log_dirs: tuple[LogDir, ...]
    """The broker's data folders."""
    offline: tuple[UnusableReplica, ...] = ()
    """The replicas that the broker cannot use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubBody:
    """JSON sent to `POST paths.SCRUB`: check the logs of some topics now; none named: of all."""

    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrubResponse:
    """Answer of `GET` and `POST paths.SCRUB`: how far one broker's scrubber is.

    Args:
        replicas_left, bytes_left: of what was asked for and is not checked yet.
        checked_bytes, damage_found: since the broker started; a batch counts for 4 KiB at least.
        longest_unchecked_ms: since the check of the replica whose check is the oldest.
    """

    broker_id: BrokerId
    """The broker's id."""
    replicas_left: int
    bytes_left: int
    checked_bytes: int
    damage_found: int
    longest_unchecked_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest:
    """Forget a broker that will not come back."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesBody:
    """JSON sent to `PATCH paths.FEATURES`."""

    feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesResponse:
    """Answer of `GET paths.FEATURES`: the level in force, and the highest that this node knows."""

    feature_level: int
    max_feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordBody:
    """JSON sent to `PUT paths.USER`."""

    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutUserRequest:
    """Create a user, or give one another password."""

    credential: UserCredential


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteUserRequest:
    """Forget a user."""

    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo:
    """A user, without secrets."""

    user: str
    """The user's name."""
    mechanism: str
    """The mechanism that verifies the password, such as SCRAM-SHA-256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersResponse:
    """Answer of `GET paths.USERS`, sorted by name."""

    users: tuple[UserInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsRequest:
    """JSON sent to `POST paths.ACLS`; also the answer of `GET paths.ACLS`."""

    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which rules: None fits every value. JSON sent to `DELETE paths.ACLS`."""

    principal: str | None = None
    operation: AclOperation | None = None
    resource_type: AclResource | None = None
    resource_name: str | None = None
    pattern: Literal["literal", "prefixed"] | None = None
    permission: Literal["allow", "deny"] | None = None
    host: str | None = None

    def fits(self, acl: Acl) -> bool:
        """Tell whether a rule is among those meant."""
        return all(getattr(self, name) in (None, getattr(acl, name)) for name in self.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRequest:
    """JSON sent to `PATCH paths.QUOTAS`: some limits of one entity; a limit of None is removed."""

    user: str = ""
    client_id: str = ""
    limits: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotasResponse:
    """Answer of `GET paths.QUOTAS`."""

    quotas: tuple[Quota, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterStatus:
    """One voter, as the leader of the quorum sees it."""

    node_id: int
    """The controller's id."""
    address: str
    """The `host:port` at which other voters reach it."""
    role: Literal["leader", "follower", "unreachable", "catching up"]
    """What the leader knows of its state."""
    log_end_offset: Offset
    """The last offset that it is known to hold, plus one."""
    lag: int
    """Entries that the leader holds and it does not."""
    last_heard_ms: int
    """How long ago the leader heard from it; 0 for the leader itself, -1 for never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumResponse:
    """Answer of `GET paths.QUORUM`."""

    leader_id: int
    """The id of the voter that leads, the active controller."""
    term: int
    """The Raft term."""
    controller_epoch: int
    """The active controller's epoch."""
    log_end_offset: Offset
    """The end of the leader's log."""
    committed_offset: Offset
    """Every entry below this offset is committed."""
    voters: tuple[VoterStatus, ...]
    """The voters, the leader among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestResponse:
    """Answer of `GET paths.METADATA_DIGEST`: equal on all nodes that have applied the same entries."""

    node_id: int
    metadata_offset: Offset
    digest: str
