"""A row of the table of metrics, and the buckets of its histograms. The tables are in the modules `*_table`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Board: TypeAlias = Literal["cluster", "topics", "clients", "quorum"]
Fold: TypeAlias = Literal["sum", "max"]

SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BYTES = (256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
RECORDS = (1, 10, 100, 1_000, 10_000, 100_000)
_UNITS = ("seconds", "bytes", "records", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric: what nodes show, what documentation says, and where dashboards draw it."""

    name: str
    kind: Kind
    help: str
    """One sentence, for `# HELP` and for the reference."""
    labels: tuple[str, ...] = ()
    jmx: str = ""
    """Kafka's JMX name of the same figure; empty if Kafka has none."""
    board: Board
    panel: str
    """The panel's title; metrics with the same title share a panel."""
    fold: Fold = "sum"
    """How a panel combines the nodes' gauges."""
    detail: bool = False
    """Shown only with `?detail=partitions`: one series for each partition."""
    buckets: tuple[float, ...] = ()
    """The upper bounds of a histogram's buckets."""

    @property
    def unit(self) -> str:
        """The unit in the name, or `1` for a number of things."""
        words = self.name.removesuffix("_total").split("_")
        return next((unit for unit in _UNITS if unit in words[-2:]), "1")


@dataclass(frozen=True, slots=True)
class Panel:
    """Makes the rows of one panel."""

    board: Board
    title: str

    def counter(self, name: str, help_: str, *labels: str, jmx: str = "") -> Metric:
        """Return a counter; its name ends with `_total`."""
        return Metric(name=name, kind="counter", help=help_, labels=labels, jmx=jmx, board=self.board, panel=self.title)

    def gauge(
        self, name: str, help_: str, *labels: str, jmx: str = "", fold: Fold = "sum", detail: bool = False
    ) -> Metric:
        """Return a gauge."""
        return Metric(
            name=name,
            kind="gauge",
            help=help_,
            labels=labels,
            jmx=jmx,
            board=self.board,
            panel=self.title,
            fold=fold,
            detail=detail,
        )

    def histogram(
        self, name: str, help_: str, *labels: str, jmx: str = "", buckets: tuple[float, ...] = SECONDS
    ) -> Metric:
        """Return a histogram."""
        return Metric(
            name=name,
            kind="histogram",
            help=help_,
            labels=labels,
            jmx=jmx,
            board=self.board,
            panel=self.title,
            buckets=buckets,
        )
