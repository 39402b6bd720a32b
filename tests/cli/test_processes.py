"""Processes by their identity: several get a signal together, and none that is gone."""

from __future__ import annotations

import signal
import subprocess
import sys

from raftlog.cli.processes import ProcessIdentity, send_together


def started() -> tuple[subprocess.Popen[bytes], ProcessIdentity]:
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    identity = ProcessIdentity.of(process.pid)
    assert identity is not None
    return process, identity


def test_those_that_live_get_a_signal_together():
    (one, first), (other, second), (ended, gone) = started(), started(), started()
    assert gone.send(signal.SIGKILL)
    assert gone.wait_gone(10)
    ended.wait()

    sent, apart_ms = send_together([first, gone, second], signal.SIGKILL)

    assert (sent, one.wait(10), other.wait(10)) == (2, -signal.SIGKILL, -signal.SIGKILL)
    assert apart_ms >= 0
    assert not first.send(signal.SIGKILL)
    assert send_together([], signal.SIGKILL)[0] == 0
