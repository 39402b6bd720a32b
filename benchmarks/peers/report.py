"""The report of a run: tables on stderr, a page with bars, and one JSON object on stdout."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from rich.table import Table as RichTable

from benchmarks.peers.contestants import GOALS, PARTITIONED_GOALS, TLS_GOALS, WORKS, Work
from benchmarks.peers.kept import TOLERANCE, Change, Figures, changes, compared, keep, kept_figures, plan_kind
from benchmarks.peers.trials import Plan, Table
from benchmarks.peers.verdict import DURABILITIES, Row, goals, rows
from benchmarks.plot import Bar, Chart, page
from benchmarks.report import console

FOLDER = Path("build") / "bench"
_UNITS = {
    "records_per_s": "records/s, acknowledged or read",
    "p99_ms": "p99 in ms, from the call to the acknowledgement",
}


def conclude(
    plan: Plan,
    tables: Mapping[bool, Table],
    skipped: Mapping[str, str],
    machine: Mapping[str, Any],
    *,
    keeping: bool = False,
) -> int:
    """Show everything, write it to build/bench, and return the exit status.

    Args:
        machine: the measurements of the machine.
        keeping: later runs are compared with this one; not if something failed.
    """
    wanted = TLS_GOALS if plan.tls else GOALS if plan.partitions == 1 else PARTITIONED_GOALS
    judged = goals(tables, wanted)
    for durable, table in tables.items():
        for work in WORKS:
            if found := rows(table, work):
                console.print(_figures(work, found, DURABILITIES[durable]))
    console.print(_goals(judged))
    errors = [error for table in tables.values() for error in table.errors]
    for name, reason in skipped.items():
        console.print(f"[bold red]SKIPPED {name}: {reason}[/bold red]")
    if errors:
        console.print(f"[bold red]{len(errors)} errors; the first: {errors[0]}[/bold red]")
    figures = _all(tables)
    changed = changes(figures, kept_figures(plan))
    console.print(_changes(changed, plan))
    if keeping:
        console.print("not kept: a trial failed" if errors else f"kept in {keep(plan, figures)}", highlight=False)
    against = compared(changed, plan)
    summary = {
        **_summary(plan, tables, judged, skipped=dict(skipped), errors=errors, machine=machine),
        "figures": figures,
        "against_kept": against,
    }
    _write(summary, tables)
    sys.stdout.write(orjson.dumps(summary).decode() + "\n")
    return 0 if summary["ok"] else 1


def _summary(
    plan: Plan,
    tables: Mapping[bool, Table],
    judged: list[dict[str, Any]],
    *,
    skipped: dict[str, str],
    errors: list[str],
    machine: Mapping[str, Any],
) -> dict[str, Any]:
    verdicts = [goal["reached"] for goal in judged]
    counted = {"reached": verdicts.count(True), "missed": verdicts.count(False), "not_measured": verdicts.count(None)}
    return {
        "ok": not errors and not counted["missed"] and counted["reached"] > 0,
        "goals": counted,
        "skipped": len(skipped),
        "skipped_peers": skipped,
        "errors": errors,
        "goals_detail": judged,
        "plan": {
            name: getattr(plan, name) for name in ("rounds", "seconds", "warmup_s", "partitions", "max_bytes", "tls")
        },
        "machine": {**_machine(), **machine},
        "servers": {DURABILITIES[durable]: table.servers for durable, table in tables.items()},
        "clients": _clients(tables),
    }


def _all(tables: Mapping[bool, Table]) -> Figures:
    return {
        DURABILITIES[durable]: {
            work.name: {row.contestant: row.to_plain() for row in rows(table, work)} for work in WORKS
        }
        for durable, table in tables.items()
    }


def _machine() -> dict[str, Any]:
    congestion = Path("/proc/sys/net/ipv4/tcp_congestion_control")
    return {
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "congestion_control": congestion.read_text().strip() if congestion.exists() else "unknown",
        "load_average": [round(load, 1) for load in os.getloadavg()],
    }


def _clients(tables: Mapping[bool, Table]) -> dict[str, Any]:
    """Return each contestant's client and its settings, as its driver reported them."""
    told = {}
    for table in tables.values():
        for (_, contestant), samples in table.samples.items():
            if samples:
                told[contestant] = {"client": samples[-1]["client"], **samples[-1]["settings"]}
    return told


