"""Columns as text, whole columns at a time; shared by JSON and CSV."""

from __future__ import annotations

from binascii import b2a_base64
from typing import TypeAlias

import pyarrow as pa

from raftlog.record.compute import pc
from raftlog.record.formats.pieces import data_of, value_pieces

_LONGER = (
    r"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|"
    r"\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
"""Characters of several bytes (RFC 3629), without surrogates and overlong forms."""
_UTF8 = rf"\A(?:[\x00-\x7f]|{_LONGER})*\z"
_UTF8_WITHOUT_NUL = rf"\A(?:[\x01-\x7f]|{_LONGER})*\z"

Text: TypeAlias = pa.Array | str
"""A column's text: one for each row, or one for all rows."""


def strings_of(column: pa.Array, *, takes_nul: bool = True) -> tuple[pa.Array, pa.Array | None]:
    """Return a column of bytes as text, with base64 where it is not text, and a mask of the base64 rows (None: no row).

    Text is UTF-8; with NUL only if `takes_nul`.
    """
    try:
        strings = column.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    else:
        if takes_nul or b"\0" not in bytes(data_of(strings)):
            return strings, None
    is_text = pc.fill_null(pc.match_substring_regex(column, _UTF8 if takes_nul else _UTF8_WITHOUT_NUL), True)
    pieces = zip(value_pieces(column), value_pieces(is_text), strict=True)
    return pa.concat_arrays([_texts_of(*piece) for piece in pieces]), pc.invert(is_text)


def _texts_of(column: pa.Array, is_text: pa.Array) -> pa.Array:
    texts = [
        value if fits else b2a_base64(value, newline=False)
        for value, fits in zip(column.to_pylist(), is_text.to_pylist(), strict=True)
    ]
    return pa.array(texts, pa.string())


def milliseconds(timestamps: pa.Array) -> pa.Array:
    """Return times in whole milliseconds since 1970, rounded down, before 1970 too."""
    microseconds = timestamps.view(pa.int64())
    quotients = pc.divide(microseconds, 1_000)
    if pc.min(microseconds).as_py() >= 0:
        return quotients
    is_above = pc.greater(pc.multiply(quotients, 1_000), microseconds)
    return pc.subtract(quotients, is_above.cast(pa.int64()))


def joined(texts: list[Text], count: int) -> pa.Array:
    """Return the texts of each row joined, one after another."""
    merged: list[Text] = []
    for text in texts:
        if merged and isinstance(text, str) and isinstance(merged[-1], str):
            merged[-1] += text
        else:
            merged.append(text)
    if len(merged) == 1 and isinstance(merged[0], str):
        return pa.repeat(pa.scalar(merged[0]), count)
    return pc.binary_join_element_wise(*merged, "")
