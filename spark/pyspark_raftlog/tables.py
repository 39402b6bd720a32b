"""Tables in Spark's catalog: `CREATE TABLE flights USING raftlog OPTIONS (...)`.

Spark 4.3 passes a table's options to a Python source only when the table is created. Reads and writes of the table get
no options, but the table's columns from the catalog. So the options are stored there, in the metadata of each column.
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
"""The least number of columns of a table."""
_NO_OPTIONS = (
    "Spark has passed no options. A table has them in OPTIONS (...), and no column list, for example "
    "CREATE TABLE flights USING raftlog OPTIONS (bootstrap 'http://127.0.0.1:9400', subscribe 'flights'); instead of "
    "AS SELECT, create the table first, then INSERT INTO it; instead of toTable(), write a stream by "
    ".format('raftlog').option('bootstrap', ...).option('topic', ...).start()"
)


def is_creation(raw: Mapping[str, str]) -> bool:
    """Return whether these are a table's properties, as Spark passes them when the table is created."""
    return {name.lower() for name in raw} >= _SPARKS_OWN


def created_with(raw: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a new table: all of OPTIONS, and the known ones of TBLPROPERTIES.

    Raises:
        ConfigError: the two contradict each other, or the table has a LOCATION.
    """
    properties = {name.lower(): str(value) for name, value in raw.items()}
    options = {name.removeprefix(_PREFIX): value for name, value in properties.items() if name.startswith(_PREFIX)}
    if (location := properties.get("location")) is not None:
        raise ConfigError(f"a topic has no LOCATION, received {location!r}: use OPTIONS (subscribe '...')")
    ours = {name.lower() for name in (*KNOWN_OPTIONS, *SINK_OPTIONS, *ALIASES)}
    for name, value in properties.items():
        if name in ours and options.setdefault(name, value) != value:
            raise ConfigError(
                f"option {name!r} is {options[name]!r} in OPTIONS and {value!r} in TBLPROPERTIES: set it once"
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
    """Return the options of a query: its own, or for a table, the table's overridden by the query's.

    A query with a `bootstrap` is not on a table, though its columns may come from one, with the metadata. The columns
    of a `save()` without options may, too. An INSERT has all columns of its table.

    Raises:
        ConfigError: there are none, because the table was created with a column list.
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
    """Raise if there are no options besides those that Spark adds.

    Raises:
        ConfigError: there are none; the message explains where Spark takes them from.
    """
    if all(name.lower() in ("checkpointlocation", "path") for name in raw):
        raise ConfigError(_NO_OPTIONS)
