"""`raftlog security`, and a cluster that `raftlog dev up --secure` starts."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from raftlog import Profile
from raftlog.cli.certificates import CertificateAuthority, Subject
from raftlog.errors import ConfigError
from raftlog.tls import TlsFiles, client_context, server_context

NODES = ("--node", "broker-1=127.0.0.1,localhost", "--node", "controller-101=127.0.0.1")


def raftlog(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "raftlog", *arguments]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=90
    )


def test_init_makes_files_that_fit_and_that_only_their_owner_reads(tmp_path: Path):
    folder = tmp_path / "certificates"
    done = raftlog("security", "init", "--dir", str(folder), *NODES, "--user", "admin", "--cluster-id", "c1")
    assert done.returncode == 0, done.stderr

    for name in ("broker-1/node", "controller-101/node", "users/admin"):
        files = TlsFiles(
            cert_file=str(folder / f"{name}.pem"), key_file=str(folder / f"{name}.key"), ca_file=str(folder / "ca.pem")
        )
        server_context(files, client_auth="required")
        client_context(files)
    secret = [*folder.rglob("*.key")]
    assert len(secret) == 7
    assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
    again = raftlog("security", "init", "--dir", str(folder), *NODES, "--cluster-id", "c1")
    assert (again.returncode, "has a CA already" in again.stderr) == (1, True)

    before = (folder / "broker-1" / "node.pem").read_bytes()
    assert raftlog("security", "issue", "--dir", str(folder), *NODES, "--cluster-id", "c1").returncode == 0
    assert (folder / "broker-1" / "node.pem").read_bytes() != before


def test_init_replaces_nothing_and_makes_nothing_if_a_host_is_wrong(tmp_path: Path):
    (tmp_path / "cluster.key").write_text("the key that nodes have already")
    arguments = ("init", "--dir", str(tmp_path), "--cluster-id", "c1", "--node", "broker-1=h")
    refused = raftlog("security", *arguments)
    assert (refused.returncode, "cluster.key exists already" in " ".join(refused.stderr.split())) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.key"]

    (tmp_path / "cluster.key").unlink()
    assert raftlog("security", *arguments, "--node", "broker-2=a b").returncode != 0
    assert list(tmp_path.iterdir()) == []
    assert raftlog("security", *arguments, "--node", "broker-2=b").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("init",), "name the nodes"),
        (("init", "--node", "broker-x=h"), "expected NAME=HOST"),
        (("init", "--node", "broker-1=a b"), "expected a host name or an IP address"),
        (("issue", "--user", "a/b"), "expected letters, digits"),
        (("issue", "--admin", "a"), 'add "User:a" to security.super_users'),
        (("issue",), "name what to make certificates for"),
        (("issue", "--user", "a"), "cannot be used"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, arguments: tuple[str, ...], message: str):
    done = raftlog("security", *arguments, "--dir", str(tmp_path), "--cluster-id", "c1")
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())


@pytest.mark.parametrize("damage", [lambda key: key.unlink(), lambda key: key.write_text("no key")])
def test_a_damaged_ca_is_reported(tmp_path: Path, damage: Callable[[Path], None]):
    authority = CertificateAuthority(tmp_path)
    authority.create("test")
    damage(authority.key_path)
    with pytest.raises(ConfigError, match="cannot be used"):
        authority.issue(Subject(name="node", hosts=["h"]), tmp_path)


def test_a_secure_cluster_prints_what_clients_need(tmp_path: Path, free_ports: Callable[[int], list[int]]):
    assert free_ports(1)
    data = tmp_path / "data"
    up = raftlog("dev", "up", "--secure", "--detach", "--data", str(data), "--port", "0", "--controllers", "1")
    try:
        assert up.returncode == 0, up.stderr
        lines = [line.strip() for line in up.stdout.splitlines()]
        variables = dict(line.removeprefix("export ").split("=", 1) for line in lines if line.startswith("export "))
        profile = Profile.load(config=variables["RAFTLOG_CONFIG"])
        assert profile.bootstrap[0].startswith("https://")
        assert profile.security().cert_file.endswith("admin.pem")
        assert raftlog("topics", "create", "greetings", **variables).returncode == 0
        assert "greetings" in raftlog("topics", "list", **variables).stdout
        for line in lines:
            if line.startswith(("curl ", "python -c ")):
                shown = subprocess.run(
                    line.replace("python", sys.executable), shell=True, capture_output=True, text=True, check=False
                )
                assert (shown.returncode, "greetings" in shown.stdout) == (0, True), f"{line}\n{shown.stderr}"
        assert any(line.startswith("Spark: ") for line in lines)
        without = {"RAFTLOG_BOOTSTRAP": profile.bootstrap[0], "RAFTLOG_CA_FILE": profile.ca_file}
        unknown = raftlog("topics", "list", **without)
        assert unknown.returncode == 1
        assert "AUTHENTICATION_FAILED: the request needs credentials" in unknown.stderr
        wrong = raftlog("topics", "list", **without, RAFTLOG_USERNAME="admin", RAFTLOG_PASSWORD="wrong")
        assert wrong.returncode == 1
        assert "AUTHENTICATION_FAILED: the password" in wrong.stderr
        before = {path: path.read_bytes() for path in data.rglob("*") if path.suffix in (".toml", ".json", ".pem")}
        again = raftlog("dev", "up", "--secure", "--detach", "--data", str(data))
        assert (again.returncode, "is running already" in " ".join(again.stderr.split())) == (1, True)
        assert {path: path.read_bytes() for path in before} == before
    finally:
        assert raftlog("dev", "down", "--data", str(data)).returncode == 0
