"""One controller and one broker, which the targets share, and the checks of them after any input."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from chaos.node_logs import first_error
from fuzz.honest import SERVED
from fuzz.target import Finding
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Address
from raftlog.serving.loop_watch import STALL_FILE

ADDRESS_SPACE_BYTES = 8 << 30
"""Of each node, by RLIMIT_AS: threads and arenas reserve gigabytes without touching them."""
RESIDENT_BYTES = 700 << 20
STALL_MS = 100
"""The nodes, the fuzzer and its child share the machine's cores: a request may take 50 ms when it is alone."""


class FuzzedCluster:
    """Runs the nodes, and an honest client in a thread of its own. A context manager."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.resident_bytes = 0
        """The most that a node had."""

    def __enter__(self) -> Self:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="raftlog-fuzz-")))
        self._stalls = folder / "stalls.txt"
        self._stalls.touch()
        os.environ[STALL_FILE] = str(self._stalls)
        self._stack.callback(os.environ.pop, STALL_FILE, None)
        self.nodes = self._stack.enter_context(LocalCluster(folder / "data", controllers=1, brokers=1, port=0))
        for name in self.nodes.names:
            pid = self.nodes.pid(name)
            assert pid is not None
            resource.prlimit(pid, resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
        self._seen = 0
        self._read: dict[str, int] = dict.fromkeys(self.nodes.names, 0)
        """By node, how many bytes of its log were searched."""
        self._diary = folder / "honest.txt"
        self._diary.touch()
        self._honest = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "fuzz.honest", self.nodes.bootstrap, str(self._diary), str(os.getpid())]
            )
        )
        self._stack.callback(self._honest.kill)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.__exit__(None, None, None)

    @property
    def listeners(self) -> dict[str, Address]:
        """Every address that answers HTTP."""
        broker, controller = self.nodes.node("broker-1"), self.nodes.node("controller-101")
        assert broker.public is not None
        return {"public": broker.public, "internal": broker.internal, "controller": controller.internal}

    def require_sound(self) -> None:
        """Check the nodes and the honest client.

        Raises:
            Finding: a node has exited, stalled, grown or had an internal error, or the honest client was not served.
        """
        for name in self.nodes.names:
            pid = self.nodes.pid(name)
            if pid is None:
                raise Finding(f"{name} has exited:\n{self.nodes.log_tail(name, 30)}")
            resident = _most_resident_bytes(pid)
            self.resident_bytes = max(self.resident_bytes, resident)
            if resident > RESIDENT_BYTES:
                raise Finding(f"{name} took {resident >> 20} MiB")
            self._require_no_internal_error(name)
        self._require_no_stall()
        if (code := self._honest.poll()) is not None:
            raise Finding(f"the honest client has ended with exit code {code}")
        rounds = self._diary.read_text().splitlines()
        if bad := next((line for line in rounds if line != SERVED), None):
            raise Finding(f"the honest client was not served: {bad}")

    @property
    def rounds(self) -> int:
        """How often the honest client was served."""
        return len(self._diary.read_text().splitlines())

    def _require_no_internal_error(self, name: str) -> None:
        with self.nodes.node(name).log_path.open("rb") as log:
            log.seek(self._read[name])
            fresh = log.read()
        self._read[name] += len(fresh)
        if error := first_error(fresh.decode("utf-8", "replace").splitlines()):
            raise Finding(f"{name} had an internal error:\n{error}")

    def _require_no_stall(self) -> None:
        if self._stalls.stat().st_size == self._seen:
            return
        said = self._stalls.read_text()[self._seen :]
        self._seen += len(said.encode())
        stalls = [float(length) for length in re.findall(r"^(\d+) ms, process", said, re.MULTILINE)]
        if stalls and max(stalls) > STALL_MS:
            raise Finding(f"an event loop blocked for {max(stalls):.0f} ms:\n{said[-5_000:]}")


def _most_resident_bytes(pid: int) -> int:
    """Return the most memory that a process has had: what one request takes is freed before the next look."""
    status = Path(f"/proc/{pid}/status").read_text()
    (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kilobytes) << 10
