"""Columns as JSON text, whole columns at a time.

Creating Python objects is the main cost, so most columns are converted without: numbers and times are cast, and strings
without characters to escape are copied. Strings with quotes, backslashes or control characters go through orjson, many
in one call. Only bytes that are not UTF-8 are handled one by one.
"""

from __future__ import annotations

import orjson
import pyarrow as pa

from raftlog.record.compute import pc
from raftlog.record.formats.pieces import data_of, value_pieces
from raftlog.record.formats.text import Text, joined, strings_of

_BETWEEN = ",\n  "
"""The separator between items of orjson's indented lists. No encoded string contains a line break."""
_FIRST, _LAST = len("[\n  "), -len("\n]")


def bytes_json(name: str, column: pa.Array) -> list[Text]:
    """Return texts that join to a column of bytes as JSON, with `"<name>_encoding": "base64"` after some rows."""
    strings, is_bytes = strings_of(column)
    texts = strings_json(strings)
    if is_bytes is None:
        return texts
    encoding = f',"{name}_encoding":"base64"'
    return [*texts, pc.if_else(is_bytes, encoding, "")]


def strings_json(strings: pa.Array) -> list[Text]:
    """Return texts that join to a column of strings as JSON."""
    if strings.null_count == len(strings):
        return ["null"]
    if strings.null_count or not _is_clean(strings):
        return [_escaped(strings)]
    return ['"', strings, '"']


def _is_clean(strings: pa.Array) -> bool:
    """Return whether strings (without nulls) need no escaping."""
    data = data_of(strings)
    text = str(data, "utf-8")
    return '"' not in text and len(orjson.dumps(text)) == len(data) + 2


def _escaped(strings: pa.Array) -> pa.Array:
    return pa.concat_arrays([_escaped_piece(piece) for piece in value_pieces(strings)])


def _escaped_piece(strings: pa.Array) -> pa.Array:
    listed = orjson.dumps(strings.to_pylist(), option=orjson.OPT_INDENT_2)
    return pc.split_pattern(pa.scalar(listed[_FIRST:_LAST], pa.string()), _BETWEEN).values


def headers_json(column: pa.Array) -> list[Text]:
    """Return texts that join to a column of headers as JSON: a list, which may be empty, for each row."""
    entries = column.flatten()
    if not len(entries):
        return ["[]"]
    keys, values = entries.field(0), entries.field(1)
    parts = ['{"key":', *strings_json(keys), ',"value":', *bytes_json("value", values), "}"]
    counts = pc.fill_null(pc.list_value_length(column), 0)
    lists = pa.ListArray.from_arrays(_ends_of(counts), joined(parts, len(entries)))
    return ["[", pc.binary_join(lists, ","), "]"]


def _ends_of(counts: pa.Array) -> pa.Array:
    return pa.concat_arrays([pa.repeat(pa.scalar(0, pa.int32()), 1), pc.cumulative_sum(counts)])
