"""Compares a suite's figures with the last kept ones, each in proportion to its machine's calibration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from benchmarks.report import Figure

KEPT = Path(__file__).parent / "kept"
TOLERANCE = 0.7
"""A figure below this share of the kept one has become worse; above it, the machine's noise explains the difference."""


def keep(suite: str, figures: Sequence[Figure], calibration: dict[str, float]) -> Path:
    """Keep these figures for the comparison with later runs."""
    medians = {figure.name: figure.measured["median"] for figure in figures if figure.comparable and figure.samples}
    KEPT.mkdir(exist_ok=True)
    path = KEPT / f"{suite}.json"
    plain = {"calibration": calibration, "figures": {name: float(f"{value:.4g}") for name, value in medians.items()}}
    path.write_bytes(orjson.dumps(plain, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return path


def compare(suite: str, figures: Sequence[Figure], calibration: dict[str, float]) -> dict[str, dict[str, Any]]:
    """Return, for each kept figure, the new one's share of it: 1 is as good, 2 twice as good.

    Both are taken in proportion to the speed of the machine that they were measured on.
    """
    path = KEPT / f"{suite}.json"
    if not path.exists():
        return {}
    kept = orjson.loads(path.read_bytes())
    faster = calibration["speed"] / kept["calibration"]["speed"]
    shares = {
        figure.name: share_of(figure, kept["figures"][figure.name], faster=faster)
        for figure in figures
        if figure.comparable and figure.samples and figure.name in kept["figures"]
    }
    return {name: {"share_of_kept": round(share, 3), "ok": share >= TOLERANCE} for name, share in shares.items()}


def share_of(figure: Figure, kept: float, *, faster: float) -> float:
    """Return how good a figure is relative to a kept one, on a machine that is `faster` times as fast."""
    measured = figure.measured["median"]
    if figure.better == "more":
        return measured / (kept * faster)
    if figure.better == "less_whatever_speed":
        return kept / measured
    return kept / (measured * faster)
