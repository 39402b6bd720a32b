"""The least that single records and batches cost in Python, as a bound for raftlog: `bare_node` and `bare_bulk`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from benchmarks.peers.server import LOOPBACK, Server, free_ports, listens


class Bare(Server):
    name = "bare"
    python: ClassVar[Path] = Path(sys.executable)

    @classmethod
    def missing(cls) -> str | None:
        return None

    def __init__(self, folder: Path, *, durable: bool) -> None:
        super().__init__(folder, durable=durable)
        self._ports = dict(zip(("single", "batches"), free_ports(2), strict=True))

    @property
    def bootstrap(self) -> str:
        return LOOPBACK

    @property
    def client_options(self) -> Mapping[str, object]:
        return {"ports": self._ports}

    @property
    def settings(self) -> dict[str, object]:
        return {"nodes": "leaders and 2 followers that survive no fault: a bound, not a log"}

    def start(self) -> None:
        for kind, module in (("single", ["bare_node", "http"]), ("batches", ["bare_bulk"])):
            self._launch(kind, "leader", module)
            self.wait_until(partial(listens, self._ports[kind]), "listening")
            for number in range(2):
                self._launch(kind, "follower", module, number)

    def _launch(self, kind: str, role: str, module: list[str], number: int = 0) -> None:
        name, *form = module
        flags = ["synced"] if self.durable else []
        self.launch(
            f"{kind}-{role}-{number}",
            [sys.executable, "-m", f"benchmarks.{name}", role, *form, str(self._ports[kind]), *flags],
            env={"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
        )
