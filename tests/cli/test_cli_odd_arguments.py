"""Numbers beyond 64 bits, and names that are not UTF-8, as arguments: an error, and no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from click.testing import CliRunner

from raftlog.cli import remote
from raftlog.cli.main import cli

LARGE = str(10**20)
NAME = "\udcff"
"""What Python makes of the byte 0xFF of an argument."""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["topics", "alter", "t", "--config", f"retention_ms={LARGE}"], "integers of 64 bits"),
        (["topics", "create", "t", "--partitions", LARGE], "integers of 64 bits"),
        (["topics", "reassign", "t-0", "--to", LARGE], "integers of 64 bits"),
        (["topics", "elect-leaders", f"t-{LARGE}"], "integers of 64 bits"),
        (["topics", "create", NAME], "text in UTF-8"),
        (["topics", "delete", NAME], "expected a name in UTF-8, received '\\udcff'"),
        (["topics", "offsets", NAME], "expected a name in UTF-8"),
        (["users", "put", "eve", "--password", NAME], "text in UTF-8"),
    ],
)
def test_what_a_request_cannot_have_is_an_error(arguments: list[str], says: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote, "require_cluster", AsyncMock())
    runner = CliRunner(env={"RAFTLOG_BOOTSTRAP": "http://127.0.0.1:1"})
    for as_json in ([], ["--json"]):
        done = runner.invoke(cli, [*arguments, *as_json])
        assert (done.exit_code, type(done.exception)) == (1, SystemExit), done.exception
        told = json.loads(done.stderr)["error"] if as_json else {"message": done.stderr}
        assert says in told["message"]
    assert told["code"] == "INVALID_REQUEST"


def test_a_cluster_id_that_is_not_text_is_refused(tmp_path: Path):
    done = CliRunner().invoke(cli, ["storage", "format", f"{tmp_path}/d", "--node-id", "1", "--cluster-id", NAME])
    assert done.exit_code == 2
    assert "expected printable characters, received '\\udcff'" in done.stderr
