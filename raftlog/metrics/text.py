"""Reads Prometheus' text format, as a node's `/metrics` has it. Pure; the text may be hostile."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

MAX_SAMPLES = 50_000
"""Samples that are kept of one page."""
_LINE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? ([-+.0-9A-Za-z]{1,40})(?: [0-9]+)?")
_LABEL = re.compile(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"(?:,|$)')
_ESCAPE = re.compile(r"\\(.)")
_MAX_LINE = 8_192
"""Characters of a line; longer ones are skipped."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of one page, by the name of the metric."""

    by_name: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def each(self, name: str) -> tuple[Sample, ...]:
        """Return a metric's samples; none: the page does not have it."""
        return self.by_name.get(name, ())

    def total(self, name: str) -> float:
        """Return the sum of a metric's samples; 0 without any."""
        return sum(sample.value for sample in self.each(name))

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Return the sums of a metric by the value of one label."""
        sums: defaultdict[str, float] = defaultdict(float)
        for sample in self.each(name):
            sums[sample.labels.get(label, "")] += sample.value
        return dict(sums)

    def label(self, name: str, label: str) -> str:
        """Return a label of a metric's first sample; "": there is none."""
        found = self.each(name)
        return found[0].labels.get(label, "") if found else ""


NO_SAMPLES = Samples()


def parse(text: str, names: Collection[str]) -> Samples:
    """Return the samples of some metrics. Lines that are not samples are skipped, and values that are not finite."""
    found: defaultdict[str, list[Sample]] = defaultdict(list)
    for name, sample in _samples(text, names):
        found[name].append(sample)
    return Samples({name: tuple(samples) for name, samples in found.items()})


def _samples(text: str, names: Collection[str]) -> Iterator[tuple[str, Sample]]:
    left = MAX_SAMPLES
    for line in text.split("\n"):
        name = line[: line.find("{")] if "{" in line else line.partition(" ")[0]
        if len(line) > _MAX_LINE or name not in names or (found := _LINE.fullmatch(line)) is None:
            continue
        try:
            value = float(found[3])
        except ValueError:
            continue
        if not math.isfinite(value):
            continue
        if not left:
            return
        left -= 1
        yield name, Sample(_labels(found[2] or ""), value)


def _labels(text: str) -> dict[str, str]:
    labels, at = dict[str, str](), 0
    while (found := _LABEL.match(text, at)) is not None:
        labels[found[1]], at = _ESCAPE.sub(_unescaped, found[2]), found.end()
    return labels


def _unescaped(found: re.Match[str]) -> str:
    return "\n" if found[1] == "n" else found[1]
