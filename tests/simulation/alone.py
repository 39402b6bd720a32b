"""Work in a process of its own.

A finished simulated world leaves unfinished coroutines. When they are collected they run their `finally`, perhaps
during another test: so a world's process exits with it.
"""

from __future__ import annotations

import logging
import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["simulation.cluster"])


def alone(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` returns, or raise what it raises; both are pickled. The process ends with the call."""
    answer, asked = _context.Pipe(duplex=False)
    process = _context.Process(target=_run, args=(asked, work, args, kwargs))
    process.start()
    asked.close()
    try:
        result, error = answer.recv()
    finally:
        process.kill()
        process.join()
        answer.close()
    if error is not None:
        raise error
    return result


def _run(asked: Connection, work: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    logging.disable(logging.CRITICAL)
    try:
        asked.send((work(*args, **kwargs), None))
    except BaseException as error:  # noqa: BLE001  (whatever it is, it is for the caller)
        error.add_note(traceback.format_exc())
        asked.send((None, error))
