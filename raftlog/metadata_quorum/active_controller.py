"""One controller: the quorum's state machine, broker sessions, and the requests that the active controller decides."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any

from raftlog.config import BrokerConfig, ControllerConfig, TopicConfig
from raftlog.errors import RaftlogError
from raftlog.metadata_quorum.admin_operations import ADMIN_OPERATIONS
from raftlog.metadata_quorum.controller.brokers import decide_fence, decide_heartbeat, decide_registration
from raftlog.metadata_quorum.controller.cluster_settings import decide_features, first_records
from raftlog.metadata_quorum.controller.damage import decide_damaged_replicas
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.controller.isr import decide_alter_partitions
from raftlog.metadata_quorum.controller.leadership import decide_rebalance
from raftlog.metadata_quorum.controller.producer_ids import decide_producer_ids
from raftlog.metadata_quorum.controller.topics import TopicDefaults, decide_creation
from raftlog.metadata_quorum.decision_writer import DecisionWriter
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import image_from_plain, image_to_plain
from raftlog.metadata_quorum.metrics import QuorumMetrics
from raftlog.metadata_quorum.publisher import Publisher
from raftlog.metadata_quorum.quorum_interface import Quorum
from raftlog.metadata_quorum.records import FEATURE_LEVEL
from raftlog.metadata_quorum.replay import replay_command
from raftlog.metadata_quorum.sessions import Sessions
from raftlog.model import Address, BrokerEpoch, BrokerId, ControllerId, Offset
from raftlog.runtime import Clock, Tasks, new_uuid_hex
from raftlog.wire import paths
from raftlog.wire.admin import AdminResponse
from raftlog.wire.codec import decode_plain, encode_json
from raftlog.wire.controller import (
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    DamagedReplicasRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    ProducerIdBlock,
    ProducerIdBlockRequest,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from raftlog.wire.metadata import CreateTopicRequest
from raftlog.wire.producer_ids import KEY_BYTES

_log = logging.getLogger(__name__)
PROBE_SILENCE_MS = 800
"""After this long without a heartbeat the controller probes the broker's listener, before the session expires."""
_STALL_MS = 200
"""A check of sessions that is later was kept back by this controller itself: by its disk, or because it was frozen."""


