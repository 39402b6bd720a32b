"""The logs of one topic's replicas, gathered from the brokers that store them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from raftlog.broker.context import BrokerContext
from raftlog.broker.log_dirs import describe_log_dirs
from raftlog.broker.openapi.parameters import LOGS_OF
from raftlog.errors import RaftlogError
from raftlog.model import BrokerId, PartitionState
from raftlog.serving.workers import in_worker
from raftlog.transport.session import PeerAnswerError
from raftlog.wire import paths
from raftlog.wire.admin import LogDirsResponse
from raftlog.wire.codec import decode_json
from raftlog.wire.console import ConsoleReplica, ConsoleTopic

_ANSWER_MS = 3_000
MAX_BROKERS = 50


async def topic_replicas(context: BrokerContext, topic: str) -> ConsoleTopic:
    """Return the size and the offsets of each replica of a topic; a broker that does not answer is listed.

    Raises:
        NotFoundError: the topic does not exist.
    """
    partitions = context.topic(topic).partitions
    brokers = await in_worker(_brokers, partitions.values())
    found = await asyncio.gather(*(_log_dirs(context, broker, topic) for broker in brokers))
    silent = tuple(broker for broker, one in zip(brokers, found, strict=True) if one is None)
    # A topic may have 10,000 partitions, so that this takes 50 ms.
    stored = await in_worker(_stored, topic, [one for one in found if one is not None])
    return ConsoleTopic(topic=topic, replicas=stored, silent=silent)


def _brokers(states: Iterable[PartitionState]) -> list[BrokerId]:
    return sorted({broker for state in states for broker in state.replicas})[:MAX_BROKERS]


def _stored(topic: str, found: Iterable[LogDirsResponse]) -> tuple[ConsoleReplica, ...]:
    return tuple(
        ConsoleReplica(
            broker=one.broker_id,
            partition=replica.partition,
            size_bytes=replica.size_bytes,
            log_start_offset=replica.log_start_offset,
            log_end_offset=replica.log_end_offset,
        )
        for one in found
        for log_dir in one.log_dirs
        for replica in log_dir.replicas
        if replica.topic == topic  # A broker of an earlier version lists all.
    )


async def _log_dirs(context: BrokerContext, broker: BrokerId, topic: str) -> LogDirsResponse | None:
    if broker == context.config.node_id:
        return await describe_log_dirs(context, topics=(topic,))
    registered = context.image.brokers.get(broker)
    if registered is None:
        return None
    try:
        answer = await context.session.request(
            "GET",
            registered.public,
            paths.fill(paths.LOG_DIRS, broker=broker),
            timeout_ms=_ANSWER_MS,
            query={LOGS_OF.name: topic},
            fields=context.quotas.node_header(),
        )
        return await in_worker(decode_json, LogDirsResponse, answer.body, error=PeerAnswerError, ignore_unknown=True)
    except RaftlogError:
        return None
