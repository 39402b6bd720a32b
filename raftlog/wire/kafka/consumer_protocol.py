"""What consumers of classic groups say to each other: a version of 2 bytes, then a subscription or an assignment.

A member may be newer than this table. Later versions add fields at the end, so bytes of a later version are read as
the last one that is known.

Source: KIP-429, KIP-792, KIP-881; Kafka's `ConsumerProtocol`.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.messages.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from raftlog.wire.kafka.reader import Buffer, Reader

T = TypeVar("T")
_VERSION = struct.Struct(">h")


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Return what a member is subscribed to: `metadata` of JoinGroup, protocol type "consumer".

    Raises:
        KafkaProtocolError: malformed.
    """
    return _decode(SUBSCRIPTION, data)


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """Return a member's partitions: `assignment` of SyncGroup, protocol type "consumer".

    Raises:
        KafkaProtocolError: malformed.
    """
    return _decode(ASSIGNMENT, data)


def encode_subscription(version: int, message: ConsumerProtocolSubscription) -> bytes:
    """Return the bytes of a subscription, its version first.

    Raises:
        KafkaProtocolError: it cannot be encoded in this version.
    """
    return _VERSION.pack(version) + b"".join(SUBSCRIPTION.encode(version, message))


def encode_assignment(version: int, message: ConsumerProtocolAssignment) -> bytes:
    """Return the bytes of an assignment, its version first.

    Raises:
        KafkaProtocolError: it cannot be encoded in this version.
    """
    return _VERSION.pack(version) + b"".join(ASSIGNMENT.encode(version, message))


def _decode(codec: Codec[T], data: Buffer) -> T:
    reader = Reader(codec.name, data)
    (version,) = reader.take(_VERSION, f"{codec.name}.version")
    if version < codec.first:
        raise KafkaProtocolError(f"{codec.name}: expected a version from {codec.first} on, received {version}")
    return codec.decode(min(version, codec.last), data, reader.at)
