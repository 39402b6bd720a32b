"""Internal topics, in which coordinators store their state: created on first use, closed to clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from raftlog.broker.controller_channel import ControllerChannel
from raftlog.broker.metadata_listener import MetadataListener
from raftlog.config import BrokerConfig
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError, RetriableError, StaleRouteError
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import CONSUMER_OFFSETS, INTERNAL_TOPICS, TRANSACTION_STATE
from raftlog.record.partitioner import partition_for_key
from raftlog.wire import paths
from raftlog.wire.coordinators import CoordinatorInfo, CoordinatorKind
from raftlog.wire.metadata import CreateTopicRequest
from raftlog.wire.transactions import set_of

TOPIC_OF: dict[CoordinatorKind, str] = {"group": CONSUMER_OFFSETS, "transaction": TRANSACTION_STATE}


def require_ordinary(topic: str) -> None:
    """Raise if a topic is internal.

    Raises:
        InvalidRequestError: INVALID_TOPIC_EXCEPTION.
    """
    if topic in INTERNAL_TOPICS:
        raise InvalidRequestError(
            f"{topic} is an internal topic: only coordinators create and write it",
            code=ErrorCode.INVALID_TOPIC_EXCEPTION,
        )


@dataclass(frozen=True, slots=True)
class _Settings:
    partitions: int
    replication_factor: int
    segment_bytes: int


class InternalTopics:
    """Creates internal topics and finds coordinators.

    Args:
        image: returns the newest metadata; raises if there is none yet.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        image: Callable[[], MetadataImage],
        listener: MetadataListener,
        channel: ControllerChannel,
    ) -> None:
        self._image = image
        self._listener = listener
        self._channel = channel
        self._creating = asyncio.Lock()
        self._settings = {
            CONSUMER_OFFSETS: _Settings(
                config.offsets_topic_num_partitions,
                config.offsets_topic_replication_factor,
                config.offsets_topic_segment_bytes,
            ),
            TRANSACTION_STATE: _Settings(
                config.transaction_state_log_num_partitions,
                config.transaction_state_log_replication_factor,
                config.transaction_state_log_segment_bytes,
            ),
        }

    async def coordinator(self, kind: CoordinatorKind, key: str, *, timeout_ms: int) -> CoordinatorInfo:
        """Return the coordinator of `key`; create the internal topic if it does not exist.

        Raises:
            StaleRouteError, RetriableError: COORDINATOR_NOT_AVAILABLE, no broker coordinates it now.
        """
        name = TOPIC_OF[kind]
        topic = self._image().topic(name) or await self._create(name, timeout_ms)
        shard_key = set_of(key) if kind == "transaction" else key
        partition = partition_for_key(shard_key.encode(), len(topic.partitions))
        state = topic.partitions[partition]
        broker = self._image().brokers.get(state.leader)
        if broker is None:
            raise StaleRouteError(
                f"{name}-{partition}, which coordinates {kind} {key!r}, has no leader now",
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                details={"isr": list(state.isr)},
            )
        return CoordinatorInfo(
            kind=kind,
            key=key,
            broker_id=state.leader,
            url=broker.public.url,
            topic=name,
            partition=partition,
            leader_epoch=state.leader_epoch,
        )

    async def _create(self, name: str, timeout_ms: int) -> TopicImage:
        settings = self._settings[name]
        async with self._creating:
            if (topic := self._image().topic(name)) is not None:
                return topic
            # Registered brokers count even when they are down: otherwise the topic would keep fewer replicas for ever
            # because it was created during an outage.
            replicas = min(settings.replication_factor, len(self._image().brokers))
            request = CreateTopicRequest(
                topic=name,
                partitions=settings.partitions,
                replication_factor=replicas,
                configs={"cleanup_policy": "compact", "segment_bytes": settings.segment_bytes},
                if_not_exists=True,
            )
            try:
                answer = await self._channel.administer(paths.CREATE_TOPIC, request, timeout_ms=timeout_ms)
            except RaftlogError as error:
                raise RetriableError(
                    f"{name} cannot be created now: {error.message}", code=ErrorCode.COORDINATOR_NOT_AVAILABLE
                ) from error
            await self._listener.until(answer.metadata_offset, timeout_ms=timeout_ms)
        if (topic := self._image().topic(name)) is None:
            raise RetriableError(
                f"{name} was created, but is not in this broker's metadata yet",
                code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            )
        return topic
