"""Error output in Spark: a `RaftlogError` reaches the user as one line, without a traceback.

Spark forwards a worker's failure as Python prints it, traceback first, so the cause is the last of forty lines. The
variable `SPARK_HIDE_TRACEBACK`, which Spark reads when it prints, hides the traceback. A worker of Spark exits after
its first failure, so setting the variable at the failure affects no other one. A variable that the user has set (also
to the empty string) is kept. Other exceptions keep their tracebacks.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

HIDE = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plain_errors() -> Iterator[None]:
    """Let a `RaftlogError` of the block reach the user as one line."""
    from raftlog.errors import RaftlogError  # noqa: PLC0415 -- Spark's look-up of sources must not load raftlog

    try:
        yield
    except RaftlogError as error:
        if is_worker():
            os.environ.setdefault(HIDE, "1")
        raise error from None


def is_worker() -> bool:
    """Return whether this process is a Python worker of Spark, which exits when it fails."""
    program = getattr(sys.modules.get("__main__"), "__spec__", None)
    return program is not None and program.name.startswith("pyspark.")
