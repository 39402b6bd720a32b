"""A page of metrics in Prometheus' text format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from raftlog.metrics.instruments import Histogram
from raftlog.metrics.metric import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OTHER = "(other)"
"""The label value for everything beyond a limit: no topic has this name."""


class Page:
    """Collects samples, then renders them in the order of the table. A metric without samples is left out.

    Args:
        table: the metrics that may be added.
    """

    def __init__(self, table: Iterable[Metric]) -> None:
        self._metrics = {metric.name: metric for metric in table}
        self._lines: dict[str, list[str]] = {name: [] for name in self._metrics}

    def add(self, name: str, value: float, **labels: str | int) -> None:
        """Add one sample of a counter or gauge."""
        self.add_at(name, value, labels_text(labels))

    def add_at(self, name: str, value: float, labels: str) -> None:
        """Add one sample whose labels are text already; see `labels_text`."""
        self._lines[name].append(f"{name}{labels} {value}")

    def add_histogram(self, name: str, histogram: Histogram, **labels: str | int) -> None:
        """Add a histogram, unless nothing was observed."""
        if not (count := histogram.count):
            return
        inner = labels_text(labels)[1:-1]
        begin = f"{name}_bucket{{{inner}," if inner else f"{name}_bucket{{"
        cumulative, lines = 0, self._lines[name]
        for number, bound in zip(histogram.counts, _bounds_texts(histogram.bounds), strict=True):
            cumulative += number
            lines.append(f'{begin}le="{bound}"}} {cumulative}')
        around = labels_text(labels)
        lines.append(f"{name}_sum{around} {histogram.total}")
        lines.append(f"{name}_count{around} {count}")

    def pieces(self) -> Iterator[str]:
        """Yield the text of each metric: rendering may pause in between."""
        for name, lines in self._lines.items():
            if lines:
                metric = self._metrics[name]
                yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n" + "\n".join(lines) + "\n"

    def text(self) -> str:
        """Return the whole page."""
        return "".join(self.pieces())


def labels_text(labels: dict[str, str | int]) -> str:
    """Return labels as they stand after a metric's name; nothing without labels."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{escaped(str(value))}"' for name, value in labels.items()) + "}"


def escaped(value: str) -> str:
    """Return a label's value without characters that would end it: group ids may have any."""
    if value.isalnum():
        return value
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@lru_cache
def _bounds_texts(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*(repr(float(bound)) for bound in bounds), "+Inf")
