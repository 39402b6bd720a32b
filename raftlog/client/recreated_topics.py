"""Offsets whose topic was deleted and created again: what a client does when the coordinator refuses the topic's id."""

from __future__ import annotations

from collections.abc import Mapping

from raftlog.client.connection import Connection
from raftlog.client.offsets import OffsetAndMetadata
from raftlog.errors import ErrorCode, NotFoundError, RaftlogError, StaleRouteError
from raftlog.model import TopicId, TopicPartition


async def final_errors(
    connection: Connection,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    errors: Mapping[TopicPartition, RaftlogError],
) -> dict[TopicPartition, RaftlogError]:
    """Return why offsets were refused for good. The others can be sent again: the coordinator's metadata is behind.

    Raises:
        RetriableError: no broker has metadata as new as what was seen.
    """
    asked_by_id = {at for at, chosen in offsets.items() if chosen.topic_id}
    unknown = [at for at, error in errors.items() if error.code is ErrorCode.UNKNOWN_TOPIC_ID and at in asked_by_id]
    topics = sorted({partition.topic for partition in unknown})
    connection.forget_leader_of(topics)
    await connection.refresh(topics)
    final = dict(errors)
    for at in unknown:
        info, topic_id = connection.cached_topic(at.topic), offsets[at].topic_id
        if info is not None and info.topic_id == topic_id:
            del final[at]
            continue
        now = "was deleted" if info is None else f"was deleted and created again: now it has the id {info.topic_id}"
        final[at] = NotFoundError(
            f"offset {offsets[at].offset} of {at} is not committed: it is of the topic with the id {topic_id}, which "
            f"{now}",
            code=ErrorCode.UNKNOWN_TOPIC_ID,
        )
    return final


async def require_present(connection: Connection, topic_ids: Mapping[str, TopicId]) -> None:
    """Raise unless the client's metadata has these topics with these ids, which a coordinator named.

    Raises:
        StaleRouteError: UNKNOWN_TOPIC_ID, the coordinator or the client's metadata is behind: ask again.
        RetriableError: no broker has metadata as new as what was seen.
    """
    await connection.refresh(list(topic_ids))
    if differing := _differing(connection, topic_ids):
        connection.forget_leader_of(differing)
        await connection.refresh(differing)
    if differing := _differing(connection, topic_ids):
        raise StaleRouteError(
            f"the group's offsets are of the topic {differing[0]!r} with the id {topic_ids[differing[0]]}, which is "
            "not in the metadata, not yet or no longer",
            code=ErrorCode.UNKNOWN_TOPIC_ID,
        )


def _differing(connection: Connection, topic_ids: Mapping[str, TopicId]) -> list[str]:
    found = {topic: connection.cached_topic(topic) for topic in topic_ids}
    return [topic for topic, info in found.items() if info is None or info.topic_id != topic_ids[topic]]
