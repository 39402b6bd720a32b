"""Rows as JSON objects, equal to those of the broker's `record_to_json`."""

from __future__ import annotations

import orjson
import pyarrow as pa

from raftlog.record.formats.json_text import bytes_json, headers_json
from raftlog.record.formats.pieces import data_of, pieces, put_together
from raftlog.record.formats.text import Text, joined, milliseconds


class JsonRows:
    """Renders rows, each between a prefix and a suffix."""

    def __init__(self, columns: tuple[str, ...], *, before: str, behind: str) -> None:
        self._columns = columns
        self._before = before
        self._behind = behind

    def render(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> bytes:
        """Return the rows' text."""
        return put_together(self._render(topic, partition, piece) for piece in pieces(rows))

    def _render(self, topic: str, partition: int, rows: pa.RecordBatch) -> memoryview:
        texts: list[Text] = []
        for name in self._columns:
            texts += [f',"{name}":' if texts else f'{self._before}{{"{name}":', *_column(name, topic, partition, rows)]
        return data_of(joined([*texts, f"}}{self._behind}"], rows.num_rows))


def _column(name: str, topic: str, partition: int, rows: pa.RecordBatch) -> list[Text]:
    match name:
        case "topic":
            return [orjson.dumps(topic).decode()]
        case "partition":
            return [str(partition)]
        case "offset":
            return [rows.column(name).cast(pa.string())]
        case "timestamp":
            return [milliseconds(rows.column(name)).cast(pa.string())]
        case "headers":
            return headers_json(rows.column(name))
        case _:
            return bytes_json(name, rows.column(name))
