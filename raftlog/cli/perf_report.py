"""Results of a measurement: rates and percentiles, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import click

from raftlog.cli.perf_loads import Load
from raftlog.cli.shared import plural
from raftlog.wire.codec import encode_json

_SHARES = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999, "max_ms": 1.0}


def percentiles(seconds: Sequence[float]) -> dict[str, float | None]:
    """Return percentiles in milliseconds, by nearest rank; None if there are no values."""
    ordered = sorted(seconds)
    return {name: round(1000 * _ranked(ordered, share), 3) if ordered else None for name, share in _SHARES.items()}


def _ranked(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def measured(load: Load, *, value_bytes: int) -> dict[str, Any]:
    """Return a run's figures by name. `mb_per_s` counts keys and values, a megabyte being 1,000,000 bytes."""
    seconds = load.seconds
    return {
        "records": load.records,
        "seconds": round(seconds, 6),
        "records_per_s": round(load.records / seconds) if seconds > 0 else 0,
        "mb_per_s": round(value_bytes / seconds / 1e6, 3) if seconds > 0 else 0.0,
        **percentiles(load.latencies),
    }


def report(figures: dict[str, Any], *, done: str, timed: str) -> None:
    """Print one line on standard error, and JSON as the last line of standard output.

    Args:
        done: the outcome of the records, such as `acknowledged`.
        timed: the operation that the percentiles measure.
    """
    text = (
        f"{plural(figures['records'], 'record')} {done} in {figures['seconds']:,} s: "
        f"{figures['records_per_s']:,} records/s, {figures['mb_per_s']:,} MB/s"
    )
    if figures["p50_ms"] is not None:
        quantiles = ", ".join(f"{name} {figures[f'{name}_ms']:,} ms" for name in ("p50", "p95", "p99", "max"))
        text += f"; {timed}: {quantiles}"
    click.echo(text, err=True)
    click.echo(encode_json(figures).decode())
