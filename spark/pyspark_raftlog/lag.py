"""The lag of a stream, from the progress that Spark reports.

lag(query.lastProgress), readable(query.lastProgress)     # once, by hand
spark.streams.addListener(LagListener(print))     # after each batch, of each raftlog stream of the session
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from pyspark_raftlog.checkpoint import decode_positions, encode_positions
from pyspark_raftlog.offsets import Positions
from raftlog.errors import ConfigError
from raftlog.model import TopicPartition

Lag = dict[TopicPartition, int]
_PYTHON_SOURCE = "PythonMicroBatchStream"
"""Spark 4.3's description of every source written in Python."""


def lag(progress: Mapping[str, Any]) -> Lag:
    """Return how many offsets of each partition a stream has not read yet, for all of its raftlog sources.

    Args:
        progress: `query.lastProgress`, or one of `query.recentProgress`.
    """
    found: Lag = {}
    for source in progress["sources"]:
        latest, end = _positions(source["latestOffset"]), _positions(source["endOffset"])
        if latest is not None:
            done = end or {}
            found |= {key: max(0, latest[key] - done.get(key, 0)) for key in latest}
    return found


def readable(progress: Mapping[str, Any]) -> dict[str, Any]:
    """Return a progress in the form of Spark's Kafka source, which a Python source cannot produce in Spark.

    The raftlog sources get a description with their topics, positions without topic ids, None where there is no start,
    and `metrics` with their lag.

    Args:
        progress: as for `lag`. It is not changed.
    """
    shown: dict[str, Any] = json.loads(progress.json if hasattr(progress, "json") else json.dumps(progress))
    for source in shown["sources"]:
        end = _positions(source["endOffset"])
        if end is None or _PYTHON_SOURCE not in source["description"]:
            continue
        topics = ",".join(sorted({partition.topic for partition in end}))
        behind = list(lag({"sources": [source]}).values())
        source |= {name: _shown(source[name]) for name in ("startOffset", "endOffset", "latestOffset")}
        source["description"] = f"raftlog[{topics}]"
        if behind:
            source["metrics"] = {
                "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
                "maxOffsetsBehindLatest": str(max(behind)),
                "minOffsetsBehindLatest": str(min(behind)),
            }
    return shown


def _shown(text: str | Mapping[str, Any] | None) -> dict[str, Any] | None:
    positions = _positions(text)
    return None if positions is None else encode_positions(positions)


def _positions(text: str | Mapping[str, Any] | None) -> Positions | None:
    """Decode positions from a progress; None if there are none, or another source's."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
        return decode_positions(value) if value else None
    except (ValueError, ConfigError):
        return None


class LagListener(StreamingQueryListener):  # type: ignore[misc] # pyspark is untyped here
    """Calls `report(query name or id, lag)` after each batch of each stream that reads raftlog."""

    def __init__(self, report: Callable[[str, Lag], None]) -> None:
        self._report = report

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 -- Spark's names, here and below
        """Do nothing: there is no progress yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        progress = json.loads(event.progress.json)
        if behind := lag(progress):
            self._report(progress["name"] or progress["id"], behind)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: the last report still holds."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing: a stream that has ended has no lag."""
