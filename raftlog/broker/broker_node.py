"""Composition of one broker: data folder, replicas, metadata, lifecycle, listeners."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Coroutine, Iterable, Mapping
from typing import Literal

from aiohttp import web
from aiohttp.typedefs import Middleware

from raftlog.broker.broker_parts import make_parts
from raftlog.broker.console.routes import ConsoleRoutes
from raftlog.broker.http import (
    ParkedFetches,
    cross_origin_reads,
    decode_body,
    errors,
    own_pages,
    permit,
    plain_bodies,
)
from raftlog.broker.kafka.call import KafkaServices
from raftlog.broker.kafka.dispatch import KafkaDispatch
from raftlog.broker.kafka.handlers import HANDLERS
from raftlog.broker.kafka.server import KafkaServer
from raftlog.broker.lean.routes import LeanRoutes
from raftlog.broker.listener import Listener
from raftlog.broker.metrics.broker_figures import BrokerFigures
from raftlog.broker.open_files import affordable_connections
from raftlog.broker.openapi.operations import require_described
from raftlog.broker.pass_on import PassOn
from raftlog.broker.quota_middleware import QuotaMiddleware
from raftlog.broker.raw import RawReply, RawRequest, RawRoute
from raftlog.broker.routes.admin import AdminRoutes
from raftlog.broker.routes.audit import AuditRoutes
from raftlog.broker.routes.cluster import ClusterRoutes
from raftlog.broker.routes.coordinators import CoordinatorRoutes
from raftlog.broker.routes.deletion import DeletionRoutes
from raftlog.broker.routes.fetch import FetchRoutes
from raftlog.broker.routes.groups import GroupRoutes
from raftlog.broker.routes.log_dirs import LogDirRoutes
from raftlog.broker.routes.login import LoginRoutes
from raftlog.broker.routes.offsets import OffsetRoutes
from raftlog.broker.routes.openapi import OpenapiRoutes
from raftlog.broker.routes.produce import ProduceRoutes
from raftlog.broker.routes.scrub import ScrubRoutes
from raftlog.broker.routes.settings import SettingsRoutes
from raftlog.broker.routes.topic_records import TopicRecordsRoutes
from raftlog.broker.routes.topics import TopicRoutes
from raftlog.broker.routes.transactions import TransactionRoutes
from raftlog.config import MAX_CONNECTION_RATE, MAX_CONNECTION_RATE_PER_ADDRESS, REASSIGNMENT_THROTTLE, NodeConfig
from raftlog.errors import ConfigError, RaftlogError, StorageError
from raftlog.metadata_quorum.assignments import Assignments
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import Address, BrokerEpoch, Offset, TopicIdPartition
from raftlog.partition.core.throttle import UNLIMITED
from raftlog.partition.storage.log_dirs import NodeFolders
from raftlog.runtime import Tasks
from raftlog.security.guard import Guard, require_entries
from raftlog.security.node_security import NOTHING_SHARED, SharedSecurity
from raftlog.security.routes import INTERNAL, PUBLIC, RouteTable
from raftlog.serving.admission import Admission
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import MAX_INTERNAL_JSON_BYTES, MAX_JSON_BYTES, InflightLimits, RequestLimits
from raftlog.serving.listener import ListenerLimits
from raftlog.serving.loop_shares import LoopShares
from raftlog.serving.loop_watch import LoopWatch
from raftlog.serving.node_metrics import NodeMetrics
from raftlog.serving.node_tls import NodeTls
from raftlog.serving.turnstile import Turnstile
from raftlog.serving.workers import INLINE_BYTES, in_worker
from raftlog.wire import media, paths
from raftlog.wire.codec import Buffer, encode_frame, framed
from raftlog.wire.metadata import SHORT_BATCHES, ConfigValue
from raftlog.wire.origins import Origins
from raftlog.wire.packed_fetch import is_packed, pack_response, unpack_request
from raftlog.wire.repair import RepairRequest
from raftlog.wire.replication import ReplicaFetchRequest

_log = logging.getLogger(__name__)
_LONG_ANSWER = 500
"""A follower's fetch of more partitions is encoded in a thread: it would block the event loop."""
_DRAIN_S = 1.0
"""How long requests under way may take when the broker stops."""


