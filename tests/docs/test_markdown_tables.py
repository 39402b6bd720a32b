"""Tables of Markdown pages: a `|` inside of code begins a new cell unless it is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
RULE = re.compile(r"\|(?: ?:?-+:? ?\|)+")


def cells(row: str) -> int:
    return len(re.findall(r"(?<!\\)\|", row)) - 1


def uneven_rows(page: str) -> Iterator[str]:
    """Yield rows with more or fewer cells than their table's head."""
    expected = 0
    lines = page.splitlines()
    for before, line in zip(["", *lines], lines, strict=False):
        if RULE.fullmatch(line):
            expected = cells(before)
        if not line.startswith("|"):
            expected = 0
        elif expected and cells(line) != expected:
            yield line


def test_a_row_with_a_bare_pipe_is_found():
    table = "| a | b |\n|---|---|\n| x | `y\\|z` |\n| x | `y|z` |\n\n| c |\n|---|\n| d |\n"
    assert list(uneven_rows(table)) == ["| x | `y|z` |"]


def test_every_row_has_as_many_cells_as_its_table():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")]
    assert len(pages) > 50
    assert {str(page): rows for page in pages if (rows := list(uneven_rows(page.read_text("utf-8"))))} == {}
