"""The column of records' headers, built without a Python object for each header at the same time.

A call of pyarrow holds the interpreter, and with it the node's event loop, until it has converted its whole list. So
does the deletion of a large list. One record may have a million headers, which are 1 KB when compressed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

import pyarrow as pa

HEADERS_TYPE = pa.list_(
    pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary(), nullable=True)])
)
_AT_ONCE = 10_000
"""So many headers are converted by one call, in 1 ms."""


class HeaderColumn:
    """The headers of records, one record after another."""

    __slots__ = ("_ends", "_entries", "_names", "_values")

    def __init__(self) -> None:
        self._ends = array("i", (0,))
        self._entries: list[pa.StructArray] = []
        self._names: list[str] = []
        self._values: list[bytes | None] = []

    def __bool__(self) -> bool:
        """Return whether any record has headers."""
        return self._ends[-1] > 0

    def append(self, headers: Iterable[tuple[str, bytes | None]]) -> int:
        """Add the headers of the next record; return how many it has."""
        count = 0
        for name, value in headers:
            if len(self._names) == _AT_ONCE:
                self._convert()
            self._names.append(name)
            self._values.append(value)
            count += 1
        self._ends.append(self._ends[-1] + count)
        return count

    def to_array(self) -> pa.Array:
        """Return one row for each record: null without headers."""
        self._convert()
        starts = [start if start < end else None for start, end in zip(self._ends, self._ends[1:], strict=False)]
        offsets = pa.array([*starts, self._ends[-1]], pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.concat_arrays(self._entries), type=HEADERS_TYPE)

    def _convert(self) -> None:
        columns = [pa.array(self._names, pa.string()), pa.array(self._values, pa.binary())]
        self._entries.append(pa.StructArray.from_arrays(columns, fields=list(HEADERS_TYPE.value_type)))
        self._names, self._values = [], []
