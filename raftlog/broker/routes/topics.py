"""Topic administration: listings, creation, alteration, deletion, reassignment, elections."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Iterable, Mapping

from aiohttp import web

from raftlog.broker.administration import until_known_everywhere
from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, json_bytes, json_response, read_json
from raftlog.broker.internal_topics import require_ordinary
from raftlog.broker.openapi.parameters import CONSISTENCY, PAGE
from raftlog.broker.paging import ALL, Wanted, names_of
from raftlog.broker.reassignments import moving
from raftlog.broker.routes.metadata_access import administer, read_image
from raftlog.broker.views import topics_as_json
from raftlog.errors import UnknownOutcomeError
from raftlog.metadata_quorum.image import TopicImage
from raftlog.model import CLUSTER_RESOURCE, TopicId
from raftlog.runtime import in_slices
from raftlog.security.guard import sender_of
from raftlog.serving.workers import in_worker
from raftlog.wire import paths
from raftlog.wire.admin import (
    AdminResponse,
    AlterTopicBody,
    AlterTopicRequest,
    ElectLeadersRequest,
    Reassignment,
    ReassignmentRequest,
    ReassignmentsResponse,
)
from raftlog.wire.answers import DeletedTopic
from raftlog.wire.codec import encode_json
from raftlog.wire.metadata import CreateTopicRequest, DeleteTopicRequest, TopicsResponse


def _name(topic: TopicImage) -> str:
    return topic.topic


class TopicRoutes:
    """Handlers that forward requests to the active controller, and answer from the image with the outcome."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._listed: Mapping[TopicId, TopicImage] | None = None
        self._listing = b""
        """The rendered listing of the topics of `_listed`, shared by all requests."""
        self._rendering = asyncio.Lock()

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_get(paths.TOPICS, self.topics)
        app.router.add_post(paths.TOPICS, self.create_topic)
        app.router.add_get(paths.TOPIC, self.topic)
        app.router.add_patch(paths.TOPIC, self.alter_topic)
        app.router.add_delete(paths.TOPIC, self.delete_topic)
        app.router.add_get(paths.REASSIGNMENTS, self.reassignments)
        app.router.add_post(paths.REASSIGNMENTS, self.reassign)
        app.router.add_post(paths.LEADER_ELECTIONS, self.elect_leaders)

    async def topics(self, request: web.Request) -> web.Response:
        check_query(request, CONSISTENCY, *PAGE)
        image, access, sender = await read_image(self._context, request), self._context.access, sender_of(request)
        wanted = Wanted.of(request)
        if wanted != ALL or not access.sees_all(sender):
            page = await names_of(image.names, wanted, lambda name: access.sees(sender, "topic", name))
            found = [image.topic(name) async for name in in_slices(page.shown, 256)]
            seen = [topic for topic in found if topic is not None]
            matching, following = page.matching, page.next
            return json_bytes(
                await topics_as_json(
                    seen, lambda infos: TopicsResponse(topics=infos, matching=matching, next=following)
                )
            )
        async with self._rendering:
            image = self._context.image  # As new as the one that was read, or newer.
            if image.topics is not self._listed:
                self._listing = await topics_as_json(
                    sorted(image.topics.values(), key=_name),
                    lambda infos: TopicsResponse(topics=infos, matching=len(infos)),
                )
                self._listed = image.topics
            return json_bytes(self._listing)

    async def topic(self, request: web.Request) -> web.Response:
        check_query(request, CONSISTENCY)
        await read_image(self._context, request)
        topic = self._context.topic(request.match_info["topic"])
        return await _one(topic)

    async def create_topic(self, request: web.Request) -> web.Response:
        """Create a topic; answer once every live broker has its metadata, or after a second."""
        check_query(request)
        command = await read_json(request, CreateTopicRequest)
        self._context.access.require_one_of(
            sender_of(request), ("create", "topic", command.topic), ("create", "cluster", CLUSTER_RESOURCE)
        )
        require_ordinary(command.topic)
        answer = await administer(self._context, paths.CREATE_TOPIC, command, request)
        if command.validate_only and not isinstance(answer.result, str):
            return json_response(answer.result)
        created = self._changed(answer)
        await until_known_everywhere(self._context, answer.metadata_offset)
        return await _one(created, status=201)

    async def alter_topic(self, request: web.Request) -> web.Response:
        """Change some of a topic's settings, or add partitions; return the changed topic."""
        check_query(request)
        body, access = await read_json(request, AlterTopicBody), self._context.access
        if body.configs or body.partitions is None:
            access.require(sender_of(request), "alter_configs", "topic", request.match_info["topic"])
        if body.partitions is not None:
            access.require(sender_of(request), "alter", "topic", request.match_info["topic"])
        if body.partitions is not None:
            require_ordinary(request.match_info["topic"])  # Keys would move to coordinators without their records.
        command = AlterTopicRequest(
            topic=request.match_info["topic"],
            configs=body.configs,
            partitions=body.partitions,
            assignments=body.assignments,
        )
        return await _one(self._changed(await administer(self._context, paths.ALTER_TOPIC, command, request)))

    async def delete_topic(self, request: web.Request) -> web.Response:
        """Delete a topic; answer once this broker has applied it."""
        check_query(request)
        command = DeleteTopicRequest(topic=request.match_info["topic"])
        require_ordinary(command.topic)
        await administer(self._context, paths.DELETE_TOPIC, command, request)
        return json_response(DeletedTopic(topic=command.topic, deleted=True))

    async def reassignments(self, request: web.Request) -> web.Response:
        """List the reassignments in progress."""
        check_query(request, CONSISTENCY)
        image = await read_image(self._context, request)
        ask_leaders = request.query.get(CONSISTENCY.name) != "local"
        return await _reassignments(await moving(self._context, image, ask_leaders))

    async def reassign(self, request: web.Request) -> web.Response:
        """Start, change or cancel reassignments; return those of these partitions that are in progress afterwards."""
        check_query(request)
        command = await read_json(request, ReassignmentRequest)
        await administer(self._context, paths.REASSIGN, command, request)
        named = {(entry.topic, entry.partition) for entry in command.partitions}
        under_way = await moving(self._context, self._context.image, ask_leaders=False)
        return await _reassignments(r for r in under_way if (r.topic, r.partition) in named)

    async def elect_leaders(self, request: web.Request) -> web.Response:
        """Elect preferred leaders, or (unclean) any replica for partitions without a leader; return the outcomes."""
        check_query(request)
        command = await read_json(request, ElectLeadersRequest)
        return json_response((await administer(self._context, paths.ELECT_LEADERS, command, request)).result)

    def _changed(self, answer: AdminResponse) -> TopicImage:
        """Return a created or altered topic by its id, since another topic may have its name by now.

        Raises:
            UnknownOutcomeError: the topic was deleted since. NotFoundError would mean that nothing was done.
        """
        topic = self._context.image.topics.get(answer.result)
        if topic is None:
            raise UnknownOutcomeError(f"done at offset {answer.metadata_offset}, and the topic was deleted since")
        return topic


async def _one(topic: TopicImage, *, status: int = 200) -> web.Response:
    return json_bytes(await topics_as_json([topic], operator.itemgetter(0)), status=status)


async def _reassignments(moving: Iterable[Reassignment]) -> web.Response:
    answer = ReassignmentsResponse(partitions=tuple(moving))
    return json_bytes(await in_worker(encode_json, answer))