class Controller:
    """A controller: it always applies the metadata log; while it leads the quorum it is also the active controller.

    - Every controller replays the same entries into the same image.
    - Only the active controller decides, and only in the controller epoch that it has begun (`DecisionWriter`).
    - Sessions are soft state of the active controller: a new epoch gives each unfenced broker a full session.

    Args:
        is_down: probes a listener. True only if no process listens there.
    """

    def __init__(
        self,
        *,
        node_id: ControllerId,
        cluster_id: str,
        config: ControllerConfig,
        broker_defaults: BrokerConfig,
        clock: Clock,
        topic_defaults: TopicConfig | None = None,
        is_down: Callable[[Address], Awaitable[bool]] | None = None,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.image = MetadataImage()
        self.metrics = QuorumMetrics()
        self.publisher = Publisher()
        self._config = config
        self._defaults = TopicDefaults(
            broker_defaults.num_partitions, broker_defaults.default_replication_factor, topic_defaults or TopicConfig()
        )
        self._clock = clock
        self._sessions = Sessions(timeout_ms=config.broker_session_timeout_ms)
        self._is_down = is_down
        self._quorum: Quorum | None = None
        self._has_followed = False
        """This process has been a standby. In a cluster that starts, brokers start later than the first controller."""
        self._unprobed: set[BrokerId] = set()
        """Brokers to probe at the next check: they may have died together with the previous active controller."""
        self._tasks = Tasks(f"controller {node_id}")
        self._watching: asyncio.Task[None] | None = None
        self._writer = DecisionWriter(
            node_id=node_id,
            proposal_timeout_ms=config.proposal_timeout_ms,
            image=lambda: self.image,
            first_records=lambda image: first_records(image, cluster_id),
            on_epoch=self._restart_sessions,
            tasks=self._tasks,
            metrics=self.metrics,
        )

    def attach(self, quorum: Quorum) -> None:
        """Set the quorum that commits this controller's decisions. Call it before `start`."""
        self._quorum = quorum
        self._writer.attach(quorum)

    async def start(self) -> None:
        self._watching = self._tasks.spawn(self._watch_sessions(), name="sessions")
        self._tasks.keep(self._rebalance, name="preferred leaders")

    async def stop_fencing(self) -> None:
        """Judge no sessions any more, because heartbeats no longer arrive."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait((self._watching,))

    async def close(self) -> None:
        await self._tasks.close()
        self._writer.close()

    # The state machine of the quorum.

    def apply(self, index: int, payload: bytes) -> None:
        """Replay one committed entry."""
        before = self.image
        self.image, records = replay_command(before, index, payload)
        if self.is_active:
            self.metrics.note_decision(before, records)
        self._writer.effects.applied(self.image)
        self._require_own_log()
        self.publisher.publish(self.image, records)

    def take_snapshot(self) -> bytes:
        return encode_json(image_to_plain(self.image))

    def load_snapshot(self, index: int, data: bytes) -> None:
        """Start from a snapshot. The engine stops the process if this raises: an empty image must not be used."""
        self.image = image_from_plain(decode_plain(data, error=RaftlogError))
        assert self.image.offset <= index
        self._writer.effects.skipped(self.image)
        self._require_own_log()
        self.publisher.restart_from(self.image)

    def leadership_changed(self, leader: ControllerId | None) -> None:
        """Begin a controller epoch if this node leads; stop deciding if it does not."""
        self._has_followed = self._has_followed or leader not in (None, self.node_id)
        self.metrics.elections += leader is not None
        self._writer.leadership_changed(leader)

    def _require_own_log(self) -> None:
        """Raise if the log belongs to another cluster or needs a newer version."""
        if self.image.cluster_id not in ("", self.cluster_id):
            raise RaftlogError(
                f"the metadata log belongs to cluster {self.image.cluster_id}, this node to cluster {self.cluster_id}"
            )
        if self.image.feature_level > FEATURE_LEVEL:
            raise RaftlogError(
                f"the metadata log has feature level {self.image.feature_level}, this version supports up to "
                f"{FEATURE_LEVEL}: install a newer raftlog on this node"
            )

    # Requests.

    @property
    def is_active(self) -> bool:
        return self._writer.is_active

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a decision."""
        return self._writer.waiting

    @property
    def leader(self) -> ControllerId | None:
        """The quorum's leader, as far as this controller knows."""
        return self._writer.leader

    async def read(self) -> Offset:
        """Return the offset that a linearizable read must have applied.

        Raises:
            RetriableError: this controller is not the active one, or its commit fails; see `DecisionWriter.read`.
        """
        await self._writer.read()
        return self.publisher.last_offset

    async def register(self, request: RegisterBrokerRequest) -> RegisterBrokerResponse:
        """Register a broker process."""

        def decide(image: MetadataImage) -> Decision[BrokerEpoch | None]:
            # Read here, not before: a new epoch with new sessions may begin while this request waits for the lock.
            alive = self._sessions.alive(request.broker_id, self._clock.monotonic_ms())
            return decide_registration(image, request, cluster_id=self.cluster_id, session_alive=alive)

        epoch, offset = await self._writer.decide(decide, urgent=True)
        broker_epoch = offset if epoch is None else epoch
        self._sessions.touch(request.broker_id, self._clock.monotonic_ms())
        _log.info("broker %d registered in epoch %d", request.broker_id, broker_epoch)
        return RegisterBrokerResponse(broker_epoch=broker_epoch, metadata_offset=self.publisher.last_offset)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Renew a broker's session."""
        response, _ = await self._writer.decide(lambda image: decide_heartbeat(image, request), urgent=True)
        self._sessions.touch(request.broker_id, self._clock.monotonic_ms())
        return response

    async def alter_partitions(self, request: AlterPartitionsRequest) -> AlterPartitionsResponse:
        response, _ = await self._writer.decide(lambda image: decide_alter_partitions(image, request), urgent=True)
        return response

    async def damaged_replicas(self, request: DamagedReplicasRequest) -> AlterPartitionsResponse:
        response, _ = await self._writer.decide(lambda image: decide_damaged_replicas(image, request), urgent=True)
        return response

    async def producer_ids(self, request: ProducerIdBlockRequest) -> ProducerIdBlock:
        response, _ = await self._writer.decide(lambda image: decide_producer_ids(image, request, draw_key=_draw_key))
        return response

    async def create_topic(self, request: CreateTopicRequest) -> AdminResponse:
        """Create a topic; the result is its id, or the planned topic for `validate_only`."""
        topic_id = new_uuid_hex()
        return await self._administer(
            lambda image: decide_creation(image, request, topic_id=topic_id, defaults=self._defaults)
        )

    async def administer(self, path: str, request: Any) -> AdminResponse:
        """Decide one of `ADMIN_OPERATIONS`."""
        _, decide = ADMIN_OPERATIONS[path]
        if path == paths.SET_FEATURES:
            return await self._administer(lambda image: decide_features(image, request, self._feature_levels()))
        return await self._administer(lambda image: decide(image, request))

    def _feature_levels(self) -> dict[ControllerId, int]:
        assert self._quorum is not None, "it decides"
        return {voter.node_id: voter.max_feature_level for voter in self._quorum.status().voters}

    async def _administer(self, decide: Callable[[MetadataImage], Decision[Any]]) -> AdminResponse:
        result, _ = await self._writer.decide(decide, confirm=True)
        return AdminResponse(metadata_offset=self.publisher.last_offset, result=result)

    # Sessions.

    def _restart_sessions(self) -> None:
        unfenced = [broker.broker_id for broker in self.image.brokers.values() if not broker.fenced]
        self._sessions.restart(unfenced, self._clock.monotonic_ms())
        self._unprobed = set(unfenced) if self._has_followed else set()

    async def _watch_sessions(self) -> None:
        while True:
            loop, interval_s = asyncio.get_running_loop(), self._config.session_check_interval_ms / 1000
            due = loop.time() + interval_s
            await asyncio.sleep(interval_s)
            if (late_ms := round(1000 * (loop.time() - due))) > _STALL_MS:
                self._sessions.extend(late_ms)
            try:
                await self._check_sessions()
            except Exception:  # noqa: BLE001  (a bug; if this task ended, no dead broker would be fenced)
                _log.exception("cannot check the broker sessions")

    async def _check_sessions(self) -> None:
        """Fence brokers whose session has expired; then probe the silent ones concurrently, as a probe may be slow."""
        if not self.is_active:
            return
        now, silent = self._clock.monotonic_ms(), []
        unprobed, self._unprobed = self._unprobed, set()
        for broker in [broker for broker in self.image.brokers.values() if not broker.fenced]:
            if not self._sessions.alive(broker.broker_id, now):
                await self._fence(broker.broker_id, broker.broker_epoch, "its session has expired", if_expired=True)
            elif broker.broker_id in unprobed or self._sessions.silent_for(broker.broker_id, now) > PROBE_SILENCE_MS:
                silent.append(broker.broker_id)
        for error in await asyncio.gather(*map(self.probe, silent), return_exceptions=True):
            if isinstance(error, BaseException):  # Raised once all probes have ended, so that none is left running.
                raise error

    async def probe(self, broker_id: BrokerId) -> None:
        """Check at once whether a broker's process has exited, because its connection was lost; fence it if so."""
        broker = self.image.brokers.get(broker_id)
        if not self.is_active or broker is None or broker.fenced or self._is_down is None:
            return
        if await self._is_down(broker.internal):
            current = self.image.brokers.get(broker_id)
            if current is None or current.broker_epoch != broker.broker_epoch:
                return  # The broker has restarted during the probe: its new session is valid.
            self._sessions.end(broker_id)
            await self._fence(broker_id, broker.broker_epoch, f"no process listens at {broker.internal}")

    async def _fence(self, broker_id: BrokerId, broker_epoch: int, why: str, *, if_expired: bool = False) -> None:
        """Fence a broker.

        Args:
            if_expired: not if a heartbeat that had waited for the same lock has renewed the session.
        """

        def decide(image: MetadataImage) -> Decision[None]:
            if if_expired and self._sessions.alive(broker_id, self._clock.monotonic_ms()):
                return Decision((), None)
            return decide_fence(image, broker_id, broker_epoch)

        try:
            await self._writer.decide(decide, urgent=True)
        except RaftlogError as error:
            _log.warning("cannot fence broker %d: %s", broker_id, error.message)
            return
        known = self.image.brokers.get(broker_id)
        if known is not None and known.broker_epoch == broker_epoch and known.fenced:
            _log.warning("broker %d fenced: %s", broker_id, why)

    async def _rebalance(self) -> None:
        """Elect preferred leaders periodically."""
        while True:
            await asyncio.sleep(self._config.leader_imbalance_check_interval_ms / 1000)
            if self.is_active:
                try:
                    await self._writer.decide(decide_rebalance)
                except RaftlogError as error:
                    _log.warning("cannot rebalance leaders: %s", error.message)


def _draw_key() -> str:
    return os.urandom(KEY_BYTES).hex()
