"""Work in a process of its own.

A simulated world that ends leaves coroutines in the middle of everything. Whenever they are collected, they run their
`finally`, in whatever test that happens to be: so a world ends with its process.
"""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["simulation.cluster"])


def alone(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` returns, or raise what it raises; both are pickled."""
    with ProcessPoolExecutor(1, _context, initializer=logging.disable, initargs=(logging.CRITICAL,)) as process:
        return process.submit(work, *args, **kwargs).result()
