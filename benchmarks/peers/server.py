"""The interface of every peer: real server processes in a folder of their own, on free loopback ports."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self

LOOPBACK = "127.0.0.1"
TOOLS = Path(".tools").absolute()
NODES = 3
_START_TIMEOUT_S = 300.0
_STOP_TIMEOUT_S = 15.0
_POLL_S = 0.1
_DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL", "--")
"""Becomes the command that follows, which the kernel kills when the benchmark's main thread exits for any reason."""


class PeerError(Exception):
    """A peer cannot be run; the message names it and the reason, and ends with its log."""


class Server(ABC):
    """A cluster of one system. A context manager: started and usable inside, stopped afterwards in any case."""

    name: ClassVar[str]
    python: ClassVar[Path] = TOOLS / "peers-venv" / "bin" / "python"
    """Runs the system's clients."""
    can_encrypt: ClassVar[bool] = False
    """It can run with `tls`."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self.folder = folder.absolute()
        self.durable = durable
        self.tls = False
        """Set before the start: TLS on every connection, to clients and between servers."""
        self._processes: list[tuple[subprocess.Popen[bytes], Path]] = []

    @classmethod
    @abstractmethod
    def missing(cls) -> str | None:
        """Return what is not installed, or None."""

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """The clients' bootstrap address."""

    @property
    @abstractmethod
    def settings(self) -> dict[str, object]:
        """Its version, and the settings that differ from the system's defaults, for the report."""

    @property
    def client_options(self) -> Mapping[str, object]:
        """Options of its drivers."""
        return {}

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of its drivers."""
        return {}

    @property
    def pids(self) -> list[int]:
        """Every server process."""
        return [process.pid for process, _ in self._processes]

    @abstractmethod
    def start(self) -> None:
        """Start everything, and return when clients can use it."""

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(parents=True)
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the processes: with SIGTERM, then with SIGKILL."""
        for process, _ in self._processes:
            process.terminate()
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        for process, _ in self._processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def launch(self, name: str, command: Sequence[str | Path], *, env: dict[str, str] | None = None) -> None:
        """Start a process that dies with this one; its output goes to `name`.log in the folder."""
        log_path = self.folder / f"{name}.log"
        with log_path.open("wb") as log:
            process = subprocess.Popen(
                [*_DIE_WITH_PARENT, *(str(part) for part in command)],
                cwd=self.folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C must reach the benchmark only, which stops the servers itself.
            )
        self._processes.append((process, log_path))

    def run(self, command: Sequence[str | Path], *, env: dict[str, str] | None = None) -> str:
        """Run a tool of the system to its end; return its output."""
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_START_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            said = (done.stdout + done.stderr)[-2_000:]
            raise PeerError(f"{self.name}: {command[0]} exited with {done.returncode}: {said}")
        return done.stdout

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until `holds`, for servers that do not report their state by themselves."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not holds():
            for process, log_path in self._processes:
                if process.poll() is not None:
                    raise PeerError(f"{self.name}: a server exited with {process.returncode}; {_ending(log_path)}")
            if time.monotonic() > deadline:
                endings = "\n".join(_ending(log_path) for _, log_path in self._processes)
                raise PeerError(f"{self.name}: not {what} within {_START_TIMEOUT_S:g} s\n{endings}")
            time.sleep(_POLL_S)


def listens(port: int) -> bool:
    """Return whether a process accepts connections on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def free_ports(count: int) -> list[int]:
    """Return free ports, below the range of outgoing connections."""
    found: list[int] = []
    with _held() as held:
        for port in range(10_000 + os.getpid() % 5_000, 32_000):
            probe = socket.socket()
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                probe.close()
                continue
            held.append(probe)
            found.append(port)
            if len(found) == count:
                return found
    raise PeerError(f"no {count} ports from 10000 to 32000 are free on {LOOPBACK}")


@contextmanager
def _held() -> Iterator[list[socket.socket]]:
    held: list[socket.socket] = []
    try:
        yield held
    finally:
        for probe in held:
            probe.close()


def _ending(log_path: Path) -> str:
    lines = log_path.read_text("utf-8", "replace").splitlines()[-15:]
    return "\n".join([f"the end of {log_path.name}:", *lines])
