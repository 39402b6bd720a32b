"""`raftlog storage format` and `raftlog server start`: folders are claimed once; bad settings are named."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftlog.cli.main import cli


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_a_folder_is_claimed_once(tmp_path: Path):
    assert invoke("storage", "format", tmp_path / "d", "--cluster-id", "c", "--node-id", 1).stdout == "c\n"
    assert invoke("storage", "format", tmp_path / "d", "--cluster-id", "c", "--node-id", 1).exit_code == 0
    other = invoke("storage", "format", tmp_path / "d", "--cluster-id", "other", "--node-id", 1)
    assert other.exit_code == 1
    assert "belongs to node 1 of cluster c" in other.stderr
    assert "this is node 1 of cluster other" in other.stderr


def test_a_cluster_id_is_drawn(tmp_path: Path):
    drawn = [invoke("storage", "format", tmp_path / name, "--node-id", 1).stdout for name in "ab"]
    assert drawn[0] != drawn[1]
    assert [len(line) for line in drawn] == [33, 33]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["storage", "format", "d"], 2, "Missing option '--node-id'"),
        (["storage", "format", "d", "--node-id", "1", "--cluster-id", ""], 2, "expected a name, received none"),
        (["server", "start"], 2, "Missing option '--config'"),
        (["server", "start", "--config", "no.toml"], 2, "File 'no.toml' does not exist"),
    ],
)
def test_wrong_usage(arguments: list[str], code: int, message: str):
    result = invoke(*arguments)
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr


def test_a_bad_setting_is_named(tmp_path: Path):
    config = tmp_path / "node.toml"
    config.write_text("node_id = 1\nnonsense = 2\n")
    result = invoke("server", "start", "--config", config)
    assert result.exit_code == 1
    assert f"INVALID_CONFIG: {config}: nonsense: unknown name; known names are" in result.stderr
