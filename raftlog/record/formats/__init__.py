"""Rows of `READ_SCHEMA` rendered as one stream of bytes, in the form that a reader asks for. No IO.

An encoder makes one stream: what `begin` returns, then what each `write` returns, then what `end` returns. Whoever
sends it decides how many rows are rendered at once, and so how much is in memory: a few megabytes serve all forms.
Nothing here needs pyarrow until an encoder is made, and a form's own module is loaded when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from raftlog.errors import InvalidRequestError

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog.record.batch import Buffer

FORMATS: tuple[str, ...] = ("arrow", "ndjson", "json", "csv", "parquet")
COLUMNS: tuple[str, ...] = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""Every column that can be asked for, in the order in which they come if nobody asks."""

_MODULE_OF = {
    "arrow": "arrow_stream",
    "ndjson": "json_lines",
    "json": "json_array",
    "csv": "csv_lines",
    "parquet": "parquet_file",
}


class Encoder(Protocol):
    """Renders one stream, for one reader. Not for use by two threads at once."""

    media_type: str

    def begin(self) -> bytes:
        """Return what stands before all rows."""

    def write(self, topic: str, partition: int, rows: pa.RecordBatch | pa.Table) -> Buffer:
        """Return rows of `READ_SCHEMA`, all of one partition, as they stand in the stream.

        Parquet: the rows of one call are one row group, and the same rows are the same bytes wherever they stand.
        """

    def end(self) -> bytes:
        """Return what stands after all rows."""


def encoder(form: str, columns: Sequence[str] = COLUMNS) -> Encoder:
    """Return a new encoder.

    Raises:
        InvalidRequestError: there is no such form or column, or a column is named twice, or none is.
    """
    if form not in FORMATS:
        raise InvalidRequestError(f"format: {_expected(form, FORMATS)}")
    for column in columns:
        if column not in COLUMNS:
            raise InvalidRequestError(f"columns: {_expected(column, COLUMNS)}")
    if not columns or len(set(columns)) < len(columns):
        raise InvalidRequestError(
            f"columns: expected one or more of {', '.join(COLUMNS)}, each once, received "
            f"{', '.join(columns) or 'none'}; leave the parameter out to get all of them"
        )
    make: Callable[[tuple[str, ...]], Encoder] = import_module(f"raftlog.record.formats.{_MODULE_OF[form]}").Encoder
    return make(tuple(columns))


def _expected(received: str, allowed: tuple[str, ...]) -> str:
    near = get_close_matches(received.lower(), allowed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"expected one of {', '.join(allowed)}, received {received[:60]!r}{hint}"
