"""Threads for work of one request that would keep the event loop: decoding, rendering, passwords.

They hold Python's global lock for a few milliseconds at a time; what a request may ask of them is bounded before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
INLINE_BYTES = 32 << 10
"""A body or answer of up to so much takes less than a thread's turn."""

_WORKERS = ThreadPoolExecutor(2, thread_name_prefix="requests")
_SECRETS = ThreadPoolExecutor(1, thread_name_prefix="passwords")
"""Deriving a key takes long on purpose: neither syncs nor other requests wait for it."""


async def aside(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a thread that requests share."""
    return await asyncio.get_running_loop().run_in_executor(_WORKERS, partial(work, *args, **kwargs))


async def derive_key(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in the one thread that passwords have."""
    return await asyncio.get_running_loop().run_in_executor(_SECRETS, partial(work, *args, **kwargs))
