"""The controllers' HTTP routes, for brokers. Handlers decode, call, encode."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from raftlog.errors import (
    AuthenticationError,
    ErrorCode,
    InvalidRequestError,
    NotFoundError,
    RaftlogError,
    RetriableError,
)
from raftlog.metadata_quorum.active_controller import Controller
from raftlog.metadata_quorum.admin_operations import ADMIN_OPERATIONS
from raftlog.metadata_quorum.image_codec import digest
from raftlog.model import Address, BrokerId, ControllerId
from raftlog.runtime import Tasks
from raftlog.security.audited_changes import note_change
from raftlog.security.guard import require_entries, sender_of
from raftlog.security.node_security import NodeSecurity
from raftlog.security.principal import is_node
from raftlog.security.routes import INTERNAL, RouteTable
from raftlog.serving.admission import read_received
from raftlog.serving.error_bodies import error_body
from raftlog.serving.loop_watch import LoopWatch
from raftlog.serving.node_metrics import NodeMetrics
from raftlog.serving.workers import INLINE_BYTES, in_worker
from raftlog.wire import media, paths
from raftlog.wire.admin import AdminResponse, DigestResponse, QuorumResponse, ReadRequest
from raftlog.wire.codec import decode_json, encode_json
from raftlog.wire.controller import (
    AlterPartitionsRequest,
    DamagedReplicasRequest,
    HeartbeatRequest,
    ProducerIdBlockRequest,
    RegisterBrokerRequest,
)
from raftlog.wire.metadata import ControllerInfo, CreateTopicRequest
from raftlog.wire.origins import Origins

_log = logging.getLogger(__name__)
T = TypeVar("T")
MAX_WATCH_MS = 30_000


class ControllerRoutes:
    """The handlers of one controller.

    Args:
        voters: each controller's HTTP listener; errors point callers to the active controller's.
        tasks: owns decisions, which continue when their caller disconnects.
        describe_quorum: returns the voters' state, given the controller epoch.
        hosts: the names of this node that requests from browsers may use.
        security: finds and checks the sender of each request; None: every sender is served, and none is a node.
        metrics: the node's; a broker in the same process shares them.
    """

    def __init__(
        self,
        controller: Controller,
        voters: dict[ControllerId, Address],
        tasks: Tasks,
        describe_quorum: Callable[[int], QuorumResponse],
        hosts: Iterable[str] = (),
        security: NodeSecurity | None = None,
        metrics: NodeMetrics | None = None,
    ) -> None:
        self._metrics = metrics or NodeMetrics(LoopWatch())
        self._security = security
        self._guard = None if security is None else security.internal
        self._table = RouteTable(INTERNAL)
        self._controller = controller
        self._describe_quorum = describe_quorum
        self._voters = voters
        self._tasks = tasks
        self._origins = Origins(hosts)

    def application(self) -> web.Application:
        """Return the aiohttp application; a broker in the same process may add its own routes."""
        guards = () if self._guard is None else (self._guard.middleware,)
        app = web.Application(middlewares=[self._metrics.requests.middleware, self._errors, *guards])
        app.router.add_get(paths.LIVEZ, self.livez)
        app.router.add_get(paths.READYZ, self.readyz)
        app.router.add_get(paths.METRICS, self._metrics.scrapes.handle)
        app.router.add_get(paths.CONTROLLER, self.describe)
        app.router.add_get(paths.METADATA_WATCH, self.watch)
        self._add(app, paths.REGISTER_BROKER, RegisterBrokerRequest, self._controller.register)
        self._add(app, paths.HEARTBEAT, HeartbeatRequest, self._controller.heartbeat)
        self._add(app, paths.ALTER_PARTITIONS, AlterPartitionsRequest, self._controller.alter_partitions)
        self._add(app, paths.DAMAGED_REPLICAS, DamagedReplicasRequest, self._controller.damaged_replicas)
        self._add(app, paths.PRODUCER_ID_BLOCK, ProducerIdBlockRequest, self._controller.producer_ids)
        self._add(app, paths.READ, ReadRequest, self._read)
        self._add(app, paths.CREATE_TOPIC, CreateTopicRequest, self._controller.create_topic)
        for path, (cls, _) in ADMIN_OPERATIONS.items():
            self._add(app, path, cls, partial(self._controller.administer, path), has_large_answer=True)
        app.router.add_get(paths.DESCRIBE_QUORUM, self.describe_quorum)
        app.router.add_get(paths.METADATA_DIGEST, self.digest)
        require_entries(app, self._table)
        return app

    async def livez(self, _: web.Request) -> web.Response:
        """Respond as long as the process serves requests."""
        return _json({"status": "alive"})

    async def readyz(self, _: web.Request) -> web.Response:
        """Respond 200 once this controller knows the active controller and has applied the start of its epoch."""
        info = self._describe()
        if info.controller_id < 0:
            raise RetriableError("no active controller is known", code=ErrorCode.QUORUM_NOT_AVAILABLE)
        return _json({"status": "ready", "controller_id": info.controller_id})

    async def describe(self, request: web.Request) -> web.Response:
        """Describe the active controller, proven by a commit; with `consistency=local`, as this controller sees it."""
        if request.query.get("consistency") != "local":
            await self._controller.read()
        return _json(self._describe())

    def _describe(self) -> ControllerInfo:
        controller, image = self._controller, self._controller.image
        is_known = controller.leader is not None and image.controller_id == controller.leader
        address = self._voters.get(image.controller_id) if is_known else None
        return ControllerInfo(
            controller_id=image.controller_id if is_known else -1,
            controller_epoch=image.controller_epoch,
            url=address.url if address else "",
            metadata_offset=image.offset,
            voters=tuple(sorted(self._voters)),
        )

    async def watch(self, request: web.Request) -> web.Response:
        """Long-poll the metadata log. A broker that disconnects here is probed: its process may have exited."""
        after = _number(request, "after_offset", -1)
        wait = max(0, min(_number(request, "max_wait_ms", 500), MAX_WATCH_MS))
        broker_id = _number(request, "broker_id", -1)
        if broker_id >= 0:
            self._require_named(request, broker_id)
        try:
            verifiers, packed = self._is_known_node(request), _number(request, "packed", 0) == 1
            updates = self._controller.publisher.updates(after, max_wait_ms=wait, verifiers=verifiers, packed=packed)
            return _json(await updates)
        except asyncio.CancelledError:
            if broker_id >= 0 and self._controller.is_active:
                self._tasks.spawn(self._controller.probe(broker_id), name=f"suspect broker {broker_id}")
            raise

    async def _read(self, _: ReadRequest) -> AdminResponse:
        return AdminResponse(metadata_offset=await self._controller.read())

    async def describe_quorum(self, _: web.Request) -> web.Response:
        """Describe each voter's position; only the active controller can."""
        await self._controller.read()
        return _json(self._describe_quorum(self._controller.image.controller_epoch))

    async def digest(self, _: web.Request) -> web.Response:
        """Return the fingerprint of this controller's image."""
        image = self._controller.image
        node_id = self._controller.node_id
        return _json(DigestResponse(node_id=node_id, metadata_offset=image.offset, digest=digest(image)))

    def _add(
        self,
        app: web.Application,
        path: str,
        cls: type[T],
        act: Callable[[T], Coroutine[Any, Any, object]],
        *,
        has_large_answer: bool = False,
    ) -> None:
        """Register a command.

        Args:
            has_large_answer: it may name thousands of rules or partitions, and a worker thread writes the answer.
        """
        route = self._table.find("POST", path)
        identity = "" if route is None else route.identity
        is_change = route is not None and route.is_change

        async def handle(request: web.Request) -> web.Response:
            body = await read_received(request)
            is_large = len(body) > INLINE_BYTES
            command = await in_worker(decode_json, cls, body) if is_large else decode_json(cls, body)
            if is_change:
                note_change(request, command)
            if identity:
                self._require_named(request, getattr(command, identity))
            # Shielded: a decision must complete even if its caller disconnects.
            done = await asyncio.shield(self._tasks.spawn(act(command), name=path, awaited=True))
            return _json_body(await in_worker(encode_json, done)) if has_large_answer else _json(done)

        app.router.add_post(path, handle)

    def _is_known_node(self, request: web.Request) -> bool:
        """Return whether the sender of a request has proved to be a node, by a certificate or by the cluster key."""
        if is_node(sender_of(request).principal):
            return True
        return self._security is not None and self._security.is_node(request.headers.get("Authorization"))

    def _require_named(self, request: web.Request, broker_id: BrokerId) -> None:
        """Raise if a request names another broker than its sender.

        Raises:
            AuthenticationError, AuthorizationError: it does.
        """
        if self._guard is not None:
            self._guard.access.require_broker(sender_of(request), broker_id)

    @web.middleware
    async def _errors(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            self._origins.require_own(request.headers)
            return await handler(request)
        except RaftlogError as error:
            self._add_controller_address(error)
            response = _json(error_body(error), status=error.http_status)
            if isinstance(error, AuthenticationError):
                response.headers["WWW-Authenticate"] = error.challenge
            return response
        except web.HTTPException as error:
            wrong = NotFoundError(f"{request.method} {request.path}: {error.reason}", code=ErrorCode.NOT_FOUND)
            return _json(error_body(wrong), status=error.status)
        except Exception:  # noqa: BLE001  (the caller gets an answer, the log gets the traceback)
            _log.exception("%s %s failed", request.method, request.path)
            return _json(error_body(RaftlogError("the controller failed; its log says why")), status=500)

    def _add_controller_address(self, error: RaftlogError) -> None:
        if error.code is ErrorCode.NOT_CONTROLLER:
            address = self._voters.get(error.details.get("controller_id", -1))
            error.details["internal"] = str(address) if address else ""


def _json(value: object, status: int = 200) -> web.Response:
    return _json_body(encode_json(value), status)


def _json_body(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type=media.JSON)


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise InvalidRequestError(f"{name}: expected an integer, received {text!r}") from None
