"""A broker's lifecycle at the controllers: registration, heartbeats (fenced, unfenced), controlled shutdown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from raftlog.broker.controller_channel import ControllerChannel
from raftlog.config import NodeConfig
from raftlog.errors import ConfigError, ErrorCode, FencedError, InvalidRequestError, RaftlogError, StorageError
from raftlog.metadata_quorum.records import FEATURE_LEVEL
from raftlog.model import BrokerEpoch, Offset, TopicIdPartition
from raftlog.partition.storage.log_dirs import NodeFolders
from raftlog.version import VERSION
from raftlog.wire.controller import HeartbeatRequest, OfflineReplica, RegisterBrokerRequest, RegisterBrokerResponse

_log = logging.getLogger(__name__)
RETRY_S = 0.2
SHUTDOWN_TIMEOUT_S = 5.0
NOTE_S = 60.0
"""How often the offset of applied metadata is written, while it grows."""


class ReportedBroker(Protocol):
    """The broker whose state the heartbeats report."""

    @property
    def applied_offset(self) -> Offset:
        """The metadata offset that this broker has applied; -1 until its logs are open, so that it stays fenced."""
        ...

    @property
    def offline(self) -> Iterable[TopicIdPartition]:
        """The replicas that cannot lead because their logs are damaged."""
        ...

    def on_registered(self, broker_epoch: BrokerEpoch) -> None:
        """Take the broker epoch, before the first heartbeat."""
        ...


class BrokerLifecycle:
    """Registers, then sends heartbeats until it stops.

    Args:
        data_dir: the data folder, which tells whether the previous shutdown was clean and the folder is new.
    """

    def __init__(self, config: NodeConfig, *, channel: ControllerChannel, data_dir: NodeFolders) -> None:
        self.broker_epoch: BrokerEpoch = -1
        self.fenced = True
        self.fatal: asyncio.Future[RaftlogError] = asyncio.get_running_loop().create_future()
        """Completes when the controllers refuse this broker for good, or a disk failed."""
        self._config = config
        self._channel = channel
        self._data_dir = data_dir
        self._wants_shutdown = False
        self._may_stop = asyncio.Event()
        self._sooner = asyncio.Event()
        self._note_at_s = 0.0

    async def run(self, broker: ReportedBroker) -> None:
        """Register `broker`, then send heartbeats until `shut_down`."""
        await self._register(broker)
        while self.broker_epoch >= 0:
            self._sooner.clear()
            try:
                await self._heartbeat(broker)
            except FencedError as error:
                if error.code is not ErrorCode.STALE_BROKER_EPOCH:
                    raise
                self._give_up(error)
                return
            except RaftlogError as error:
                _log.warning("a heartbeat failed: %s", error.message)
                if error.code is ErrorCode.BROKER_ID_NOT_REGISTERED and not self._wants_shutdown:
                    # An operator took this starting broker for a dead one. A controller that was frozen answers the
                    # same; registering again changes nothing then.
                    self.broker_epoch = -1
                    await self._register(broker)
            await self._note_metadata(broker)
            await self._pause()

    async def _note_metadata(self, broker: ReportedBroker) -> None:
        """Record from time to time which metadata was applied: what controllers with less of it say is not believed."""
        now_s = asyncio.get_running_loop().time()
        if broker.applied_offset > self._data_dir.metadata_offset and now_s >= self._note_at_s:
            self._note_at_s = now_s + NOTE_S
            try:
                await asyncio.to_thread(self._data_dir.note_metadata, broker.applied_offset)
            except StorageError as error:
                _log.warning("cannot note the offset of applied metadata: %s", error.message)

    def heartbeat_now(self) -> None:
        """Send the next heartbeat now."""
        self._sooner.set()

    async def shut_down(self) -> None:
        """Request a controlled shutdown; return when this broker may stop, or after a timeout. Later calls return."""
        if self.broker_epoch < 0 or self._wants_shutdown:
            return
        self._wants_shutdown = True
        self.heartbeat_now()
        try:
            async with asyncio.timeout(SHUTDOWN_TIMEOUT_S):
                await self._may_stop.wait()
        except TimeoutError:
            _log.warning("stopping without a controlled shutdown: no controller agreed within %g s", SHUTDOWN_TIMEOUT_S)

    async def _register(self, broker: ReportedBroker) -> None:
        request = RegisterBrokerRequest(
            cluster_id=self._config.cluster_id,
            broker_id=self._config.node_id,
            incarnation_id=self._data_dir.incarnation_id,
            public=self._config.public,
            internal=self._config.internal,
            rack=self._config.rack,
            version=VERSION,
            storage_id=self._data_dir.storage_id,
            unclean=self._data_dir.unclean,
            previous_incarnations=self._data_dir.previous_incarnations,
            max_feature_level=FEATURE_LEVEL,
        )
        said = ""
        while self.broker_epoch < 0:
            try:
                response = await self._channel.register(request)
            except InvalidRequestError as error:
                if error.code is not ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                    self._give_up(error)
                    return
                said = _say_once(said, error)
            except RaftlogError as error:
                said = _say_once(said, error)
            else:
                applied = max(self._data_dir.metadata_offset, broker.applied_offset)
                if response.broker_epoch < self._data_dir.broker_epoch or response.metadata_offset < applied:
                    self._give_up(_metadata_lost(response, self._data_dir, applied))
                    return
                self.broker_epoch = response.broker_epoch
                self._data_dir.registered(response.broker_epoch, response.metadata_offset)
                broker.on_registered(response.broker_epoch)
                _log.info("registered as broker %d in epoch %d", self._config.node_id, response.broker_epoch)
                return
            await asyncio.sleep(RETRY_S)

    async def _heartbeat(self, broker: ReportedBroker) -> None:
        interval_ms = self._config.broker.broker_heartbeat_interval_ms
        answer = await self._channel.heartbeat(
            HeartbeatRequest(
                broker_id=self._config.node_id,
                broker_epoch=self.broker_epoch,
                metadata_offset=broker.applied_offset,
                want_shutdown=self._wants_shutdown,
                offline=tuple(OfflineReplica(topic_id=key.topic_id, partition=key.partition) for key in broker.offline),
            ),
            timeout_ms=2 * interval_ms,
        )
        if answer.fenced != self.fenced:
            _log.info("%s", "fenced by the controllers" if answer.fenced else "unfenced: serving")
        self.fenced = answer.fenced
        if answer.should_shut_down:
            self._may_stop.set()
        elif self._wants_shutdown:
            self._sooner.set()

    async def _pause(self) -> None:
        interval = 0.05 if self.fenced else self._config.broker.broker_heartbeat_interval_ms / 1000
        try:
            async with asyncio.timeout(interval):
                await self._sooner.wait()
        except TimeoutError:
            return

    @property
    def ending(self) -> bool:
        """Whether this broker is shutting down or has failed."""
        return self._wants_shutdown or self.fatal.done()

    def refuse(self, error: RaftlogError) -> None:
        """Shut this broker down with an error, for example after a failed disk write (as Kafka does)."""
        if not self.fatal.done():
            self.fatal.set_result(error)

    def _give_up(self, error: RaftlogError) -> None:
        self._may_stop.set()  # No controller is asked again.
        self.refuse(ConfigError(error.message, code=error.code, details=error.details))


def _metadata_lost(response: RegisterBrokerResponse, data_dir: NodeFolders, applied: Offset) -> ConfigError:
    """Return the error for controllers that have forgotten this broker's last registration, and so its topics.

    Broker epochs are offsets of the metadata log. By this metadata, every partition here belongs to a deleted topic,
    and would be deleted.
    """
    return ConfigError(
        f"the controllers' metadata is not this broker's: it was registered in epoch {data_dir.broker_epoch}, and now "
        f"in epoch {response.broker_epoch}; it has applied metadata up to offset {applied}, and theirs ends at "
        f"{response.metadata_offset}. They have started over without their data folders, or with older ones. Nothing "
        f"in {data_dir.path} was changed. Give the controllers their data folders back; or, if the records here are "
        "not needed, start this broker with an empty data folder"
    )


def _say_once(said: str, error: RaftlogError) -> str:
    if error.message != said:
        _log.warning("not registered yet: %s", error.message)
    return error.message
