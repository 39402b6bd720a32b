"""Imports flow one way, the client stays light, and parts are made of few others."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_import_contracts_hold():
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stdout


def test_constructors_take_at_most_seven_parameters():
    """The options of the public API apart."""
    long = {
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in ROOT.glob("raftlog/**/*.py")
        if "def __init__(" in (text := path.read_text())
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and node.name not in {"Consumer", "Producer"}
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        if len([*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]) > 1 + 7
    }
    assert long == set()


def test_the_client_loads_no_server_and_no_command_line():
    program = (
        "import sys, raftlog; raftlog.Producer, raftlog.Consumer, raftlog.Admin; "
        "print(*sorted(name for name in sys.modules if name.startswith(('raftlog.', 'pysyncobj', 'click', 'rich'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    loaded = done.stdout.split()
    assert "raftlog.client.producer" in loaded
    server = (
        "raftlog.broker",
        "raftlog.partition",
        "raftlog.metadata_quorum",
        "raftlog.cli.",
        "pysyncobj",
        "click",
        "rich",
    )
    assert [name for name in loaded if name.startswith(server)] == []


def test_the_package_itself_loads_nothing():
    program = "import sys, raftlog; print(*sorted(name for name in sys.modules if name.startswith('raftlog.')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.split() == []
