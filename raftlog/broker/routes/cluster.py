"""Health, metrics, and descriptions of the cluster."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms, check_query, json_bytes, json_response
from raftlog.broker.metadata_listener import READ_TIMEOUT_MS
from raftlog.broker.openapi.parameters import CONSISTENCY, TOPIC_NAMES
from raftlog.broker.routes.metadata_access import read_image
from raftlog.broker.views import broker_infos, topics_as_json
from raftlog.errors import RetriableError
from raftlog.metadata_quorum.image_codec import digest
from raftlog.runtime import in_slices
from raftlog.security.guard import sender_of
from raftlog.serving.workers import in_worker
from raftlog.wire import paths
from raftlog.wire.admin import DigestResponse
from raftlog.wire.answers import Alive, Ready
from raftlog.wire.data import ProducerIdResponse
from raftlog.wire.metadata import BrokersResponse, ClientMetadata, ClusterInfo, ControllerInfo, TopicInfo


class ClusterRoutes:
    """Handlers that answer from the metadata image."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_get(paths.LIVEZ, self.livez)
        app.router.add_get(paths.READYZ, self.readyz)
        app.router.add_get(paths.METRICS, self._context.node.scrapes.handle)
        app.router.add_get(paths.CLUSTER, self.cluster)
        app.router.add_get(paths.CONTROLLER, self.controller)
        app.router.add_get(paths.QUORUM, self.quorum)
        app.router.add_get(paths.BROKERS, self.brokers)
        app.router.add_get(paths.METADATA, self.metadata)
        app.router.add_get(paths.METADATA_DIGEST, self.digest)
        app.router.add_post(paths.PRODUCERS, self.new_producer)

    async def livez(self, _: web.Request) -> web.Response:
        """Answer 200 while the process serves requests."""
        return json_response(Alive(status="alive"))

    async def readyz(self, _: web.Request) -> web.Response:
        """Answer 200 while this broker is registered and unfenced, until it shuts down."""
        lifecycle = self._context.lifecycle
        if lifecycle.ending or lifecycle.broker_epoch < 0 or lifecycle.fenced:
            state = "not registered with the controllers yet" if lifecycle.broker_epoch < 0 else "fenced"
            state = "ending" if lifecycle.ending else state
            raise RetriableError(f"broker {self._context.config.node_id} is {state}")
        return json_response(Ready(status="ready", broker_id=self._context.config.node_id))

    async def cluster(self, request: web.Request) -> web.Response:
        check_query(request, CONSISTENCY)
        image = await read_image(self._context, request)
        info = ClusterInfo(
            cluster_id=self._context.config.cluster_id,
            controller=self._controller(),
            brokers=broker_infos(image),
            metadata_offset=self._context.listener.offset,
        )
        return json_response(info)

    async def controller(self, request: web.Request) -> web.Response:
        """Return the active controller, which commits an entry for this answer."""
        check_query(request, CONSISTENCY)
        await read_image(self._context, request)
        return json_response(self._controller())

    async def quorum(self, request: web.Request) -> web.Response:
        """Return how far each voter of the metadata quorum has replicated the log."""
        check_query(request)
        timeout_ms = caller_timeout_ms(request, READ_TIMEOUT_MS)
        return json_response(await self._context.channel.describe_quorum(timeout_ms=timeout_ms))

    async def brokers(self, request: web.Request) -> web.Response:
        check_query(request, CONSISTENCY)
        return json_response(BrokersResponse(brokers=broker_infos(await read_image(self._context, request))))

    async def metadata(self, request: web.Request) -> web.Response:
        """Return brokers and topics for a client's routing, from this broker's image."""
        check_query(request, TOPIC_NAMES)
        image = self._context.image
        wanted = dict.fromkeys(request.query.getall(TOPIC_NAMES.name, []))
        access, sender = self._context.access, sender_of(request)
        named = [image.topic(name) for name in wanted] if wanted else image.topics.values()
        found = [topic for topic in named if topic is not None]
        if not access.sees_all(sender):
            found = [one async for one in in_slices(found, 256) if access.sees(sender, "topic", one.topic)]
        offset, brokers = self._context.listener.offset, broker_infos(image)

        def response(topics: tuple[TopicInfo, ...]) -> ClientMetadata:
            return ClientMetadata(
                cluster_id=self._context.config.cluster_id,
                metadata_offset=offset,
                brokers=brokers,
                topics=topics,
                feature_level=image.feature_level,
            )

        return json_bytes(await topics_as_json(found, response))

    async def digest(self, request: web.Request) -> web.Response:
        """Return the fingerprint of this broker's image, to compare with other nodes'."""
        check_query(request)
        return json_response(
            DigestResponse(
                node_id=self._context.config.node_id,
                metadata_offset=self._context.listener.offset,
                digest=await in_worker(digest, self._context.image),
            )
        )

    async def new_producer(self, request: web.Request) -> web.Response:
        """Return a producer id and epoch for an idempotent producer."""
        check_query(request)
        self._context.access.require_producer(sender_of(request))
        return json_response(ProducerIdResponse(producer_id=await self._context.producer_ids.take()), status=201)

    def _controller(self) -> ControllerInfo:
        image = self._context.image
        voters = self._context.config.quorum.voters
        address = next((voter.internal for voter in voters if voter.node_id == image.controller_id), None)
        return ControllerInfo(
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
            url=address.url if address else "",
            metadata_offset=self._context.listener.offset,
            voters=tuple(voter.node_id for voter in voters),
        )
