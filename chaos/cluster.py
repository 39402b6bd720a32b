"""A cluster whose every link goes through its own proxy, and the queries that scenarios make."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Container, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import raftlog
from chaos.capabilities import Capabilities
from chaos.connections import direct_connections
from chaos.disks import DATA, DISK_BYTES, Disks
from chaos.issuer import Issuer
from chaos.links import Links
from chaos.node_logs import internal_errors
from chaos.sessions import use_security
from chaos.shim import Shim
from chaos.shutdown import stop_all, wrong_exit
from chaos.topology import CLIENT, Topology
from raftlog.cli.cluster_plan import merged
from raftlog.cli.launcher import SERVER, Launcher
from raftlog.cli.local_cluster import STOP_TIMEOUT_S, ClusterError, LocalCluster
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
        self.down: set[str] = set()
        """Nodes that were ended on purpose, and not started since."""
        self.disk_faults = False
        """Whether disks fail, fill up or are damaged: errors of storage in nodes' logs are expected then."""
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

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Stop all nodes.

        Raises:
            ClusterError: nothing else failed, and a node did not exit as it should, or had an internal error.
        """
        wrong = await asyncio.to_thread(self._stop)
        if kind is None and wrong:
            raise ClusterError("\n".join(wrong))

    def _start(self) -> None:
        use_security(self._security)
        if self.disks:
            self.disks.open()
        self.links.start()
        self.topology.add_links(self.links, self.listeners)
        self.nodes.start()
        self.nodes.wait_ready()

    def _stop(self) -> list[str]:
        wrong = list[str]()
        with ExitStack() as stack:
            if self.disks:
                stack.callback(self.disks.close)
            stack.callback(self.links.stop)
            stack.callback(self.nodes.stop)
            use_security(None)
            wrong += [*self._crashes(), *stop_all(self.nodes)]
            logs = {name: self.nodes.node(name).log_path for name in self.nodes.names}
            wrong += internal_errors(logs, disk_faults=self.disk_faults)
        return wrong

    async def stop_nodes(self) -> None:
        """Stop every node.

        Raises:
            ClusterError: one has exited before, or did not exit as it should.
        """
        wrong = [*self._crashes(), *await asyncio.to_thread(stop_all, self.nodes)]
        self.down.update(self.nodes.names)
        if wrong:
            raise ClusterError("\n".join(wrong))

    def crashed(self) -> list[str]:
        """Return the nodes that do not run, and that the scenario did not end."""
        return [name for name in self.nodes.names if name not in self.down and self.nodes.pid(name) is None]

    def _crashes(self) -> list[str]:
        return [f"{name} exited by itself; its log ends with:\n{self.nodes.log_tail(name)}" for name in self.crashed()]

    def require_no_crash(self) -> None:
        """Check that every node runs that the scenario did not end.

        Raises:
            ClusterError: with the end of a node's log.
        """
        if crashes := self._crashes():
            raise ClusterError("\n".join(crashes))

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

    async def kill(
        self, *names: str, sig: signal.Signals = signal.SIGKILL, excused: Container[str] = frozenset()
    ) -> float:
        """Signal these nodes at once; return the milliseconds between the first and the last signal.

        From just before a SIGKILL, their ports refuse connections. Otherwise their proxies would go on accepting
        connections, unlike the host of a dead process. A node that checks whether a broker is alive would then wait
        until its session timed out.

        Args:
            excused: nodes whose faults are a reason not to exit after SIGTERM, or not with code 0.

        Raises:
            ClusterError: another node does not exit in time after SIGTERM, or with another code.
        """
        alive = [name for name in names if self.nodes.pid(name) is not None]
        self.down.update(alive)
        if sig is signal.SIGKILL:
            await asyncio.to_thread(self.links.refuse, *alive)
        _, apart_ms = send_together([process for name in alive if (process := self.nodes.process(name))], sig)
        wrong = await asyncio.gather(*(asyncio.to_thread(self._end, name) for name in alive))
        if sig is not signal.SIGKILL:
            await asyncio.to_thread(self.links.refuse, *alive)
            if found := [why for name, why in zip(alive, wrong, strict=True) if why and name not in excused]:
                raise ClusterError("\n".join(found))
        return apart_ms

    def _end(self, name: str) -> str:
        """Wait for a node that was told to end, kill it if it does not exit, and return what went wrong.

        It gets the signal once. While Python finalizes, its handlers are gone: a second SIGTERM would end the process.
        """
        process = self.nodes.process(name)
        if process is None:
            return ""
        if not process.wait_gone(STOP_TIMEOUT_S):
            with suppress(ClusterError):  # It has exited meanwhile.
                self.nodes.kill(name)
            if process.alive:
                raise ClusterError(f"{name} does not exit after SIGKILL")
        return wrong_exit(name, process)

    async def start(self, *names: str) -> None:
        """Start stopped nodes; their ports accept again when they listen. Does not wait until they are ready.

        Raises:
            ClusterError: a node does not listen within a minute, or has exited.
        """
        await asyncio.gather(*(asyncio.to_thread(self._start_node, name) for name in names))

    def _start_node(self, name: str) -> None:
        if self.nodes.pid(name) is None:
            self.nodes.start_node(name)
        self.down.discard(name)
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
        """Wait until every partition has a replica on each broker, and all of them are in sync.

        Raises:
            TimeoutError: some partitions are not; the message names them.
        """
        info: TopicInfo | None = None
        factor = len(self.nodes.brokers)
        try:
            async with asyncio.timeout(within_s):
                while info is None or behind(info, factor):
                    await asyncio.sleep(POLL_S)
                    info = await self.describe(topic)
        except TimeoutError:
            raise TimeoutError(
                f"not in sync within {within_s:g} s: {behind(info, factor) if info else 'no answer'}"
            ) from None


def behind(info: TopicInfo, factor: int) -> list[str]:
    """Return the partitions that do not have `factor` replicas, or of which one is not in sync."""
    return [
        f"{info.topic}-{part.partition}: isr {part.isr} of {part.replicas}"
        for part in info.partitions
        if len(part.replicas) != factor or len(part.isr) < factor
    ]


def _listens(address: Address) -> bool:
    try:
        socket.create_connection((address.host, address.port), timeout=1).close()
    except OSError:
        return False
    return True
