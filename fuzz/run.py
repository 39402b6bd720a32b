"""Runs targets for a time, and keeps their findings."""

from __future__ import annotations

import hashlib
import random
import time
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis.errors import Flaky

from fuzz.target import Finding, Target

CORPUS = Path(__file__).parent / "corpus"
ROUND_S = 20.0
EXAMPLES = 100
"""Per call of hypothesis, at most."""


@dataclass(frozen=True, slots=True)
class Found:
    """An input that did harm, shrunk, and the file that keeps it."""

    target: str
    problem: str
    path: Path


def replay(target: Target, corpus: Path = CORPUS) -> list[Found]:
    """Judge the findings of earlier runs again."""
    found = []
    for path in sorted((corpus / target.name).glob("*.input")):
        try:
            target.judge(path.read_bytes())
        except Finding as problem:
            found.append(Found(target.name, str(problem), path))
    return found


def explore(target: Target, dice: random.Random, seconds: float, corpus: Path = CORPUS) -> Found | None:
    """Try new inputs for a time, or until one does harm."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = _explore(target, dice.randrange(1 << 32), deadline, EXAMPLES, corpus)
        if found is not None:
            return found
    return None


def explore_count(target: Target, number: int, count: int, corpus: Path = CORPUS) -> Found | None:
    """Try so many inputs, the same ones for the same number."""
    return _explore(target, number, float("inf"), count, corpus)


def _explore(target: Target, number: int, deadline: float, count: int, corpus: Path) -> Found | None:
    failing, problems = [b""], [""]

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(target.inputs())
    def try_one(data: bytes) -> None:
        if time.monotonic() > deadline:
            return
        try:
            target.judge(data)
        except Finding as problem:
            failing[0], problems[0] = data, str(problem)  # The last one to fail is the smallest.
            raise

    try:
        try_one()
    except (Finding, Flaky):  # Flaky: it did harm once, and not again.
        return Found(target.name, problems[0], _keep(corpus / target.name, failing[0]))
    return None


def _keep(folder: Path, data: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(data).hexdigest()[:12]}.input"
    path.write_bytes(data)
    return path
