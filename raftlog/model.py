"""Types that every layer shares: identifiers, addresses, partition states. No IO, no protocol.

The names are those of the glossary in CONTRIBUTING.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

BrokerId: TypeAlias = int
ControllerId: TypeAlias = int
BrokerEpoch: TypeAlias = int
LeaderEpoch: TypeAlias = int
PartitionEpoch: TypeAlias = int
ControllerEpoch: TypeAlias = int
Offset: TypeAlias = int
ProducerId: TypeAlias = int
ProducerEpoch: TypeAlias = int
TopicId: TypeAlias = str
"""A topic's UUID as 32 lower-case hex digits. A recreated topic gets a new one."""

NO_LEADER: BrokerId = -1
NO_LEADER_EPOCH: LeaderEpoch = -1
NO_PRODUCER_ID: ProducerId = -1
NO_PRODUCER_EPOCH: ProducerEpoch = -1
NO_SEQUENCE = -1
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset((CONSUMER_OFFSETS, TRANSACTION_STATE))
"""The topics with coordinators' state; only coordinators write to them."""
MAX_SEQUENCE = 2**31 - 1
"""The base sequence after this one is 0 (Kafka's wrap)."""
MAX_PRODUCER_EPOCH = 2**15 - 1

Acks: TypeAlias = Literal[-1, 0, 1]
ACKS_ALL: Acks = -1
Isolation: TypeAlias = Literal["read_uncommitted", "read_committed"]
"""`read_committed`: records of open and of aborted transactions are not returned."""
Flush: TypeAlias = Literal["batch", "os"]
"""`batch`: a record counts as replicated only after fsync (group commit); `os`: the page cache is flushed by the OS."""


_HTTPS = "https://"
DEFAULT_PORT = 9400
"""The port of a broker's public listener, where a URL names none."""
_HOST = re.compile(r"[^\x00-\x20\x7f\[\]/\\?#@%:]+|\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[\w.-]+)?\]")
"""A host name or an IPv4 address, or an IPv6 address in brackets: what can stand in a URL as it is."""


class Address(NamedTuple):
    """A listener's address. Its text is `host:port`, or `https://host:port` if it is to be dialled with TLS."""

    host: str
    port: int
    tls: bool = False

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `host:port` (an IPv6 host in brackets), with or without `https://` before it.

        Raises:
            ValueError: the host is not one, or the port is not a number in 0..65535.
        """
        host, _, port = text.removeprefix(_HTTPS).rpartition(":")
        if _HOST.fullmatch(host) is None or re.fullmatch(r"[0-9]{1,5}", port) is None or int(port) > 65535:
            raise ValueError(f"expected host:port, received {text!r:.200}")
        return cls(host.removeprefix("[").removesuffix("]"), int(port), text.startswith(_HTTPS))

    @classmethod
    def of_url(cls, url: str) -> Address:
        """Read `http://host:port` or `https://host:port`; the scheme and the port (9400) may be missing.

        Raises:
            ValueError: another scheme, a user, a path, or no address.
        """
        expected = f"expected a URL such as http://127.0.0.1:{DEFAULT_PORT}"
        try:
            parts = urlsplit(url if "://" in url else f"http://{url}")
        except ValueError:
            raise ValueError(expected) from None
        if parts.scheme not in ("http", "https"):
            raise ValueError(f"{expected}, not {parts.scheme}://")
        if "@" in parts.netloc:
            raise ValueError(f"{expected}, without a user")
        if parts.path.strip("/") or parts.query or parts.fragment:
            raise ValueError(f"{expected}, with nothing after it")
        has_port = re.search(r":[0-9]+$", parts.netloc) is not None
        try:
            address = cls.parse(parts.netloc if has_port else f"{parts.netloc}:{DEFAULT_PORT}")
        except ValueError:
            raise ValueError(expected) from None
        return address._replace(tls=parts.scheme == "https")

    @property
    def authority(self) -> str:
        """Return `host:port`, as it stands in a URL, a `Host` field and dial maps."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the URL of this listener's root, without a slash at its end."""
        return f"{_HTTPS if self.tls else 'http://'}{self.authority}"

    def __str__(self) -> str:
        return f"{_HTTPS}{self.authority}" if self.tls else self.authority


class TopicPartition(NamedTuple):
    """A partition, by its topic's name."""

    topic: str
    """The topic's name."""
    partition: int
    """The partition's number."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


_to_partition = cast("Callable[[tuple[str, int]], TopicPartition]", partial(tuple.__new__, TopicPartition))


def topic_partitions(topic: str, numbers: Iterable[int]) -> Iterator[TopicPartition]:
    """Return partitions of a topic, in a third of the time that their constructor takes: groups have 10,000."""
    return map(_to_partition, zip(repeat(topic), numbers, strict=False))


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """Return the partitions' numbers by topic, all in order."""
    grouped: dict[str, list[int]] = {}
    for topic, number in partitions:
        grouped.setdefault(topic, []).append(number)
    return {topic: tuple(sorted(numbers)) for topic, numbers in sorted(grouped.items())}


