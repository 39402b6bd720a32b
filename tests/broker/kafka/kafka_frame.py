"""A broker in this process, and a small Kafka listener in front of the handlers under test.

It speaks one encoding, the inflexible one, of the APIs that producing and reading without groups need. So real clients
test the handlers apart from the broker's own listener.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import kio.schema.errors

from raftlog.broker.broker_node import BrokerNode
from raftlog.broker.context import BrokerContext
from raftlog.broker.http import ParkedFetches
from raftlog.broker.kafka.fetch import KafkaFetch, KafkaPosition
from raftlog.broker.kafka.offsets import KafkaOffsets
from raftlog.broker.kafka.produce import KafkaBatch, KafkaProduce
from raftlog.config import BrokerConfig, ListenersConfig, NodeConfig, QuorumConfig, VoterConfig
from raftlog.errors import RaftlogError
from raftlog.metadata_quorum.controller_node import ControllerNode
from raftlog.model import Address
from raftlog.partition.storage.log_dirs import open_folders
from raftlog.security.identity import UNKNOWN_SENDER
from raftlog.serving.limits import InflightLimits

PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 2, 3, 18, 22
VERSIONS = {
    PRODUCE: (0, 7),
    FETCH: (4, 11),
    LIST_OFFSETS: (1, 5),
    METADATA: (1, 5),
    API_VERSIONS: (0, 0),
    INIT_PRODUCER_ID: (0, 1),
}
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE, UNSUPPORTED_VERSION = 3, 5, 35


def number(error: RaftlogError | Any | None) -> int:
    """Return Kafka's number of an error."""
    return 0 if error is None else int(kio.schema.errors.ErrorCode[error.code.lower()].value)


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> Any:
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return value

    def piece(self, size: int) -> bytes | None:
        if size < 0:
            return None
        self.at += size
        return self.data[self.at - size : self.at]

    def text(self) -> str | None:
        piece = self.piece(self.take(">h"))
        return None if piece is None else piece.decode()

    def array(self, read: Callable[[], Any]) -> list[Any]:
        return [read() for _ in range(max(0, self.take(">i")))]


def text(value: str | None) -> bytes:
    return struct.pack(">h", -1) if value is None else struct.pack(">h", len(value.encode())) + value.encode()


def array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


