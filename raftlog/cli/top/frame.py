"""The text of one frame: an overview in a given width and height. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from rich.cells import cell_len, set_cell_size

from raftlog.metrics.overview import BrokerRow, ControllerRow, GroupRow, Overview, RouteRow, TopicRow

Style: TypeAlias = Literal["", "title", "healthy", "warning", "critical", "dim"]
MIN_WIDTH = 40
SORTS = {"i": "in", "o": "out", "r": "requests", "l": "lag", "c": "cpu", "n": "name"}
"""What rows are sorted by, by key."""
KEYS = "q quit   sort by: i in, o out, r requests, l lag, c cpu, n name"
_MOST_ROWS = 20
"""Rows of a section, where the height is not limited."""


class Line(NamedTuple):
    """One line of a frame."""

    text: str
    style: Style = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers, with a fixed width."""

    title: str
    width: int
    cell: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Section:
    """A table. Its first column takes the width that is left."""

    title: str
    name: Callable[[Any], str]
    columns: Sequence[Column]
    orders: dict[str, Callable[[Any], Any]]
    """What rows are sorted by, by the name of an order; "" is the default one."""


def number(value: float | None) -> str:
    """Return a number in at most five characters; `-`: unknown."""
    if value is None:
        return "-"
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if abs(value) >= size:
            scaled = value / (1e3 if unit == "k" else size)
            return f"{scaled:.0f}{unit}" if abs(scaled) >= 99.95 else f"{scaled:.1f}{unit}"
    return f"{value:.0f}" if abs(value) >= 99.95 or value == int(value) else f"{value:.1f}"


def duration(seconds: float | None) -> str:
    """Return a length of time in at most six characters; `-`: unknown."""
    if seconds is None:
        return "-"
    return (
        f"{seconds:.1f}s"
        if seconds >= 1
        else f"{1_000 * seconds:.1f}ms"
        if seconds < 0.1
        else f"{1_000 * seconds:.0f}ms"
    )


def plural(count: float, noun: str) -> str:
    """Return `1 broker` or `2 brokers`."""
    return f"{count:,.0f} {noun}{'s' * (count != 1)}"


def share(value: float | None) -> str:
    """Return a share in percent; `-`: unknown."""
    return "-" if value is None else f"{100 * value:.0f}%"


def _led_of_all(row: BrokerRow) -> str:
    return "-" if row.partitions is None else f"{number(row.partitions_led)}/{number(row.partitions)}"


def _known(value: float | None) -> float:
    return -1.0 if value is None else value


_CONTROLLERS = Section(
    "CONTROLLER",
    lambda row: f"{row.node_id} {row.state}",
    (
        Column("TERM", 6, lambda row: number(row.term)),
        Column("LOG END", 8, lambda row: number(row.log_end_offset)),
        Column("LAG", 6, lambda row: number(row.lag_entries)),
        Column("CPU", 5, lambda row: share(row.cpu_share)),
        Column("RSS", 6, lambda row: number(row.rss_bytes)),
    ),
    {
        "": lambda row: row.node_id,
        "lag": lambda row: -_known(row.lag_entries),
        "cpu": lambda row: -_known(row.cpu_share),
    },
)
_BROKERS = Section(
    "BROKER",
    lambda row: f"{row.node_id} {row.state}",
    (
        Column("LED/ALL", 12, _led_of_all),
        Column("UNDER", 6, lambda row: number(row.under_replicated)),
        Column("LAG", 6, lambda row: number(row.lag_records)),
        Column("IN/s", 6, lambda row: number(row.bytes_in_per_s)),
        Column("OUT/s", 6, lambda row: number(row.bytes_out_per_s)),
        Column("REQ/s", 6, lambda row: number(row.requests_per_s)),
        Column("P99", 7, lambda row: duration(row.produce_p99_s)),
        Column("CPU", 5, lambda row: share(row.cpu_share)),
        Column("RSS", 6, lambda row: number(row.rss_bytes)),
        Column("DISK", 5, lambda row: share(row.disk_used_share)),
    ),
    {
        "": lambda row: row.node_id,
        "in": lambda row: -_known(row.bytes_in_per_s),
        "out": lambda row: -_known(row.bytes_out_per_s),
        "requests": lambda row: -_known(row.requests_per_s),
        "lag": lambda row: -_known(row.lag_records),
        "cpu": lambda row: -_known(row.cpu_share),
    },
)
_TOPICS = Section(
    "TOPIC",
    lambda row: row.topic,
    (
        Column("IN/s", 7, lambda row: number(row.bytes_in_per_s)),
        Column("OUT/s", 7, lambda row: number(row.bytes_out_per_s)),
        Column("REC IN/s", 9, lambda row: number(row.records_in_per_s)),
        Column("REC OUT/s", 10, lambda row: number(row.records_out_per_s)),
    ),
    {
        "": lambda row: (-row.bytes_in_per_s - row.bytes_out_per_s, row.topic),
        "in": lambda row: (-row.bytes_in_per_s, row.topic),
        "out": lambda row: (-row.bytes_out_per_s, row.topic),
        "name": lambda row: row.topic,
    },
)
_GROUPS = Section(
    "GROUP",
    lambda row: row.group,
    (
        Column("TOPICS", 7, lambda row: number(row.topics)),
        Column("LAG", 8, lambda row: number(row.lag_records)),
        Column("GROWTH/s", 9, lambda row: number(row.growth_per_s)),
    ),
    {"": lambda row: (-row.lag_records, row.group), "name": lambda row: row.group},
)
_ROUTES = Section(
    "ROUTE",
    lambda row: row.route,
    (
        Column("REQ/s", 7, lambda row: number(row.requests_per_s)),
        Column("P99", 8, lambda row: duration(row.p99_s)),
    ),
    {"": lambda row: (-row.requests_per_s, row.route), "name": lambda row: row.route},
)


