"""A cluster that enforces rules from its first start on, and every command that connects to it by a profile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from raftlog import Profile, Security
from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.main import cli

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
PLANTED = "planted-Pa55word"
ROOT = Path(__file__).parents[2]
OPTIONS = {"bootstrap", "profile", "ca_file", "cert_file", "key_file", "as_user", "password_file", "token_file"}
_VARIABLES = re.compile(r"RAFTLOG_(?!LOG)")


def raftlog(*arguments: str, input: str = "", cwd: Path | None = None, **environment: str) -> tuple[int, str, str]:  # noqa: A002
    """Run a command in an environment without settings of raftlog."""
    kept = {name: value for name, value in os.environ.items() if not _VARIABLES.match(name)}
    done = subprocess.run(
        [sys.executable, "-m", "raftlog", *arguments],
        env={**kept, "HOME": "/nonexistent", **environment},
        input=input, capture_output=True, text=True, check=False, timeout=90, cwd=cwd,
    )  # fmt: skip
    assert PLANTED not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def ok(*arguments: str, **more: str) -> str:
    code, out, err = raftlog(*arguments, **more)
    assert code == 0, err
    return out


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Started for the first time with what `raftlog security init --admin` writes; nothing was done without rules."""
    files = tmp_path_factory.mktemp("files") / "certificates"
    few = {"offsets_topic_num_partitions": 2}
    folder = tmp_path_factory.mktemp("cluster") / "data"
    cluster = LocalCluster(folder, controllers=1, brokers=2, port=0, extra={"*": {"broker": few}})
    nodes = [f"--node={name}=127.0.0.1" for name in cluster.names]
    ok("security", "init", "--dir", str(files), "--admin=root", "--cluster-id", cluster.cluster_id, *nodes)
    for name in cluster.names:
        part = tomllib.loads((files / name / "node-security.toml").read_text())
        for table, keys in (("tls", ("cert_file", "key_file", "ca_file")), ("security", ("cluster_key_file",))):
            part[table] |= {key: str(files / name / part[table][key]) for key in keys}
        cluster.configure(name, **part)
    with cluster:
        yield cluster


