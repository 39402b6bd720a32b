"""The edge to Spark: what raftlog says on purpose reaches the user as one line, without the frames it came through.

Spark hands a worker's failure on as Python prints it, traceback first, so the cause is the last of forty lines. It
knows a variable that leaves the traceback out (`SPARK_HIDE_TRACEBACK`), and looks at it when it prints. Every worker of
Spark's ends with its first failure, so setting it there, when the failure is known, touches nobody else's. Whoever has
set the variable, to nothing for example, is obeyed. Failures that are our own bugs keep their tracebacks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

HIDE = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Let `RaftlogError`s end what Spark called as one line."""
    from raftlog.errors import RaftlogError  # noqa: PLC0415 -- Spark's look-up of sources must not load raftlog

    try:
        yield
    except RaftlogError as error:
        if is_worker():
            os.environ.setdefault(HIDE, "1")
        raise error from None


def is_worker() -> bool:
    """Tell whether this process is one that Spark started, and will end when it fails."""
    program = getattr(sys.modules.get("__main__"), "__spec__", None)
    return program is not None and program.name.startswith("pyspark.")
