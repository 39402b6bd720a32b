"""Runs one of the examples, logs the processed records, and kills itself with SIGKILL right after one record.

Usage: python crashing_process.py EXAMPLE BOOTSTRAP TOPIC FILE VALUE
"""

from __future__ import annotations

import asyncio
import os
import runpy
import signal
import sys
from pathlib import Path

from raftlog import Record


def main(example: str, bootstrap: str, topic: str, file: str, last: str) -> None:
    with Path(file).open("a", buffering=1) as out:

        async def process(record: Record) -> None:
            assert record.value is not None
            out.write(f"{record.value.decode()}\n")
            if record.value.decode() == last:
                os.kill(os.getpid(), signal.SIGKILL)

        run = runpy.run_path(example)["run"]
        asyncio.run(run(bootstrap, topic, group_id=f"of-{topic}", process=process, session_timeout_ms=3_000))


if __name__ == "__main__":
    main(*sys.argv[1:])
