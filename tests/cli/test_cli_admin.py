"""The administrator's commands against a real cluster."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.main import cli

pytestmark = pytest.mark.cluster


@pytest.fixture
def raftlog(shared_cluster: LocalCluster):
    """Return a function that runs the command with some input in this process, and returns what it did."""

    def run(*arguments: str, stdin: str = "", code: int = 0) -> Result:
        runner = CliRunner(env={"RAFTLOG_BOOTSTRAP": shared_cluster.bootstrap})
        done = runner.invoke(cli, arguments, input=stdin)
        assert done.exit_code == code, f"{arguments}: {done.exit_code}\n{done.output}\n{done.exception!r}"
        return done

    return run


def test_the_quorum_is_described_and_its_voters_stay(raftlog):
    described = raftlog("quorum", "describe").stdout.splitlines()
    assert described[0].startswith("leader ")
    assert [line.split()[0] for line in described[1:]] == ["voter", "101", "102", "103"]
    document = json.loads(raftlog("quorum", "describe", "--json").stdout)
    assert sum(voter["role"] == "leader" for voter in document["voters"]) == 1
    assert {"log_end_offset", "lag", "last_heard_ms"} <= document["voters"][0].keys()
    for command in ("add-voter", "remove-voter"):
        refused = raftlog("quorum", command, "104", code=1).stderr
        assert "docs/adr/0007" in refused
        assert "nothing was changed" in refused


def test_a_topic_is_altered(raftlog, topic_name: str):
    raftlog("topics", "create", topic_name)
    altered = raftlog("topics", "alter", topic_name, "--config", "retention_ms=9000", "--partitions", "2").stdout
    assert altered == f"{topic_name}: 2 partitions; settings: flush=batch, min_insync_replicas=2, retention_ms=9000\n"
    document = json.loads(raftlog("topics", "alter", topic_name, "--unset", "retention_ms", "--json").stdout)
    assert document["configs"] == {"flush": "batch", "min_insync_replicas": 2}
    assert "nothing to change" in raftlog("topics", "alter", topic_name, code=2).stderr
    assert "INVALID_CONFIG: nope" in raftlog("topics", "alter", topic_name, "--config", "nope=1", code=1).stderr


def test_replicas_move(raftlog, topic_name: str, tmp_path: Path):
    created = json.loads(raftlog("topics", "create", topic_name, "--replication-factor", "1", "--json").stdout)
    (home,) = created["partitions"][0]["replicas"]
    away = home % 3 + 1
    begun = raftlog("topics", "reassign", f"{topic_name}-0", "--to", str(away), "--throttle", "5000000").stdout
    assert not begun or "records left" in begun  # It may have moved already.
    assert "reassignment_throttle_bytes_per_second  5000000" in raftlog("configs", "describe").stdout
    raftlog("topics", "reassign", "--throttle", "-1")
    assert raftlog("configs", "describe").stdout == ""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": topic_name, "partition": 0, "replicas": [home]}]}))
    raftlog("topics", "reassign", "--plan", str(plan), "--json")
    deadline = time.monotonic() + 20
    while topic_name in raftlog("topics", "reassign").stdout:
        assert time.monotonic() < deadline
    refused = raftlog("topics", "reassign", f"{topic_name}-0", "--cancel", code=1).stderr
    assert "NO_REASSIGNMENT_IN_PROGRESS" in refused
    described = json.loads(raftlog("topics", "describe", topic_name, "--json").stdout)
    assert described["partitions"][0]["replicas"] == [home]
    plan.write_text('{"partitions": [{"topic": 3}]}')
    assert "partitions[0].topic" in raftlog("topics", "reassign", "--plan", str(plan), code=2).stderr
    assert "expected broker ids" in raftlog("topics", "reassign", f"{topic_name}-0", "--to", "x", code=2).stderr
    assert "give partitions with" in raftlog("topics", "reassign", f"{topic_name}-0", code=2).stderr


def test_leaders_are_elected(raftlog, topic_name: str):
    raftlog("topics", "create", topic_name)
    assert raftlog("topics", "elect-leaders", f"{topic_name}-0", "--json").stdout.startswith("[")
    asked = raftlog("topics", "elect-leaders", f"{topic_name}-0", "--unclean", stdin="n\n", code=1)
    assert "will be lost" in asked.stderr


def test_users_rules_quotas_and_settings(raftlog, topic_name: str):
    assert raftlog("users", "put", "eve", stdin="long enough\n").stdout == "eve: stored\n"
    assert "SCRAM-SHA-256, SCRAM-SHA-512" in raftlog("users", "list").stdout
    assert "without passwords" in raftlog("users", "list").stderr
    assert "at least 8 characters, received 5" in raftlog("users", "put", "eve", stdin="short\n", code=1).stderr
    assert json.loads(raftlog("users", "put", "eve", "--json", stdin="long enough\n").stdout) == {"stored": "eve"}
    assert raftlog("users", "delete", "eve").stdout == "eve: deleted\n"

    rule = ["--principal", "eve", "--operation", "read", "--resource-type", "topic", "--resource-name", topic_name]
    assert (
        raftlog("acls", "create", *rule).stdout
        == 'created; brokers do not enforce access rules: security.authorizer is "off"\n'
    )
    assert topic_name in raftlog("acls", "list", "--principal", "User:eve").stdout
    assert "do not enforce" in raftlog("acls", "list").stderr
    assert raftlog("acls", "delete", *rule).stdout.endswith("1 rule ended\n")
    assert "expected fields of the rules to delete" in raftlog("acls", "delete", code=2).stderr

    raftlog("quotas", "alter", "--user", "eve", "--config", "request_rate=10")
    listed = raftlog("quotas", "list")
    assert "request_rate=10" in listed.stdout
    assert "brokers enforce quotas; every client is the user ANONYMOUS" in listed.stderr
    raftlog("quotas", "alter", "--user", "eve", "--unset", "request_rate")
    assert "eve" not in raftlog("quotas", "list").stdout

    changed = raftlog("configs", "alter", "--broker", "3", "--config", "retention_bytes=1000000000")
    assert changed.stdout.split() == ["setting", "value", "retention_bytes", "1000000000"]
    assert "no dynamic settings" in raftlog("configs", "alter", "--broker", "3", "--unset", "retention_bytes").stderr


def test_a_broker_that_serves_is_not_forgotten(raftlog):
    raftlog("cluster", "unregister-broker", "3", code=1)
    assert len(json.loads(raftlog("cluster", "describe", "--json").stdout)["brokers"]) == 3
