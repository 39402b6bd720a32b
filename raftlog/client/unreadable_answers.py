"""Answers to fetches that cannot be read: a proxy's page soon ends, an answer that is too large may not."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from raftlog.errors import RaftlogError
from raftlog.model import Address

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Series:
    """Fetches from one broker without a readable answer, since the last one that had it."""

    count: int = 0
    tried_s: float = 0.0


class UnreadableAnswers:
    """Logs the start and the end of each series, and says when it has taken too long."""

    def __init__(self) -> None:
        self._series: dict[Address, _Series] = {}

    def on_error(self, address: Address, error: RaftlogError, *, took_s: float, limit_ms: int) -> bool:
        """Note an answer that cannot be read; return whether the application must get the error.

        Args:
            took_s: how long this fetch took, with the pause after it.
            limit_ms: how long the fetches of a series may take. What failed otherwise does not count, nor does the time
                in which the application asked for nothing.
        """
        series = self._series.get(address)
        if series is None:
            series = self._series[address] = _Series()
            _log.warning("an answer of %s cannot be read; asking again. The error: %s", address, error.message)
        series.count += 1
        series.tried_s += took_s
        return series.tried_s > limit_ms / 1000

    def on_answer(self, address: Address) -> None:
        """Note an answer that was read: the broker's series ends."""
        if (series := self._series.pop(address, None)) is not None:
            _log.warning("%s answers again, after %d answers that could not be read", address, series.count)