class TopicIdPartition(NamedTuple):
    """A partition, by its topic's id, which fences a topic that was deleted and recreated."""

    topic_id: TopicId
    partition: int

    def __str__(self) -> str:
        return f"{self.topic_id}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """What the metadata quorum has decided about one partition."""

    replicas: tuple[BrokerId, ...]
    """Assigned replicas in order of preference: the first is the preferred leader."""
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    """`NO_LEADER` while no eligible replica is alive."""
    leader_epoch: LeaderEpoch
    """Grows by one with each change of leader."""
    partition_epoch: PartitionEpoch
    """Grows by one with each change of this state."""
    elr: tuple[BrokerId, ...] = ()
    """Eligible leader replicas (KIP-966): replicas that left an ISR below min ISR, and have every record below the high
    watermark, which has not moved since."""
    adding: tuple[BrokerId, ...] = ()
    """Replicas that a reassignment is adding; they are among `replicas`."""
    removing: tuple[BrokerId, ...] = ()
    """Replicas that the reassignment removes when all others are in sync."""

    @property
    def most_in_sync(self) -> int:
        """The largest effective min ISR: replicas that are being added do not count, as they have to be filled first.

        Otherwise a topic with one replica would take no acks=all record until the next ones have the whole log.
        """
        return max(1, len(self.replicas) - len(self.adding))


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """A producer's aborted transaction: its transactional batches from `first_offset` to the marker's `last_offset`."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """One broker's registration in the metadata log."""

    broker_id: BrokerId
    incarnation_id: str
    """A new UUID for each process start, which distinguishes a restart from a retry."""
    broker_epoch: BrokerEpoch
    public: Address
    internal: Address
    rack: str = ""
    version: str = ""
    storage_id: str = ""
    """Identifies the broker's data folder: a broker with another one has lost its records."""
    min_feature_level: int = 1
    max_feature_level: int = 1
    replaced: tuple[str, ...] = ()
    """Incarnations of earlier processes of this broker, the latest ones: they never register again."""
    fenced: bool = True
    in_controlled_shutdown: bool = False


MIN_SCRAM_ITERATIONS = 100_000
"""The fewest PBKDF2 rounds of a new password. Credentials of earlier versions have 15,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramVerifier:
    """What verifies a password by one mechanism of SCRAM (RFC 5802); the password itself is not stored."""

    iterations: int
    salt: str
    """Hex digits, like both keys. Readers that have not proved to be nodes get empty texts."""
    stored_key: str
    server_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCredential:
    """A user's verifiers: the fields are that of SCRAM-SHA-256 (RFC 7677), as earlier versions wrote it."""

    user: str
    iterations: int
    """0: the user has no verifier of SCRAM-SHA-256."""
    salt: str
    """Hex digits, like both keys."""
    stored_key: str
    server_key: str
    mechanism: Literal["SCRAM-SHA-256"] = "SCRAM-SHA-256"
    sha512: ScramVerifier | None = None
    """That of SCRAM-SHA-512, from feature level 4 on; None: the user has none."""

    @classmethod
    def of(cls, user: str, verifiers: Mapping[str, ScramVerifier]) -> UserCredential:
        """Return the credential of a user with these verifiers."""
        none = ScramVerifier(iterations=0, salt="", stored_key="", server_key="")
        first = verifiers.get("SCRAM-SHA-256", none)
        return cls(
            user=user,
            iterations=first.iterations,
            salt=first.salt,
            stored_key=first.stored_key,
            server_key=first.server_key,
            sha512=verifiers.get("SCRAM-SHA-512"),
        )

    @property
    def verifiers(self) -> dict[str, ScramVerifier]:
        """The verifiers that the user has, by mechanism: that of SCRAM-SHA-256 first."""
        found: dict[str, ScramVerifier] = {}
        if self.iterations:
            found["SCRAM-SHA-256"] = ScramVerifier(
                iterations=self.iterations, salt=self.salt, stored_key=self.stored_key, server_key=self.server_key
            )
        if self.sha512 is not None:
            found["SCRAM-SHA-512"] = self.sha512
        return found


AclOperation: TypeAlias = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "alter_configs",
    "describe_configs",
    "idempotent_write",
    "cluster_action",
]
AclResource: TypeAlias = Literal["topic", "group", "cluster", "transactional_id", "user"]
CLUSTER_RESOURCE = "cluster"
"""The name of the one resource of the kind `cluster`."""
EVERYONE = "User:*"
"""The principal of rules for every sender."""


def full_principal(text: str) -> str:
    """Return a rule's principal with its kind: `alice` means `User:alice`, `*` means `User:*`."""
    return text if text.startswith(("User:", "Group:")) else f"User:{text}"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Acl:
    """One rule: may this principal do this to these resources? Deny wins over allow (Kafka's rules)."""

    principal: str
    """`User:` and a user's name, `Group:` and a group's name, a user's name alone, or `*`."""
    operation: AclOperation
    """The operation that the rule allows or denies."""
    resource_type: AclResource
    """The kind of resource."""
    resource_name: str
    """A name, a prefix, or `*`."""
    pattern: Literal["literal", "prefixed"] = "literal"
    """Whether `resource_name` is a whole name or a prefix."""
    permission: Literal["allow", "deny"] = "allow"
    """Whether the rule allows or denies."""
    host: str = "*"
    """The client's host, or `*`."""


acl_order = attrgetter(*Acl.__slots__)
"""The key by which rules are sorted: rules themselves compare ten times as slowly."""
QUOTA_LIMITS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "request_rate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """Limits of a user, of a client id, or of both together."""

    user: str = ""
    """The user's name; `*` means users without a quota of their own."""
    client_id: str = ""
    """The client id; `*` means client ids without a quota of their own."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """`producer_byte_rate` and `consumer_byte_rate` in bytes per second, `request_rate` in requests per second,
    `request_percentage` in percent of the event loop's time. Each broker applies them by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAssignment:
    """The information that a broker needs to host one replica, built from the metadata image."""

    topic: str
    topic_id: TopicId
    partition: int
    state: PartitionState
    configs: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """The topic's own settings, already validated; the rest are defaults."""
    key: TopicIdPartition = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", TopicIdPartition(self.topic_id, self.partition))

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)
