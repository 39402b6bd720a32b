"""The clocks of nodes, from the field `Date` of their answers. Pure.

`Date` counts whole seconds, and a request takes a while. So a difference is known as an interval only, and a check
compares what is certain: a slow network or a busy machine widens the interval, and raises no alarm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from raftlog.cli.doctor.facts import NodeFacts
from raftlog.cli.doctor.findings import Finding, Severity, named

WARN_S, ERROR_S = 2.0, 60.0
_ADVICE = "Run NTP (chrony or systemd-timesyncd) on every machine: certificates, tokens and timestamps need the time."
DOCS = "docs/how-to/check-a-cluster.md"


def difference(date: str, sent_s: float, received_s: float) -> tuple[float, float] | None:
    """Return the lowest and the highest difference of a node's clock to this machine's, in seconds.

    Args:
        date: the field of the answer.
        sent_s, received_s: this machine's clock before the request and after the answer, in seconds since 1970.
    """
    try:
        at = parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError, OSError, TypeError, IndexError):
        return None
    return at - received_s, at + 1 - sent_s


def certain(low: float, high: float) -> float:
    """Return the part of an interval that is certainly there: 0 if 0 is in it."""
    return max(low, -high, 0.0)


def check_clocks(nodes: Sequence[NodeFacts]) -> list[Finding]:
    """Compare each node's clock with this machine's, and the nodes' clocks with each other."""
    known = [(node.name, *node.clock_s) for node in nodes if node.clock_s is not None]
    if not known:
        return []
    findings = []
    for name, low, high in known:
        if (apart := certain(low, high)) >= WARN_S:
            way = "ahead of" if low > 0 else "behind"
            findings.append(_finding(apart, name, f"its clock is {seconds(apart)} or more {way} this machine's"))
    latest, earliest = max(known, key=lambda clock: clock[1]), min(known, key=lambda clock: clock[2])
    between = latest[1] - earliest[2]
    if between >= WARN_S:
        where = named((earliest[0], latest[0]))
        findings.append(_finding(between, where, f"their clocks are {seconds(between)} or more apart"))
    if findings:
        return findings
    widest = max(high - low for _, low, high in known)
    within = f"as far as a look of {seconds(max(1.0, math.ceil(widest)))} shows"
    found = f"{len(known)} clocks agree with this machine's, {within}"
    return [Finding(severity="ok", check="clock", where="the cluster", found=found)]


def seconds(length: float) -> str:
    """Return a length of time, rounded."""
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if length >= 2 * size:
            return f"{length / size:,.0f} {unit}"
    return f"{length:.1f}".removesuffix(".0") + " s"


def _finding(apart: float, where: str, found: str) -> Finding:
    severity: Severity = "error" if apart >= ERROR_S else "warning"
    return Finding(severity=severity, check="clock", where=where, found=found, advice=_ADVICE, docs=DOCS)
