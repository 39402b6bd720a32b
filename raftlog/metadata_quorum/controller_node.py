"""One controller's composition: Raft engine, state machine, HTTP listener."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from raftlog.config import NodeConfig
from raftlog.errors import ConfigError
from raftlog.metadata_quorum.active_controller import Controller
from raftlog.metadata_quorum.http import ControllerRoutes
from raftlog.metadata_quorum.metrics import show_cluster, show_counters, show_quorum
from raftlog.metadata_quorum.quorum import PySyncObjQuorum, VoterSettings
from raftlog.metadata_quorum.quorum_interface import Quorum
from raftlog.metadata_quorum.raft.engine import EngineSettings
from raftlog.metadata_quorum.raft.transport import QuorumTls
from raftlog.metadata_quorum.records import FEATURE_LEVEL
from raftlog.metrics import Page
from raftlog.model import Address
from raftlog.runtime import SystemClock, Tasks
from raftlog.security.node_security import NOTHING_SHARED, SharedSecurity, node_proofs, node_security
from raftlog.serving.admission import Admission
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import MAX_INTERNAL_JSON_BYTES, InflightLimits, RequestLimits
from raftlog.serving.listener import AiohttpListener
from raftlog.serving.loop_shares import UNPACED, LoopShares
from raftlog.serving.loop_watch import LoopWatch
from raftlog.serving.node_metrics import FromThread, NodeMetrics
from raftlog.serving.node_tls import NodeTls
from raftlog.serving.turnstile import Turnstile
from raftlog.wire.admin import QuorumResponse, VoterStatus

_log = logging.getLogger(__name__)
MIN_KEY_BYTES = 32
_PROBE_TIMEOUT_S = 0.5
MAX_CONNECTIONS = 10_000
MAX_REQUESTS = 4_096
"""A broker has a few requests open at once; one of them is the metadata long poll."""
MAX_BODIES_BYTES = 128 << 20
DRAIN_S = 1.0


class ControllerNode:
    """The controller of one process. The caller owns the data folder.

    Args:
        quorum: another implementation, for tests; None: `PySyncObjQuorum`, made from `config`.
    """

    def __init__(
        self,
        config: NodeConfig,
        data_dir: Path,
        *,
        quorum: Quorum | None = None,
        metrics: NodeMetrics | None = None,
        tls: NodeTls | None = None,
        shared: SharedSecurity = NOTHING_SHARED,
    ) -> None:
        self._metrics = metrics or NodeMetrics(LoopWatch())
        self._tls = tls or NodeTls(config.tls)
        self._config = config
        self._tasks = Tasks(f"controller node {config.node_id}")
        self.controller = Controller(
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            config=config.controller,
            broker_defaults=config.broker,
            topic_defaults=config.topic,
            clock=SystemClock(),
            is_down=self._is_down,
        )
        self.quorum = quorum or self._make_quorum(data_dir)
        self.controller.attach(self.quorum)
        self._files = FromThread(self.quorum.files)
        self._metrics.add(self._show)
        voters = {voter.node_id: voter.internal for voter in config.quorum.voters}
        security = node_security(
            config,
            SystemClock(),
            users=lambda: self.controller.image.users,
            rules=lambda: self.controller.image.acls,
            proofs=node_proofs(config),
            shared=shared,
        )
        self.routes = ControllerRoutes(
            self.controller,
            voters,
            self._tasks,
            self._describe_quorum,
            hosts=config.own_hosts,
            security=security,
            metrics=self._metrics,
        )
        self._listener: AiohttpListener | None = None
        self._is_started = False

    async def start(self, *, serve: bool = True) -> None:
        """Listen, recover, and join the quorum. Without `serve`, a broker in the same process serves `routes`.

        Raises:
            ConfigError: a port is in use.
        """
        address = self._config.listeners.internal
        assert address is not None
        try:
            if serve:
                self._listener = self._make_listener()
                await self._listener.start(address)
            await self.controller.start()
            await self.quorum.start()
            self._is_started = True
        except OSError as error:
            await self.close()
            raise ConfigError(
                f"controller {self._config.node_id} cannot listen on {address} or its quorum address: "
                f"{error.strerror or error}; is another process using the port?"
            ) from error
        _log.info("controller %d serves brokers at %s", self._config.node_id, address)

    async def stop_fencing(self) -> None:
        """Fence no broker any more: this node stops, and heartbeats no longer reach it."""
        await self.controller.stop_fencing()

    async def close(self) -> None:
        """Stop serving, and leave the quorum."""
        if self._listener is not None:
            await self._listener.close()
        await self._tasks.close()
        await self.controller.close()
        self._is_started = False
        await self.quorum.close()

    def _make_listener(self) -> AiohttpListener:
        limits = RequestLimits(max_body_bytes=MAX_INTERNAL_JSON_BYTES, max_json_bytes=MAX_INTERNAL_JSON_BYTES)
        inflight = InflightLimits(max_requests=MAX_REQUESTS, max_bytes=MAX_BODIES_BYTES)
        app = self.routes.application()
        turnstile = Turnstile(LoopShares(UNPACED))
        app.middlewares.append(Admission(inflight, limits, turnstile).middleware)
        connections = ConnectionLimits("internal", total=MAX_CONNECTIONS, per_address=MAX_CONNECTIONS // 2)
        self._metrics.requests.watch("internal", connections, inflight)
        return AiohttpListener(
            app,
            limits=limits,
            connections=connections,
            turnstile=turnstile,
            drain_s=DRAIN_S,
            tls=self._tls.listener("internal"),
        )

    def _make_quorum(self, data_dir: Path) -> Quorum:
        config = self._config
        own = next(voter for voter in config.quorum.voters if voter.node_id == config.node_id)
        settings = VoterSettings(
            node_id=config.node_id,
            voters=config.quorum.voters,
            listen=config.quorum.listen or own.quorum,
            key=_read_key(config.quorum.key_file),
            cluster_id=config.cluster_id,
            data_dir=data_dir / "quorum",
            dial=config.dial,
            tls=self._quorum_tls(),
            scrub_interval_ms=config.controller.log_scrub_interval_ms,
            engine=EngineSettings(
                snapshot_min_entries=config.controller.snapshot_min_entries, max_feature_level=FEATURE_LEVEL
            ),
        )
        return PySyncObjQuorum(settings, self.controller)

    def _quorum_tls(self) -> QuorumTls | None:
        listener = self._tls.listener("quorum")
        if listener is None:
            return None
        assert self._tls.client is not None  # It has a certificate.
        return QuorumTls(listener, self._tls.client)

    async def _show(self, page: Page, _: bool) -> None:
        """Add this controller's figures to the page of metrics."""
        files = await self._files.read()
        if self._is_started:
            show_quorum(page, self.quorum, self.quorum.status(), files, now_s=time.time())
        show_counters(page, self.controller.metrics, active=self.controller.is_active, waiting=self.controller.waiting)
        page.add("raftlog_parked_requests", self.controller.publisher.waiting, kind="metadata")
        await show_cluster(page, self.controller.image)

    def _describe_quorum(self, controller_epoch: int) -> QuorumResponse:
        status = self.quorum.status()
        addresses = {voter.node_id: str(voter.internal) for voter in self._config.quorum.voters}
        return QuorumResponse(
            leader_id=self._config.node_id,
            term=status.term,
            controller_epoch=controller_epoch,
            log_end_offset=status.log_end_offset,
            committed_offset=status.committed_offset,
            voters=tuple(
                VoterStatus(
                    node_id=voter.node_id,
                    address=addresses.get(voter.node_id, ""),
                    role=voter.role,
                    log_end_offset=voter.log_end_offset,
                    lag=status.log_end_offset - voter.log_end_offset,
                    last_heard_ms=voter.last_heard_ms,
                )
                for voter in status.voters
            ),
        )

    async def _is_down(self, address: Address) -> bool:
        """Return whether a connection is refused: then no process listens there, so the broker's has exited."""
        dialled = Address.parse(self._config.dial.get(address.authority, address.authority))
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                _, writer = await asyncio.open_connection(dialled.host, dialled.port)
        except ConnectionRefusedError:
            return True
        except (OSError, TimeoutError):
            return False
        writer.close()
        return False


def _read_key(path: str) -> bytes:
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"quorum.key_file: cannot read {path}: {error.strerror}") from error
    if len(key) < MIN_KEY_BYTES:
        raise ConfigError(f"quorum.key_file: {path} holds {len(key)} bytes, expected at least {MIN_KEY_BYTES}")
    return key
