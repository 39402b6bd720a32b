"""The shell around the controller's decisions: the single writer of the metadata log.

`decide -> commit -> answer`, one decision after another. A controller acts only after its own `BeginEpoch` is applied:
by then it has applied everything before, and every later command of its predecessors is void. If the outcome of a
commit is unknown, it begins a new epoch before it decides again: the lost command is then either applied, or void.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from raftlog.config import BrokerConfig, ControllerConfig
from raftlog.errors import ErrorCode, RaftlogError, RetriableError, StaleRouteError, UnknownOutcomeError
from raftlog.metadata_quorum.controller.brokers import decide_fence, decide_heartbeat, decide_registration
from raftlog.metadata_quorum.controller.decision import Decision
from raftlog.metadata_quorum.controller.isr import decide_alter_partitions
from raftlog.metadata_quorum.controller.producer_ids import decide_producer_ids
from raftlog.metadata_quorum.controller.topics import TopicDefaults, decide_creation, decide_deletion
from raftlog.metadata_quorum.image import MetadataImage, image_from_plain, image_to_plain, replay_command
from raftlog.metadata_quorum.publisher import Publisher
from raftlog.metadata_quorum.records import BeginEpoch, Command, encode_command
from raftlog.metadata_quorum.seam import Quorum
from raftlog.metadata_quorum.sessions import Sessions
from raftlog.model import Address, BrokerEpoch, BrokerId, ControllerId, TopicId
from raftlog.runtime import Clock, Tasks, new_uuid_hex
from raftlog.wire.codec import decode_plain, encode_json
from raftlog.wire.controller import (
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ProducerIdBlock,
    ProducerIdBlockRequest,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
)
from raftlog.wire.metadata import CreateTopicRequest, DeleteTopicRequest

_log = logging.getLogger(__name__)
R = TypeVar("R")
SUSPICIOUS_SILENCE_MS = 800
"""A broker that missed a heartbeat is looked at before its session expires."""


class Controller:
    """One controller: a state machine of the quorum always, the active controller while it leads.

    Args:
        is_gone: probes a listener: True only if certainly nothing listens there any more.
    """

    def __init__(
        self,
        *,
        node_id: ControllerId,
        cluster_id: str,
        config: ControllerConfig,
        broker_defaults: BrokerConfig,
        clock: Clock,
        is_gone: Callable[[Address], Awaitable[bool]] | None = None,
    ) -> None:
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.image = MetadataImage()
        self.publisher = Publisher()
        self.leader: ControllerId | None = None
        self._config = config
        self._defaults = TopicDefaults(broker_defaults.num_partitions, broker_defaults.default_replication_factor)
        self._clock = clock
        self._sessions = Sessions(timeout_ms=config.broker_session_timeout_ms)
        self._is_gone = is_gone
        self._tasks = Tasks(f"controller {node_id}")
        self._writing = asyncio.Lock()
        self._active_epoch: int | None = None
        self._sequence = 0
        self._quorum: Quorum | None = None

    def attach(self, quorum: Quorum) -> None:
        """Say which quorum this is a state machine of, before it starts."""
        self._quorum = quorum

    async def start(self) -> None:
        self._tasks.spawn(self._watch_sessions(), name="sessions")

    async def close(self) -> None:
        await self._tasks.close()

    # The state machine of the quorum.

    def apply(self, index: int, payload: bytes) -> None:
        """Replay one committed entry."""
        self.image, records = replay_command(self.image, index, payload)
        self.publisher.publish(self.image, records)

    def take_snapshot(self) -> bytes:
        return encode_json(image_to_plain(self.image))

    def load_snapshot(self, index: int, data: bytes) -> None:
        """Start from a snapshot. One that cannot be read ends the process: acting on an empty image would be fatal."""
        self.image = image_from_plain(decode_plain(data, error=RaftlogError))
        assert self.image.offset <= index
        self.publisher.restart_from(self.image)

    def leadership_changed(self, leader: ControllerId | None) -> None:
        """Begin an epoch when this node leads; stop acting when it does not."""
        self.leader = leader
        self._active_epoch = None
        if leader == self.node_id:
            self._tasks.spawn(self._begin_epoch(), name="begin epoch")

    # Requests.

    @property
    def is_active(self) -> bool:
        return self._active_epoch is not None

    async def register(self, request: RegisterBrokerRequest) -> RegisterBrokerResponse:
        """Register a broker process."""

        def decide(image: MetadataImage) -> Decision[BrokerEpoch | None]:
            # Asked only now: while this request waited for its turn, an epoch may have begun, with new sessions.
            alive = self._sessions.alive(request.broker_id, self._clock.monotonic_ms())
            return decide_registration(image, request, cluster_id=self.cluster_id, session_alive=alive)

        epoch, offset = await self._decide(decide)
        broker_epoch = offset if epoch is None else epoch
        self._sessions.heard(request.broker_id, self._clock.monotonic_ms())
        _log.info("broker %d registered in epoch %d", request.broker_id, broker_epoch)
        return RegisterBrokerResponse(broker_epoch=broker_epoch, metadata_offset=self.image.offset)

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        """Keep a broker's session."""
        response, _ = await self._decide(lambda image: decide_heartbeat(image, request))
        self._sessions.heard(request.broker_id, self._clock.monotonic_ms())
        return response

    async def alter_partitions(self, request: AlterPartitionsRequest) -> AlterPartitionsResponse:
        response, _ = await self._decide(lambda image: decide_alter_partitions(image, request))
        return response

    async def create_topic(self, request: CreateTopicRequest) -> TopicId:
        topic_id = new_uuid_hex()
        created, _ = await self._decide(
            lambda image: decide_creation(image, request, topic_id=topic_id, defaults=self._defaults)
        )
        return created

    async def delete_topic(self, request: DeleteTopicRequest) -> None:
        await self._decide(lambda image: decide_deletion(image, request))

    async def producer_ids(self, request: ProducerIdBlockRequest) -> ProducerIdBlock:
        response, _ = await self._decide(lambda image: decide_producer_ids(image, request))
        return response

    async def _decide(self, decide: Callable[[MetadataImage], Decision[R]]) -> tuple[R, int]:
        """Decide on the newest image, commit, and answer; also return the offset of the decision."""
        async with self._writing:
            epoch = self._require_active()
            decision = decide(self.image)
            if not decision.records:
                return decision.response, self.image.offset
            self._sequence += 1
            command = Command(controller_epoch=epoch, sequence=self._sequence, records=decision.records)
            offset = await self._commit(command)
            if self.image.controller_epoch != epoch:
                raise UnknownOutcomeError(f"controller {self.node_id} was replaced while it decided")
            return decision.response, offset

    async def _commit(self, command: Command) -> int:
        assert self._quorum is not None
        try:
            return await self._quorum.propose(encode_command(command), timeout_ms=self._config.proposal_timeout_ms)
        except asyncio.CancelledError:
            self._doubt()
            raise
        except UnknownOutcomeError:
            self._doubt()
            raise

    def _doubt(self) -> None:
        """Decide nothing on an image that a lost command may still change: begin a new epoch first."""
        self._active_epoch = None
        if self.leader == self.node_id:
            self._tasks.spawn(self._begin_epoch(), name="begin epoch")

    async def _begin_epoch(self) -> None:
        assert self._quorum is not None
        async with self._writing:
            while self.leader == self.node_id and self._active_epoch is None:
                command = Command(controller_epoch=-1, sequence=-1, records=(BeginEpoch(controller_id=self.node_id),))
                try:
                    timeout_ms = self._config.proposal_timeout_ms
                    offset = await self._quorum.propose(encode_command(command), timeout_ms=timeout_ms)
                except RaftlogError as error:
                    _log.warning("cannot begin a controller epoch yet: %s", error.message)
                    await asyncio.sleep(0.05)
                    continue
                if self.leader == self.node_id and self.image.controller_epoch == offset:
                    unfenced = [broker.broker_id for broker in self.image.brokers.values() if not broker.fenced]
                    self._sessions.restart(unfenced, self._clock.monotonic_ms())
                    self._active_epoch, self._sequence = offset, 0
                    _log.info("active controller in epoch %d", offset)

    def _require_active(self) -> int:
        if self._active_epoch is None:
            if self.leader == self.node_id:
                raise RetriableError(
                    f"controller {self.node_id} has just been elected and is not ready to decide yet",
                    code=ErrorCode.QUORUM_NOT_AVAILABLE,
                )
            leader = -1 if self.leader is None else self.leader
            raise StaleRouteError(
                f"controller {self.node_id} is not the active one; "
                + (f"controller {leader} is" if leader >= 0 else "none is known"),
                code=ErrorCode.NOT_CONTROLLER,
                details={"controller_id": leader},
            )
        return self._active_epoch

    # Sessions.

    async def _watch_sessions(self) -> None:
        while True:
            await asyncio.sleep(self._config.session_check_interval_ms / 1000)
            if not self.is_active:
                continue
            now = self._clock.monotonic_ms()
            for broker in list(self.image.brokers.values()):
                if broker.fenced:
                    continue
                if not self._sessions.alive(broker.broker_id, now):
                    await self._fence(broker.broker_id, broker.broker_epoch, "its session has expired")
                elif self._sessions.silent_for(broker.broker_id, now) > SUSPICIOUS_SILENCE_MS:
                    await self.suspect(broker.broker_id)

    async def suspect(self, broker_id: BrokerId) -> None:
        """Look at once whether a broker's process is gone: its connection was lost."""
        broker = self.image.brokers.get(broker_id)
        if not self.is_active or broker is None or broker.fenced or self._is_gone is None:
            return
        if await self._is_gone(broker.internal):
            self._sessions.end(broker_id)
            await self._fence(broker_id, broker.broker_epoch, f"nothing listens at {broker.internal} any more")

    async def _fence(self, broker_id: BrokerId, broker_epoch: int, why: str) -> None:
        try:
            await self._decide(lambda image: decide_fence(image, broker_id, broker_epoch))
            _log.warning("broker %d fenced: %s", broker_id, why)
        except RaftlogError as error:
            _log.warning("cannot fence broker %d: %s", broker_id, error.message)
