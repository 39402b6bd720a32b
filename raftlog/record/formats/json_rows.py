"""Rows as JSON objects, equal to those of the broker's `record_to_json`."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
import pyarrow as pa

from raftlog.record.formats.json_text import bytes_json, headers_json
from raftlog.record.formats.pieces import data_of, pieces
from raftlog.record.formats.text import Text, joined, milliseconds


class JsonRows:
    """Renders rows, each between a prefix and a suffix."""

    def __init__(self, columns: tuple[str, ...], *, before: str, behind: str) -> None:
        self._columns = columns
        self._before = before
        self._behind = behind

    def render(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> Iterator[memoryview]:
        """Return the rows' text, a piece at a time."""
        for piece in pieces(rows):
            objects = objects_json(self._columns, topic, partition, piece)
            yield data_of(joined([self._before, *objects, self._behind], piece.num_rows))


def objects_json(columns: tuple[str, ...], topic: str, partition: int, rows: pa.RecordBatch) -> list[Text]:
    """Return texts that join to an object for each row."""
    texts: list[Text] = []
    for name in columns:
        texts += [f',"{name}":' if texts else f'{{"{name}":', *_column(name, topic, partition, rows)]
    return [*texts, "}"]


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
