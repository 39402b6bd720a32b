"""A cluster whose every link goes through its own proxy, and the queries that scenarios make."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import raftlog
from chaos.capabilities import Capabilities
from chaos.connections import direct_connections
from chaos.disks import DATA, DISK_BYTES, Disks
from chaos.issuer import Issuer
from chaos.links import Links
from chaos.sessions import use_security
from chaos.shim import Shim
from chaos.topology import CLIENT, Topology
from raftlog.cli.cluster_plan import merged
from raftlog.cli.launcher import SERVER, Launcher
from raftlog.cli.local_cluster import ClusterError, LocalCluster
from raftlog.cli.processes import send_together
from raftlog.cli.security import secure as make_secure
from raftlog.model import Address
from raftlog.wire.metadata import TopicInfo

POLL_S = 0.05
LISTENING_WITHIN_S = 60.0
USER = "chaos"


class ChaosCluster:
    """Controllers and brokers behind Toxiproxy. Use as an async context manager.

    Args:
        brokers: how many; there are always three controllers.
        capabilities: what the machine can do to nodes: with them each node has its own disk, and the shim. None: only
            signals and the network are used.
        command: what to run instead of `raftlog server start`.
        extra: more settings of nodes; see `LocalCluster`.
        disk_bytes: the size of each node's disk, if it has one of its own.
        secure: nodes require TLS, certificates and access rules. While the cluster runs, the environment makes this
            process and its children clients of a super user.
    """

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 3,
        capabilities: Capabilities | None = None,
        command: Sequence[str] = SERVER,
        extra: Mapping[str, Mapping[str, Any]] | None = None,
        disk_bytes: int = DISK_BYTES,
        secure: bool = False,
    ) -> None:
        names = LocalCluster(folder, port=0, brokers=brokers).names
        self.topology = Topology.of(names)
        hosts = {name: self.topology.host(name) for name in names}
        has = capabilities or Capabilities({"disk": "not requested", "shim": "not requested"})
        self.disks = Disks(folder, names, size=disk_bytes) if has.has("disk") else None
        self.shim = Shim(folder) if has.has("shim") else None
        settings = merged(extra or {}, {"*": {"data_dir": DATA}} if self.disks else {})
        self.nodes = LocalCluster(
            folder,
            port=0,
            brokers=brokers,
            hosts=hosts,
            extra=settings,
            launcher=Launcher(self.shim.around(command) if self.shim else command),
        )
        self.links = Links(folder)
        self.listeners: dict[str, list[Address]] = {
            name: list(self.nodes.node(name).listeners.values()) for name in names
        }
        self.dial = self.topology.dial_map(CLIENT, self.listeners)
        """The client's own dial map: its links can be cut too."""
        for name in names:
            self.nodes.configure(name, dial=self.topology.dial_map(name, self.listeners))
        self._security: raftlog.Security | None = None
        self.issuer: Issuer | None = None
        """Signs the tokens that the nodes accept, if they are secure."""
        if secure:
            (folder / "security").mkdir(parents=True, exist_ok=True)
            self.issuer = Issuer((folder / "security" / "jwks.json").absolute())
            files = make_secure(self.nodes, USER, tokens=self.issuer.settings).folder
            users = files / "users"
            self._security = raftlog.Security(
                ca_file=str(files / "ca.pem"), cert_file=str(users / f"{USER}.pem"), key_file=str(users / f"{USER}.key")
            )

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._start)
        except BaseException:
            await asyncio.to_thread(self._stop)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._stop)

    def _start(self) -> None:
        use_security(self._security)
        if self.disks:
            self.disks.open()
        self.links.start()
        self.topology.add_links(self.links, self.listeners)
        self.nodes.start()
        self.nodes.wait_ready()

    def _stop(self) -> None:
        with ExitStack() as stack:
            if self.disks:
                stack.callback(self.disks.close)
            stack.callback(self.links.stop)
            stack.callback(self.nodes.stop)
            use_security(None)

    def data_dir(self, name: str) -> Path:
        """Return a node's data folder."""
        return self.nodes.node(name).folder / (DATA if self.disks else "data")

    @property
    def bootstrap(self) -> list[str]:
        return self.nodes.bootstrap.split(",")

    def bypasses(self) -> list[str]:
        """Return connections between processes that bypass the proxies: there must be none."""
        pids = {name: pid for name in self.nodes.running() if (pid := self.nodes.pid(name)) is not None}
        return direct_connections(pids, self.listeners)

    async def kill(self, *names: str, sig: signal.Signals = signal.SIGKILL) -> float:
        """Signal these nodes at once; return the milliseconds between the first and the last signal.

        From just before a SIGKILL, their ports refuse connections. Otherwise their proxies would go on accepting
        connections, unlike the host of a dead process. A node that checks whether a broker is alive would then wait
        until its session timed out.
        """
        alive = [name for name in names if self.nodes.pid(name) is not None]
        if sig is signal.SIGKILL:
            await asyncio.to_thread(self.links.refuse, *alive)
        _, apart_ms = send_together([process for name in alive if (process := self.nodes.process(name))], sig)
        await asyncio.gather(*(asyncio.to_thread(self._end, name, sig) for name in alive))
        if sig is not signal.SIGKILL:
            await asyncio.to_thread(self.links.refuse, *alive)
        return apart_ms

    def _end(self, name: str, sig: signal.Signals) -> None:
        for each in (sig, signal.SIGKILL):
            with suppress(ClusterError):  # It has exited by itself meanwhile, or it does not exit and is killed.
                self.nodes.kill(name, each)
            if self.nodes.pid(name) is None:
                return
        raise ClusterError(f"{name} does not exit after SIGKILL")

    async def start(self, *names: str) -> None:
        """Start stopped nodes; their ports accept again when they listen. Does not wait until they are ready.

        Raises:
            ClusterError: a node does not listen within a minute, or has exited.
        """
        await asyncio.gather(*(asyncio.to_thread(self._start_node, name) for name in names))

    def _start_node(self, name: str) -> None:
        if self.nodes.pid(name) is None:
            self.nodes.start_node(name)
        deadline = time.monotonic() + LISTENING_WITHIN_S
        while not all(_listens(address) for address in self.listeners[name]):
            if self.nodes.pid(name) is None or time.monotonic() > deadline:
                raise ClusterError(f"{name} does not listen; its log ends with:\n{self.nodes.log_tail(name)}")
            time.sleep(POLL_S)
        self.links.accept(name)

    async def restart(self, *names: str) -> None:
        """Start killed nodes again, and wait until they report themselves ready."""
        await self.start(*names)
        await asyncio.to_thread(self.nodes.wait_ready, 60, names)

    async def describe(self, topic: str) -> TopicInfo:
        """Ask any broker that answers, directly and not through a proxy: this is the referee's view."""
        async with raftlog.Admin(self.bootstrap) as admin:
            return await admin.describe_topic(topic, local=True)

    async def leader_of(self, topic: str, partition: int) -> str:
        info = await self.describe(topic)
        return f"broker-{info.partitions[partition].leader}"

    async def wait_full_isr(self, topic: str, *, within_s: float) -> None:
        """Wait until every assigned replica of every partition is in sync.

        Raises:
            TimeoutError: some partitions are not; the message names them.
        """
        info: TopicInfo | None = None
        try:
            async with asyncio.timeout(within_s):
                while info is None or _behind(info):
                    await asyncio.sleep(POLL_S)
                    info = await self.describe(topic)
        except TimeoutError:
            raise TimeoutError(f"not in sync within {within_s:g} s: {_behind(info) if info else 'no answer'}") from None


def _behind(info: TopicInfo) -> list[str]:
    behind = [part for part in info.partitions if len(part.isr) < len(part.replicas)]
    return [f"{info.topic}-{part.partition}: isr {part.isr} of {part.replicas}" for part in behind]


def _listens(address: Address) -> bool:
    try:
        socket.create_connection((address.host, address.port), timeout=1).close()
    except OSError:
        return False
    return True
