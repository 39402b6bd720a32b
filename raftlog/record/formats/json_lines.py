"""NDJSON: each record a JSON object on its own line."""

from __future__ import annotations

import pyarrow as pa

from raftlog.record.formats.json_rows import JsonRows


class Encoder:
    """See `raftlog.record.formats.Encoder`."""

    media_type = "application/x-ndjson"

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._rows = JsonRows(columns, before="", behind="\n")

    def begin(self) -> bytes:
        return b""

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> bytes:
        return self._rows.render(topic, partition, rows)

    def end(self) -> bytes:
        return b""
