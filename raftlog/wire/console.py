"""Answers that only the console requests."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.model import BrokerId, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSession:
    """Answer of `GET paths.CONSOLE_SESSION`: the sender, and what it may do."""

    principal: str
    """The sender's name, as in `User:alice`."""
    authorizer: str
    """`security.authorizer` of the broker."""
    broker_id: BrokerId
    """The broker that answers."""
    cluster: tuple[str, ...]
    """Operations on the cluster that the sender may do."""
    topic: tuple[str, ...]
    """Operations on the topic in the query; on some topic, if there is none."""
    group: tuple[str, ...]
    """Operations on the group in the query; on some group, if there is none."""
    transactional_id: tuple[str, ...]
    """Operations on some transactional id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleReplica:
    """The log of one replica."""

    broker: BrokerId
    """The broker that stores it."""
    partition: int
    """The partition's number."""
    size_bytes: int
    """The size of its segments."""
    log_start_offset: Offset
    """The first offset of its log."""
    log_end_offset: Offset
    """The offset after the last one of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleTopic:
    """Answer of `GET paths.CONSOLE_TOPIC`: the logs of a topic's replicas on all brokers."""

    topic: str
    """The topic's name."""
    replicas: tuple[ConsoleReplica, ...]
    """The logs that the brokers describe."""
    silent: tuple[BrokerId, ...]
    """Brokers that do not answer."""
