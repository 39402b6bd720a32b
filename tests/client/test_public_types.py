"""Type checkers accept typical calls of the whole public API, and find a wrong one."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from api_reference import public_members

import raftlog
from raftlog import blocking
from raftlog.client.transactions import Transaction

ROOT = Path(__file__).parents[2]
USE = Path(__file__).with_name("typical_use.py")
WRONG = """
from raftlog import Produser, blocking

blocking.Producer("http://127.0.0.1:9400", linger=5)
blocking.Consumer("http://127.0.0.1:9400", "flights", start=1.5)
blocking.Admin().create_topic("flights", partitions="3")
blocking.Admin().acls(operation="reed")
offset: str = blocking.Producer().send("flights", b"one").offset
"""
CLASSES = [raftlog.Admin, raftlog.Consumer, raftlog.Producer, raftlog.Delivery, Transaction]


def checked(command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    own = {**os.environ, "MYPYPATH": str(ROOT), **environment}
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=600, check=False)


def mypy(path: Path) -> subprocess.CompletedProcess[str]:
    """Check a file as an application would: none of the project's settings, and only the file's own errors."""
    own = ["--config-file=", "--follow-imports=silent", f"--cache-dir={ROOT / '.mypy_cache' / 'applications'}"]
    return checked([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", *own, str(path)])


def test_every_public_name_is_used():
    tree = ast.parse(USE.read_text())
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    used |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert set(raftlog.__all__) | set(blocking.__all__) <= used
    for cls in CLASSES:
        assert public_members(cls).keys() <= used, cls


@pytest.mark.timeout(600)
def test_mypy_accepts_typical_calls():
    done = mypy(USE)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


@pytest.mark.timeout(600)
def test_mypy_finds_wrong_calls(tmp_path: Path):
    wrong = tmp_path / "wrong_use.py"
    wrong.write_text(WRONG)
    found = mypy(wrong).stdout
    lines = [number for number, line in enumerate(WRONG.split("\n"), 1) if "raftlog" in line or "blocking" in line]
    assert sorted({int(line.split(":")[1]) for line in found.splitlines() if ": error:" in line}) == lines, found


@pytest.mark.timeout(600)
@pytest.mark.skipif(importlib.util.find_spec("pyright") is None, reason="pyright is not installed: make install")
def test_pyright_accepts_typical_calls():
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(USE)]
    done = checked(command, PYRIGHT_PYTHON_IGNORE_WARNINGS="1")
    assert done.returncode == 0, done.stdout + done.stderr
