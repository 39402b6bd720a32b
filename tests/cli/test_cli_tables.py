"""Tables and lines of commands: names and numbers as they are, whatever they contain, and one row for each."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from raftlog.cli import quotas
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
