"""RabbitMQ: three nodes with the stream plugin, and a port mapper of their own."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from benchmarks.peers.server import LOOPBACK, NODES, Server, free_ports, listens

_BIN = Path("/usr/lib/rabbitmq/bin")
_HOST = "localhost"


class RabbitMq(Server):
    name = "rabbitmq"

    @classmethod
    def missing(cls) -> str | None:
        if not (_BIN / "rabbitmq-server").exists():
            return f"no rabbitmq-server in {_BIN}"
        return None if shutil.which("epmd") else "no epmd"

    def __init__(self, folder: Path, *, durable: bool) -> None:
        super().__init__(folder, durable=durable)
        ports = free_ports(1 + 6 * NODES)
        self._epmd_port, *rest = ports
        self._stream_ports, self._amqp_ports, self._dist_ports = (rest[n * NODES : (n + 1) * NODES] for n in range(3))
        self._replica_ports = rest[3 * NODES :]
        self._cookie = secrets.token_hex(16)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{LOOPBACK}:{port}" for port in self._stream_ports)

    @property
    def settings(self) -> dict[str, object]:
        installed = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
        return {"version": installed[-1].name.rpartition("-")[2], "nodes": NODES, "sync": "streams never sync"}

    def start(self) -> None:
        epmd = ["epmd", "-port", str(self._epmd_port), "-address", LOOPBACK]
        self.launch("epmd", epmd)
        self.wait_until(lambda: listens(self._epmd_port), "listening")
        for number in range(NODES):
            self.launch(f"node-{number}", [_BIN / "rabbitmq-server"], env=self._environment(number))
            if number == 0:  # Alone at first: the others must join it, not found clusters of their own.
                self.wait_until(lambda: listens(self._stream_ports[0]), "listening")
        self.wait_until(lambda: all(map(listens, self._stream_ports)), "listening")
        self.wait_until(self._is_whole, "a cluster of three")

    def _environment(self, number: int) -> dict[str, str]:
        home = self.folder / f"node-{number}"
        home.mkdir(exist_ok=True)
        cookie = home / ".erlang.cookie"
        if not cookie.exists():
            cookie.write_text(self._cookie)
            cookie.chmod(0o400)
            (home / "plugins").write_text("[rabbitmq_stream].\n")
            (home / "rabbitmq.conf").write_text(self._config(number))
            low, high = self._replica_ports[0], self._replica_ports[-1] + 500
            (home / "advanced.config").write_text(f"[{{osiris, [{{port_range, {{{low}, {high}}}}}]}}].\n")
        interface = "-kernel inet_dist_use_interface {127,0,0,1}"
        return {
            "HOME": str(home),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "RUNNING_UNDER_SYSTEMD": "true",  # The script becomes the server, and does not wait for it.
            "RABBITMQ_NODENAME": f"node{number}@{_HOST}",
            "RABBITMQ_DIST_PORT": str(self._dist_ports[number]),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(home / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(home / "mnesia"),
            "RABBITMQ_LOG_BASE": str(home / "log"),
            "RABBITMQ_PID_FILE": str(home / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": interface,
        }

    def _config(self, number: int) -> str:
        lines = [
            f"listeners.tcp.1 = {LOOPBACK}:{self._amqp_ports[number]}",
            f"stream.listeners.tcp.1 = {LOOPBACK}:{self._stream_ports[number]}",
            f"stream.advertised_host = {LOOPBACK}",
            f"stream.advertised_port = {self._stream_ports[number]}",
            "cluster_formation.peer_discovery_backend = classic_config",
            "cluster_formation.randomized_startup_delay_range.min = 0",
            "cluster_formation.randomized_startup_delay_range.max = 1",
            *(f"cluster_formation.classic_config.nodes.{n + 1} = node{n}@{_HOST}" for n in range(NODES)),
        ]
        return "\n".join(lines) + "\n"

    def _is_whole(self) -> bool:
        said = self.run([_BIN / "rabbitmqctl", "cluster_status", "--formatter", "json"], env=self._environment(0))
        return all(said.split('"running_nodes"')[1].split("]")[0].count(f"node{n}@") == 1 for n in range(NODES))
