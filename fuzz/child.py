"""A process that its inputs may kill: inputs go in by a pipe, and the result of each comes out."""

from __future__ import annotations

import os
import resource
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from fuzz.target import Finding

ROOM_BYTES = 1 << 30
"""Address space beyond that of a new child."""
PATIENCE_S = 5
_LENGTH = struct.Struct("<I")


class Child:
    """Runs `judge` on inputs in a forked process, and forks another one when that has died.

    Args:
        judge: returns what is wrong with an input's effects, or "".
    """

    def __init__(self, judge: Callable[[bytes], str]) -> None:
        self._judge = judge
        self._pid = 0
        self._to = self._from = -1

    def close(self) -> None:
        if self._pid:
            os.close(self._to)
            os.close(self._from)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def run(self, data: bytes) -> None:
        """Judge one input.

        Raises:
            Finding: it is bad, or the child has died of it.
        """
        if not self._pid:
            self._start()
        try:
            _write(self._to, data)
            said = _read(self._from)
        except OSError:
            said = None
        if said is None:
            pid, self._pid = self._pid, 0
            os.close(self._to)
            os.close(self._from)
            _, status = os.waitpid(pid, 0)
            raise Finding(_death(status))
        if said:
            raise Finding(said.decode())

    def _start(self) -> None:
        to_child, self._to = os.pipe()
        self._from, to_parent = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(to_child)
            os.close(to_parent)
            return
        try:
            os.close(self._to)
            os.close(self._from)
            self._serve(to_child, to_parent)
        finally:
            os._exit(0)

    def _serve(self, to_child: int, to_parent: int) -> None:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM_BYTES, taken + ROOM_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        while (data := _read(to_child)) is not None:
            signal.alarm(PATIENCE_S)  # Its default action kills the process, in any native code.
            began = time.process_time()
            try:
                said = self._judge(data)
            except BaseException as error:  # noqa: BLE001  (whatever it is, it is the finding)
                said = f"{type(error).__name__}: {error}"[:500]
            signal.alarm(0)
            if not said and time.process_time() - began > PATIENCE_S / 5:
                said = f"took {time.process_time() - began:.1f} s"
            _write(to_parent, said.encode("utf-8", "backslashreplace"))


def _death(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            return f"hung for {PATIENCE_S} s"
        return f"died of {signal.Signals(number).name}"
    return f"ended with status {os.WEXITSTATUS(status)}"


def _write(fd: int, data: bytes) -> None:
    view = memoryview(_LENGTH.pack(len(data)) + data)
    while view:
        view = view[os.write(fd, view) :]


def _read(fd: int) -> bytes | None:
    """Return the next message; None at the pipe's end."""
    head = _exactly(fd, _LENGTH.size)
    return None if head is None else _exactly(fd, _LENGTH.unpack(head)[0])


def _exactly(fd: int, size: int) -> bytes | None:
    data = bytearray()
    with suppress(OSError):
        while len(data) < size:
            piece = os.read(fd, size - len(data))
            if not piece:
                return None
            data += piece
    return bytes(data) if len(data) == size else None