_ROUTES = (
    ClusterRoutes,
    TopicRoutes,
    AdminRoutes,
    LoginRoutes,
    LogDirRoutes,
    AuditRoutes,
    ScrubRoutes,
    DeletionRoutes,
    OffsetRoutes,
    SettingsRoutes,
    CoordinatorRoutes,
    GroupRoutes,
    TransactionRoutes,
    TopicRecordsRoutes,
    OpenapiRoutes,
    ConsoleRoutes,
)
_READ_BY_PAGES = (paths.TOPIC_RECORDS, paths.RECORDS)
"""Paths that pages of the origins in `listeners.cors_origins` may read."""


def _middlewares(guard: Guard | None) -> tuple[Middleware, ...]:
    return () if guard is None else (guard.middleware,)


class BrokerNode:
    """The broker of a node process. The caller owns the data folder and the node's metrics."""

    def __init__(
        self,
        config: NodeConfig,
        data_dir: NodeFolders,
        *,
        metrics: NodeMetrics | None = None,
        tls: NodeTls | None = None,
        shared: SharedSecurity = NOTHING_SHARED,
    ) -> None:
        self._tls = tls or NodeTls(config.tls)
        self._config = config
        self._data_dir = data_dir
        self._metrics = metrics or NodeMetrics(LoopWatch())
        parts = make_parts(config, data_dir, node=self._metrics, tls=self._tls, shared=shared)
        self.context = context = parts.context
        self.listener, self.lifecycle, self.replicas = context.listener, context.lifecycle, context.replicas
        self.groups, self.transactions = context.groups, context.transactions
        self._security, self._rates = parts.security, parts.rates
        self._session, self._vital_session = context.session, parts.vital_session
        self._listeners: list[Listener] = []
        self.kafka: KafkaServer | None = None
        """Serves Kafka's protocol once the broker listens; None: it does not listen yet, or does not serve it."""
        self._origins = Origins(config.own_hosts)
        self._tasks = Tasks(f"broker node {config.node_id}")
        self._applied: MetadataImage | None = None
        """The image that replicas and groups have applied."""
        self._assignments = Assignments(config.node_id)
        self._applying = asyncio.Lock()
        self._replicas_open = False
        """Whether logs are open. Before, the controllers must not unfence this broker: it could be elected."""

    async def start(self, *, internal: web.Application | None = None) -> None:
        """Listen, then find the controllers. Serves `/livez` at once, and `/readyz` when it is unfenced.

        Args:
            internal: the application of a controller in the same process, which shares the internal listener.

        Raises:
            ConfigError: a port is in use.
        """
        listeners = self._config.listeners
        assert listeners.public is not None
        assert listeners.internal is not None
        shares = LoopShares()  # Both listeners use one loop.
        app, lean = self._public_application(shares)
        await self._serve(app, lean, listeners.public, "public", kafka=self.kafka)
        inflight, turnstile = self._inflight(), Turnstile(shares)
        limits = self._request_limits(max_json_bytes=MAX_INTERNAL_JSON_BYTES)
        admission = Admission(inflight, limits, turnstile)
        guard = self._security.internal
        inner = internal or web.Application(
            middlewares=[
                self._metrics.requests.middleware,
                errors,
                own_pages(self._origins),
                *_middlewares(guard),
                plain_bodies,
            ]
        )
        inner.middlewares.append(admission.middleware)
        replica_fetch = RawRoute(path=paths.REPLICA_FETCH, form=media.JSON, handler=self._replica_fetch)
        replica_fetch.add_to(inner)
        repair = RawRoute(path=paths.REPAIR, form=media.JSON, handler=self._repair)
        repair.add_to(inner)
        TransactionRoutes(self.context).add_internal_to(inner)
        if internal is None:
            inner.router.add_get(paths.LIVEZ, ClusterRoutes(self.context).livez)
        lean = LeanRoutes(
            [replica_fetch, repair],
            inflight=inflight,
            turnstile=turnstile,
            max_json_bytes=MAX_INTERNAL_JSON_BYTES,
            metrics=self._metrics.requests,
            guard=guard,
        )
        require_entries(inner, RouteTable(INTERNAL))
        await self._serve(inner, lean, listeners.internal, "internal", max_json_bytes=MAX_INTERNAL_JSON_BYTES)
        # The import compiles functions for 60 ms; no request should wait for it.
        await asyncio.to_thread(importlib.import_module, "pyarrow.compute")
        await self.replicas.start()
        await self.groups.runtime.start()
        await self.transactions.start()
        self._tasks.spawn(self._vital(self.listener.run(self._on_image)), name="metadata")
        self._tasks.spawn(self._vital(self.lifecycle.run(self)), name="life cycle")
        _log.info("broker %d serves clients at %s", self._config.node_id, listeners.public)

    async def _vital(self, work: Coroutine[None, None, None]) -> None:
        """Run a vital task; if it fails, shut the broker down: it would serve outdated metadata."""
        try:
            await work
        except StorageError as error:
            self.lifecycle.refuse(error)
            raise
        except Exception as error:  # Any error: the broker cannot continue without this task.
            self.lifecycle.refuse(RaftlogError(f"broker {self._config.node_id} shuts down: {error!r}"))
            raise

    async def stop_serving(self) -> None:
        """Move leaderships away (controlled shutdown), and close the listeners. Later calls do nothing."""
        await self.lifecycle.shut_down()
        listeners, self._listeners = self._listeners, []
        await asyncio.gather(*(listener.close() for listener in listeners))

    async def close(self) -> None:
        """Stop serving, sync and checkpoint every log."""
        await self.stop_serving()
        await self._tasks.close()
        await self.groups.runtime.close()
        await self.transactions.close()
        if await self.replicas.close():
            self._data_dir.mark_clean()
        await self.context.channel.close()
        await self._session.close()
        await self._vital_session.close()

    def _inflight(self) -> InflightLimits:
        config = self._config.broker
        return InflightLimits(
            max_requests=config.max_inflight_requests,
            max_bytes=config.max_inflight_bytes,
            of_one=config.max_request_bytes,
        )

    def _request_limits(self, *, max_json_bytes: int = MAX_JSON_BYTES) -> RequestLimits:
        return RequestLimits(max_body_bytes=self._config.broker.max_request_bytes, max_json_bytes=max_json_bytes)

    def _public_application(self, shares: LoopShares) -> tuple[web.Application, LeanRoutes]:
        inflight, turnstile = self._inflight(), Turnstile(shares)
        produce, fetch = ProduceRoutes(self.context), FetchRoutes(self.context)
        raw = [*produce.raw, *fetch.raw]
        batches = [route.path for route in raw if route.form != media.JSON]
        admission = Admission(inflight, self._request_limits(), turnstile, batches=batches)
        quotas = QuotaMiddleware(self.context.quotas)
        readers = cross_origin_reads(self._config.listeners.cors_origins, _READ_BY_PAGES)
        app = web.Application(
            middlewares=[
                self._metrics.requests.middleware,
                readers,
                errors,
                own_pages(self._origins),
                quotas.muting,
                *_middlewares(self._security.public),
                quotas.middleware,
                plain_bodies,
                admission.middleware,
                PassOn(self.context).middleware,
            ]
        )
        for routes in (produce, fetch, *(routes(self.context) for routes in _ROUTES)):
            routes.add_to(app)
        app.on_shutdown.append(quotas.close)
        for path in _READ_BY_PAGES:
            app.router.add_options(path, permit)
        lean = LeanRoutes(
            raw,
            inflight=inflight,
            turnstile=turnstile,
            max_json_bytes=INLINE_BYTES,
            metrics=self._metrics.requests,
            guard=self._security.public,
            quotas=self.context.quotas,
        )
        require_entries(app, RouteTable(PUBLIC))
        require_described(PUBLIC)
        self._metrics.add(BrokerFigures(self.context, fetch.parked).show)
        if self._config.listeners.kafka:
            self.kafka = self._kafka_server(fetch.parked, lean)
        return app, lean

    def _kafka_server(self, parked: ParkedFetches, http: LeanRoutes) -> KafkaServer:
        services = KafkaServices(self.context, parked=parked, inflight=http.inflight, guard=self._security.public)
        return KafkaServer(
            KafkaDispatch(services, HANDLERS),
            limits=self._request_limits(),
            inflight=http.inflight,
            turnstile=http.turnstile,
            now=asyncio.get_running_loop().time,
            quotas=self.context.quotas,
            metrics=self._metrics.requests,
        )

    async def _serve(
        self,
        app: web.Application,
        lean: LeanRoutes,
        address: Address,
        name: Literal["public", "internal"],
        *,
        max_json_bytes: int = MAX_JSON_BYTES,
        kafka: KafkaServer | None = None,
    ) -> None:
        config = self._config.broker
        total = affordable_connections(config.max_connections, segments=config.max_open_segments)
        listener = Listener(
            app,
            lean,
            limits=ListenerLimits(
                requests=self._request_limits(max_json_bytes=max_json_bytes),
                connections=ConnectionLimits(name, total=total, per_address=config.max_connections_per_address),
                rates=self._rates if name == "public" else None,
            ),
            clock=self.context.clock,
            drain_s=_DRAIN_S,
            tls=self._tls.listener(name),
            kafka=kafka,
        )
        self._listeners.append(listener)
        self._metrics.requests.watch(name, listener.connections, lean.inflight)
        try:
            await listener.start(address)
        except OSError as error:
            for started in self._listeners:
                await started.close()
            await self._session.close()
            await self._vital_session.close()
            raise ConfigError(
                f"broker {self._config.node_id} cannot listen on {address} (listeners.{name}): "
                f"{error.strerror or error}; stop the program that uses the port, or choose another port"
            ) from error

    async def _replica_fetch(self, request: RawRequest) -> RawReply:
        """Serve a follower's fetch."""
        packed = is_packed(request.body)
        command = unpack_request(request.body) if packed else await decode_body(ReplicaFetchRequest, request.body)
        self.context.access.require_broker(request.sender, command.replica_id)
        response, parts = await self.replicas.replica_fetch(command)
        if packed and (head := pack_response(response)) is not None:
            frame: list[Buffer] = [framed(head)]
        elif len(response.partitions) > _LONG_ANSWER:
            frame = await in_worker(encode_frame, response)
        else:
            frame = encode_frame(response)
        self.context.metrics.partition.replicated_out += sum(map(len, parts))
        return RawReply(parts=[*frame, *(part for part in parts if part)], content_type=media.FRAME)

    async def _repair(self, request: RawRequest) -> RawReply:
        """Serve a repair request of another broker."""
        response, data = await self.replicas.repair(await decode_body(RepairRequest, request.body))
        return RawReply(parts=encode_frame(response, [data] if data else []), content_type=media.FRAME)

    # What the lifecycle reports; see `ReportedBroker`.

    @property
    def applied_offset(self) -> Offset:
        return self.listener.offset if self._replicas_open else -1

    @property
    def offline(self) -> Iterable[TopicIdPartition]:
        return self.replicas.offline

    def on_registered(self, broker_epoch: BrokerEpoch) -> None:
        self.replicas.local.broker_epoch = broker_epoch
        # The image with the registration may arrive before the response to it.
        self._tasks.spawn(self._vital(self._on_image(self.listener.image)), name="apply metadata")

    async def _on_image(self, image: MetadataImage) -> None:
        """Apply a metadata image, unless a newer one was applied."""
        async with self._applying:
            if self._applied is None or image.offset >= self._applied.offset:
                await self._apply(image)

    async def _apply(self, image: MetadataImage) -> None:
        """Apply a metadata image, unless it precedes this registration: it would revive old leaderships."""
        # First, because it may take several turns: the broker can register again meanwhile.
        assignments = await self._assignments.of(image) if self._has_other_replicas(image) else None
        own = image.brokers.get(self._config.node_id)
        if own is None or own.broker_epoch != self.replicas.local.broker_epoch:
            return
        configs = image.dynamic_configs(self._config.node_id)
        throttle = configs.get(REASSIGNMENT_THROTTLE, UNLIMITED)
        self.replicas.limit_reassignments(int(throttle))
        self._limit_connections(configs)
        for runtime in (self.groups.runtime, self.transactions.runtime):
            runtime.writes_short = image.feature_level >= SHORT_BATCHES
        if assignments is not None:
            self.groups.know_topics(image)
            await self.replicas.apply(assignments, image.brokers, complete=True)
            self._replicas_open = True
            self.groups.on_image(image)
            self._applied = image
        else:
            self.groups.runtime.update_shards()
        self.transactions.runtime.update_shards()
        if self.lifecycle.fenced:
            self.lifecycle.heartbeat_now()

    def _has_other_replicas(self, image: MetadataImage) -> bool:
        """Return whether an image may change replicas or groups: one of rules, users and quotas does not.

        To look at 10,000 replicas takes 100 ms in all, and such changes come by the thousand.
        """
        known = self._applied
        return bool(
            known is None
            or self.replicas.has_unfinished
            or known.feature_level != image.feature_level
            or known.topics is not image.topics
            or known.brokers is not image.brokers
            or known.broker_configs is not image.broker_configs
        )

    def _limit_connections(self, configs: Mapping[str, ConfigValue]) -> None:
        total, per_address = (
            int(configs.get(name, UNLIMITED)) for name in (MAX_CONNECTION_RATE, MAX_CONNECTION_RATE_PER_ADDRESS)
        )
        self._rates.limit(
            total=total if total != UNLIMITED else None, per_address=per_address if per_address != UNLIMITED else None
        )
