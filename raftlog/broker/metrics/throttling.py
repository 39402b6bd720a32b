"""What quotas have done since this broker started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from raftlog.metrics import Page


@dataclass(slots=True)
class Throttling:
    """Counts of delayed and refused requests and connections."""

    requests: Counter[str] = field(default_factory=Counter)
    """Requests and connections that were delayed, by limit."""
    seconds: dict[str, float] = field(default_factory=dict)
    """For how long they were, in all."""
    refused: int = 0
    """Requests and connections that were refused."""
    buckets: Callable[[], int] = int
    """Returns the users and client ids, or groups of them, whose use is counted."""

    def count(self, limit: str, seconds: float) -> None:
        """Count a delay."""
        self.requests[limit] += 1
        self.seconds[limit] = self.seconds.get(limit, 0.0) + seconds

    def count_refusal(self) -> None:
        """Count a refusal."""
        self.refused += 1

    def show(self, page: Page) -> None:
        """Add the samples to a page."""
        for limit, count in self.requests.items():
            page.add("raftlog_throttled_total", count, limit=limit)
            page.add("raftlog_throttle_seconds_total", self.seconds[limit], limit=limit)
        page.add("raftlog_quota_refusals_total", self.refused)
        page.add("raftlog_quota_buckets", self.buckets())
