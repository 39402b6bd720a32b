"""The findings as text: the worst first, healthy ones in a line each. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from raftlog.cli.doctor.findings import SEVERITIES, Finding, Severity, counts

_INDENT = " " * 9
MIN_WIDTH = 40


def report(findings: Sequence[Finding], *, width: int, paint: Callable[[str, Severity], str]) -> Iterator[str]:
    """Yield the lines of a report.

    Args:
        findings: the worst first, with texts that may be printed.
        width: characters of a line; a path or a URL may be longer.
        paint: returns a severity's word in its color.
    """
    for finding in findings:
        begin = f"{finding.check}: {finding.where}" if finding.where else finding.check
        word = paint(f"{finding.severity:9}", finding.severity)
        if finding.severity == "ok":
            lines = _wrapped(f"{begin}: {finding.found}", width)
            yield word + next(lines, "")
            yield from (_INDENT + line for line in lines)
            continue
        first = _wrapped(begin, width)
        yield word + next(first, "")
        yield from (_INDENT + line for line in first)
        for text in (finding.found, finding.advice, f"See {finding.docs}" if finding.docs else ""):
            yield from (_INDENT + line for line in _wrapped(text, width))
        yield ""
    found = counts(findings)
    words = (f"{found[severity]} {severity}{'s' * (found[severity] != 1 and severity != 'ok')}" for severity in _WORST)
    yield ", ".join(words)


_WORST: tuple[Severity, ...] = tuple(reversed(SEVERITIES))


def _wrapped(text: str, width: int) -> Iterator[str]:
    columns = max(MIN_WIDTH, width) - len(_INDENT)
    return iter(textwrap.wrap(text, columns, break_long_words=False, break_on_hyphens=False))
