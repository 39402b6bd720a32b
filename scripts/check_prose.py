"""Check the prose of Markdown pages and docstrings: rules of docs/contributing/writing.md that a program can check.

    python scripts/check_prose.py                    # what pyproject.toml lists under [tool.prose]
    python scripts/check_prose.py raftlog docs/adr   # these files and folders

Each finding is a line, `file:line: rule: ...`; the last line counts them. Exit code 1 if there are any. In Markdown
`<!-- prose: off -->` and `<!-- prose: on -->` surround text that is not checked.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
MAX_WORDS = 35
MAX_LINE = 140
HEADLESS = re.compile(
    r"\b(somebody|someone|nobody|no one|anybody|anyone|everybody|everyone|whoever|whomever|whom|whose is|who)\b",
    re.IGNORECASE,
)
AVOIDED = {
    r"g[ia]ves? way|given way": "resigns leadership",
    r"time (?:is|was) up": "timed out",
    r"news": "update, new records",
    r"told of|says? so": "is reported, logs, returns an error",
    r"hears? (?:of|from)|heard (?:of|from)": "receives, has received",
    r"well again": "healthy, intact",
    r"in vain": "does not exist",
    r"stands? still|stood still": "blocks, stalls",
    r"anew": "again",
    r"amid": "during",
    r"strangers?": "an unauthenticated client",
    r"is owed|are owed": "pending response",
    r"the seam": "the adapter",
    r"in turns": "in slices; one at a time; alternating",
    r"what was asked": "the request",
}
WORDS = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): better for pattern, better in AVOIDED.items()}
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*`\[]*[A-Z0-9`])")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|et al|vs|cf)\.$", re.IGNORECASE)
WORD = re.compile(r"\S*\w\S*")
SWITCH = re.compile(r"<!-- prose: (on|off) -->")
SECTION = re.compile(r"(?:Args|Raises|Returns|Yields)(?:: .*|:)$")
ENTRY = re.compile(r"    \*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*: ")
BULLET = re.compile(r"\s*(?:[-*]|\d+\.) ")


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a list item, a heading or a table's cell: lines of plain text without code, the first at `line`."""

    line: int
    lines: list[str]
    has_sentences: bool = True


def markdown_blocks(text: str) -> Iterator[Block]:
    """Yield the prose of a Markdown page."""
    off = False
    opened: list[str] = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "html_block" and (found := SWITCH.search(token.content)):
            off = found[1] == "off"
        if token.nesting:
            opened = [*opened, token.type] if token.nesting > 0 else opened[:-1]
        if token.type == "inline" and token.map and not off:
            in_cell = any(name in ("td_open", "th_open") for name in opened)
            yield Block(token.map[0] + 1, _plain(token.children or []), has_sentences=not in_cell)


def _plain(tokens: Iterable[Token]) -> list[str]:
    lines = [""]
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            lines.append("")
        elif token.type == "text":
            lines[-1] += token.content
        elif token.type == "code_inline":
            lines[-1] += "`code`"
    return lines


def docstring_blocks(text: str) -> Iterator[Block]:
    """Yield the paragraphs and entries of a module's docstrings, those of attributes included."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield from _docstring_blocks(node.lineno, node.col_offset, node.value.value)


def _docstring_blocks(first: int, margin: int, text: str) -> Iterator[Block]:
    lines = text.split("\n")
    start, gathered, in_section, after_blank = first, list[str](), False, True
    for number, raw in enumerate(lines, first):
        line = (raw if number == first else raw[margin:]).rstrip()
        is_code = line.startswith("    ") and not in_section and after_blank and not BULLET.match(line)
        begins = not line or is_code or SECTION.match(line) or ENTRY.match(line) or BULLET.match(line)
        if begins and gathered:
            yield Block(start, gathered)
            gathered = []
        in_section = bool(SECTION.match(line)) or (in_section and (not line or line.startswith("    ")))
        after_blank = not line or (is_code and after_blank)
        if line and not is_code and not SECTION.match(line):
            start = start if gathered else number
            gathered.append(re.sub(r"`[^`]*`", "`code`", line).strip())
    if gathered:
        yield Block(start, gathered)


def findings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield line, rule and message of everything in a file that breaks a rule."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        yield from _long_lines(text)
    for block in markdown_blocks(text) if path.suffix == ".md" else docstring_blocks(text):
        joined = "\n".join(block.lines)
        for found in HEADLESS.finditer(joined):
            yield _line(block, joined, found.start()), "headless", f"{found[0]!r}: name the actor or the thing"
        for pattern, better in WORDS.items():
            for found in pattern.finditer(joined):
                yield _line(block, joined, found.start()), "word", f"{found[0]!r}: write {better!r}"
        if block.has_sentences:
            for start, sentence in _sentences(joined):
                if (count := len(WORD.findall(sentence))) > MAX_WORDS:
                    yield _line(block, joined, start), "sentence", f"{count} words: split it into several sentences"


def _line(block: Block, joined: str, position: int) -> int:
    return block.line + joined.count("\n", 0, position)


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for found in SENTENCE_END.finditer(text):
        if not ABBREVIATION.search(text[: found.start()]):
            yield start, text[start : found.start()]
            start = found.end()
    yield start, text[start:]


def _long_lines(text: str) -> Iterator[tuple[int, str, str]]:
    is_code = False
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif len(line) > MAX_LINE and not is_code and not line.lstrip().startswith("|"):
            yield number, "line", f"{len(line)} characters: wrap it at {MAX_LINE}"


def files(named: Iterable[Path]) -> Iterator[Path]:
    """Yield the files and the Markdown and Python files of the folders."""
    for path in named:
        if not path.exists():
            raise SystemExit(f"{path} does not exist")
        found = path.rglob("*") if path.is_dir() else [path]
        yield from sorted(file for file in found if file.suffix in (".md", ".py"))


def main(arguments: list[str]) -> int:
    """Check what is named, or what the project lists."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["prose"]["paths"]
    named = [Path(argument) for argument in arguments] or [ROOT / name for name in listed]
    counts: Counter[str] = Counter()
    for path in files(named):
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        for line, rule, message in sorted(findings(path)):
            counts[rule] += 1
            print(f"{shown}:{line}: {rule}: {message}")
    print(f"prose: {counts.total()} findings" + "".join(f", {count} {rule}" for rule, count in sorted(counts.items())))
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
