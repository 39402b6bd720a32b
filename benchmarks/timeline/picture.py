"""The timeline of one record as SVG: a lane for each process, with turns, callbacks and functions under each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from benchmarks.timeline.spans import Message, Placed, ProcessTrace, Record, within
from benchmarks.timeline.targets import KINDS, LOOP, POLL, WAIT, kind_of

_LEFT, _WIDTH, _TOP, _ROW, _DEPTHS = 90, 1_600, 54, 12, 12
_LANE = _ROW * _DEPTHS + 26
_COLOURS = (
    "#c9d3de", "#ff725c", "#f0f0f0", "#97bbf5", "#dccbff", "#a463f2", "#efb118", "#3ca951",
    "#9c6b4e", "#4269d0", "#6cc5b0", "#ff8ab7", "#e15759", "#9498a0", "#76b7b2",
)  # fmt: skip
_COLOUR = dict(zip(KINDS, _COLOURS, strict=True))


def draw(traces: Sequence[ProcessTrace], record: Record, sent: Sequence[Message]) -> str:
    """Return the picture of what the processes did from the sending of a record to that of the next one."""
    scale = (_WIDTH - _LEFT - 10) / max(1, record.next_sent - record.sent)

    def x(time: int) -> float:
        return round(_LEFT + (min(max(time, record.sent), record.next_sent) - record.sent) * scale, 1)

    lanes = {trace.role: _TOP + number * _LANE for number, trace in enumerate(traces)}
    height = _TOP + _LANE * len(traces) + 20
    parts = [_legend()]
    for tick in range(0, record.next_sent - record.sent, 100_000):
        at = x(record.sent + tick)
        parts.append(f'<line class="grid" x1="{at}" x2="{at}" y1="{_TOP}" y2="{height - 18}"/>')
        parts.append(f'<text x="{at}" y="{height - 4}" text-anchor="middle">{tick // 1_000} µs</text>')
    for trace in traces:
        top = lanes[trace.role]
        parts.append(f'<text x="4" y="{top + 12}" font-weight="600">{escape(trace.role)}</text>')
        drawn = [one for one in trace.placed() if one.span.end > record.sent]
        parts += [_bar(one, top, x, record) for one in within(drawn, 0, record.next_sent)]
    for message in sent:
        if record.sent <= message.written <= record.next_sent and message.read <= record.next_sent:
            begin, end = lanes[message.sender], lanes[message.receiver]
            edges = (begin + _LANE - 22, end - 2) if begin < end else (begin - 2, end + _LANE - 22)
            told = f"{message.sender} to {message.receiver}: {(message.read - message.written) / 1_000:.0f} µs"
            parts.append(
                f'<line class="message" x1="{x(message.written)}" y1="{edges[0]}" x2="{x(message.read)}" '
                f'y2="{edges[1]}"><title>{escape(told)}</title></line>'
            )
    at = x(record.acknowledged)
    parts.append(f'<line class="end" x1="{at}" x2="{at}" y1="{_TOP - 6}" y2="{height - 18}"/>')
    parts.append(f'<text x="{at - 3}" y="{_TOP - 4}" text-anchor="end">acknowledged</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}">'
        "<style>text { font: 11px system-ui, sans-serif } .grid { stroke: #0002 } "
        ".message { stroke: #222; stroke-width: 1.2 } .end { stroke: #d00; stroke-dasharray: 4 3 }</style>"
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


def _bar(one: Placed, top: int, x: Callable[[int], float], record: Record) -> str:
    span, kind = one.span, kind_of(one.span.label)
    depth = min(one.depth, _DEPTHS - 1)
    begin, end = x(span.begin), x(span.end)
    times = (one.span.end - one.span.begin, one.own, one.span.begin - record.sent)
    took = "{:.0f} µs, own {:.0f} µs, from {:.0f}".format(*(time / 1_000 for time in times))
    faint = ' opacity=".35"' if span.label in (LOOP, WAIT) else ""
    tall = _ROW * (_DEPTHS if span.label == LOOP else 1) - 1
    if span.label == POLL:
        end = max(end, begin + 2)
    return (
        f'<rect x="{begin}" y="{top + 4 + depth * _ROW}" width="{max(0.4, end - begin):.1f}" height="{tall}" '
        f'fill="{_COLOUR[kind]}"{faint}><title>{escape(span.label)}: {took}</title></rect>'
    )


def _legend() -> str:
    parts = []
    for number, kind in enumerate(KINDS):
        left, top = _LEFT + number % 8 * 185, 6 + number // 8 * 16
        parts.append(f'<rect x="{left}" y="{top}" width="11" height="11" fill="{_COLOUR[kind]}"/>')
        parts.append(f'<text x="{left + 15}" y="{top + 10}">{escape(kind)}</text>')
    return "".join(parts)