class Frame:
    """Serves Kafka's clients from one broker's handlers."""

    def __init__(self, context: BrokerContext, ports: dict[int, int] | None = None) -> None:
        self.context = context
        self.parked = ParkedFetches(max_requests=context.config.broker.max_inflight_requests)
        self.inflight = InflightLimits(max_requests=100, max_bytes=context.config.broker.max_inflight_bytes)
        self.producing = KafkaProduce(context, self.inflight)
        self.fetching = KafkaFetch(context, self.parked)
        self.offsets = KafkaOffsets(context)
        self.port = 0
        self.ports = ports
        """The port of each broker's listener; None: there is one broker."""
        self.served = 0
        self.answers: dict[int, Callable[[Reader, int], Awaitable[bytes | None]]] = {
            PRODUCE: self.produce,
            FETCH: self.fetch,
            LIST_OFFSETS: self.list_offsets,
            METADATA: self.metadata,
            INIT_PRODUCER_ID: self.init_producer_id,
        }

    async def listen(self, port: int) -> asyncio.Server:
        server = await asyncio.start_server(self.connected, "127.0.0.1", port, limit=16 << 20)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = Reader(await reader.readexactly(size))
                api, version, correlation = request.take(">h"), request.take(">h"), request.take(">i")
                if api == API_VERSIONS:
                    keys = [struct.pack(">hhh", key, *VERSIONS[key]) for key in VERSIONS]
                    answer: bytes | None = struct.pack(">h", UNSUPPORTED_VERSION if version else 0) + array(keys)
                else:
                    request.text()
                    answer = await self.answers[api](request, version)
                    self.served += 1
                if answer is not None:
                    writer.write(struct.pack(">ii", 4 + len(answer), correlation) + answer)
                    await writer.drain()
        writer.close()

    async def produce(self, request: Reader, version: int) -> bytes | None:
        transactional_id, acks, timeout_ms = request.text(), request.take(">h"), request.take(">i")
        batches: list[KafkaBatch] = []

        def partition(topic: str) -> None:
            index, records = request.take(">i"), request.piece(request.take(">i"))
            batches.append(KafkaBatch(topic=topic, partition=index, records=records))

        def topic() -> None:
            name = str(request.text())
            request.array(lambda: partition(name))

        request.array(topic)
        results = await self.producing.append(
            batches,
            acks=acks,
            timeout_ms=timeout_ms,
            sender=UNKNOWN_SENDER,
            transactional_id=transactional_id or "",
        )
        answers = []
        for batch, result in zip(batches, results, strict=True):
            entry = struct.pack(">ihqq", batch.partition, number(result.error), result.base_offset, -1)
            entry += struct.pack(">q", result.log_start_offset) if version >= 5 else b""
            answers.append(text(batch.topic) + array([entry]))
        return array(answers) + bytes(4) if acks else None

    async def fetch(self, request: Reader, version: int) -> bytes:
        request.take(">i")
        wait_ms, min_bytes, max_bytes = (request.take(">i") for _ in range(3))
        isolation = "read_committed" if request.take(">b") else "read_uncommitted"
        if version >= 7:
            request.take(">q")
        positions: list[KafkaPosition] = []

        def partition(name: str) -> None:
            index, epoch = request.take(">i"), request.take(">i") if version >= 9 else -1
            offset = request.take(">q")
            if version >= 5:
                request.take(">q")
            most = request.take(">i")
            positions.append(
                KafkaPosition(topic=name, partition=index, offset=offset, max_bytes=most, current_leader_epoch=epoch)
            )

        def topic() -> None:
            name = str(request.text())
            request.array(lambda: partition(name))

        request.array(topic)
        reads = await self.fetching.fetch(
            positions,
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation=isolation,  # type: ignore[arg-type]
            sender=UNKNOWN_SENDER,
        )
        answers = []
        for position, read in zip(positions, reads, strict=True):
            result = read.result
            marks = (number(result.error), result.high_watermark, result.last_stable_offset)
            entry = struct.pack(">ihqq", position.partition, *marks)
            entry += struct.pack(">q", result.log_start_offset) if version >= 5 else b""
            entry += array([struct.pack(">qq", one.producer_id, one.first_offset) for one in read.aborted])
            entry += struct.pack(">i", result.preferred_read_replica) if version >= 11 else b""
            entry += struct.pack(">i", read.size) + b"".join(read.batches)
            answers.append(text(position.topic) + array([entry]))
        return bytes(4) + (bytes(6) if version >= 7 else b"") + array(answers)

    async def list_offsets(self, request: Reader, version: int) -> bytes:
        request.take(">i")
        isolation = "read_committed" if version >= 2 and request.take(">b") else "read_uncommitted"
        answers: list[bytes] = []
        wanted: list[tuple[str, int, int, int]] = []

        def partition(name: str) -> None:
            index, epoch = request.take(">i"), request.take(">i") if version >= 4 else -1
            wanted.append((name, index, epoch, request.take(">q")))

        def topic() -> None:
            name = str(request.text())
            request.array(lambda: partition(name))

        request.array(topic)
        for name, index, epoch, time in wanted:
            try:
                found = await self.offsets.find(
                    name,
                    index,
                    time,
                    sender=UNKNOWN_SENDER,
                    isolation=isolation,  # type: ignore[arg-type]
                    current_leader_epoch=epoch,
                )
                entry = struct.pack(">ihqqi", index, 0, found.timestamp_ms, found.offset, found.leader_epoch)
            except RaftlogError as error:
                entry = struct.pack(">ihqqi", index, number(error), -1, -1, -1)
            entry = entry if version >= 4 else entry[:-4]
            answers.append(text(name) + array([entry]))
        return (bytes(4) if version >= 2 else b"") + array(answers)

    async def metadata(self, request: Reader, version: int) -> bytes:
        topics = self.context.image.topics.values()
        names = request.array(request.text)
        ports = self.ports or {1: self.port}
        alive = [one for one in ports if one in self.context.image.brokers]
        brokers = [
            struct.pack(">i", one) + text("127.0.0.1") + struct.pack(">i", ports[one]) + text(None) for one in alive
        ]
        answers = [self._topic(str(name), version) for name in names or [topic.topic for topic in topics]]
        head = (bytes(4) if version >= 3 else b"") + array(brokers) + (text("c") if version >= 2 else b"")
        return head + struct.pack(">i", alive[0] if alive else -1) + array(answers)

    def _topic(self, name: str, version: int) -> bytes:
        found = self.context.image.topic(name)
        entries = []
        for index, state in sorted(found.partitions.items()) if found else ():
            replicas, isr = (array([struct.pack(">i", one) for one in ids]) for ids in (state.replicas, state.isr))
            code = 0 if state.leader >= 0 else LEADER_NOT_AVAILABLE
            entry = struct.pack(">hii", code, index, state.leader) + replicas + isr
            entries.append(entry + (array([]) if version >= 5 else b""))
        return struct.pack(">h", 0 if found else UNKNOWN_TOPIC) + text(name) + b"\0" + array(entries)

    async def init_producer_id(self, request: Reader, version: int) -> bytes:
        assert version <= 1
        assert request.text() is None
        return struct.pack(">ihqh", 0, 0, await self.offsets.new_producer_id(), 0)


@asynccontextmanager
async def broker_for_kafka(folder: Path, ports: list[int], **settings: Any) -> AsyncIterator[Frame]:
    """Run one node with both roles, and the listener."""
    (folder / "key").write_text("k" * 64)
    public, internal, quorum = (Address("127.0.0.1", port) for port in ports)
    config = NodeConfig(
        node_id=1,
        roles=("controller", "broker"),
        data_dir=str(folder / "data"),
        cluster_id="c",
        quorum=QuorumConfig(
            voters=(VoterConfig(node_id=1, quorum=quorum, internal=internal),), key_file=str(folder / "key")
        ),
        listeners=ListenersConfig(public=public, internal=internal),
        broker=BrokerConfig(**settings),
    )
    data_dir = open_folders(config.data_dir, config.log_dirs, cluster_id="c", node_id=1)
    controller, node = ControllerNode(config, data_dir.path), BrokerNode(config, data_dir)
    await node.start(internal=controller.routes.application())
    await controller.start(serve=False)
    frame = Frame(node.context)
    server = await frame.listen(0)
    try:
        yield frame
    finally:
        server.close()
        await node.close()
        await controller.close()
        data_dir.close()
