"""Real clusters to measure, fake brokers, and a client of the active controller."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Self

from raftlog.broker.controller_channel import ControllerChannel
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.security import secure
from raftlog.errors import InvalidRequestError, RaftlogError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import image_from_plain
from raftlog.metadata_quorum.records import FEATURE_LEVEL
from raftlog.model import Address
from raftlog.runtime import new_uuid_hex
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.controller import HeartbeatRequest, MetadataUpdate, RegisterBrokerRequest
from raftlog.wire.metadata import ControllerInfo, CreateTopicRequest

_HEARTBEAT_S = 0.5
_FIRST_ATTEMPT_MS = 10_000
_POLL_S = 0.005
_USER = "bench"
FAKES = 3
FIRST_FAKE_ID = 11
"""Above the ids of a cluster's real brokers."""


class Controllers(LocalCluster):
    """A cluster whose brokers are not started with it: fakes replace them."""

    @property
    def names(self) -> list[str]:
        return self.controllers


class Secured(LocalCluster):
    """Requires TLS on every listener, and certificates or credentials."""

    def start(self, *names: str) -> None:
        secure(self, _USER)
        super().start(*names)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make a process a client of the super user."""
        folder = self.data / "security"
        users = folder / "users"
        files = {"CA": folder / "ca.pem", "CERT": users / f"{_USER}.pem", "KEY": users / f"{_USER}.key"}
        return {f"RAFTLOG_{name}_FILE": str(path) for name, path in files.items()}


@contextmanager
def running(cls: type[LocalCluster] = LocalCluster, **options: Any) -> Iterator[LocalCluster]:
    """Run a cluster in a folder of its own, under the working directory: /tmp may be memory, where fsync is free."""
    Path("build").mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir="build", prefix="cluster-", ignore_cleanup_errors=True) as folder,
        cls(Path(folder), port=0, **options) as cluster,
    ):
        yield cluster


class ControllerClient:
    """Sends requests to controllers by name, over connections that stay open."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.session = HttpSession()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def active(self) -> str:
        """Wait until every running controller names the same active one; return its name."""
        by_id = {self._cluster.node(name).node_id: name for name in self._cluster.controllers}
        async with asyncio.timeout(30):
            while True:
                known = {await self._known(name) for name in self._cluster.controllers}
                if len(known) == 1 and (active := known.pop()) in by_id:
                    return by_id[active]
                await asyncio.sleep(0.05)

    async def create_topic(self, among: list[str], request: CreateTopicRequest, *, timeout_s: float = 60.0) -> str:
        """Send the request to the named controllers one after another until one accepts it; return its name."""
        deadline = time.monotonic() + timeout_s
        while True:
            for name in among:
                try:
                    await self._post(name, paths.CREATE_TOPIC, request)
                except InvalidRequestError:
                    raise  # A permanent error.
                except RaftlogError:
                    if time.monotonic() > deadline:
                        raise
                else:
                    return name
            await asyncio.sleep(_POLL_S)

    async def image(self, name: str) -> MetadataImage:
        """Return a controller's metadata image."""
        address = self._cluster.node(name).internal
        update = await self.session.call(
            MetadataUpdate,
            "GET",
            address,
            paths.METADATA_WATCH,
            timeout_ms=_FIRST_ATTEMPT_MS,
            query={"after_offset": -1},
        )
        assert update.snapshot is not None
        return image_from_plain(update.snapshot)

    async def _post(self, name: str, path: str, message: object) -> dict[str, Any]:
        address = self._cluster.node(name).internal
        return await self.session.call(
            dict[str, Any], "POST", address, path, timeout_ms=_FIRST_ATTEMPT_MS, message=message
        )

    async def _known(self, name: str) -> int:
        address = self._cluster.node(name).internal
        try:
            # Each for itself: the active one's answer does not show which controller the others follow.
            info = await self.session.call(
                ControllerInfo, "GET", address, paths.CONTROLLER, timeout_ms=1_000, query={"consistency": "local"}
            )
        except RaftlogError:
            return -1
        return info.controller_id


class FakeBroker:
    """Registers, sends heartbeats, reads the metadata log and listens: all that controllers see of a broker."""

    def __init__(self, cluster: LocalCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id
        self.offset = -1
        self.unfenced = asyncio.Event()

    async def run(self) -> None:
        """Listen, register, then send heartbeats and watch until cancelled, which looks like the broker's death."""

        async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        controllers = [self._cluster.node(name).internal for name in self._cluster.controllers]
        # The controller probes silent brokers: an open listener shows that they live.
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        try:
            async with HttpSession() as session:
                self._channel = ControllerChannel(controllers, session)
                epoch = await self._register(Address("127.0.0.1", server.sockets[0].getsockname()[1]))
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._heartbeat(epoch))
                    group.create_task(self._watch())
        finally:
            server.close()

    async def _register(self, address: Address) -> int:
        request = RegisterBrokerRequest(
            cluster_id=self._cluster.cluster_id,
            broker_id=self._broker_id,
            incarnation_id=new_uuid_hex(),
            public=address,
            internal=address,
            max_feature_level=FEATURE_LEVEL,
        )
        while True:
            try:
                return (await self._channel.register(request)).broker_epoch
            except RaftlogError:
                await asyncio.sleep(0.1)

    async def _heartbeat(self, epoch: int) -> None:
        while True:
            request = HeartbeatRequest(broker_id=self._broker_id, broker_epoch=epoch, metadata_offset=self.offset)
            try:
                answer = await self._channel.heartbeat(request, timeout_ms=1_000)
                if not answer.fenced:
                    self.unfenced.set()
            except RaftlogError:
                pass
            await asyncio.sleep(_HEARTBEAT_S if self.unfenced.is_set() else _POLL_S * 10)

    async def _watch(self) -> None:
        while True:
            try:
                update = await self._channel.watch(self.offset, broker_id=self._broker_id)
                self.offset = max(self.offset, update.end_offset)
            except RaftlogError:
                await asyncio.sleep(0.1)


class Fakes(list[FakeBroker]):
    """Running fakes, which can die one by one."""

    def __init__(self, cluster: LocalCluster, count: int) -> None:
        super().__init__(FakeBroker(cluster, FIRST_FAKE_ID + i) for i in range(count))
        self._tasks = {id(fake): asyncio.create_task(fake.run()) for fake in self}

    async def until_unfenced(self) -> None:
        async with asyncio.timeout(30):
            for fake in self:
                await fake.unfenced.wait()

    async def end(self, fake: FakeBroker) -> None:
        task = self._tasks[id(fake)]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def start(self, fake: FakeBroker) -> None:
        fake.unfenced.clear()
        self._tasks[id(fake)] = asyncio.create_task(fake.run())


@asynccontextmanager
async def fake_brokers(cluster: LocalCluster, *, count: int = FAKES) -> AsyncIterator[Fakes]:
    """Run fakes that are unfenced when the block begins."""
    fakes = Fakes(cluster, count)
    try:
        await fakes.until_unfenced()
        yield fakes
    finally:
        for fake in fakes:
            await fakes.end(fake)


async def caught_up(fakes: list[FakeBroker], offset: int) -> None:
    """Wait until every fake has read the metadata log up to `offset`."""
    async with asyncio.timeout(30):
        while min(fake.offset for fake in fakes) < offset:
            await asyncio.sleep(0.01)


def kill_now(cluster: LocalCluster, name: str) -> None:
    """Send SIGKILL and do not wait: time counts from here. `cluster.restart` collects the process."""
    process = cluster.process(name)
    assert process is not None
    assert process.send(signal.SIGKILL)
