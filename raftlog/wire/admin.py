"""Administration requests and responses: clients send them to brokers, which forward them to the active controller.

The documentation of a request says what a missing partition list and a None field mean: all, unchanged, or remove.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from raftlog.model import Acl, AclOperation, AclResource, BrokerId, Offset, Quota, UserCredential, full_principal
from raftlog.wire.metadata import ConfigValue


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminResponse:
    """Response of a controller: the metadata offset at which the operation was applied, or the state read."""

    metadata_offset: Offset
    result: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Request the metadata offset that a linearizable read must have reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicBody:
    """JSON sent to `PATCH paths.TOPIC`. A setting of None is reset to its default; partitions can only be added."""

    configs: Mapping[str, ConfigValue | None] = field(default_factory=dict)
    partitions: int | None = None
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None
    """The replicas of each added partition, preferred leader first; None: brokers are chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicRequest(AlterTopicBody):
    """`AlterTopicBody` with the topic."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignPartition:
    """The new replicas of one partition, preferred leader first; None cancels its reassignment."""

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
    """JSON sent to `POST paths.LEADER_ELECTIONS`. None: every partition; an unclean election requires a list."""

    election: Literal["preferred", "unclean"] = "preferred"
    partitions: tuple[ElectionPartition, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedLeader:
    """The result of one election: the new leader, or the error."""

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
    """Partitions whose leader changed, and requested partitions whose leader could not change."""

    partitions: tuple[ElectedLeader, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigsBody:
    """JSON sent to `PATCH paths.BROKER_CONFIGS` (broker `default`: all). A setting of None is removed."""

    configs: Mapping[str, ConfigValue | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigsRequest(BrokerConfigsBody):
    """`BrokerConfigsBody` with the broker id, -1 for all."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigsResponse:
    """Answer of `GET paths.BROKER_CONFIGS`: the dynamic settings, not those of `node.toml`."""

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
    """The damage that is not repaired yet; empty: none."""
    lost_batches: tuple[Offset, ...] = ()
    """First offsets of the damaged batches that no replica has intact, as far as is known."""


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
    """A folder of a broker with the size and the free bytes of its disk; -1: unknown."""

    path: str
    """The folder's path on the broker."""
    total_bytes: int
    """The size of the whole disk; -1: unknown."""
    usable_bytes: int
    """The free bytes of the disk; -1: unknown."""
    replicas: tuple[StoredReplica, ...]
    """The replicas in this folder that the request wants."""
    replica_count: int = -1
    """How many replicas of the wanted topics are in this folder, listed or not; -1: the broker does not say."""
    size_bytes: int = -1
    """The size of their segments; -1: the broker does not say."""
    damaged_count: int = -1
    """How many of them have damage or lost batches; -1: the broker does not say."""


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
    """Answer of `GET` and `POST paths.SCRUB`: how far one broker's scrubber is."""

    broker_id: BrokerId
    """The broker's id."""
    replicas_left: int
    """How many replicas of a requested check are left."""
    bytes_left: int
    """How many bytes of a requested check are left."""
    checked_bytes: int
    """How many bytes were checked since the broker started; a batch counts for 4 KiB at least."""
    damage_found: int
    """How many damaged batches were found since the broker started."""
    longest_unchecked_ms: int
    """The age of the oldest check among all replicas."""
    checks_failed: int = 0
    """How many checks since the broker started ended because a log could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest:
    """Remove the registration of a broker that will not restart."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesBody:
    """JSON sent to `PATCH paths.FEATURES`."""

    feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeaturesResponse:
    """Answer of `GET paths.FEATURES`: the level in force, and the highest that this node supports."""

    feature_level: int
    max_feature_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordBody:
    """JSON sent to `PUT paths.USER`."""

    password: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutUserRequest:
    """Create a user, or change its password."""

    credential: UserCredential
    mechanism: str = ""
    """Replace the verifier of this mechanism only; empty: all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteUserRequest:
    """Delete a user, or one of its verifiers; the user ends with the last one."""

    user: str
    mechanism: str = ""
    """The mechanism of the verifier; empty: delete the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserInfo:
    """A user, without secrets."""

    user: str
    """The user's name."""
    mechanism: str
    """The first of `mechanisms`."""
    mechanisms: tuple[str, ...] = ()
    """What verifies the password: SCRAM-SHA-256, SCRAM-SHA-512, or both. A broker of an earlier version sends none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersResponse:
    """Answer of `GET paths.USERS`, sorted by name."""

    users: tuple[UserInfo, ...]
    authorizer: str = "off"
    """The broker's `security.authorizer`: credentials are required with `acl` only."""
    matching: int = 0
    """How many users fit, on all pages."""
    next: str = ""
    """The `after` of the next page; empty: this is the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsRequest:
    """JSON sent to `POST paths.ACLS`."""

    acls: tuple[Acl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclsResponse:
    """Answer of `paths.ACLS`."""

    acls: tuple[Acl, ...]
    authorizer: str = "off"
    """The broker's `security.authorizer`: the rules are enforced with `acl` only."""
    matching: int = 0
    """How many rules fit, listed or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """A filter of ACL rules; None matches every value. JSON sent to `DELETE paths.ACLS`."""

    principal: str | None = None
    operation: AclOperation | None = None
    resource_type: AclResource | None = None
    resource_name: str | None = None
    pattern: Literal["literal", "prefixed"] | None = None
    permission: Literal["allow", "deny"] | None = None
    host: str | None = None

    def fits(self, acl: Acl) -> bool:
        """Return whether the filter matches a rule."""
        if self.principal is not None and full_principal(self.principal) != full_principal(acl.principal):
            return False
        others = (name for name in self.__slots__ if name != "principal")
        return all(getattr(self, name) in (None, getattr(acl, name)) for name in others)


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
    enforced_for: str = "none"
    """The clients that the broker limits: `users`; or `anonymous`, if it does not identify users (authorizer `off`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterStatus:
    """One voter, as the leader of the quorum sees it."""

    node_id: int
    """The controller's id."""
    address: str
    """The `host:port` at which other voters reach it."""
    role: Literal["leader", "follower", "unreachable", "catching up"]
    """The voter's state as the leader sees it."""
    log_end_offset: Offset
    """The offset after the last entry that the voter is known to have."""
    lag: int
    """How many entries the voter is behind the leader."""
    last_heard_ms: int
    """Time since the leader last received a message from it, in ms; 0 for the leader itself, -1: never."""


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
