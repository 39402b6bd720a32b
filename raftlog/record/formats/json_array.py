"""JSON: one array, in which each record is an object on its own line."""

from __future__ import annotations

from itertools import chain

import pyarrow as pa

from raftlog.record.formats.json_rows import JsonRows
from raftlog.record.formats.pieces import put_together

_BETWEEN = ",\n"


class Encoder:
    """See `raftlog.record.formats.Encoder`."""

    media_type = "application/json"

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._first = JsonRows(columns, before="", behind="")
        self._rows = JsonRows(columns, before=_BETWEEN, behind="")
        self._is_empty = True

    def begin(self) -> bytes:
        return b"[\n"

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> memoryview:
        first = self._first.render(topic, partition, rows.slice(0, 1 if self._is_empty else 0))
        rest = self._rows.render(topic, partition, rows.slice(1) if self._is_empty else rows)
        self._is_empty = self._is_empty and not rows.num_rows
        return put_together(chain(first, rest))

    def end(self) -> bytes:
        return b"\n]\n"
