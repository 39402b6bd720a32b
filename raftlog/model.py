"""The vocabulary that every layer shares: identifiers, addresses, and what a partition is.

Nothing here does IO or knows a protocol. Names are the field's (see the glossary in CONTRIBUTING.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

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
MAX_SEQUENCE = 2**31 - 1
"""The base sequence after this one is 0 (Kafka's wrap)."""

Acks: TypeAlias = Literal[-1, 0, 1]
ACKS_ALL: Acks = -1
Flush: TypeAlias = Literal["batch", "os"]
"""`batch`: fsync (group commit) before a replica counts a record as held; `os`: the page cache decides."""


class Address(NamedTuple):
    """Where a listener can be reached."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `host:port` (an IPv6 host in brackets).

        Raises:
            ValueError: `text` has no port, or the port is not a number in 0..65535.
        """
        host, separator, port = text.rpartition(":")
        if not separator or not host or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"expected host:port, received {text!r}")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class TopicPartition(NamedTuple):
    """A partition as users name it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition as replicas name it: the topic's id fences a topic that was deleted and recreated."""

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
    """Grows by one with each change of anything here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistration:
    """One broker as the metadata quorum knows it."""

    broker_id: BrokerId
    incarnation_id: str
    """Drawn anew by each process start, so that a restart is told from a retry."""
    broker_epoch: BrokerEpoch
    public: Address
    internal: Address
    rack: str = ""
    version: str = ""
    fenced: bool = True
    in_controlled_shutdown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAssignment:
    """All that a broker must know to host one replica. Built from the metadata image."""

    topic: str
    topic_id: TopicId
    partition: int
    state: PartitionState
    configs: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """The topic's own settings, already validated; the rest are defaults."""

    @property
    def key(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.partition)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)
