"""The routes of the console: files, events, and what the pages need beside the public API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from aiohttp import web

from raftlog.broker.console.replicas import topic_replicas
from raftlog.broker.console.sampler import Sampler
from raftlog.broker.console.static_files import INDEX, StaticFile, load
from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, json_bytes, json_response
from raftlog.broker.openapi.parameters import CONSOLE_GROUP, CONSOLE_TOPIC_NAME
from raftlog.broker.topic_reads.stream_encoders import EVENT_STREAM
from raftlog.errors import ErrorCode, NotFoundError
from raftlog.model import CLUSTER_RESOURCE, AclOperation, AclResource
from raftlog.security.guard import sender_of
from raftlog.security.identity import Sender
from raftlog.serving.streams import StreamedResponse, StreamLimits
from raftlog.serving.workers import in_worker
from raftlog.wire import paths
from raftlog.wire.codec import encode_json
from raftlog.wire.console import ConsoleSession
from raftlog.wire.negotiation import content_coding

MAX_STREAMS = 64
"""Pages that receive events at once; one address has at most half of them."""
_CLUSTER: tuple[AclOperation, ...] = ("create", "alter", "describe", "alter_configs", "describe_configs")
_TOPIC: tuple[AclOperation, ...] = (
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "alter_configs",
)
_GROUP: tuple[AclOperation, ...] = ("read", "delete", "describe")


class ConsoleRoutes:
    """Handlers of `/console`."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._files: dict[str, StaticFile] | None = None
        self._loading = asyncio.Lock()
        self.sampler = Sampler(context)
        self.limits = StreamLimits(MAX_STREAMS, what="events", how="by pages of the console")

    def add_to(self, app: web.Application) -> None:
        """Register every path, if the console is on."""
        if not self._context.config.listeners.console:
            return
        app.router.add_get(paths.CONSOLE, self.file)
        app.router.add_get(paths.CONSOLE_INDEX, self.file)
        app.router.add_get(paths.CONSOLE_EVENTS, self.events)
        app.router.add_get(paths.CONSOLE_SESSION, self.session)
        app.router.add_get(paths.CONSOLE_TOPIC, self.topic)
        app.router.add_get(paths.CONSOLE_FILE, self.file)
        app.on_shutdown.append(self.limits.end_tails)
        app.on_shutdown.append(self._close)

    async def _close(self, _: web.Application) -> None:
        await self.sampler.close()

    async def file(self, request: web.Request) -> web.Response:
        """Return one file, or 304 if the browser has it."""
        check_query(request)
        name = request.match_info.get("file", INDEX)
        found = (await self._loaded()).get(name)
        if found is None:
            raise NotFoundError(f"the console has no file {name!r:.80}", code=ErrorCode.NOT_FOUND)
        zipped = content_coding(request.headers.get("Accept-Encoding", ""), ("gzip",)) is not None
        headers = found.headers(zipped=zipped)
        known = [one.strip().removeprefix("W/") for one in request.headers.get("If-None-Match", "").split(",")]
        if headers["ETag"] in known:
            headers.pop("Content-Encoding", None)
            return web.Response(status=304, headers=headers)
        return web.Response(body=found.zipped if zipped else found.plain, headers=headers)

    async def _loaded(self) -> dict[str, StaticFile]:
        async with self._loading:
            if self._files is None:
                self._files = await in_worker(load)
        return self._files

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Send the state of the cluster every two seconds, until the page is closed or its token expires."""
        check_query(request)
        address = request.remote or ""
        self.limits.enter(address)
        try:
            events = self._permitted(sender_of(request))
            headers = {"Content-Type": EVENT_STREAM, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
            return StreamedResponse(request, (), events, headers=headers, limits=self.limits, endless=True)
        except BaseException:
            self.limits.leave(address)
            raise

    async def _permitted(self, sender: Sender) -> AsyncGenerator[bytes, None]:
        """Yield events while the sender may see them: its token may expire, and its rights may change."""
        events = self.sampler.events()
        try:
            async for one in events:
                if self._context.clock.wall_us() >= 1e6 * sender.expires_s:
                    return
                if not self._context.access.may(sender, "describe", "cluster", CLUSTER_RESOURCE):
                    return
                yield one
        finally:
            await events.aclose()

    async def session(self, request: web.Request) -> web.Response:
        """Return the sender of the request, and its rights."""
        check_query(request, CONSOLE_TOPIC_NAME, CONSOLE_GROUP)
        sender, context = sender_of(request), self._context
        session = ConsoleSession(
            principal=sender.principal.name,
            authorizer=context.access.mode,
            broker_id=context.config.node_id,
            cluster=self._allowed(sender, _CLUSTER, "cluster", CLUSTER_RESOURCE),
            topic=self._allowed(sender, _TOPIC, "topic", request.query.get(CONSOLE_TOPIC_NAME.name)),
            group=self._allowed(sender, _GROUP, "group", request.query.get(CONSOLE_GROUP.name)),
            transactional_id=self._allowed(sender, ("write", "describe"), "transactional_id", None),
        )
        return json_response(session, headers={"Cache-Control": "no-store"})

    def _allowed(
        self, sender: Sender, operations: tuple[AclOperation, ...], resource: AclResource, name: str | None
    ) -> tuple[str, ...]:
        access = self._context.access
        if name is None:
            return tuple(each for each in operations if access.may_somewhere(sender, each, resource))
        return tuple(each for each in operations if access.would_allow(sender, each, resource, name))

    async def topic(self, request: web.Request) -> web.Response:
        """Return the logs of a topic's replicas on all brokers: pages cannot follow redirects to other brokers."""
        check_query(request)
        found = await topic_replicas(self._context, request.match_info["topic"])
        return json_bytes(await in_worker(encode_json, found))
