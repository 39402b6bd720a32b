"""The least that single records cost in Python: the processes of the suite `bare`, as a bound for raftlog."""

from __future__ import annotations

import os
import sys
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
        self._port = free_ports(1)[0]

    @property
    def bootstrap(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    @property
    def settings(self) -> dict[str, object]:
        return {"nodes": "a leader and 2 followers that survive no fault: a bound, not a log"}

    def start(self) -> None:
        self._launch("leader")
        self.wait_until(lambda: listens(self._port), "listening")
        for number in range(2):
            self._launch("follower", number)

    def _launch(self, role: str, number: int = 0) -> None:
        flags = ["synced"] if self.durable else []
        self.launch(
            f"{role}-{number}",
            [sys.executable, "-m", "benchmarks.bare_node", role, "http", str(self._port), *flags],
            env={"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])},
        )
