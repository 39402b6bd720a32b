"""NATS JetStream: three servers, streams with three replicas in files."""

from __future__ import annotations

import subprocess
import urllib.request
from pathlib import Path

from benchmarks.peers.server import LOOPBACK, NODES, TOOLS, Server, free_ports

_BINARY = TOOLS / "nats-server"


class JetStream(Server):
    name = "jetstream"

    @classmethod
    def missing(cls) -> str | None:
        return None if _BINARY.exists() else f"no {_BINARY}"

    def __init__(self, folder: Path, *, durable: bool) -> None:
        super().__init__(folder, durable=durable)
        ports = free_ports(3 * NODES)
        self._client_ports, self._route_ports, self._http_ports = ports[:3], ports[3:6], ports[6:]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"nats://{LOOPBACK}:{port}" for port in self._client_ports)

    @property
    def settings(self) -> dict[str, object]:
        said = subprocess.run([_BINARY, "--version"], capture_output=True, text=True, check=True).stdout
        return {"version": said.split()[-1], "nodes": NODES, "sync_interval": self._sync_interval}

    @property
    def _sync_interval(self) -> str:
        return "always" if self.durable else "2m"

    def start(self) -> None:
        routes = ", ".join(f'"nats://{LOOPBACK}:{port}"' for port in self._route_ports)
        for number in range(NODES):
            path = self.folder / f"node-{number}.conf"
            path.write_text(
                f'server_name: node-{number}\nlisten: "{LOOPBACK}:{self._client_ports[number]}"\n'
                f'http: "{LOOPBACK}:{self._http_ports[number]}"\n'
                f'jetstream {{ store_dir: "{self.folder}/node-{number}", sync_interval: {self._sync_interval} }}\n'
                f'cluster {{ name: bench, listen: "{LOOPBACK}:{self._route_ports[number]}", routes: [{routes}] }}\n'
                f"max_payload: {8 << 20}\n"
            )
            self.launch(f"node-{number}", [_BINARY, "-c", path])
        self.wait_until(lambda: all(map(_healthy, self._http_ports)), "healthy")


def _healthy(port: int) -> bool:
    """Return whether a server's JetStream has caught up with the cluster's leader."""
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/healthz", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
