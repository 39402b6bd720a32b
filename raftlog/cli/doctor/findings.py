"""What a check has found: severity, what was checked, what was received, what to do. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from raftlog.cli.terminal import clipped

Severity: TypeAlias = Literal["ok", "note", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("ok", "note", "warning", "error")
"""From the least to the worst."""
EXIT_CODES: dict[Severity, int] = {"ok": 0, "note": 0, "warning": 1, "error": 2}
"""Those of monitoring plugins: 0 healthy, 1 warning, 2 critical."""
MAX_OF_CHECK, MAX_FINDINGS = 25, 500
"""Findings that are reported."""
MAX_NAMES = 5
"""Names that one finding lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check at one place."""

    severity: Severity
    check: str
    """What was checked, as in `clock`."""
    where: str
    """The node, file, folder or cluster."""
    found: str
    """What was received."""
    advice: str = ""
    """What to do; "": nothing."""
    docs: str = ""
    """A page of the documentation; "": none."""


def named(names: Iterable[object]) -> str:
    """Return the first names, and how many more there are."""
    found = [clipped(name, 80) for name in names]
    rest = len(found) - MAX_NAMES
    return ", ".join(found[:MAX_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")


def cleaned(findings: Iterable[Finding]) -> list[Finding]:
    """Return the worst findings first, with texts that may be printed anywhere.

    At most `MAX_OF_CHECK` of a check and `MAX_FINDINGS` of all are returned, and a note counts the others.
    """
    ordered = sorted(findings, key=lambda finding: -SEVERITIES.index(finding.severity))
    kept, of_check = list[Finding](), Counter[str]()
    for finding in ordered:
        of_check[finding.check] += 1
        if of_check[finding.check] <= MAX_OF_CHECK and len(kept) < MAX_FINDINGS:
            kept.append(finding)
    if rest := len(ordered) - len(kept):
        kept.append(Finding(severity="note", check="findings", where="", found=f"{rest:,} more are left out"))
    return [
        Finding(
            severity=finding.severity,
            check=clipped(finding.check),
            where=clipped(finding.where),
            found=clipped(finding.found),
            advice=clipped(finding.advice),
            docs=clipped(finding.docs),
        )
        for finding in kept
    ]


def worst(findings: Sequence[Finding]) -> Severity:
    """Return the worst severity; `ok` without findings."""
    return max((finding.severity for finding in findings), key=SEVERITIES.index, default="ok")


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """Return the number of findings by severity."""
    found = Counter(finding.severity for finding in findings)
    return {severity: found[severity] for severity in SEVERITIES}


def failed(check: str, where: str, why: object, *, severity: Severity = "warning") -> Finding:
    """Return the finding of a check that could not be made."""
    return Finding(
        severity=severity,
        check=check,
        where=where,
        found=f"could not be checked: {clipped(why)}",
        advice="See whether the user may describe the cluster, and whether the node is overloaded; then check again.",
        docs="docs/how-to/check-a-cluster.md",
    )