def frame(
    now: Overview, *, width: int, height: int | None, sort: str = "", status: str = "", keys: bool = False
) -> list[Line]:
    """Return the lines of a frame, each at most `width` cells wide.

    Args:
        height: the most lines; None: as many as needed, with 20 rows a section.
        sort: one of `SORTS`; "": each section in its own order.
        status: what the first line ends with, such as the time.
        keys: whether the last line explains the keys.
    """
    width = max(MIN_WIDTH, width)
    head = [Line(_ends(f"raftlog top   cluster {now.cluster_id or '?'}", status, width), "title"), *_health(now, width)]
    head.append(Line(_fit(_traffic(now), width)))
    sections: list[tuple[Section, Sequence[Any]]] = [
        (_CONTROLLERS, now.controllers),
        (_BROKERS, now.brokers),
        (_TOPICS, now.topics),
        (_GROUPS, now.groups),
        (_ROUTES, now.routes),
    ]
    shown = [(section, rows) for section, rows in sections if rows]
    foot = [Line(_fit(KEYS, width), "dim")] if keys else []
    room = None if height is None else height - len(head) - len(foot) - 2 * len(shown)
    lines = list(head)
    for (section, rows), count in zip(shown, _allot([len(rows) for _, rows in shown], room), strict=True):
        lines.append(Line(""))
        lines += _table(section, _sorted(section, rows, sort), count, width)
    lines = lines if height is None else lines[: max(1, height - len(foot))]
    return lines + foot


def _health(now: Overview, width: int) -> list[Line]:
    if not now.words:
        nodes = f"{plural(len(now.brokers), 'broker')}, {plural(len(now.controllers), 'controller')}"
        return [Line(_fit(f"HEALTHY   {nodes}, every partition in sync", width), "healthy")]
    words = [f"{now.level.upper():8}  {now.words[0]}", *(f"{'':10}{each}" for each in now.words[1:4])]
    if len(now.words) > 4:
        words.append(f"{'':10}and {len(now.words) - 4} more")
    return [Line(_fit(each, width), now.level) for each in words]


def _traffic(now: Overview) -> str:
    return (
        f"in {number(now.bytes_in_per_s)}B/s {number(now.records_in_per_s)} rec/s  "
        f"out {number(now.bytes_out_per_s)}B/s {number(now.records_out_per_s)} rec/s  "
        f"{number(now.requests_per_s)} req/s  under-replicated {number(now.under_replicated)}"
    )


def _sorted(section: Section, rows: Sequence[Any], sort: str) -> list[Any]:
    return sorted(rows, key=section.orders.get(sort, section.orders[""]))


def _table(section: Section, rows: Sequence[Any], count: int, width: int) -> list[Line]:
    """Return a section with its title; the last line counts the rows that are left out."""
    columns = list(section.columns)
    while columns and width - sum(column.width for column in columns) < 12:
        columns.pop()  # The terminal is narrow.
    first = width - sum(column.width for column in columns)
    title = _fit(section.title, first) + "".join(f"{column.title:>{column.width}}" for column in columns)
    lines = [Line(title, "title")]
    hidden = len(rows) - count
    for row in rows[: count - 1 if hidden > 0 else count]:
        error = getattr(row, "error", "")
        if error:
            lines.append(Line(_fit(f"{section.name(row)}: {error}", width), "critical"))
            continue
        cells = "".join(_fit(f"{column.cell(row):>{column.width}}", column.width) for column in columns)
        lines.append(Line(_fit(section.name(row), first - 1) + " " + cells, _row_style(row)))
    if hidden > 0:
        lines.append(Line(_fit(f"... and {hidden + 1} more", width), "dim"))
    return lines


def _row_style(row: ControllerRow | BrokerRow | TopicRow | GroupRow | RouteRow) -> Style:
    if isinstance(row, BrokerRow):
        return "critical" if row.state == "fenced" else "warning" if row.under_replicated else ""
    return ""


def _allot(wanted: Sequence[int], room: int | None) -> list[int]:
    """Return how many lines each section gets: one after another in turn, until each has what it wants."""
    if room is None:
        return [min(each, _MOST_ROWS) for each in wanted]
    given = [1 for _ in wanted]
    left = room - len(given)
    while left > 0 and any(has < wants for has, wants in zip(given, wanted, strict=True)):
        for index, wants in enumerate(wanted):
            if given[index] < wants and left > 0:
                given[index] += 1
                left -= 1
    return given


def _fit(text: str, width: int) -> str:
    """Return a text in exactly `width` cells."""
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(text, max(0, width - 1)) + "~"


def _ends(left: str, right: str, width: int) -> str:
    room = width - cell_len(right) - 1
    return f"{_fit(left, room)} {right}" if right and room > 20 else _fit(left, width)


def plain(lines: Iterable[Line]) -> str:
    """Return a frame as text, without spaces at the ends of lines."""
    return "\n".join(line.text.rstrip() for line in lines)
