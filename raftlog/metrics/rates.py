"""What two pages of one node's metrics say about the time between them: rates and quantiles. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from raftlog.metrics.text import Sample, Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A node's metrics, and when they arrived, in seconds of the monotonic clock."""

    samples: Samples
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The newest page of a node, and the one before; a node that restarted begins again."""

    before: Page | None
    now: Page

    @property
    def seconds(self) -> float | None:
        """Return the time between the pages; None: there is no page before, or rates are not known."""
        if self.before is None:
            return None
        elapsed = self.now.at_s - self.before.at_s
        return elapsed if elapsed > 0 else None

    def rate(self, name: str) -> float | None:
        """Return how much a counter grows in a second, added up over its labels; None: unknown."""
        if self.seconds is None:
            return None
        return sum(self.rates(name, "").values())

    def rates(self, name: str, label: str) -> dict[str, float]:
        """Return the growth of a counter in a second, by the value of one label; nothing while it is unknown."""
        if self.seconds is None:
            return {}
        assert self.before is not None
        sums: defaultdict[str, float] = defaultdict(float)
        for labels, grown in _growth(self.before.samples.each(name), self.now.samples.each(name)):
            sums[labels.get(label, "")] += grown / self.seconds
        return dict(sums)

    def quantiles(self, name: str, label: str, share: float) -> dict[str, float]:
        """Return a quantile of a histogram since the page before, by one label; see `quantile`.

        Args:
            name: the histogram, without `_bucket`.
        """
        if self.before is None:
            return {}
        buckets: defaultdict[str, defaultdict[float, float]] = defaultdict(lambda: defaultdict(float))
        bucket = f"{name}_bucket"
        for labels, grown in _growth(self.before.samples.each(bucket), self.now.samples.each(bucket)):
            try:
                bound = float(labels.get("le", ""))
            except ValueError:
                continue
            if not math.isnan(bound):
                buckets[labels.get(label, "")][bound] += grown
        found = {value: quantile(counts, share) for value, counts in buckets.items()}
        return {value: each for value, each in found.items() if each is not None}


def _growth(before: tuple[Sample, ...], now: tuple[Sample, ...]) -> list[tuple[Mapping[str, str], float]]:
    """Return how much each sample has grown. One that is smaller than before began at 0 with a new process."""
    old = {tuple(sorted(sample.labels.items())): sample.value for sample in before}
    grown = []
    for sample in now:
        earlier = old.get(tuple(sorted(sample.labels.items())), 0.0)
        grown.append((sample.labels, sample.value - earlier if sample.value >= earlier else sample.value))
    return grown


def quantile(counts: Mapping[float, float], share: float) -> float | None:
    """Return the value below which `share` of the observations are; None without any.

    Args:
        counts: by the upper bound of a bucket, how many observations are at most so large.
    """
    bounds = sorted(counts)
    total = counts[bounds[-1]] if bounds else 0
    if total <= 0:
        return None
    rank, low, below = share * total, 0.0, 0.0
    for bound in bounds:
        if counts[bound] >= rank:
            inside = counts[bound] - below
            if math.isinf(bound) or inside <= 0:
                return low
            return low + (bound - low) * (rank - below) / inside
        low, below = bound, counts[bound]
    return low
