"""The logs of one topic's replicas, gathered from the brokers that store them."""

from __future__ import annotations

import asyncio

from raftlog.broker.context import BrokerContext
from raftlog.broker.log_dirs import describe_log_dirs
from raftlog.broker.openapi.parameters import LOGS_OF
from raftlog.errors import RaftlogError
from raftlog.wire import paths
from raftlog.wire.admin import LogDirsResponse
from raftlog.wire.console import ConsoleReplica, ConsoleTopic

_ANSWER_MS = 3_000
MAX_BROKERS = 50


async def topic_replicas(context: BrokerContext, topic: str) -> ConsoleTopic:
    """Return the size and the offsets of each replica of a topic; a broker that does not answer is listed.

    Raises:
        NotFoundError: the topic does not exist.
    """
    states = context.topic(topic).partitions.values()
    brokers = sorted({broker for state in states for broker in state.replicas})[:MAX_BROKERS]
    found = await asyncio.gather(*(_log_dirs(context, broker, topic) for broker in brokers))
    stored = [
        ConsoleReplica(
            broker=one.broker_id,
            partition=replica.partition,
            size_bytes=replica.size_bytes,
            log_start_offset=replica.log_start_offset,
            log_end_offset=replica.log_end_offset,
        )
        for one in found
        if one is not None
        for log_dir in one.log_dirs
        for replica in log_dir.replicas
        if replica.topic == topic  # A broker of an earlier version lists all.
    ]
    silent = tuple(broker for broker, one in zip(brokers, found, strict=True) if one is None)
    return ConsoleTopic(topic=topic, replicas=tuple(stored), silent=silent)


async def _log_dirs(context: BrokerContext, broker: int, topic: str) -> LogDirsResponse | None:
    if broker == context.config.node_id:
        return await describe_log_dirs(context, topics=(topic,))
    registered = context.image.brokers.get(broker)
    if registered is None:
        return None
    try:
        return await context.session.call(
            LogDirsResponse,
            "GET",
            registered.public,
            paths.fill(paths.LOG_DIRS, broker=broker),
            timeout_ms=_ANSWER_MS,
            query={LOGS_OF.name: topic},
            fields=context.quotas.node_header(),
        )
    except RaftlogError:
        return None
