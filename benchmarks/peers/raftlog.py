"""raftlog itself, as `raftlog dev up` would start it: three controllers and three brokers."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import ClassVar
from unittest import mock

from benchmarks.clusters import Secured
from benchmarks.peers.server import NODES, Server
from raftlog.cli.local_cluster import LocalCluster
from raftlog.version import VERSION

FAST = Path(".tools/fast").resolve()
"""The packages of `raftlog[fast]`; the nodes run with them where they are installed."""


class Raftlog(Server):
    name = "raftlog"
    can_encrypt = True
    python: ClassVar[Path] = Path(sys.executable)

    def __init__(self, folder: Path, *, durable: bool) -> None:
        super().__init__(folder, durable=durable)
        self._cluster: LocalCluster | None = None

    @property
    def environment(self) -> dict[str, str]:
        return self._cluster.environment if isinstance(self._cluster, Secured) else {}

    @classmethod
    def missing(cls) -> str | None:
        return None

    @property
    def bootstrap(self) -> str:
        assert self._cluster is not None
        return self._cluster.bootstrap

    @property
    def settings(self) -> dict[str, object]:
        flush = "batch (every replica before it acknowledges)" if self.durable else "os"
        return {
            "version": VERSION,
            "nodes": f"{NODES} controllers, {NODES} brokers",
            "event loop of the nodes": "uvloop (raftlog[fast])" if FAST.is_dir() else "asyncio",
            "congestion control": "reno on loopback, as raftlog always sets; everybody else has the machine's",
            "topic setting flush": flush,
            "TLS": "required everywhere, with access rules and a client's certificate" if self.tls else "none",
        }

    @property
    def pids(self) -> list[int]:
        assert self._cluster is not None
        found = [self._cluster.pid(name) for name in self._cluster.names]
        return [pid for pid in found if pid is not None]

    def start(self) -> None:
        cluster = Secured if self.tls else LocalCluster
        self._cluster = cluster(self.folder, port=0, controllers=NODES, brokers=NODES)
        path = os.pathsep.join(filter(None, (str(FAST), os.environ.get("PYTHONPATH"))))
        with mock.patch.dict(os.environ, PYTHONPATH=path):
            self._cluster.__enter__()

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.stop()
