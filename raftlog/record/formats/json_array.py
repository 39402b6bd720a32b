"""JSON: one array, in which each record is an object on its own line."""

from __future__ import annotations

import pyarrow as pa

from raftlog.record.formats.json_rows import JsonRows

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

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> bytes:
        if not self._is_empty or not rows.num_rows:
            return self._rows.render(topic, partition, rows)
        self._is_empty = False
        first = self._first.render(topic, partition, rows.slice(0, 1))
        return first + self._rows.render(topic, partition, rows.slice(1))

    def end(self) -> bytes:
        return b"\n]\n"
