"""NDJSON: each record a JSON object on its own line."""

from __future__ import annotations

import pyarrow as pa

from raftlog.record.formats.json_rows import JsonRows
from raftlog.record.formats.pieces import put_together


class Encoder:
    """See `raftlog.record.formats.Encoder`."""

    media_type = "application/x-ndjson"

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._rows = JsonRows(columns, before="", behind="\n")

    def begin(self) -> bytes:
        return b""

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> memoryview:
        return put_together(self._rows.render(topic, partition, rows))

    def end(self) -> bytes:
        return b""
