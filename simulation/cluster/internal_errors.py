"""Errors that a running program logs or drops, and that no fault explains: bugs, which a server survives."""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, CancelledError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from raftlog.errors import RaftlogError
from simulation.cluster.loop import CURRENT, Process, SimulatedLoop

EXPECTED = (RaftlogError, OSError, CancelledError)
"""What faults cause: errors that the product tells, and those of networks and disks."""


def is_internal(error: BaseException | None) -> bool:
    """Return whether an error is no consequence of a fault; of a group, whether one of its errors is none."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_internal, error.exceptions))
    return isinstance(error, Exception) and not isinstance(error, EXPECTED)


@contextmanager
def heard(loop: SimulatedLoop, tell: Callable[[str], None]) -> Iterator[None]:
    """Tell the internal errors of processes that are alive: those in the log, and those of dropped tasks."""

    def found(error: BaseException | None, what: str, process: Process | None) -> None:
        if is_internal(error) and process is not None and process.alive:
            tell(f"an internal error of {process.name}: {what}: {error!r}")

    def unhandled(_: AbstractEventLoop, context: dict[str, Any]) -> None:
        task, handle = context.get("task") or context.get("future"), context.get("handle")
        process = getattr(task, "process", None) if handle is None else handle._context.get(CURRENT)
        found(context.get("exception"), str(context["message"]), process)

    handler, root, disabled = _ErrorHandler(found), logging.getLogger(), logging.root.manager.disable
    loop.set_exception_handler(unhandled)
    logging.disable(logging.WARNING)  # Lines below that level cost time.
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        logging.disable(disabled)


class _ErrorHandler(logging.Handler):
    """Passes on the exceptions of the log's errors."""

    def __init__(self, found: Callable[[BaseException | None, str, Process | None], None]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self._found(record.exc_info[1], record.getMessage(), CURRENT.get())
