"""SIGKILL of a process that appends and syncs: every record that it reported as durable is there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from storage_support import open_log, values

WRITER = """
import sys
from pathlib import Path
from storage_support import fill, open_log
log = open_log(Path(sys.argv[1]), segment_bytes=8192)
while True:
    fill(log, 3)
    print(log.fsync(), flush=True)
    if log.log_end_offset % 50 == 0:
        log.checkpoint(log.log_end_offset)
"""


def test_every_reported_offset_survives_sigkill(tmp_path: Path):
    reported = 0
    for target in (60, 200, 333):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "p")], stdout=subprocess.PIPE, cwd=Path(__file__).parent
        )
        assert writer.stdout is not None
        with writer.stdout:
            while reported < target:
                reported = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            for line in writer.stdout:
                reported = int(line) if line.endswith(b"\n") else reported
        assert writer.wait() == -signal.SIGKILL

        log = open_log(tmp_path / "p", segment_bytes=8192)
        assert log.log_end_offset >= reported >= target
        assert values(log) == [str(offset) for offset in range(log.log_end_offset)]
        log.close()
