"""The records of the metadata log. Versioned JSON: a kind that a reader does not know is skipped, a field too.

One command is one entry of the Raft log, and one atomic decision: its records take effect together or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

from raftlog.errors import RaftlogError
from raftlog.model import (
    Address,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ControllerId,
    LeaderEpoch,
    PartitionEpoch,
    ProducerId,
    TopicId,
)
from raftlog.schema import from_plain
from raftlog.wire.codec import decode_plain, encode_json

FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginEpoch:
    """A controller becomes the active one; the entry's offset is its controller epoch."""

    controller_id: ControllerId


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker process joins, fenced; the entry's offset is its broker epoch."""

    broker_id: BrokerId
    incarnation_id: str
    public: Address
    internal: Address
    rack: str = ""
    version: str = ""


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
    """A broker is about to stop: it gets no leadership any more."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """A topic exists; its partitions follow in the same command."""

    topic: str
    topic_id: TopicId
    configs: Mapping[str, str | int | float | bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePartition:
    """A partition is in this state from now on (its first such record creates it)."""

    topic_id: TopicId
    partition: int
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """A topic and its partitions are gone."""

    topic_id: TopicId


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    """Producer ids below `next_producer_id` have been given away."""

    next_producer_id: ProducerId


Record: TypeAlias = (
    BeginEpoch
    | RegisterBroker
    | FenceBroker
    | UnfenceBroker
    | BeginControlledShutdown
    | CreateTopic
    | ChangePartition
    | DeleteTopic
    | AllocateProducerIds
)
_KINDS: dict[str, type[Record]] = {
    kind.__name__: kind
    for kind in (
        BeginEpoch,
        RegisterBroker,
        FenceBroker,
        UnfenceBroker,
        BeginControlledShutdown,
        CreateTopic,
        ChangePartition,
        DeleteTopic,
        AllocateProducerIds,
    )
}


class UnreadableRecordError(RaftlogError):
    """The bytes or plain data are no command of this format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One decision. In replay it takes effect only in the controller epoch that it names, and only once."""

    controller_epoch: ControllerEpoch
    sequence: int
    """Grows within a controller epoch: the same command, applied twice, is one."""
    records: tuple[Record, ...]


def record_to_plain(record: Record) -> dict[str, Any]:
    """Return a record as plain data, with its kind."""
    return {"kind": type(record).__name__, **asdict(record)}


def record_from_plain(data: Mapping[str, Any]) -> Record | None:
    """Rebuild a record; None for a kind that this version does not know.

    Raises:
        UnreadableRecordError: a known kind with fields that do not fit.
    """
    kind = _KINDS.get(str(data.get("kind")))
    if kind is None:
        return None
    fields = {name: value for name, value in data.items() if name != "kind"}
    return from_plain(kind, fields, error=UnreadableRecordError, ignore_unknown=True)


def encode_command(command: Command) -> bytes:
    """Return the bytes that go through Raft."""
    return encode_json(
        {
            "version": FORMAT_VERSION,
            "controller_epoch": command.controller_epoch,
            "sequence": command.sequence,
            "records": [record_to_plain(record) for record in command.records],
        }
    )


def decode_command(payload: bytes) -> Command:
    """Rebuild a command.

    Raises:
        UnreadableRecordError: the bytes are none.
    """
    document = decode_plain(payload, error=UnreadableRecordError)
    if not isinstance(document, Mapping) or not isinstance(document.get("records"), Sequence):
        raise UnreadableRecordError(f"expected a metadata command, received {payload[:80]!r}")
    records = [record_from_plain(record) for record in document["records"] if isinstance(record, Mapping)]
    return Command(
        controller_epoch=_integer(document, "controller_epoch"),
        sequence=_integer(document, "sequence"),
        records=tuple(record for record in records if record is not None),
    )


def _integer(document: Mapping[str, Any], name: str) -> int:
    value = document.get(name, -1)
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnreadableRecordError(f"{name}: expected an integer, received {value!r:.80}")
    return value
