"""pyarrow's functions on columns, loaded when the first one is used: 50 ms and 9 MB that many do without."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:

    class _Functions:
        """What `importlib.util.LazyLoader` does, but safe when two threads begin at once (python/cpython#114763)."""

        def __getattr__(self, name: str) -> Any:
            function = getattr(importlib.import_module("pyarrow.compute"), name)
            setattr(self, name, function)
            return function

    pc = _Functions()

__all__ = ["pc"]
