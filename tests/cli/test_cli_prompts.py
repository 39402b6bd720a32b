"""Prompts go to standard error: standard output may be a file, or JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from click.testing import CliRunner

from raftlog.cli import users
from raftlog.cli.main import cli


def test_an_unclean_election_asks_on_standard_error():
    asked = CliRunner().invoke(cli, ["topics", "elect-leaders", "--unclean"], input="n\n")
    assert (asked.exit_code, asked.stdout) == (1, "")
    assert "will be lost. Continue?" in asked.stderr


def test_an_unclean_election_with_json_asks_nothing():
    refused = CliRunner().invoke(cli, ["topics", "elect-leaders", "--unclean", "--json"], input="y\n")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "with --json nothing is asked: give --yes" in json.loads(refused.stderr)["error"]["message"]


def test_a_password_is_asked_for_on_standard_error(monkeypatch: pytest.MonkeyPatch):
    client = AsyncMock()

    @asynccontextmanager
    async def admin(bootstrap: Sequence[str]) -> AsyncIterator[AsyncMock]:
        yield client

    monkeypatch.setattr(users, "admin", admin)
    monkeypatch.setattr(users, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    done = CliRunner().invoke(cli, ["users", "put", "eve", "--json"], input="long enough\n" * 2)
    assert (done.exit_code, json.loads(done.stdout)) == (0, {"stored": "eve"}), done.output
    assert done.stderr.startswith("Password: ")
    client.put_user.assert_awaited_once_with("eve", "long enough")
