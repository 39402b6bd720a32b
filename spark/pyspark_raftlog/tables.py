"""Tables in Spark's catalog: `CREATE TABLE flights USING raftlog OPTIONS (...)`.

Spark 4.3 tells a Python source a table's options once, when it is created, and never again: whoever reads the table, or
writes to it, is handed no options, but the table's columns as the catalog keeps them. So the options are kept there, in
the metadata of each column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark_raftlog.option_names import ALIASES, KNOWN_OPTIONS, SINK_OPTIONS
from raftlog.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

METADATA = "raftlog.options"
_PREFIX = "option."
_SPARKS_OWN = frozenset({"provider", "owner"})
"""Properties that Spark adds to each table."""
_COLUMNS = 7
"""So many columns each table has at least."""
_NO_OPTIONS = (
    "Spark has handed over no options. A table has them in OPTIONS (...), and no columns of its own, for example "
    "CREATE TABLE flights USING raftlog OPTIONS (bootstrap 'http://127.0.0.1:9400', subscribe 'flights'); instead of "
    "AS SELECT, create the table first, then INSERT INTO it; instead of toTable(), write a stream by "
    ".format('raftlog').option('bootstrap', ...).option('topic', ...).start()"
)


def is_creation(raw: Mapping[str, str]) -> bool:
    """Tell whether these are a table's properties, as Spark hands them over when the table is created."""
    return {name.lower() for name in raw} >= _SPARKS_OWN


def created_with(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a table that is created: all of OPTIONS, and of TBLPROPERTIES those that we know.

    Raises:
        ConfigError: the two contradict each other, or the table is given a LOCATION.
    """
    properties = {name.lower(): str(value) for name, value in raw.items()}
    options = {name.removeprefix(_PREFIX): value for name, value in properties.items() if name.startswith(_PREFIX)}
    if (location := properties.get("location")) is not None:
        raise ConfigError(f"a topic has no LOCATION, received {location!r}: name it by OPTIONS (subscribe '...')")
    ours = {name.lower() for name in (*KNOWN_OPTIONS, *SINK_OPTIONS, *ALIASES)}
    for name, value in properties.items():
        if name in ours and options.setdefault(name, value) != value:
            raise ConfigError(
                f"option {name!r} is {options[name]!r} in OPTIONS and {value!r} in TBLPROPERTIES: say it once"
            )
    return options


def remember(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the columns with the table's options in their metadata, and a comment for DESCRIBE."""
    kept = json.dumps(dict(options), sort_keys=True)
    for item in schema.fields:
        item.metadata = {**item.metadata, METADATA: kept}
        if item.name == "topic":
            item.metadata["comment"] = _description(options)
    return schema


def _description(options: Mapping[str, str]) -> str:
    for name, shown in (("subscribe", "Subscribe"), ("subscribepattern", "SubscribePattern"), ("assign", "Assign")):
        if name in options:
            return f"raftlog[{shown}[{options[name]}]] at {options.get('bootstrap', '')}"
    return "raftlog"


def recall(raw: Mapping[str, str], schema: StructType, *, writing: bool = False) -> dict[str, str]:
    """Return the options of a query: its own, or, of one on a table, the table's with the query's own before them.

    A query with a `bootstrap` is on no table. Its columns may come from one all the same, with the metadata; so may
    those of a `save()` without options, but an INSERT has all columns of its table.

    Raises:
        ConfigError: there are none, because the table was created with columns of its own.
    """
    given = {name.lower(): str(value) for name, value in raw.items()}
    if "bootstrap" in given:
        return given
    kept = next((item.metadata[METADATA] for item in schema.fields if METADATA in item.metadata), None)
    if kept is None or (writing and len(schema.fields) < _COLUMNS):
        require_options(given)
    kept_options: dict[str, str] = json.loads(kept or "{}")
    return kept_options | given


def require_options(raw: Mapping[str, str]) -> None:
    """Check that there are any, besides those that Spark adds.

    Raises:
        ConfigError: there are none; says where Spark takes them from.
    """
    if all(name.lower() in ("checkpointlocation", "path") for name in raw):
        raise ConfigError(_NO_OPTIONS)
