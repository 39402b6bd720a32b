"""How far a stream is behind its topics, from the progress that Spark reports.

query.lastProgress                      # once, by hand
spark.streams.addListener(LagListener(print))     # after each batch, of each raftlog stream of the session
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from pyspark_raftlog.offsets import Positions, decode_positions
from raftlog.errors import ConfigError
from raftlog.model import TopicPartition

Lag = dict[TopicPartition, int]


def lag(progress: Mapping[str, Any]) -> Lag:
    """Return how many offsets of each partition a stream has not read yet, of every raftlog source it has.

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


def _positions(text: str | Mapping[str, Any] | None) -> Positions | None:
    """Read positions as Spark reports them; None if they are none, or another source's."""
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