def _write(summary: dict[str, Any], tables: Mapping[bool, Table]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "peers.json").write_bytes(orjson.dumps(summary) + b"\n")
    samples = {
        DURABILITIES[durable]: {f"{work} / {who}": found for (work, who), found in table.samples.items()}
        for durable, table in tables.items()
    }
    (FOLDER / "peers-samples.json").write_bytes(orjson.dumps(samples, option=orjson.OPT_INDENT_2))
    charts = [
        _chart(work, found, DURABILITIES[durable])
        for durable, table in tables.items()
        for work in WORKS
        if (found := rows(table, work))
    ]
    intro = [
        "Bars are medians, lines reach from the least to the most; the factor is raftlog's figure over the peer's.",
        f"Rounds: {summary['plan']['rounds']}. "
        + ", ".join(f"{name.replace('_', ' ')}: {value}" for name, value in summary["machine"].items()),
    ]
    kept = orjson.dumps({"servers": summary["servers"], "clients": summary["clients"]}, option=orjson.OPT_INDENT_2)
    (FOLDER / "peers.html").write_text(page("raftlog beside its peers", intro, charts, appendix=kept.decode()))
    console.print(f"kept in {FOLDER}: peers.html, peers.json, peers-samples.json", highlight=False)


def _chart(work: Work, found: list[Row], durability: str) -> Chart:
    bars = [
        Bar(
            label=row.contestant,
            value=row.median,
            low=min(row.values),
            high=max(row.values),
            ours=row.contestant.startswith("raftlog"),
            note="" if row.ratio is None or row.ratio == 1 else f"({row.ratio:g} x)",
        )
        for row in found
    ]
    return Chart(title=f"{work.name}, {durability}", unit=_UNITS[work.unit], bars=bars)


def _figures(work: Work, found: list[Row], durability: str) -> RichTable:
    table = RichTable("contestant", title=f"{work.name}, {durability} ({_UNITS[work.unit]})", title_justify="left")
    others = list(found[0].others)
    for column in ("median", "min", "max", "n", "raftlog is x times", "CPU us/record", *others):
        table.add_column(column, justify="right")
    for row in found:
        numbers = [f"{number:,.6g}" for number in (row.median, min(row.values), max(row.values))]
        ratio = "-" if row.ratio is None else f"{row.ratio:g}"
        more = [f"{row.others[name]:g}" for name in others]
        table.add_row(row.contestant, *numbers, str(len(row.values)), ratio, f"{row.cpu_us_per_record:g}", *more)
    return table


def _changes(found: list[Change], plan: Plan) -> RichTable | str:
    """Show what got worse since the kept run of the same kind of machine."""
    if not found:
        return f"nothing to compare with: no kept figures of this kind of machine for {plan_kind(plan)}, with a peer"
    worse = [change for change in found if change.worse_by > TOLERANCE]
    beyond = [change for change in worse if change.beyond_rounds]
    title = (
        f"{len(worse)} of {len(found)} figures got worse by more than a tenth since the kept run, "
        f"{len(beyond)} of them beyond its rounds"
    )
    if not beyond:
        return f"[green]{title}[/green]"
    table = RichTable("work", "contestant", "figure", title=title, title_justify="left", title_style="red")
    for column in ("kept, as on this machine", "now", "worse by"):
        table.add_column(column, justify="right")
    for change in sorted(beyond, key=lambda change: -change.worse_by):
        work = f"{change.work}, {change.durability}"
        numbers = [f"{change.kept:,.6g}", f"{change.now:,.6g}", f"{change.worse_by:.0%}"]
        table.add_row(work, change.contestant, change.figure, *numbers)
    return table


def _goals(judged: list[dict[str, Any]]) -> RichTable:
    table = RichTable("work", "raftlog", "peer", "goal", "ratio", "CPU", "reached", title="goals", title_justify="left")
    words = {True: "[green]yes[/green]", False: "[red]NO[/red]", None: "not measured"}
    for goal in judged:
        ratios = ["-" if goal[name] is None else f"{goal[name]:g}" for name in ("ratio", "cpu_share")]
        table.add_row(goal["work"], goal["ours"], goal["peer"], goal["goal"], *ratios, words[goal["reached"]])
    return table
