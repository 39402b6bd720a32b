"""`sys.exit()` and Ctrl-C in a callback of the application: an event loop that meets their exceptions ends.

A blocking client's loop goes on. The exception reaches the thread that waits for the callback, or else the log.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)
_stopped: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
"""A loop forgets that it is to stop if a callback of the same turn ends it."""


class ExitError(Exception):
    """The exception of a callback that would end the loop: `error`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


@contextmanager
def exits_as_errors() -> Iterator[None]:
    """Raise ExitError for an exception that would end the loop."""
    try:
        yield
    except (SystemExit, KeyboardInterrupt) as error:
        raise ExitError(error) from error


def log_exit(error: BaseException) -> None:
    """Log an exception of a callback for which no thread waits."""
    _log.error(
        "a callback raised %s in a client's own thread, which goes on: end the program from another thread",
        type(error).__name__,
        exc_info=error,
    )


def run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until `stop`, and then what its last turn has scheduled, whatever its callbacks raise."""
    while True:
        if is_last := loop in _stopped:
            loop.call_soon(loop.stop)
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:
            log_exit(error)
        else:
            if is_last:
                return


def stop(loop: asyncio.AbstractEventLoop) -> None:
    """Stop a loop, in its thread."""
    _stopped.add(loop)
    loop.stop()
