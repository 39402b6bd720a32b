"""Code blocks of the documentation parse, and their commands, options, make targets and settings exist."""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import NamedTuple

import click
import yaml

from raftlog.cli.main import cli
from raftlog.config import TopicConfig
from raftlog.config.dynamic import OWN_SETTINGS
from raftlog.model import QUOTA_LIMITS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("docs/**/*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))])
FENCE = re.compile(r"^( *)```([\w{}-]*)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
LANGUAGES = {
    "", "console", "dockerfile", "ini", "js", "json", "mermaid", "py", "python", "r", "sh", "sql", "text", "toml",
    "yaml", "{eval-rst}",
}  # fmt: skip
FILE = re.compile(r"`([a-z_][\w/-]*\.py)`")
FOLDERS = (
    "raftlog",
    "spark",
    "tests",
    "chaos",
    "simulation",
    "fuzz",
    "benchmarks",
    "examples",
    "scripts",
    "docs",
    "demo",
)
INLINE = re.compile(r"`((?:raftlog|make) [^`]+)`")
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
SETTINGS = {field.name for field in fields(TopicConfig)} | {*OWN_SETTINGS, *QUOTA_LIMITS}


class Block(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    return [block for page in PAGES for block in _blocks(page) if not languages or block.language in languages]


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    for found in FENCE.finditer(text):
        indent, language, code = found.groups()
        line = text.count("\n", 0, found.start()) + 2
        yield Block(str(page.relative_to(ROOT)), line, language, re.sub(f"^{indent}", "", code, flags=re.MULTILINE))


def commands() -> Iterator[tuple[str, str]]:
    """Yield every `raftlog` and `make` command of a shell block, or in running text, with its place."""
    for block in blocks("sh", "console"):
        text = block.text.replace("\\\n", " ")
        for line in text.splitlines():
            if block.language == "sh" or line.startswith("$ "):
                for part in _parts(line.removeprefix("$ ")):
                    yield block.place, part
    for page in PAGES:
        if page.parent.name == "adr":
            continue
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
            for found in INLINE.findall(line):
                yield f"{page.relative_to(ROOT)}:{number}", found


def _parts(line: str) -> Iterator[str]:
    """Yield the commands of a line that are ours: after pipes, `watch`, assignments, without redirections."""
    for part in re.split(r"\|(?!\S)| && |; ", line):
        if found := re.match(r"(?:\s*watch (?:-n [\d.]+ )?|\s*)((?:raftlog|make) .*)", re.sub(r"\s+[#>].*", "", part)):
            yield found[1].strip()


def test_the_language_of_each_block_is_a_known_one():
    assert [block.place for block in blocks() if block.language not in LANGUAGES] == []


def test_python_blocks_parse():
    for block in blocks("python", "py"):
        compile(block.text, block.place, "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_data_blocks_parse():
    read = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
    for block in blocks(*read):
        try:
            read[block.language](block.text)
        except ValueError as error:
            raise AssertionError(f"{block.place}: {error}") from None


def test_commands_and_their_options_exist():
    assert [f"{place}: {problem}" for place, line in commands() if (problem := _problem(line))] == []


def test_python_files_that_are_named_exist():
    exist = {f"/{path.relative_to(ROOT)}" for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    named = {
        (str(page.relative_to(ROOT)), name)
        for page in (*PAGES, ROOT / "ARCHITECTURE.md")
        for name in FILE.findall(FENCE.sub("", page.read_text("utf-8")))
        if name != "pipeline.py"  # A reader's own, in a tutorial.
    }

    assert [place for place in sorted(named) if not any(path.endswith(f"/{place[1]}") for path in exist)] == []


def _problem(line: str) -> str:
    words = shlex.split(line)
    if words[0] == "make":
        unknown = {word for word in words[1:] if "=" not in word} - TARGETS
        return f"no target {unknown}" if unknown else ""
    command, path = _find(words[1:])
    if command is None:
        return f"{path} does not exist"
    options = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    given = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
    settings = set(re.findall(r"--config ([a-z_]+)=", line))
    unknown = (given - options - {"--help"}) | (settings - SETTINGS)
    return f"{path} has no {unknown}" if unknown else ""


def _find(words: list[str]) -> tuple[click.Command | None, str]:
    command: click.Command = cli
    path = "raftlog"
    for word in words:
        if not isinstance(command, click.Group) or word.startswith("-") or word.isupper():
            break
        found = command.get_command(click.Context(command), word)
        path = f"{path} {word}"
        if found is None:
            return None, path
        command = found
    return command, path
