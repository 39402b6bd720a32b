"""Plots for the report, as SVG text: no script, no font, no file from anywhere else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

LEFT, RIGHT = 110, 20
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2", "#97bbf5", "#9c6b4e")


@dataclass(slots=True)
class Plot:
    """A stack of panels over one axis of time, in seconds.

    Args:
        width: in pixels, labels included.
    """

    seconds: float
    width: int = 1_180
    _parts: list[str] = field(default_factory=list)
    _y: int = 8

    def x(self, seconds: float) -> float:
        inside = self.width - LEFT - RIGHT
        return round(LEFT + inside * min(max(seconds, 0.0), self.seconds) / max(self.seconds, 1e-9), 1)

    def curve(
        self,
        title: str,
        points: Sequence[tuple[float, float]],
        *,
        unit: str,
        colour: str = COLOURS[0],
        height: int = 90,
    ) -> None:
        """Add a panel with one area under (seconds, value), and its highest value as the scale."""
        highest = max((value for _, value in points), default=0.0) or 1.0
        base = self._panel(title, height, f"{highest:,.0f} {unit}")
        steps = " ".join(f"{self.x(at)},{round(base - height * value / highest, 1)}" for at, value in points)
        if points:
            ends = f"{self.x(points[-1][0])},{base} {self.x(points[0][0])},{base}"
            self._parts.append(f'<polygon points="{steps} {ends}" fill="{colour}" fill-opacity=".25"/>')
            self._parts.append(f'<polyline points="{steps}" fill="none" stroke="{colour}" stroke-width="1"/>')

    def bars(self, title: str, rows: Sequence[tuple[str, Sequence[tuple[float, float, str, str]]]]) -> None:
        """Add a row for each name, with bars of (begin, end, colour, tooltip)."""
        height = 14 * len(rows)
        base = self._panel(title, height, "")
        for number, (name, bars) in enumerate(rows):
            top = base - height + 14 * number
            self._parts.append(f'<text x="{LEFT - 6}" y="{top + 10}" text-anchor="end">{escape(name)}</text>')
            for begin, end, colour, told in bars:
                wide = max(self.x(end) - self.x(begin), 1.5)
                self._parts.append(
                    f'<rect x="{self.x(begin)}" y="{top + 2}" width="{wide:.1f}" height="10" fill="{colour}">'
                    f"<title>{escape(told)}</title></rect>"
                )

    def text(self) -> str:
        """Return the whole plot, with its axis of time."""
        for number in range(11):
            at = self.seconds * number / 10
            x = self.x(at)
            self._parts.append(f'<line x1="{x}" x2="{x}" y1="4" y2="{self._y}" stroke="#8884" stroke-width=".5"/>')
            self._parts.append(f'<text x="{x}" y="{self._y + 14}" text-anchor="middle">{at:,.0f} s</text>')
        return (
            f'<svg viewBox="0 0 {self.width} {self._y + 22}" width="100%" role="img" '
            f'xmlns="http://www.w3.org/2000/svg">{"".join(self._parts)}</svg>'
        )

    def _panel(self, title: str, height: int, scale: str) -> int:
        """Make space; return the y of the new panel's lower edge."""
        base = self._y + 16 + height
        self._parts.append(f'<text x="{LEFT}" y="{self._y + 10}" font-weight="600">{escape(title)}</text>')
        if scale:
            self._parts.append(f'<text x="{LEFT - 6}" y="{self._y + 24}" text-anchor="end">{escape(scale)}</text>')
        self._parts.append(f'<line x1="{LEFT}" x2="{self.width - RIGHT}" y1="{base}" y2="{base}" stroke="#8888"/>')
        self._y = base + 10
        return base


def distribution(values: Sequence[float], *, unit: str, marks: Sequence[tuple[float, str]], width: int = 560) -> str:
    """Return the cumulative distribution of values, from 0 to 100 %, with vertical marks at (value, label)."""
    height, highest = 130, max([*values, *(mark for mark, _ in marks)], default=1.0) * 1.05 or 1.0
    ordered = sorted(values)

    def x(value: float) -> float:
        return round(40 + (width - 80) * value / highest, 1)

    steps = " ".join(
        f"{x(value)},{round(10 + height * (1 - (number + 1) / len(ordered)), 1)}"
        for number, value in enumerate(ordered)
    )
    parts = [f'<polyline points="{x(0)},{10 + height} {steps}" fill="none" stroke="{COLOURS[0]}" stroke-width="2"/>']
    for mark, label in marks:
        parts.append(
            f'<line x1="{x(mark)}" x2="{x(mark)}" y1="10" y2="{10 + height}" stroke="{COLOURS[2]}" '
            f'stroke-dasharray="4 3"/><text x="{x(mark) + 3}" y="20">{escape(label)}</text>'
        )
    for share in (0, 50, 100):
        y = 10 + height * (1 - share / 100)
        parts.append(f'<text x="36" y="{y + 4}" text-anchor="end">{share} %</text>')
    for number in range(6):
        value = highest * number / 5
        parts.append(f'<text x="{x(value)}" y="{height + 26}" text-anchor="middle">{value:,.0f} {escape(unit)}</text>')
    return (
        f'<svg viewBox="0 0 {width} {height + 34}" width="{width}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )
