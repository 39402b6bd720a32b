"""Filter pushdown: which records a query's filters exclude. No IO.

Filters on `topic`, `partition`, `offset` and `timestamp` reduce the planned ranges. Spark applies every filter again,
so only records that certainly fail a filter are excluded; an unsupported filter excludes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from pyspark_raftlog.offsets import OffsetRange
from raftlog.model import TopicPartition

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AllowedValues:
    """The values of one column that may pass: from `low` to `high`, and in `among` if it is given."""

    low: int = _LOWEST
    high: int = _HIGHEST
    among: frozenset[Any] | None = None

    def __contains__(self, value: object) -> bool:
        if self.among is not None and value not in self.among:
            return False
        return not isinstance(value, int) or self.low <= value <= self.high

    def at_least(self, value: int) -> AllowedValues:
        return replace(self, low=max(self.low, value))

    def at_most(self, value: int) -> AllowedValues:
        return replace(self, high=min(self.high, value))

    def one_of(self, values: frozenset[Any]) -> AllowedValues:
        among = values if self.among is None else self.among & values
        if not among:
            return AllowedValues(low=_HIGHEST, high=_LOWEST, among=among)
        if not all(isinstance(value, int) for value in among):
            return replace(self, among=among)
        return replace(self, among=among).at_least(min(among)).at_most(max(among))


ANYTHING = AllowedValues()


@dataclass(frozen=True, slots=True)
class Pruning:
    """The allowed values of each column."""

    topic: AllowedValues = ANYTHING
    partition: AllowedValues = ANYTHING
    offset: AllowedValues = ANYTHING
    timestamp_us: AllowedValues = ANYTHING

    def admits(self, partition: TopicPartition) -> bool:
        """Return whether any record of a partition may pass."""
        return partition.topic in self.topic and partition.partition in self.partition

    def cut(self, wanted: OffsetRange) -> OffsetRange:
        """Return the part of a range that may pass; it may be empty."""
        start = min(max(wanted.start, self.offset.low), wanted.end)
        end = max(start, min(wanted.end, self.offset.high + 1))
        return replace(wanted, start=start, end=end)


def prune(filters: Iterable[Filter]) -> Pruning:
    """Return the values that may pass all of `filters`."""
    pruning = Pruning()
    for item in filters:
        column, values = _meaning(item)
        if column:
            narrowed = _narrow(getattr(pruning, column), item, values)
            pruning = replace(pruning, **{column: narrowed})
    return pruning


def _meaning(item: Filter) -> tuple[str, tuple[Any, ...]]:
    """Return the field of `Pruning` that a filter restricts, and its converted values; empty if unsupported."""
    path: tuple[str, ...] = getattr(item, "attribute", ())
    known = _COLUMNS.get(".".join(path).lower())
    value: Any = getattr(item, "value", None)
    values = tuple(value) if isinstance(item, In) else (value,)
    if known is None or not all(isinstance(one, known[1]) and not isinstance(one, bool) for one in values):
        return "", ()
    column, _, convert = known
    converted = tuple(map(convert, values))
    return ("", ()) if None in converted else (column, converted)


def _narrow(wanted: AllowedValues, item: Filter, values: tuple[Any, ...]) -> AllowedValues:
    if isinstance(item, EqualTo | EqualNullSafe | In):
        return wanted.one_of(frozenset(values))
    (value,) = values
    if not isinstance(value, int):  # Topics are compared for equality only.
        return wanted
    match item:
        case GreaterThan():
            return wanted.at_least(value + 1)
        case GreaterThanOrEqual():
            return wanted.at_least(value)
        case LessThan():
            return wanted.at_most(value - 1)
        case LessThanOrEqual():
            return wanted.at_most(value)
    return wanted


def _same(value: Any) -> Any:
    return value


def _to_us(time: datetime) -> int | None:
    """Return microseconds since 1970; None if the time has no zone."""
    return None if time.tzinfo is None else (time - _EPOCH) // timedelta(microseconds=1)


_COLUMNS: dict[str, tuple[str, type, Callable[[Any], Any]]] = {
    "topic": ("topic", str, _same),
    "partition": ("partition", int, _same),
    "offset": ("offset", int, _same),
    "timestamp": ("timestamp_us", datetime, _to_us),
}
