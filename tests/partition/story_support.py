"""Stories in text files: blocks of commands, each with the answers below it. REWRITE=1 rewrites the answers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def require_story(path: Path, run: Callable[[str], str]) -> None:
    """Run each command of a story; fail unless the answers are those in its file."""
    written, expected = [], path.read_text()
    for block in expected.strip().split("\n\n"):
        comments = [line for line in block.splitlines() if line.startswith("#")]
        commands = [line for line in block.split("\n----")[0].splitlines() if line and not line.startswith("#")]
        answers = [run(command) for command in commands]
        written.append("\n".join([*comments, *commands, "----", *answers]))
    actual = "\n\n".join(written) + "\n"
    if os.environ.get("REWRITE"):
        path.write_text(actual)

    assert actual == expected
