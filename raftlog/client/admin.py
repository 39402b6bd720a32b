"""Administration: topics and the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from raftlog.client.connection import Connection
from raftlog.wire import paths
from raftlog.wire.metadata import (
    BrokerInfo,
    BrokersResponse,
    ClusterInfo,
    ControllerInfo,
    CreateTopicRequest,
    TopicInfo,
    TopicsResponse,
)


class Admin:
    """Creates, lists, describes and deletes topics; describes the cluster. Use as an async context manager.

    Args:
        bootstrap: URLs of one or more brokers, in a list or separated by commas.
        timeout_ms: how long one call may take, attempts included.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] = "http://127.0.0.1:9400",
        *,
        timeout_ms: int = 30_000,
        dial: Mapping[str, str] | None = None,
    ) -> None:
        self._connection = Connection(bootstrap, timeout_ms=timeout_ms, dial=dial)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._connection.close()

    async def create_topic(
        self,
        topic: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, str | int | float | bool] | None = None,
        if_not_exists: bool = False,
    ) -> TopicInfo:
        """Create a topic; what is not given is the cluster's default.

        Raises:
            InvalidRequestError: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
                INVALID_REPLICATION_FACTOR or INVALID_CONFIG.
            UnknownOutcomeError: no answer came; it may have been created.
        """
        request = CreateTopicRequest(
            topic=topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=configs or {},
            if_not_exists=if_not_exists,
        )
        return await self._connection.ask_any(
            TopicInfo, "POST", paths.TOPICS, message=request, repeatable=if_not_exists
        )

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic and its records.

        Raises:
            NotFoundError: there is none of that name.
        """
        path = paths.fill(paths.TOPIC, topic=topic)
        await self._connection.ask_any(dict[str, Any], "DELETE", path, repeatable=False)

    async def list_topics(self) -> list[TopicInfo]:
        """Return every topic, sorted by name."""
        return list((await self._connection.ask_any(TopicsResponse, "GET", paths.TOPICS)).topics)

    async def describe_topic(self, topic: str) -> TopicInfo:
        """Return one topic.

        Raises:
            NotFoundError: there is none of that name.
        """
        self._connection.forget_leader_of([topic])
        return await self._connection.topic(topic)

    async def describe_cluster(self) -> ClusterInfo:
        """Return the cluster's id, active controller and brokers."""
        return await self._connection.ask_any(ClusterInfo, "GET", paths.CLUSTER)

    async def controller(self) -> ControllerInfo:
        """Return who the active controller is."""
        return await self._connection.ask_any(ControllerInfo, "GET", paths.CONTROLLER)

    async def brokers(self) -> list[BrokerInfo]:
        """Return every registered broker, sorted by id."""
        return list((await self._connection.ask_any(BrokersResponse, "GET", paths.BROKERS)).brokers)
