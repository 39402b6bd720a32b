"""Options in seconds take finite numbers only."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from raftlog.cli.main import cli


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
