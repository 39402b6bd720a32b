"""Health, metadata and topic administration."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, deadline_ms, json_response, read_json
from raftlog.broker.metrics import CONTENT_TYPE, exposition
from raftlog.errors import ErrorCode, RaftlogError, RetriableError
from raftlog.metadata_quorum.image import TopicImage
from raftlog.model import Address, BrokerRegistration, Offset
from raftlog.wire import paths
from raftlog.wire.data import ProducerIdResponse
from raftlog.wire.metadata import (
    BrokerInfo,
    BrokersResponse,
    ClientMetadata,
    ClusterInfo,
    ControllerInfo,
    CreateTopicRequest,
    DeleteTopicRequest,
    PartitionInfo,
    TopicInfo,
    TopicsResponse,
)

ADMIN_TIMEOUT_MS = 15_000
KNOWN_EVERYWHERE_S = 1.0


class ClusterRoutes:
    """Handlers that answer from the metadata image, or pass a request on to the active controller."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_get(paths.LIVEZ, self.livez)
        app.router.add_get(paths.READYZ, self.readyz)
        app.router.add_get(paths.METRICS, self.metrics)
        app.router.add_get(paths.CLUSTER, self.cluster)
        app.router.add_get(paths.CONTROLLER, self.controller)
        app.router.add_get(paths.BROKERS, self.brokers)
        app.router.add_get(paths.METADATA, self.metadata)
        app.router.add_get(paths.TOPICS, self.topics)
        app.router.add_post(paths.TOPICS, self.create_topic)
        app.router.add_get(paths.TOPIC, self.topic)
        app.router.add_delete(paths.TOPIC, self.delete_topic)
        app.router.add_post(paths.PRODUCERS, self.new_producer)

    async def livez(self, _: web.Request) -> web.Response:
        """Answer as long as the process serves at all."""
        return json_response({"status": "alive"})

    async def readyz(self, _: web.Request) -> web.Response:
        """Answer 200 once this broker is registered and unfenced."""
        lifecycle = self._context.lifecycle
        if lifecycle.broker_epoch < 0 or lifecycle.fenced:
            state = "not registered with the controllers yet" if lifecycle.broker_epoch < 0 else "fenced"
            raise RetriableError(f"broker {self._context.config.node_id} is {state}")
        return json_response({"status": "ready", "broker_id": self._context.config.node_id})

    async def metrics(self, _: web.Request) -> web.Response:
        text = exposition(self._context.metrics, self._context.replicas)
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    async def cluster(self, request: web.Request) -> web.Response:
        check_query(request)
        info = ClusterInfo(
            cluster_id=self._context.config.cluster_id,
            controller=self._controller(),
            brokers=self._brokers(),
            metadata_offset=self._context.listener.offset,
        )
        return json_response(info)

    async def controller(self, request: web.Request) -> web.Response:
        check_query(request)
        return json_response(self._controller())

    async def brokers(self, request: web.Request) -> web.Response:
        check_query(request)
        return json_response(BrokersResponse(brokers=self._brokers()))

    async def metadata(self, request: web.Request) -> web.Response:
        """Answer what a client needs for routing: some topics, or all."""
        check_query(request, "topic")
        image = self._context.image
        wanted = request.query.getall("topic", [])
        found = [image.topic(name) for name in wanted] if wanted else image.topics.values()
        metadata = ClientMetadata(
            cluster_id=self._context.config.cluster_id,
            metadata_offset=self._context.listener.offset,
            brokers=self._brokers(),
            topics=tuple(topic_info(topic) for topic in found if topic is not None),
        )
        return json_response(metadata)

    async def topics(self, request: web.Request) -> web.Response:
        check_query(request)
        topics: Iterable[TopicImage] = sorted(self._context.image.topics.values(), key=lambda topic: topic.topic)
        return json_response(TopicsResponse(topics=tuple(topic_info(topic) for topic in topics)))

    async def topic(self, request: web.Request) -> web.Response:
        check_query(request)
        return json_response(topic_info(self._context.topic(request.match_info["topic"])))

    async def create_topic(self, request: web.Request) -> web.Response:
        """Create a topic; answer once every broker that is alive knows it, or a second has passed."""
        check_query(request)
        command = await read_json(request, CreateTopicRequest)
        offset = await self._administer(paths.CREATE_TOPIC, command, request)
        others = [b for b in self._context.image.brokers.values() if b.broker_id != self._context.config.node_id]
        await asyncio.gather(*(self._until_known(b.public, offset) for b in others if not b.fenced))
        return json_response(topic_info(self._context.topic(command.topic)), status=201)

    async def delete_topic(self, request: web.Request) -> web.Response:
        """Delete a topic; answer once this broker knows it."""
        check_query(request)
        command = DeleteTopicRequest(topic=request.match_info["topic"])
        await self._administer(paths.DELETE_TOPIC, command, request)
        return json_response({"topic": command.topic, "deleted": True})

    async def new_producer(self, request: web.Request) -> web.Response:
        """Give an idempotent producer its identity."""
        check_query(request)
        return json_response(ProducerIdResponse(producer_id=await self._context.producer_ids.take()), status=201)

    async def _administer(self, path: str, command: object, request: web.Request) -> int:
        timeout_ms = deadline_ms(request, ADMIN_TIMEOUT_MS)
        offset = await self._context.channel.administer(path, command, timeout_ms=timeout_ms)
        if not await self._context.listener.until(offset, timeout_ms=timeout_ms):
            raise RetriableError(
                f"done, but this broker has not heard of it within {timeout_ms} ms", code=ErrorCode.REQUEST_TIMED_OUT
            )
        return offset

    async def _until_known(self, address: Address, offset: Offset) -> None:
        """Wait until another broker has read the metadata log up to `offset`; give up after a second."""
        deadline = asyncio.get_running_loop().time() + KNOWN_EVERYWHERE_S
        while asyncio.get_running_loop().time() < deadline:
            try:
                info = await self._context.session.call(
                    ControllerInfo, "GET", address, paths.CONTROLLER, timeout_ms=int(KNOWN_EVERYWHERE_S * 1000)
                )
            except RaftlogError:
                return  # It is in no state to be asked; whoever asks it next is told so.
            if info.metadata_offset >= offset:
                return
            await asyncio.sleep(0.005)

    def _brokers(self) -> tuple[BrokerInfo, ...]:
        brokers = sorted(self._context.image.brokers.values(), key=lambda broker: broker.broker_id)
        return tuple(broker_info(broker) for broker in brokers)

    def _controller(self) -> ControllerInfo:
        image = self._context.image
        voters = self._context.config.quorum.voters
        address = next((voter.internal for voter in voters if voter.node_id == image.controller_id), None)
        return ControllerInfo(
            controller_id=image.controller_id,
            controller_epoch=image.controller_epoch,
            url=f"http://{address}" if address else "",
            metadata_offset=self._context.listener.offset,
            voters=tuple(voter.node_id for voter in voters),
        )


def broker_info(broker: BrokerRegistration) -> BrokerInfo:
    """Return a broker as clients see it."""
    return BrokerInfo(
        broker_id=broker.broker_id,
        url=f"http://{broker.public}",
        internal_url=f"http://{broker.internal}",
        rack=broker.rack,
        version=broker.version,
        broker_epoch=broker.broker_epoch,
        fenced=broker.fenced,
    )


def topic_info(topic: TopicImage) -> TopicInfo:
    """Return a topic as clients see it."""
    partitions = tuple(
        PartitionInfo(
            partition=number,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
        )
        for number, state in sorted(topic.partitions.items())
    )
    return TopicInfo(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions, configs=topic.configs)
