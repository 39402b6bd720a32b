"""numpy, loaded at its first use, and columns of bytes as arrays.

pyarrow was imported without numpy in a node, so it takes no numpy arrays there: both exchange buffers only.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from raftlog.record.hidden import HIDDEN

if TYPE_CHECKING:
    import numpy as np
else:

    class _Functions:
        """Loads numpy at the first attribute."""

        def __getattr__(self, name: str) -> Any:
            found = getattr(_numpy(), name)
            setattr(self, name, found)
            return found

    np = _Functions()

__all__ = ["binary_column", "is_available", "np", "numbers_of"]


@cache
def _numpy() -> Any:
    HIDDEN.show("numpy")
    return importlib.import_module("numpy")


@cache
def is_available() -> bool:
    """Return whether numpy is installed. The first call loads it, which takes about 0.1 s."""
    try:
        _numpy()
    except ImportError:
        return False
    return True


def numbers_of(column: pa.Array, kind: str) -> np.ndarray[Any, Any]:
    """Return a column of fixed-width numbers without nulls, without a copy."""
    data = column.buffers()[1]
    if not len(column):
        return np.empty(0, kind)
    width = np.dtype(kind).itemsize
    return np.frombuffer(data, kind, count=len(column), offset=column.offset * width)


def binary_column(sizes: np.ndarray[Any, Any], data: Any) -> pa.Array:
    """Return a column whose elements have these sizes and follow each other in `data`."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.Array.from_buffers(pa.binary(), len(sizes), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
