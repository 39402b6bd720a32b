"""`raftlog login` against a real issuer: both flows, renewal, and issuers that refuse, fail or send nonsense."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from issuer_support import CLIENT, SECRET, Issuer

from raftlog.client.security import read_token


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer().in_thread() as served:
        yield served


def login(issuer: Issuer, folder: Path, *arguments: str, secret: str = "") -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAFTLOG_")}
    environment["RAFTLOG_CLIENT_ID"] = "nightly-load"  # The application's name for quotas, which no issuer knows.
    environment |= {"XDG_CONFIG_HOME": str(folder)} | ({"RAFTLOG_CLIENT_SECRET": secret} if secret else {})
    command = [sys.executable, "-m", "raftlog", "login", *arguments]
    if "--renew" not in arguments:
        command += ["--issuer", issuer.url, "--client-id", CLIENT]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    for secret_text in (SECRET, *issuer.refresh_tokens, "eyJ"):
        assert secret_text not in done.stdout + done.stderr
    return done


def stored(folder: Path) -> dict[str, Any]:
    path = folder / "raftlog" / "token.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [found.name for found in path.parent.iterdir()] == ["token.json"]
    return json.loads(path.read_text())


def test_a_client_logs_in_with_its_secret(tmp_path: Path, issuer: Issuer):
    done = login(issuer, tmp_path, secret=SECRET)
    assert done.returncode == 0, done.stderr
    assert f"export RAFTLOG_TOKEN_FILE={tmp_path}/raftlog/token.json" in done.stdout
    assert stored(tmp_path)["access_token"] == read_token(str(tmp_path / "raftlog" / "token.json"))

    (tmp_path / "secret").write_text(f"{SECRET}\n")
    done = login(issuer, tmp_path / "other", "--client-secret-file", str(tmp_path / "secret"), "--json")
    assert json.loads(done.stdout)["token_file"] == str(tmp_path / "other" / "raftlog" / "token.json")


def test_a_user_logs_in_on_another_device_and_renews(tmp_path: Path, issuer: Issuer):
    done = login(issuer, tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Open '{issuer.url}/activate' in a browser, and enter the code 'ABCD-EFGH'" in done.stderr
    first = stored(tmp_path)
    assert issuer.asked.count("/token") == 2

    done = login(issuer, tmp_path, "--renew")
    assert done.returncode == 0, done.stderr
    second = stored(tmp_path)
    assert second["refresh_token"] == issuer.refresh_tokens[0] != first["refresh_token"]

    issuer.refresh_tokens.clear()
    done = login(issuer, tmp_path, "--renew")
    assert done.returncode == 1
    assert "invalid_grant" in done.stderr
    assert stored(tmp_path) == second


def nonsense() -> web.Response:
    return web.Response(text="<html>")


def huge() -> web.Response:
    return web.Response(body=b'{"access_token": "' + b"x" * (10 << 20))


def without_token() -> web.Response:
    return web.json_response({"token_type": "Bearer"})


def not_a_token() -> web.Response:
    return web.json_response({"access_token": "a\nb"})


def denied() -> web.Response:
    return web.json_response({"error": "access_denied", "error_description": "\x1b[2Jno"}, status=400)


@pytest.mark.parametrize("answer", [nonsense, huge, without_token, not_a_token, denied])
def test_an_issuer_that_sends_something_else_is_one_line_and_no_file(tmp_path: Path, issuer: Issuer, answer: Any):
    issuer.answers["/token"] = answer
    done = login(issuer, tmp_path, secret=SECRET)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert "\x1b" not in done.stderr
    assert not list(tmp_path.rglob("token.json"))


def test_wrong_secrets_and_options_are_explained(tmp_path: Path, issuer: Issuer):
    assert "invalid_client" in login(issuer, tmp_path, secret="wrong").stderr
    done = login(issuer, tmp_path, "--renew")
    assert (done.returncode, "raftlog login" in done.stderr) == (1, True)
    issuer.url = "http://10.0.0.1"
    assert "--issuer: expected https://" in login(issuer, tmp_path, secret=SECRET).stderr
