"""`--client-id`: which values a command takes, and that it names the clients of that command only."""

from __future__ import annotations

import os

import click
import pytest
from click.testing import CliRunner

from raftlog.cli.main import cli
from raftlog.cli.remote import bootstrap_option
from raftlog.client.connection import Connection


@click.command()
@bootstrap_option
def show(bootstrap: list[str]) -> None:
    """Print the client id of a client of this command."""
    click.echo(Connection(bootstrap, timeout_ms=1).session.client_id or "none")


@pytest.mark.parametrize("wrong", ["*", "x" * 129, "a\nb", "ü"])
def test_another_text_is_wrong_usage(wrong: str):
    told = CliRunner().invoke(cli, ["topics", "list", "--client-id", wrong])
    assert told.exit_code == 2
    assert "Invalid value for '--client-id'" in told.output
    assert "expected 1 to 128 characters of ASCII letters" in told.output


def test_it_names_the_clients_of_one_command():
    assert CliRunner().invoke(show, ["--client-id", "nightly"]).output == "nightly\n"
    assert "RAFTLOG_CLIENT_ID" not in os.environ
    assert CliRunner().invoke(show, []).output == "none\n"


def test_the_option_wins_over_the_variable(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAFTLOG_CLIENT_ID", "from-environment")
    assert CliRunner().invoke(show, []).output == "from-environment\n"
    assert CliRunner().invoke(show, ["--client-id", "own"]).output == "own\n"
    assert os.environ["RAFTLOG_CLIENT_ID"] == "from-environment"
