"""Redis: a primary and two replicas, each with an append-only file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from benchmarks.peers.server import LOOPBACK, NODES, Server, free_ports


class Redis(Server):
    name = "redis"

    @classmethod
    def missing(cls) -> str | None:
        return None if shutil.which("redis-server") and shutil.which("redis-cli") else "no redis-server"

    def __init__(self, folder: Path, *, durable: bool) -> None:
        super().__init__(folder, durable=durable)
        self._ports = free_ports(NODES)

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self._ports[0]}"

    @property
    def settings(self) -> dict[str, object]:
        said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
        return {
            "version": said.split()[2].removeprefix("v="),
            "nodes": "a primary and 2 replicas; WAIT 2 after each pipeline",
            **self._options(),
        }

    def _options(self) -> dict[str, object]:
        return {
            "appendonly": "yes",
            "appendfsync": "always" if self.durable else "no",
            "auto-aof-rewrite-percentage": 0,
            "repl-diskless-sync-delay": 0,
            "client-output-buffer-limit": "replica 0 0 0",
        }

    def start(self) -> None:
        for number, port in enumerate(self._ports):
            folder = self.folder / f"node-{number}"
            folder.mkdir()
            options = {"bind": LOOPBACK, "port": port, "dir": folder, **self._options()}
            if number:
                options["replicaof"] = f"{LOOPBACK} {self._ports[0]}"
            path = self.folder / f"node-{number}.conf"
            path.write_text("".join(f"{name} {value}\n" for name, value in options.items()) + 'save ""\n')
            self.launch(f"node-{number}", ["redis-server", path])
        self.wait_until(self._replicated, "replicating")

    def _replicated(self) -> bool:
        asked = ["redis-cli", "-p", str(self._ports[0]), "info", "replication"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
        return said.count("state=online") == NODES - 1
