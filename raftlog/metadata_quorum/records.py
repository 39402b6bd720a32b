"""The records of the metadata log, in versioned JSON.

A reader skips unknown kinds and fields. Records that it must not skip need a higher feature level, which older readers
refuse. One command is one entry of the Raft log. One decision takes effect as a whole or not at all, even when it
needs several commands (KIP-868): all but the last have `more` set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, get_args

from orjson import Fragment

from raftlog.errors import RaftlogError
from raftlog.model import (
    Acl,
    Address,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    PartitionState,
    ProducerId,
    TopicId,
    UserCredential,
)
from raftlog.schema import from_plain
from raftlog.wire.codec import decode_plain, encode_json

FORMAT_VERSION = 1
FEATURE_LEVEL = 6
"""The highest feature level that this version supports; new clusters get it."""
KEYED_PRODUCER_IDS = 2
"""From this level on producer ids are permuted by a key: a broker without it would return wrong ids."""
MORE_ACL_OPERATIONS = 3
"""From this level on rules may have the operations that `LATER_OPERATIONS` names: earlier versions cannot read them."""
SHA_512_CREDENTIALS = 4
"""From this level on users may have verifiers of SCRAM-SHA-512: earlier versions would drop them from their images."""
GROUPS_OF_BOTH_PROTOCOLS = 4
"""From this level on groups may have members of both protocols: earlier coordinators would lose their classic ones."""
LATER_OPERATIONS = ("alter_configs", "describe_configs", "cluster_action")
ConfigValue: TypeAlias = str | int | float | bool
ALL_BROKERS: BrokerId = -1
"""All brokers, in dynamic broker settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    """A controller becomes the active one; the entry's offset is its controller epoch."""

    controller_id: ControllerId


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentifyCluster:
    """The cluster's id, written once: a controller of another cluster refuses this log."""

    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFeatureLevel:
    """Later records may use the features of this level; readers that do not support it must stop."""

    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker process joins, fenced. With a broker epoch: the registered process changes its registration."""

    broker_id: BrokerId
    incarnation_id: str
    public: Address
    internal: Address
    rack: str = ""
    version: str = ""
    storage_id: str = ""
    min_feature_level: int = 1
    max_feature_level: int = 1
    broker_epoch: BrokerEpoch = -1
    """-1: the entry's offset is the new broker epoch."""
    replaced: tuple[str, ...] = ()
    """See `BrokerRegistration`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """A broker that will not restart is removed."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBroker:
    """A broker has lost its session."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBroker:
    """A broker has caught up with the metadata log, and may lead and follow."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginControlledShutdown:
    """A broker is about to stop: it is not elected leader any more."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """A topic is created; its partitions follow in the same decision."""

    topic: str
    topic_id: TopicId
    configs: Mapping[str, ConfigValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePartition:
    """A partition's new state. The first such record creates the partition."""

    topic_id: TopicId
    partition: int
    state: PartitionState
    """In plain data its fields are the record's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTopicConfigs:
    """Some of a topic's own settings change; None removes one."""

    topic_id: TopicId
    configs: Mapping[str, ConfigValue | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeBrokerConfigs:
    """Some dynamic settings of one broker (or of `ALL_BROKERS`) change; None removes one."""

    broker_id: BrokerId
    configs: Mapping[str, ConfigValue | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PutUser:
    """A user is created, or gets this credential."""

    credential: UserCredential


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteUser:
    """A user is deleted."""

    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PutAcl:
    """An ACL is added."""

    acl: Acl


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAcl:
    """An ACL is deleted."""

    acl: Acl


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuota:
    """Some limits of one entity change; None removes one."""

    user: str = ""
    client_id: str = ""
    limits: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """A topic is deleted, with its partitions."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    """Producer ids with numbers below `next_producer_id` are allocated."""

    next_producer_id: ProducerId
    key: str = ""
    """Hex digits: permutes the ids allocated from now on. Drawn once for the cluster."""


Record: TypeAlias = (
    BeginEpoch
    | IdentifyCluster
    | SetFeatureLevel
    | RegisterBroker
    | UnregisterBroker
    | FenceBroker
    | UnfenceBroker
    | BeginControlledShutdown
    | CreateTopic
    | ChangePartition
    | ChangeTopicConfigs
    | DeleteTopic
    | ChangeBrokerConfigs
    | PutUser
    | DeleteUser
    | PutAcl
    | DeleteAcl
    | ChangeQuota
    | AllocateProducerIds
)
_KINDS: dict[str, type[Record]] = {kind.__name__: kind for kind in get_args(Record)}


class UnreadableRecordError(RaftlogError):
    """The bytes or plain data are not a command of this format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One entry of the log. Replay applies it only in its own controller epoch, and only once."""

    controller_epoch: ControllerEpoch
    sequence: int
    """Grows within a controller epoch; a repeated command is ignored."""
    records: tuple[Record, ...]
    more: bool = False
    """The decision continues in the next command; its records take effect together with the last one."""


def record_to_plain(record: Record) -> dict[str, Any]:
    """Return a record as plain data for `encode_json`, with its kind."""
    kind = type(record)
    if isinstance(record, ChangePartition):
        fields = {name: getattr(record.state, name) for name in PartitionState.__slots__}
        return {"kind": kind.__name__, "topic_id": record.topic_id, "partition": record.partition, **fields}
    return {"kind": kind.__name__, **{name: getattr(record, name) for name in kind.__slots__}}


def record_from_plain(data: Mapping[str, Any]) -> Record | None:
    """Rebuild a record; None for an unknown kind.

    Raises:
        UnreadableRecordError: the fields do not match the kind.
    """
    kind = _KINDS.get(str(data.get("kind")))
    if kind is None:
        return None
    if kind is ChangePartition:
        return _partition_from_plain(data)
    fields = {name: value for name, value in data.items() if name != "kind"}
    return from_plain(kind, fields, error=UnreadableRecordError, ignore_unknown=True)


def _partition_from_plain(data: Mapping[str, Any]) -> ChangePartition:
    topic_id, partition = data.get("topic_id"), data.get("partition")
    if type(topic_id) is not str or type(partition) is not int:
        raise UnreadableRecordError(
            f"expected a topic_id and a number as partition, received {topic_id!r:.100} and {partition!r:.100}"
        )
    fields = {name: value for name, value in data.items() if name not in _PARTITION_KEY}
    state = _usual_state(fields) or from_plain(PartitionState, fields, error=UnreadableRecordError, ignore_unknown=True)
    return ChangePartition(topic_id=topic_id, partition=partition, state=state)


def _usual_state(fields: Mapping[str, Any]) -> PartitionState | None:
    """Read a partition's state without the generic reader, which is slower; None if any field is unusual."""
    if fields.keys() != _STATE_FIELDS:
        return None
    values = dict(fields)
    for name in _STATE_NUMBERS:
        if type(values[name]) is not int:
            return None
    for name in _STATE_LISTS:
        items = values[name]
        if type(items) is not list or not _INTEGERS.issuperset(map(type, items)):
            return None
        values[name] = tuple(items)
    return PartitionState(**values)


_PARTITION_KEY = frozenset(("kind", "topic_id", "partition"))
_STATE_FIELDS = frozenset(PartitionState.__slots__)
_STATE_NUMBERS = ("leader", "leader_epoch", "partition_epoch")
_STATE_LISTS = ("replicas", "isr", "elr", "adding", "removing")
_INTEGERS = frozenset((int,))


def encode_command(command: Command) -> bytes:
    """Return the command as the bytes of one Raft entry."""
    return _encode_command(command, [record_to_plain(record) for record in command.records])


def _encode_command(command: Command, records: Sequence[object]) -> bytes:
    document: dict[str, Any] = {
        "version": FORMAT_VERSION,
        "controller_epoch": command.controller_epoch,
        "sequence": command.sequence,
        "records": records,
    }
    if command.more:
        document["more"] = True
    return encode_json(document)


def encode_decision(
    records: Sequence[Record], *, controller_epoch: ControllerEpoch, sequence: int, max_bytes: int
) -> list[bytes]:
    """Return a decision as commands of at most `max_bytes` each (a single record may exceed it).

    Args:
        sequence: the sequence of the first command; the others count up from it.
    """
    commands: list[bytes] = []
    part, size = list[Fragment](), 0

    def end_part(*, more: bool) -> None:
        command = Command(controller_epoch=controller_epoch, sequence=sequence + len(commands), records=(), more=more)
        commands.append(_encode_command(command, part))
        part.clear()

    for record in records:
        encoded = encode_json(record_to_plain(record))
        if part and size + len(encoded) > max_bytes:
            end_part(more=True)
            size = 0
        part.append(Fragment(encoded))
        size += len(encoded) + 1
    end_part(more=False)
    return commands


def decode_command(payload: bytes) -> Command:
    """Rebuild a command.

    Raises:
        UnreadableRecordError: the bytes are not a command.
    """
    document = decode_plain(payload, error=UnreadableRecordError)
    if not isinstance(document, Mapping) or not isinstance(document.get("records"), Sequence):
        raise UnreadableRecordError(f"expected a metadata command, received {payload[:80]!r}")
    records = [record_from_plain(record) for record in document["records"] if isinstance(record, Mapping)]
    return Command(
        controller_epoch=_integer(document, "controller_epoch"),
        sequence=_integer(document, "sequence"),
        records=tuple(record for record in records if record is not None),
        more=document.get("more") is True,
    )


def _integer(document: Mapping[str, Any], name: str) -> int:
    value = document.get(name, -1)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnreadableRecordError(f"{name}: expected an integer, received {value!r:.80}")
    return value
