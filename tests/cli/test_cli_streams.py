"""Standard streams that are closed, or that cannot take a line."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from raftlog.cli.json_lines import JsonLines


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_ends_no_command(tmp_path: Path, closed: str):
    """Supervisors start programs without them, and shells by `>&-`."""
    command = f"exec {sys.executable} -m raftlog storage check --data {tmp_path} {closed}"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=False, timeout=60)
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr


async def test_a_full_disk_ends_a_command_that_prints_events():
    """The events are its result. Each that was missing was a traceback, and the command went on."""
    closed = asyncio.Event()
    with open("/dev/full", "wb") as full:  # noqa: ASYNC230, PTH123  (it is no file)
        lines = JsonLines(full, on_closed=closed.set)
        lines.write("acknowledged", offset=1)
        async with asyncio.timeout(10):
            await closed.wait()
        lines.write("acknowledged", offset=2)
        with pytest.raises(OSError, match="No space left") as caught:
            lines.finish()
    assert caught.value.errno == errno.ENOSPC


GROUP_MEMBER = """
import asyncio, sys
from raftlog.cli import consume
from raftlog.cli.record_lines import render_value
from raftlog.record import Record

class Consumer:
    position = 0
    def __init__(self, *_, **options): pass
    async def __aenter__(self): return self
    async def __aexit__(self, error, *_):
        print(0 if error else self.position, file=sys.stderr)
    async def seek(self, topic, partition, offset):
        self.position = offset
    async def fetch(self, *, max_records, max_wait_ms):
        await asyncio.sleep(0)
        self.position += 500
        return [Record("t", 0, n, 0, None, b"%01000d" % n) for n in range(self.position - 500, self.position)]

async def nothing(*_): pass

consume.Consumer, consume.require_topic, consume.security_in_use = Consumer, nothing, lambda: None
printer = consume._Printer(sys.stdout.buffer, render_value, None)
asyncio.run(consume._consume_in_group([], "t", "g", "earliest", "read_uncommitted", printer, None))
"""


@pytest.mark.parametrize(
    ("unbuffered", "blocking"), [("", True), ("1", True), ("1", False)], ids=["buffered", "unbuffered", "non-blocking"]
)
def test_an_interruption_before_a_full_pipe_commits_whole_lines_only(unbuffered: str, blocking: bool):
    """The write blocked both signals, or returned early: what the pipe had not taken was committed."""
    reading, writing = os.pipe()
    os.set_blocking(writing, blocking)
    capacity = fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
    child = subprocess.Popen(
        [sys.executable, "-c", GROUP_MEMBER],
        stdout=writing,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    os.close(writing)
    try:
        deadline = time.monotonic() + 30
        while struct.unpack("i", fcntl.ioctl(reading, termios.FIONREAD, bytes(4)))[0] < capacity:
            assert child.poll() is None
            assert time.monotonic() < deadline
        child.send_signal(signal.SIGTERM)
        _, stderr = child.communicate(timeout=20)
        lines = os.read(reading, capacity + 1).split(b"\n")[:-1]
        assert (child.returncode, lines) == (0, [b"%01000d" % n for n in range(capacity // 1001)]), stderr
        assert int(stderr) == len(lines)
    finally:
        child.kill()
        child.communicate()
        os.close(reading)


async def test_an_event_is_a_whole_line_where_the_stream_takes_parts():
    """Of a raw stream, which PYTHONUNBUFFERED makes, a write may return early."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with open(reading, "rb") as pipe, open(writing, "wb", buffering=0) as raw:  # noqa: ASYNC230, PTH123
        read = asyncio.ensure_future(asyncio.to_thread(pipe.readline))
        lines = JsonLines(raw, on_closed=lambda: None)
        lines.write("read", text="x" * (1 << 20))
        await asyncio.to_thread(lines.finish)
        assert len(await read) > 1 << 20
