"""Bars in one self-contained HTML page: no script, no file beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

_WIDTH, _BAR, _GAP, _LABEL = 900, 20, 8, 260
_STYLE = """
body { font: 15px system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; color: #1c2733; background: #fff }
h2 { font-size: 1.05rem; margin: 2rem 0 .3rem } p { color: #52606d; margin: .2rem 0 } svg { max-width: 100% }
pre { background: #f3f5f7; padding: 1rem; overflow-x: auto; font-size: 12px }
text { font: 13px system-ui, sans-serif; fill: #1c2733 }
.bar { fill: #9fb3c8 } .ours { fill: #1f7a8c } .spread { stroke: #1c2733; stroke-width: 1.5 }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A figure and the spread of its samples."""

    label: str
    value: float
    low: float
    high: float
    ours: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Bars that share a unit."""

    title: str
    unit: str
    bars: Sequence[Bar] = field(default_factory=list)


def page(title: str, intro: Sequence[str], charts: Sequence[Chart], *, appendix: str = "") -> str:
    """Return the page; bars are drawn to the scale of their own chart."""
    parts = [f"<h1>{escape(title)}</h1>", *(f"<p>{escape(line)}</p>" for line in intro)]
    for chart in charts:
        parts += [f"<h2>{escape(chart.title)}</h2><p>{escape(chart.unit)}</p>", _svg(chart)]
    if appendix:
        parts += ["<h2>Settings</h2>", f"<pre>{escape(appendix)}</pre>"]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f"<!doctype html><html lang='en'><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _svg(chart: Chart) -> str:
    top = max((bar.high for bar in chart.bars), default=0.0) or 1.0
    scale = (_WIDTH - _LABEL - 230) / top
    drawn = "".join(_bar(bar, row * (_BAR + _GAP), scale) for row, bar in enumerate(chart.bars))
    height = len(chart.bars) * (_BAR + _GAP)
    return f'<svg viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img">{drawn}</svg>'


def _bar(bar: Bar, y: int, scale: float) -> str:
    middle, kind = y + _BAR // 2, "ours" if bar.ours else "bar"
    low, high = _LABEL + bar.low * scale, _LABEL + bar.high * scale
    said = escape(f"{bar.value:,.4g}" if bar.value < 1_000 else f"{bar.value:,.0f}") + escape(f"  {bar.note}")
    return (
        f'<text x="{_LABEL - 8}" y="{middle + 5}" text-anchor="end">{escape(bar.label)}</text>'
        f'<rect class="{kind}" x="{_LABEL}" y="{y}" width="{max(1.0, bar.value * scale):.1f}" height="{_BAR}"/>'
        f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="{middle}" y2="{middle}"/>'
        f'<text x="{high + 8:.1f}" y="{middle + 5}">{said}</text>'
    )
