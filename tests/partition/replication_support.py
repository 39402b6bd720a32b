"""Several brokers' replica managers in one process, over real HTTP, under a controller of a few lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Self

import pandas as pd  # noqa: F401  (pyarrow loads it at first use: half a second in which every follower is silent)
from aiohttp import web
from aiohttp.test_utils import TestServer

from raftlog.broker.http import errors
from raftlog.config import ReplicationConfig
from raftlog.errors import ErrorCode, RetriableError, StorageError
from raftlog.model import Address, BrokerRegistration, PartitionAssignment, PartitionState
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.readable_replica import in_memory
from raftlog.partition.replica import Replica
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.partition.settings import ReplicaPorts, ReplicaSettings
from raftlog.partition.storage.data_dir import DataDir
from raftlog.record import NewRecord, build_batch, iter_batches, read_records
from raftlog.runtime import SystemClock
from raftlog.transport import HttpSession
from raftlog.wire import media, paths
from raftlog.wire.codec import decode_json, encode_frame, framed
from raftlog.wire.controller import (
    AlterPartitionResult,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    DamagedReplicasRequest,
)
from raftlog.wire.packed_fetch import is_packed, pack_response, unpack_request
from raftlog.wire.repair import RepairRequest
from raftlog.wire.replication import ReplicaFetchRequest

TOPIC_ID = "c" * 32
# As long as a broker allows: under load a disk takes 0.1 s for a sync, and a follower may need several.
FAST = ReplicationConfig(
    replica_lag_time_max_ms=2_000,
    replica_fetch_wait_max_ms=100,
    replica_fetch_backoff_ms=10,
    replica_silence_max_ms=2_000,
)


class Broker:
    """One replica manager behind its internal listener. `deaf` makes the listener answer no request."""

    def __init__(self, world: World, broker_id: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.deaf = False
        self.helpful = True
        """Whether it serves the repairs of other replicas."""
        self.disk_failures: list[StorageError] = []
        """Why this broker was to shut down; here it runs on."""
        app = web.Application(middlewares=[errors], client_max_size=64 << 20)
        app.router.add_post(paths.REPLICA_FETCH, self._fetch)
        app.router.add_post(paths.REPAIR, self._repair)
        self.server = TestServer(app, host="127.0.0.1")

    async def start(self) -> None:
        self.session = HttpSession()
        self.data_dir = DataDir.open(self.world.folder / str(self.broker_id), cluster_id="c", node_id=self.broker_id)
        self.manager = ReplicaManager(
            LocalBroker(self.broker_id, self.world.epochs[self.broker_id]),
            self.data_dir,
            ReplicaSettings(replication=FAST, repair_patience_s=self.world.repair_patience_s),
            ReplicaPorts(
                session=self.session,
                controller=self.world,
                clock=SystemClock(),
                on_disk_failure=self.disk_failures.append,
            ),
        )
        await self.manager.start()

    async def stop(self) -> None:
        self.deaf = True
        await self.manager.close()
        await self.session.close()
        self.data_dir.close()

    async def _fetch(self, request: web.Request) -> web.Response:
        if self.deaf:
            raise RetriableError("deaf")
        packed = is_packed(asked := await request.read())
        command = unpack_request(asked) if packed else decode_json(ReplicaFetchRequest, asked)
        response, parts = await self.manager.replica_fetch(command)
        head = pack_response(response) if packed else None
        body = b"".join([*(encode_frame(response) if head is None else [framed(head)]), *map(in_memory, parts)])
        return web.Response(body=body, content_type=media.FRAME)

    async def _repair(self, request: web.Request) -> web.Response:
        if self.deaf or not self.helpful:
            raise RetriableError("deaf")
        response, data = await self.manager.repair(decode_json(RepairRequest, await request.read()))
        return web.Response(body=b"".join(encode_frame(response, [data])), content_type=media.FRAME)

    @property
    def replica(self) -> Replica:
        return next(iter(self.manager.replicas))

    def values(self) -> list[str]:
        log = self.replica.log
        data, position = b"", log.log_start_offset
        while chunk := log.read(position, 1 << 20, limit_offset=log.log_end_offset):
            data += chunk
            position = read_records(chunk, topic="t", partition=0)[-1].offset + 1
        return [(record.value or b"").decode() for record in read_records(data, topic="t", partition=0)]


class World:
    """The brokers, and the controller's part: compare-and-swap on the partition's state, and pushing metadata."""

    def __init__(
        self,
        folder: Path,
        *,
        isr: tuple[int, ...] = (1, 2, 3),
        configs: dict | None = None,
        repairing: bool = True,
    ) -> None:
        self.folder = folder
        self.epochs = {1: 11, 2: 12, 3: 13}
        self.fenced: set[int] = set()
        self.state = PartitionState(replicas=(1, 2, 3), isr=isr, leader=1, leader_epoch=0, partition_epoch=0)
        self.topic_id = TOPIC_ID
        self.configs = configs or {}
        self.reachable = True
        self.repair_patience_s = 10.0 if repairing else 0.0
        self.damage_reports: list[DamagedReplicasRequest] = []
        self.brokers = {broker: Broker(self, broker) for broker in (1, 2, 3)}
        for broker in self.brokers.values():
            broker.helpful = repairing
        self.running: set[int] = set()

    async def __aenter__(self) -> Self:
        for broker in self.brokers.values():
            await broker.server.start_server()
            await self.start(broker.broker_id)
        await self.push()
        return self

    async def __aexit__(self, *_: object) -> None:
        for broker in list(self.running):
            await self.stop(broker)
        for broker in self.brokers.values():
            await broker.server.close()

    async def start(self, broker: int) -> None:
        self.brokers[broker].deaf = False
        await self.brokers[broker].start()
        self.running.add(broker)

    async def stop(self, broker: int) -> None:
        self.running.discard(broker)
        await self.brokers[broker].stop()

    async def push(self, *, to: set[int] | None = None, complete: bool = False) -> None:
        """Push the present state to the running brokers, or to some of them.

        The leader comes last: a slow disk may keep the others from fetching, and the leader would count that as their
        silence.
        """
        assignment = PartitionAssignment(
            topic="t", topic_id=self.topic_id, partition=0, state=self.state, configs=self.configs
        )
        told = self.running & (to or self.running)
        for broker in sorted(told, key=lambda broker: (broker == self.state.leader, broker)):
            manager = self.brokers[broker].manager
            await manager.apply([assignment], self.registrations(), complete=complete)

    def registrations(self) -> dict[int, BrokerRegistration]:
        return {
            broker: BrokerRegistration(
                broker_id=broker,
                incarnation_id="i",
                broker_epoch=self.epochs[broker],
                public=Address("127.0.0.1", 1),
                internal=Address("127.0.0.1", self.brokers[broker].server.port or 0),
                fenced=broker in self.fenced,
            )
            for broker in self.brokers
        }

    async def elect(self, leader: int, isr: tuple[int, ...], *, to: set[int] | None = None) -> None:
        epoch, version = self.state.leader_epoch + 1, self.state.partition_epoch + 1
        self.state = replace(self.state, leader=leader, isr=isr, leader_epoch=epoch, partition_epoch=version)
        await self.push(to=to)

    async def alter_partitions(self, request: AlterPartitionsRequest) -> AlterPartitionsResponse:
        if not self.reachable:
            raise RetriableError("no controller", code=ErrorCode.QUORUM_NOT_AVAILABLE)
        (asked,) = request.partitions
        if (asked.leader_epoch, asked.partition_epoch) == (self.state.leader_epoch, self.state.partition_epoch):
            isr = tuple(member.broker_id for member in asked.new_isr)
            self.state = replace(self.state, isr=isr, partition_epoch=self.state.partition_epoch + 1)
        result = AlterPartitionResult(topic_id=asked.topic_id, partition=0, state=self.state)
        return AlterPartitionsResponse(partitions=(result,))

    async def damaged_replicas(self, request: DamagedReplicasRequest) -> AlterPartitionsResponse:
        """Record the report; a test does the controller's work."""
        self.damage_reports.append(request)
        return AlterPartitionsResponse(partitions=())

    async def produce(self, *values: str, broker: int = 1, timeout_ms: int = 5_000, **batch: int) -> tuple[int, bool]:
        built = build_batch([NewRecord(value.encode(), timestamp=1) for value in values], **batch)
        manager = self.brokers[broker].manager
        result = await manager.produce("t", 0, built, acks=-1, timeout_ms=timeout_ms)
        return result.base_offset, result.duplicate

    async def until(self, holds: Callable[[], bool], *, within_s: float = 10.0) -> None:
        async with asyncio.timeout(within_s):
            while not holds():
                await asyncio.sleep(0.005)


def view(replica: Replica) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return offset, key and value of each record of a replica, compacted or not."""
    log, position, found = replica.log, replica.log.log_start_offset, []
    while data := log.read(position, 1 << 20, limit_offset=log.log_end_offset):
        found += read_records(data, topic="t", partition=0, from_offset=position)
        position = max(header.next_offset for header, _ in iter_batches(data))
    return [(record.offset, record.key, record.value) for record in found]