@pytest.fixture(scope="module")
def config(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Profiles of the administrator (by certificate), and of a user that the administrator made (by password)."""
    made = _certificates(cluster) / "client.toml"
    root = Profile.load("root", config=made)
    assert root.bootstrap == ("https://127.0.0.1:9400",)
    folder = tmp_path_factory.mktemp("config")
    password = folder / "password"
    password.touch(0o600)
    password.write_text(f"{PLANTED}\n")
    path = folder / "config.toml"
    path.write_text(
        f"""
default_profile = "app"
[profiles.root]
bootstrap = "{cluster.bootstrap}"
ca_file = "{root.ca_file}"
cert_file = "{root.cert_file}"
key_file = "{root.key_file}"
[profiles.app]
bootstrap = "{cluster.bootstrap}"
ca_file = "{root.ca_file}"
user = "app"
password_file = "password"
[profiles.by_command]
bootstrap = "{cluster.bootstrap}"
ca_file = "{root.ca_file}"
user = "app"
password_command = "cat {password}"
"""
    )
    as_root = ("--config", str(path), "--profile", "root")
    ok(*as_root, "users", "put", "app", input=f"{PLANTED}\n")
    for kind, name, operations in (("topic", "notes", "read write create"), ("group", "app", "read")):
        for operation in operations.split():
            resource = ("--resource-type", kind, "--resource-name", name, "--pattern", "prefixed")
            ok(*as_root, "acls", "create", "--principal=User:app", f"--operation={operation}", *resource)
    return path


def _certificates(cluster: LocalCluster) -> Path:
    return Path(tomllib.loads(cluster.node("broker-1").config_path.read_text())["tls"]["ca_file"]).parents[1]


def test_the_first_administrator_needs_no_cluster_without_rules(cluster: LocalCluster, config: Path):
    code, _, error = raftlog("--config", str(config), "users", "list")
    assert (code, "AUTHORIZATION_FAILED" in error) == (1, True)
    assert "app" in ok("--config", str(config), "--profile", "root", "users", "list")

    part = tomllib.loads((_certificates(cluster) / "broker-1" / "node-security.toml").read_text())
    assert part["security"]["authorizer"] == "acl"
    assert part["security"]["super_users"] == ["User:root"]


def test_a_node_that_is_added_later_enforces_rules_too(cluster: LocalCluster, config: Path):
    assert config.exists()
    folder = _certificates(cluster)
    issue = ("security", "issue", "--dir", str(folder), "--cluster-id", cluster.cluster_id)
    ok(*issue, "--node=broker-9=10.0.0.9")

    part = tomllib.loads((folder / "broker-9" / "node-security.toml").read_text())
    assert part["security"] == {
        "cluster_key_file": "cluster.key", "authorizer": "acl", "super_users": ["User:root"],
    }  # fmt: skip


def test_commands_that_read_and_write_use_the_profile(cluster: LocalCluster, config: Path, tmp_path: Path):
    assert cluster.running()
    with_config = {"RAFTLOG_CONFIG": str(config)}
    ok("topics", "create", "notes", "--partitions=1", "--config", "retention_ms=86400000", **with_config)
    ok("produce", "notes", input="hello\n", **with_config)
    for profile in ("app", "by_command"):
        read = ok("consume", "notes", "--from-beginning", "--max-records=1", "--profile", profile, **with_config)
        assert read == "hello\n"
    read = ok("consume", "notes", "--group=app", "--from-beginning", "--max-records=1", **with_config)
    assert read == "hello\n"
    ok("export", "notes", "--to", str(tmp_path / "out"), "--format", "ndjson", **with_config)
    ok("topics", "create", "notes_copied", "--partitions=1", **with_config)
    ok("import", "--topic=notes_copied", *map(str, (tmp_path / "out").rglob("*.ndjson")), **with_config)
    ok("perf", "produce", "--topic=notes_copied", "--records=100", **with_config)
    ok("perf", "latency", "--topic=notes_copied", "--records=20", **with_config)
    ok("perf", "consume", "--topic=notes_copied", "--records=10", "--warmup=0", **with_config)
    ok("topics", "create", "notes_numbered", "--partitions=1", **with_config)
    ok("verify", "produce", "--topic=notes_numbered", "--records=10", **with_config)
    ok("verify", "consume", "--topic=notes_numbered", "--records=10", **with_config)
    assert "app" in ok("groups", "list", **with_config)


def test_options_replace_variables_and_these_the_profile(cluster: LocalCluster, config: Path, tmp_path: Path):
    wrong = tmp_path / "wrong"
    wrong.write_text("wrong")
    wrong.chmod(0o600)
    code, _, error = raftlog("topics", "list", "--password-file", str(wrong), RAFTLOG_CONFIG=str(config))
    assert (code, "AUTHENTICATION_FAILED" in error) == (1, True)
    root = Profile.load("root", config=config)
    options = ("--ca-file", root.ca_file, "--cert-file", root.cert_file, "--key-file", root.key_file)
    assert "app" in ok("users", "list", "--bootstrap", cluster.bootstrap, *options)
    code, _, error = raftlog(
        "topics", "list", "--bootstrap", "http://127.0.0.1:1", RAFTLOG_CONFIG=str(config), RAFTLOG_BOOTSTRAP="http://x"
    )
    assert (code, "no broker listens at http://127.0.0.1:1" in error) == (1, True)
    code, _, error = raftlog("topics", "list", "--user=other", RAFTLOG_CONFIG=str(config))
    assert (code, "user 'other' has no password here: give --password-file" in error) == (1, True)


def test_a_user_without_a_password_is_asked_on_a_terminal(cluster: LocalCluster, config: Path):
    root = Profile.load("root", config=config)
    command = [sys.executable, "-m", "raftlog", "topics", "list", "--user=app", "--bootstrap", cluster.bootstrap]
    terminal = [sys.executable, "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"]
    with subprocess.Popen(
        [*terminal, *command, "--ca-file", root.ca_file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        shown = b""
        while b"Password of app: " not in shown and (more := os.read(process.stdout.fileno(), 1024)):
            shown += more
        process.stdin.write(f"{PLANTED}\n".encode())
        process.stdin.flush()
        shown += process.stdout.read()
        process.stdin.close()

    assert process.returncode == 0, shown
    assert PLANTED.encode() not in shown


def test_the_settings_in_use_are_shown_without_secrets(config: Path):
    shown = json.loads(
        ok("config", "show", "--json", "--user=bob", RAFTLOG_CONFIG=str(config), RAFTLOG_PASSWORD="other-secret")
    )
    assert (shown["file"], shown["profile"]) == (str(config), "app")
    assert shown["settings"]["user"] == {"value": "bob", "from": "option"}
    assert shown["settings"]["password"] == {"value": "(not shown)", "from": "environment"}
    assert shown["settings"]["ca_file"]["from"] == "profile app"
    table = ok("config", "show", "--config", str(config), "--profile=by_command")
    assert re.search(r"^password_command +cat \.\.\. +profile by_command$", table, re.MULTILINE)


def test_errors_of_the_file_are_one_line(tmp_path: Path):
    path = tmp_path / "config.toml"
    path.write_text("[profiles.a]\nusr = 'x'\n")
    code, out, error = raftlog("topics", "list", "--config", str(path))
    assert (code, out) == (1, "")
    assert error == f"Error: {path}:2: profile 'a': unknown setting 'usr' (did you mean user?)\n"

    path.write_text("[profiles.a]\n")
    code, _, error = raftlog("--config", str(path), "--profile", "b", "topics", "list", "--json")
    assert (code, json.loads(error)["error"]["message"]) == (1, f"{path}: no profile 'b'; it has a")
    code, _, error = raftlog("topics", "list", "--profile", "b", HOME=str(tmp_path))
    missing = f"{tmp_path}/.config/raftlog/config.toml"
    why = "No such file or directory; create it, or name another by --config or RAFTLOG_CONFIG"
    assert error == f"Error: cannot read {missing}: {why}\n"
    code, _, error = raftlog("topics", "create", "x", "--config", str(path))
    assert "a file with profiles comes first: raftlog --config FILE COMMAND" in " ".join(error.split())


def test_the_users_own_file_is_used_and_completed(cluster: LocalCluster, config: Path, tmp_path: Path):
    assert cluster.running()
    own = tmp_path / ".config" / "raftlog"
    own.mkdir(parents=True)
    (own / "config.toml").write_text(config.read_text().replace('"password"', f'"{config.parent / "password"}"'))
    home = {"HOME": str(tmp_path)}
    ok("topics", "create", "notes_of_home", **home)

    def completed(words: str) -> list[str]:
        count = len(words.split(" ")) - 1
        out = ok(_RAFTLOG_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(count), **home)
        return [line.split(",")[1] for line in out.splitlines() if line]

    assert completed("raftlog --profile ") == ["root", "app", "by_command"]
    assert completed("raftlog topics list --profile r") == ["root"]
    assert completed("raftlog topics list --pass") == ["--password-file"]
    assert "notes_of_home" in completed("raftlog topics describe notes_of")
    assert completed("raftlog --profile by_command topics describe notes_of") == []


def test_a_program_shares_the_profile(cluster: LocalCluster, config: Path):
    assert cluster.running()
    profile = Profile.load("root", config=config)
    with Admin(profile.bootstrap, security=profile.security()) as admin:
        assert "app" in {user.user for user in admin.users()}


def test_a_security_with_a_missing_password_file_is_refused_when_a_client_is_made(tmp_path: Path):
    from raftlog import ConfigError  # noqa: PLC0415

    security = Security(username="ann", password_file=str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"password_file: cannot read .*missing: No such file"):
        Admin("https://127.0.0.1:1", security=security)


def _connecting(group: click.Group, context: click.Context, path: str = "raftlog") -> Iterator[tuple[str, set[str]]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _connecting(command, context, f"{path} {name}")
        elif "bootstrap" in (names := {str(option.name) for option in command.params}):
            yield f"{path} {name}", names


def test_every_command_that_connects_has_the_options():
    found = dict(_connecting(cli, click.Context(cli)))

    assert len(found) > 30
    assert {name for name, options in found.items() if not options >= OPTIONS} == {"raftlog quotas alter"}
    assert {name for name, options in found.items() if "config_file" not in options} == {
        "raftlog topics create", "raftlog topics alter", "raftlog configs alter", "raftlog quotas alter",
        "raftlog doctor",
    }  # fmt: skip


def test_every_client_of_the_command_line_gets_the_credentials():
    without = [
        f"{path.name}: {call}"
        for path in (ROOT / "raftlog" / "cli").glob("*.py")
        for call in re.findall(r"\b(?:Producer|Consumer|Admin|SpanReader)\((?!\)).*?\n?\)", path.read_text(), re.DOTALL)
        if "bootstrap" in call and "security=" not in call
    ]

    assert without == []
