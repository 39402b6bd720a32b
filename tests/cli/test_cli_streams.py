"""Standard streams that are closed, or that cannot take a line."""

from __future__ import annotations

import asyncio
import errno
import subprocess
import sys
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
