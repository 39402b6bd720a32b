"""`python -m benchmarks.timeline.node --config FILE`: a node of a benchmark, with a tracer that signals start and stop.

Until the first signal it is `raftlog server start`.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from benchmarks.timeline.tracer import Tracer
from raftlog.entry import main

START, STOP = signal.SIGUSR1, signal.SIGUSR2
STARTED, STAMPS = "trace.started", "trace.json"
"""Files beside the node's configuration: made when it has begun to stamp, and when it has stopped."""


def run(arguments: list[str]) -> None:
    """Run a node with the arguments of `raftlog server start`."""
    folder, tracer = Path(arguments[arguments.index("--config") + 1]).parent, Tracer()

    def start(*_: object) -> None:
        tracer.start()
        (folder / STARTED).touch()

    def stop(*_: object) -> None:
        tracer.stop()
        tracer.write(folder / STAMPS)

    signal.signal(START, start)
    signal.signal(STOP, stop)
    sys.argv = ["raftlog", "server", "start", *arguments]
    main()


if __name__ == "__main__":
    run(sys.argv[1:])
