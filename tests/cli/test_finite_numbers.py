"""Options in seconds take finite numbers only."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from raftlog import Admin
from raftlog.cli.main import cli
from raftlog.errors import ConfigError


@pytest.mark.parametrize("number", ["inf", "nan", "-inf", "1e999"])
def test_a_limit_that_is_not_finite_removes_none(number: str):
    """As JSON it would be null, which removes the limit."""
    line = ["quotas", "alter", "--user", "alice", "--config", f"producer_byte_rate={number}"]
    done = CliRunner().invoke(cli, line)
    assert done.exit_code == 2, done.output
    assert "not a finite number; --unset removes a limit" in " ".join(done.output.split())


async def test_an_admin_sends_no_limit_that_is_not_finite():
    async with Admin("http://127.0.0.1:1") as admin:
        with pytest.raises(ConfigError, match="expected a finite number, or None"):
            await admin.alter_quota({"request_rate": float("nan")}, user="alice")


@pytest.mark.parametrize("number", ["inf", "nan", "-inf"])
@pytest.mark.parametrize(
    "line",
    ["consume t --timeout", "perf consume t --timeout", "perf latency t --rate", "top --interval", "doctor --timeout"],
)
def test_an_infinite_or_undefined_number_is_refused(line: str, number: str):
    done = CliRunner().invoke(cli, [*line.split(), number])
    assert done.exit_code == 2, done.output
    assert "Invalid value" in done.output
    assert number in done.output
