"""Docstrings and `--help` of raftlog, which are plain text with Markdown's backticks, as reStructuredText.

Sections are `Args:`, `Args: a theme` and `Raises:`; each entry is `name: text`, with continuation lines indented.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

SECTION = re.compile(r"(Args|Raises|Returns|Yields)(?:: (.+)|:)$")
ENTRY = re.compile(r"    (\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*): (.*)$")
CODE = re.compile(r"(`+)(.+?)\1")
SPECIAL = re.compile(r"([*|])|(?<=\w)_(?!\w)")
TITLES = {"Args": "Parameters"}


def inline(text: str) -> str:
    """Return a line with Markdown's code as literals, and nothing else that reStructuredText would take for markup."""
    parts, end = [], 0
    for found in CODE.finditer(text):
        parts += [_escaped(text[end : found.start()]), f"``{found[2]}``"]
        end = found.end()
        if text[end : end + 1].isalnum():
            parts.append("\\ ")
    return "".join([*parts, _escaped(text[end:])])


def _escaped(text: str) -> str:
    return SPECIAL.sub(lambda found: f"\\{found[0]}", text)


def convert(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a docstring as reStructuredText."""
    within = literal = False
    for line in lines:
        if found := SECTION.match(line):
            within, literal = True, False
            title = found[2] or TITLES.get(found[1], found[1])
            yield from ["", f"**{inline(title[0].upper() + title[1:])}**", ""]
        elif within and (entry := ENTRY.match(line)):
            yield from ["", *(f"``{entry[1]}``",), f"    {inline(entry[2])}"]
        elif within and line.startswith("    "):
            yield f"    {inline(line.strip())}"
        elif line.startswith("    ") and not within:
            if not literal:
                yield from ["::", ""]
            literal = True
            yield line
        else:
            if line:
                within = literal = False
            yield inline(line)


def on_docstring(_app: Sphinx, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    """Rewrite a docstring in place."""
    lines[:] = list(convert(lines))


def on_help(_app: Sphinx, _context: Any, lines: list[str]) -> None:
    """Rewrite the text of a command's `--help` in place, and leave the directives around it."""
    lines[:] = [line if line.lstrip().startswith((".. ", ":")) else _help_line(line) for line in lines]


def _help_line(line: str) -> str:
    required, mark, text = line.rpartition("**Required**")
    return f"{required}{mark}{inline(text)}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Have autodoc and sphinx-click use this."""
    app.connect("autodoc-process-docstring", on_docstring)
    for part in ("description", "options", "arguments", "epilog"):
        app.connect(f"sphinx-click-process-{part}", on_help)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
