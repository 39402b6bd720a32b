"""The prose checker finds what docs/contributing/writing.md forbids, in Markdown and docstrings, at its line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "check_prose.py"
LONG = " ".join(["word"] * 36)


@pytest.fixture(scope="module")
def checker():
    spec = importlib.util.spec_from_file_location("check_prose", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_prose"] = module  # Its dataclass looks itself up there.
    spec.loader.exec_module(module)
    yield module
    del sys.modules["check_prose"]


def found(checker, path: Path, text: str) -> list[tuple[int, str]]:
    path.write_text(text, "utf-8")
    return sorted((line, rule) for line, rule, _ in checker.findings(path))


def test_what_the_project_lists_is_clean():
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout == "prose: 0 findings\n"


def test_headless_clauses_persons_and_words_are_found_at_their_line(checker, tmp_path: Path):
    text = "# Title\n\nA page.\nNobody knows\nwho leads.\n\n| a | it gives way |\n|---|---|\n| b | anew |\n"

    assert found(checker, tmp_path / "page.md", text) == [(4, "headless"), (5, "headless"), (7, "word"), (9, "word")]


def test_code_and_what_is_switched_off_is_left_out(checker, tmp_path: Path):
    text = "`who` is code.\n\n```\nwho\n```\n\n<!-- prose: off -->\n\nwho\n\n<!-- prose: on -->\n\nwho\n"

    assert found(checker, tmp_path / "page.md", text) == [(13, "headless")]


def test_long_sentences_and_lines_are_found_outside_of_tables(checker, tmp_path: Path):
    text = f"Short. {LONG[:100]}\n{LONG[100:]}.\n\n| {LONG} |\n|---|\n\n{'x' * 141}\n"

    assert found(checker, tmp_path / "page.md", text) == [(1, "sentence"), (7, "line")]


def test_a_sentence_ends_before_a_capital_and_not_after_an_abbreviation(checker, tmp_path: Path):
    half = " ".join(["word"] * 20)

    assert found(checker, tmp_path / "page.md", f"First {half}.\nThen {half}.\n") == []
    assert found(checker, tmp_path / "page.md", f"First {half}, e.g.\nThen {half}.\n") == [(1, "sentence")]


def test_docstrings_of_modules_classes_functions_and_attributes_are_read(checker, tmp_path: Path):
    text = '''"""Module.

Nobody.
"""


class A:
    """Who.

    Args:
        a: whoever
            comes.
    """

    x = 1
    """Anew."""

    def f(self):
        """Do.

            somebody()
        """
        return "who"
'''

    assert found(checker, tmp_path / "module.py", text) == [
        (3, "headless"),
        (8, "headless"),
        (11, "headless"),
        (16, "word"),
    ]


def test_entries_of_a_docstring_are_sentences_of_their_own(checker, tmp_path: Path):
    entries = "".join(f"    a{i}: {' '.join(['word'] * 20)}\n" for i in range(3))

    assert found(checker, tmp_path / "module.py", f'"""Title.\n\nArgs:\n{entries}"""\n') == []
