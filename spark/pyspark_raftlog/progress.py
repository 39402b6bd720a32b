"""Publishes a stream's position as a group's committed offsets, so that monitoring of groups shows its lag.

These offsets are for monitoring only: the stream uses its checkpoint alone. Publishing never fails a query, and only an
AvailableNow run waits for it. A failure is logged, and a later batch publishes again.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from pyspark_raftlog.background import background
from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.offsets import Positions
from pyspark_raftlog.options import SourceOptions
from raftlog.errors import RaftlogError
from raftlog.runtime import Clock, SystemClock

TIMEOUT_S = 10.0
AGAIN_AFTER_MS = 600_000
"""The interval at which an idle stream publishes its offsets again, so that the group does not expire."""
AFTER_FAILURE_MS = 30_000
_log = logging.getLogger(__name__)


@dataclass
class GroupProgress:
    """One stream's positions in the group `groupId`; does nothing without that option."""

    options: SourceOptions
    clock: Clock = field(default_factory=SystemClock)
    _published: Positions | None = None
    _again_at_ms: float = 0.0
    _under_way: Future[None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_under_way": None}  # Spark pickles readers for tasks, which do not publish.

    def publish(self, cluster: Cluster, positions: Positions, *, wait: bool) -> None:
        """Publish changed positions, in the background or (`wait`) before returning; one request at a time."""
        now_ms = self.clock.monotonic_ms()
        busy = self._under_way is not None and not self._under_way.done()
        known = positions == self._published and now_ms < self._again_at_ms
        failed_lately = self._published is None and now_ms < self._again_at_ms
        if not self.options.group_id or not positions or busy or known or failed_lately:
            return
        self._under_way = background().spawn(self._publish(cluster, dict(positions)))
        if wait:
            self._under_way.result()

    async def _publish(self, cluster: Cluster, positions: Positions) -> None:
        try:
            await cluster.commit_offsets(self.options.group_id, positions, timeout_s=TIMEOUT_S)
        except RaftlogError as error:
            _log.warning("group %r: the stream's progress was not published: %s", self.options.group_id, error.message)
            self._published, self._again_at_ms = None, self.clock.monotonic_ms() + AFTER_FAILURE_MS
        else:
            self._published, self._again_at_ms = positions, self.clock.monotonic_ms() + AGAIN_AFTER_MS
