"""One scenario's report, and the page that shows all of them: `build/chaos/report.html`, self-contained."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from chaos.checker import Anomaly, Verdict
from chaos.failover import outages, p99
from chaos.faults import FAULTS, NOT_IN_THE_MATRIX, TARGETS
from chaos.history import Fault, History
from chaos.svg import COLOURS, Plot, distribution

MOST_TOLD = 40
"""The most anomalies of one scenario that the page shows."""
POINTS = 240
EVIDENCE = 6

STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 24px auto; max-width: 1200px; padding: 0 16px; }
h1 { font-size: 22px; }
h2 { font-size: 17px; margin: 32px 0 6px; border-top: 1px solid var(--line); padding-top: 18px; }
svg text { font: 10px system-ui, sans-serif; fill: currentColor; }
table { border-collapse: collapse; } td, th { padding: 3px 8px; border: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
.ok { color: #2a8a3e; } .broken { color: #d1242f; font-weight: 600; }
td.none { opacity: .35; } td.all { background: #3ca95133; } td.bad { background: #ff725c66; }
pre { white-space: pre-wrap; background: #8881; padding: 8px; }
.figures td { border: 0; padding: 1px 14px 1px 0; text-align: left; }
"""


def plain(name: str, history: History, verdict: Verdict, broken: str, figures: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario's figures as plain data: for `report.json`, and for the summary's last line."""
    waits = outages(history)
    return {
        "ok": verdict.ok and not broken,
        "scenario": name,
        "valid": verdict.valid,
        "acknowledged": verdict.acknowledged,
        "unknown": verdict.unknown,
        "failed": verdict.failed,
        "read": verdict.read,
        "faults": sum(not fault.skipped for fault in history.faults),
        "skipped_faults": sum(bool(fault.skipped) for fault in history.faults),
        "replicas_compared": len(history.replicas),
        "harmless_repeats": verdict.harmless_repeats,
        "failovers_ms": {
            f"{kind} x {target}": _spread([wait.ms for wait in waits if (wait.kind, wait.target) == (kind, target)])
            for kind, target in sorted({(wait.kind, wait.target) for wait in waits})
        },
        "anomalies": verdict.kinds,
        "broken_promise": broken,
        **figures,
    }


def section(report: dict[str, Any], history: History, verdict: Verdict) -> str:
    """Return a scenario's part of the page: its figures, its timeline, its anomalies and their evidence."""
    name = str(report["scenario"])
    verdict_text = '<span class="ok">ok</span>' if report["ok"] else '<span class="broken">BROKEN</span>'
    figures = {key: value for key, value in report.items() if key not in {"ok", "scenario", "broken_promise"}}
    rows = "".join(f"<tr><td>{escape(key)}<td>{escape(_text(value))}" for key, value in figures.items())
    parts = [f'<h2 id="{escape(name)}">{escape(name)}: {verdict_text}</h2>']
    if report["broken_promise"]:
        parts.append(f"<pre>{escape(str(report['broken_promise']))}</pre>")
    parts += [timeline(history), f'<table class="figures">{rows}</table>']
    if times := [float(wait.ms) for wait in outages(history)]:
        marks = [(1_000.0, "1 s"), (2_000.0, "2 s")]
        parts.append(f"<p>Failover, as clients see it ({len(times)} partitions that lost their leader):</p>")
        parts.append(distribution(times, unit="ms", marks=marks))
    for anomaly in verdict.anomalies[:MOST_TOLD]:
        evidence = "\n".join(_evidence(anomaly, history))
        parts.append(f"<p><b>{escape(anomaly.kind)}</b>: {escape(anomaly.detail)}</p><pre>{escape(evidence)}</pre>")
    return "\n".join(parts)


def page(
    sections: Sequence[str], reports: Sequence[dict[str, Any]], faults: Sequence[Fault], warnings: list[str]
) -> str:
    """Return the whole page."""
    broken = sum(not report["ok"] for report in reports)
    rounds = sum(not fault.skipped for fault in faults)
    head = (
        f'<span class="broken">{broken} of {len(reports)} scenarios BROKEN</span>' if broken else "every promise held"
    )
    told = "".join(f'<p class="broken">{escape(warning)}</p>' for warning in warnings)
    names = "".join(
        f'<li><a href="#{escape(str(report["scenario"]))}">{escape(str(report["scenario"]))}</a>: '
        + ("skipped" if report.get("skipped") else "ok" if report["ok"] else "BROKEN")
        for report in reports
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>raftlog under chaos</title><style>{STYLE}</style>'
        f"<h1>raftlog under chaos: {head}</h1>{told}<p>{len(reports)} scenarios, {rounds} faults.</p><ul>{names}</ul>"
        f"<h2>Faults x targets</h2>{matrix(faults)}{''.join(sections)}</html>\n"
    )


def matrix(faults: Iterable[Fault]) -> str:
    """Return how often each cell was injected, skipped, and not survived."""
    met, skipped, broken = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for fault in faults:
        cell = fault.kind, fault.target
        met[cell] += not fault.skipped
        skipped[cell] += bool(fault.skipped)
        broken[cell] += bool(fault.broken)
    head = "".join(f"<th>{escape(target)}" for target in TARGETS)
    rows = []
    for kind, known in FAULTS.items():
        cells = []
        for target in TARGETS:
            cell = kind, target
            if target not in known.targets:
                cells.append('<td class="none">-')
            elif broken[cell]:
                cells.append(f'<td class="bad">{met[cell]}, {broken[cell]} broken')
            else:
                style = "all" if met[cell] else "none"
                cells.append(
                    f'<td class="{style}">{met[cell]}' + (f", {skipped[cell]} skipped" if skipped[cell] else "")
                )
        rows.append(f"<tr><td>{escape(kind)}{''.join(cells)}")
    left_out = "".join(f"<li>{escape(what)}: {escape(why)}" for what, why in NOT_IN_THE_MATRIX.items())
    return f"<table><tr><th>{head}{''.join(rows)}</table><p>Not in the matrix:</p><ul>{left_out}</ul>"


def timeline(history: History) -> str:
    """Return throughput, latency, faults, leaders and ISR over time."""
    moments = [send.completed_ns for send in history.sends] + [fault.ended_ns for fault in history.faults]
    if not moments:
        return ""
    start = min([send.invoked_ns for send in history.sends] or moments)
    plot = Plot((max(moments) - start) / 1e9)
    throughput, latency = _load(history, start, plot.seconds)
    plot.curve("acknowledged records", throughput, unit="/s")
    plot.curve("latency of acks=all, 99th percentile", latency, unit="ms", colour=COLOURS[1])
    rows: dict[str, list[tuple[float, float, str, str]]] = defaultdict(list)
    kinds = {kind: COLOURS[number % len(COLOURS)] for number, kind in enumerate(FAULTS)}
    for fault in history.faults:
        if not fault.skipped:
            told = f"{fault.kind} x {fault.target}: {' '.join(fault.nodes)} {fault.detail}"
            bar = (
                (fault.begun_ns - start) / 1e9,
                (fault.ended_ns - start) / 1e9,
                kinds.get(fault.kind, COLOURS[4]),
                told,
            )
            rows[fault.kind].append(bar)
    plot.bars("faults", sorted(rows.items()))
    leaders, in_sync = _states(history, start, plot.seconds)
    plot.bars("leaders (a colour for each broker)", leaders)
    plot.bars("ISR (green: all; yellow: fewer; red: one)", in_sync)
    return plot.text()


def _load(history: History, start: int, seconds: float) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    width = max(seconds / POINTS, 0.25)
    waits: dict[int, list[float]] = defaultdict(list)
    for send in history.sends:
        if send.durable:
            bucket = int((send.completed_ns - start) / 1e9 / width)
            waits[bucket].append((send.completed_ns - send.invoked_ns) / 1e6)
    buckets = range(int(seconds / width) + 1)
    throughput = [(bucket * width, len(waits[bucket]) / width) for bucket in buckets]
    ordered = {bucket: sorted(waits[bucket]) for bucket in buckets}
    latency = [
        (bucket * width, found[int(0.99 * (len(found) - 1))] if found else 0.0) for bucket, found in ordered.items()
    ]
    return throughput, latency


Rows = list[tuple[str, list[tuple[float, float, str, str]]]]


def _states(history: History, start: int, seconds: float) -> tuple[Rows, Rows]:
    """Return each partition's leader and its ISR's size over time, by the newest report of any broker."""
    newest: dict[int, list[tuple[float, int, int, tuple[int, ...]]]] = defaultdict(list)
    for seen in history.leaderships:
        known = newest[seen.partition]
        if not known or seen.leader_epoch >= known[-1][1]:
            known.append(((seen.seen_ns - start) / 1e9, seen.leader_epoch, seen.leader, seen.isr))
    leaders: Rows = []
    in_sync: Rows = []
    for partition, known in sorted(newest.items()):
        most = max(len(isr) for *_, isr in known)
        leading, syncing = list[tuple[float, float, str, str]](), list[tuple[float, float, str, str]]()
        for (at, epoch, leader, isr), (until, *_) in pairwise([*known, (seconds, 0, 0, ())]):
            if leader >= 0:
                leading.append((at, until, COLOURS[leader % len(COLOURS)], f"broker-{leader}, leader epoch {epoch}"))
            colour = COLOURS[4] if len(isr) == most else COLOURS[2] if len(isr) < 2 else COLOURS[1]
            syncing.append((at, until, colour, f"ISR {list(isr)}"))
        leaders.append((f"partition {partition}", leading))
        in_sync.append((f"partition {partition}", syncing))
    return leaders, in_sync


def _evidence(anomaly: Anomaly, history: History) -> Iterable[str]:
    """Return the operations of an anomaly: those of a value that it names."""
    named = set(anomaly.detail.replace("'", " ").replace(",", " ").replace("[", " ").replace("]", " ").split())
    found = [(send.completed_ns, f"{send}") for send in history.sends if send.value in named]
    found += [(read.completed_ns, f"{read}") for read in (*history.reads, *history.final_reads) if read.value in named]
    return [text for _, text in sorted(found)[:EVIDENCE]] or ["see history.jsonl"]


def _spread(times: list[int]) -> dict[str, int]:
    ordered = sorted(times)
    return {
        "count": len(ordered),
        "median": round(statistics.median(ordered)),
        "p99": p99(ordered),
        "max": ordered[-1],
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def save(folder: Path, report: dict[str, Any], anomalies: Iterable[Anomaly]) -> None:
    """Write a scenario's figures and its anomalies into its folder."""
    details = [f"{anomaly.kind}: {anomaly.detail}" for anomaly in anomalies]
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "report.json", {**report, "details": details})


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def write(folder: Path, sections: Sequence[str], summary: dict[str, Any], faults: Sequence[Fault]) -> Path:
    """Write `report.html` and `report.json` into a folder; return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    _write_json(folder / "report.json", summary)
    html = folder / "report.html"
    html.write_text(page(sections, summary["scenarios"], faults, summary["skipped"]), "utf-8")
    return html
