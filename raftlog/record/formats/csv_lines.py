"""CSV (RFC 4180): a header line, lines that end in CR LF, quotes doubled within quotes.

`key` is followed by `key_encoding`, `value` by `value_encoding`: `base64` where the bytes are not UTF-8 or contain NUL,
after which some readers drop the rest; otherwise empty. A null is an empty field without quotes, an empty string one
with quotes (`""`). Headers are their JSON text, `[]` if there are none. Times are in milliseconds since 1970.
"""

from __future__ import annotations

import pyarrow as pa

from raftlog.record.compute import pc
from raftlog.record.formats.json_text import headers_json
from raftlog.record.formats.pieces import data_of, pieces, put_together
from raftlog.record.formats.text import Text, joined, milliseconds, strings_of

_BYTES = ("key", "value")
_END_OF_LINE = "\r\n"


class Encoder:
    """See `raftlog.record.formats.Encoder`."""

    media_type = "text/csv; charset=utf-8; header=present"

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns

    def begin(self) -> bytes:
        names = [f"{name},{name}_encoding" if name in _BYTES else name for name in self._columns]
        return f"{','.join(names)}{_END_OF_LINE}".encode()

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> memoryview:
        return put_together(self._render(topic, partition, piece) for piece in pieces(rows))

    def _render(self, topic: str, partition: int, rows: pa.RecordBatch) -> memoryview:
        texts: list[Text] = []
        for name in self._columns:
            texts += [*([","] if texts else []), *_column(name, topic, partition, rows)]
        return data_of(joined([*texts, _END_OF_LINE], rows.num_rows))

    def end(self) -> bytes:
        return b""


def _column(name: str, topic: str, partition: int, rows: pa.RecordBatch) -> list[Text]:
    match name:
        case "topic":
            return ['"' + topic.replace('"', '""') + '"']
        case "partition":
            return [str(partition)]
        case "offset":
            return [rows.column(name).cast(pa.string())]
        case "timestamp":
            return [milliseconds(rows.column(name)).cast(pa.string())]
        case "headers":
            return _quoted(joined(headers_json(rows.column(name)), rows.num_rows))
        case _:
            return _bytes(rows.column(name))


def _bytes(column: pa.Array) -> list[Text]:
    """Return a column of bytes and its encoding column."""
    strings, is_bytes = strings_of(column, takes_nul=False)
    return [*_quoted(strings), "," if is_bytes is None else pc.if_else(is_bytes, ",base64", ",")]


def _quoted(strings: pa.Array) -> list[Text]:
    if strings.null_count == len(strings):
        return [""]
    if strings.null_count:
        return [pc.fill_null(joined(['"', _doubled(strings), '"'], len(strings)), "")]
    return ['"', _doubled(strings) if pc.any(pc.match_substring(strings, pattern='"')).as_py() else strings, '"']


def _doubled(strings: pa.Array) -> pa.Array:
    return pc.replace_substring(strings, pattern='"', replacement='""')
