"""Tables and lines of commands: names and numbers as they are, whatever they contain, and one row for each."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from raftlog.cli import quotas, security
from raftlog.cli.main import cli
from raftlog.cli.shared import print_table, say
from raftlog.model import Quota


def printed(capsys: pytest.CaptureFixture[str], work: Callable[[], None]) -> str:
    work()
    return capsys.readouterr().out


@pytest.fixture(params=[False, True], ids=["pipe", "terminal"])
def output(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: request.param)


@pytest.mark.usefixtures("output")
@pytest.mark.parametrize("name", ["orders:key:v1", "2001:db8:ab:100::1", "[bold]x[/bold]", "%s"])
def test_a_name_in_a_table_is_the_name(capsys: pytest.CaptureFixture[str], name: str):
    assert name in printed(capsys, lambda: print_table(["group"], [(name,)]))


@pytest.mark.usefixtures("output")
def test_no_name_makes_a_row_or_a_column(capsys: pytest.CaptureFixture[str]):
    forged = "a\nb-0  7\r\tc"
    shown = "a\\x0ab-0  7\\x0d\\x09c"
    table = printed(capsys, lambda: print_table(["partition", "member"], [("t-0", forged), ("t-1", "m")]))
    rows = [line.split()[0] for line in table.splitlines() if line.startswith("t-")]
    assert rows == ["t-0", "t-1"]
    assert shown in table
    assert not re.search("^b-0", table, re.MULTILINE)
    assert printed(capsys, lambda: say(f"deleted {forged}")) == f"deleted {shown}\n"


@pytest.mark.parametrize("arguments", [("table",), ("table", "--json")])
def test_a_terminal_that_is_not_utf_8_shows_everything(arguments: tuple[str, ...]):
    """In ISO 8859-1 there is no line to draw, and no Cyrillic letter. JSON is UTF-8 there, too."""
    code = """
import sys
from raftlog.cli import main, shared
import click
sys.stdout.isatty = lambda: True
@click.command("table")
@shared.json_option
def command(as_json):
    shared.print_json({"group": "ключ"}) if as_json else shared.print_table(["group"], [("ключ",)])
main._COMMANDS["table"] = "x"
sys.modules["raftlog.cli.table"] = sys.modules["__main__"]
main.cli()
"""
    environment = os.environ | {"PYTHONIOENCODING": "iso-8859-1", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, check=False)
    if "--json" in arguments:
        assert json.loads(done.stdout) == {"group": "ключ"}
    else:
        assert "\\u043a\\u043b\\u044e\\u0447" in done.stdout.decode("ascii"), done.stderr.decode()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "cannot use /x: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), "cannot write: No space left on device"),
    ],
)
def test_an_error_of_the_system_is_json_too(monkeypatch: pytest.MonkeyPatch, error: OSError, message: str):
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(security, "_issue_all", fail)
    command = ["security", "issue", "--dir", "x", "--cluster-id", "c", "--user", "bob"]
    done = CliRunner().invoke(cli, [*command, "--json"])
    assert done.exit_code == 1
    assert json.loads(done.stderr)["error"]["message"].startswith(message)
    assert f"Error: {message}" in CliRunner().invoke(cli, command).stderr


def test_no_console_of_a_command_replaces_names_by_pictures():
    commands = Path(quotas.__file__).parent
    made = [found for file in commands.rglob("*.py") for found in re.findall(r"\bConsole\([^)]*\)", file.read_text())]
    assert made
    assert [each for each in made if "emoji=False" not in each] == []


def test_limits_are_exact(monkeypatch: pytest.MonkeyPatch):
    limits = {"consumer_byte_rate": 10_485_760.0, "producer_byte_rate": 12_345_678.9, "request_rate": 10}

    async def listed(**_: Any) -> list[Quota]:
        return [Quota(user="eve", limits=limits)]

    async def enforced_for() -> str:
        return "users"

    @asynccontextmanager
    async def fake(_: Any) -> Any:
        yield SimpleNamespace(quotas=listed, quotas_enforced_for=enforced_for)

    monkeypatch.setattr(quotas, "admin", fake)
    done = CliRunner().invoke(quotas.command, ["list", "--bootstrap", "http://127.0.0.1:9"])
    assert done.exit_code == 0, done.output
    assert "consumer_byte_rate=10485760, producer_byte_rate=12345678.9, request_rate=10\n" in done.output
