"""Lazy import of pyarrow.compute, which takes 50 ms and 9 MB, and which many processes do not need."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:

    class _Functions:
        """Like `importlib.util.LazyLoader`, but safe when two threads start at once (python/cpython#114763)."""

        def __getattr__(self, name: str) -> Any:
            function = getattr(importlib.import_module("pyarrow.compute"), name)
            setattr(self, name, function)
            return function

    pc = _Functions()

__all__ = ["pc"]
