"""Identities of processes on this machine that survive the reuse of a pid.

The kernel reuses a pid, but not a pid together with its start time. Signals and waits use a pidfd: the process that was
checked is the one that is signalled, and a process that is not a child can be awaited without polling. Linux only.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

ProcessState: TypeAlias = Literal["running", "paused", "gone"]

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process, until the next boot."""

    pid: int
    start_ticks: int
    """Its start time, in clock ticks since boot."""

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Return the identity of the process that has this pid now."""
        stat = _read_stat(pid)
        return None if stat is None else cls(pid=pid, start_ticks=int(stat[19]))

    @property
    def state(self) -> ProcessState:
        """Tell whether it runs.

        One whose first thread is a zombie is not gone while another one waits for its disk: it still holds every port
        and every file.
        """
        stat = _read_stat(self.pid)
        if stat is None or int(stat[19]) != self.start_ticks:
            return "gone"
        if stat[0] == "X" or (stat[0] == "Z" and int(stat[17]) <= 1):
            return "gone"
        return "paused" if stat[0] in "Tt" else "running"

    @property
    def alive(self) -> bool:
        return self.state != "gone"

    def send(self, sig: signal.Signals) -> bool:
        """Send a signal; return False if the process no longer exists."""
        return bool(send_together([self], sig)[0])

    def wait_gone(self, timeout_s: float) -> bool:
        """Wait until the last thread of the process has exited; return False if one is left after `timeout_s`."""
        with self.pidfd() as pidfd:
            if pidfd is None:
                return True
            poller = select.poll()
            poller.register(pidfd, select.POLLIN)
            return bool(poller.poll(max(0.0, timeout_s) * 1000))

    @contextmanager
    def pidfd(self) -> Iterator[int | None]:
        """Open a pidfd of this process; None if it no longer exists."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            stat = _read_stat(self.pid)  # Read after opening: from here on the fd cannot mean another process.
            yield pidfd if stat is not None and int(stat[19]) == self.start_ticks else None
        finally:
            os.close(pidfd)


def send_together(processes: Sequence[ProcessIdentity], sig: signal.Signals) -> tuple[int, float]:
    """Send a signal to some processes in a tight loop; return how many got it, and how many ms it took."""
    with ExitStack() as opened:
        alive = [
            pidfd for each in processes if (pidfd := opened.enter_context(each.pidfd())) is not None and each.alive
        ]
        sent, started = 0, time.monotonic()
        for pidfd in alive:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, sig)
                sent += 1
        return sent, (time.monotonic() - started) * 1_000


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent exits in any way."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:  # The parent exited before the request: the kernel sends no signal.
        os.kill(os.getpid(), signal.SIGKILL)


def _read_stat(pid: int) -> list[str] | None:
    """Return /proc/PID/stat from its third field (the state) on; the second may hold spaces and parentheses."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text.rpartition(")")[2].split()
