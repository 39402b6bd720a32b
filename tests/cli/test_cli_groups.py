"""`raftlog groups` and `raftlog consume --group` against a real cluster."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from raftlog.blocking import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.main import cli

pytestmark = pytest.mark.cluster


@pytest.fixture
def raftlog(shared_cluster: LocalCluster):
    """Return a function that runs the command in this process, and returns what it did."""

    def run(*arguments: str, code: int = 0, input: str | None = None) -> Result:  # noqa: A002  (click's own name)
        done = CliRunner(env={"RAFTLOG_BOOTSTRAP": shared_cluster.bootstrap}).invoke(cli, arguments, input=input)
        assert done.exit_code == code, f"{arguments}: {done.exit_code}\n{done.output}\n{done.exception!r}"
        return done

    return run


def test_a_topic_is_validated_looked_at_and_measured(raftlog, shared_cluster: LocalCluster, topic_name: str):
    create = ("topics", "create", topic_name, "--partitions", "2", "--replication-factor", "2", "--validate-only")
    planned = json.loads(raftlog(*create, "--json").stdout)
    assert (planned["topic_id"], [len(p["replicas"]) for p in planned["partitions"]]) == ("", [2, 2])
    assert "nothing was created" in raftlog(*create).stderr
    assert "INVALID_CONFIG" in raftlog(*create, "--config", "retention_ms=x", code=1).stderr
    assert "UNKNOWN_TOPIC" in raftlog("topics", "describe", topic_name, code=1).stderr

    created = json.loads(raftlog(*create[:-1], "--json").stdout)
    produce(shared_cluster, topic_name, *([b"x" * 1_000] * 10))
    raftlog("topics", "alter", topic_name, "--partitions", "3")

    found = json.loads(raftlog("topics", "offsets", topic_name, "--json").stdout)
    assert [each["partition"] for each in found] == [0, 1, 2]
    assert sum(each["offset"] for each in found) == 10
    for at, ends in (("earliest", {0}), ("1d", {0}), ("latest", {each["offset"] for each in found})):
        assert {
            each["offset"] for each in json.loads(raftlog("topics", "offsets", topic_name, "--at", at, "--json").stdout)
        } == ends
    assert len(raftlog("topics", "offsets", topic_name, "--partition", "1").stdout.splitlines()) == 2
    assert "received 9" in raftlog("topics", "offsets", topic_name, "--partition", "9", code=1).stderr
    assert "expected ISO 8601" in raftlog("topics", "offsets", topic_name, "--at", "noon", code=2).stderr

    dirs = json.loads(raftlog("cluster", "log-dirs", "--topic", topic_name, "--json").stdout)
    assert [broker["broker_id"] for broker in dirs] == [1, 2, 3]
    (folder,) = dirs[0]["log_dirs"]
    assert 0 < folder["usable_bytes"] < folder["total_bytes"]
    stored = [replica for broker in dirs for folder in broker["log_dirs"] for replica in folder["replicas"]]
    assert len(stored) == 6
    assert sum(replica["size_bytes"] for replica in stored) > 2 * 10 * 1_000
    assert sum(replica["leader"] for replica in stored) == 3
    leaders = {(p["partition"], p["leader"]) for p in created["partitions"]}
    assert leaders <= {
        (r["partition"], b["broker_id"]) for b in dirs for r in b["log_dirs"][0]["replicas"] if r["leader"]
    }
    assert (
        f"{topic_name}  0"
        in raftlog("cluster", "log-dirs", "--topic", topic_name, "--broker", str(min(leaders)[1])).stdout
    )
    assert "there is no broker 9" in raftlog("cluster", "log-dirs", "--broker", "9", code=1).stderr

    changed = raftlog("configs", "alter", "--topic", topic_name, "--config", "retention_ms=9000", "--json").stdout
    assert json.loads(changed)["retention_ms"] == 9_000
    assert "retention_ms  " in raftlog("configs", "describe", "--topic", topic_name).stdout
    assert "exclude each other" in raftlog("configs", "describe", "--topic", "t", "--broker", "1", code=2).stderr


def produce(cluster: LocalCluster, topic: str, *values: bytes) -> None:
    with Producer(cluster.bootstrap) as producer:
        producer.send_many(topic, list(values))


def read_by_a_group(raftlog, cluster: LocalCluster, topic: str) -> str:
    """Have a group read four of six records; return its id."""
    group = topic.replace("topic", "group")
    raftlog("topics", "create", topic, "--partitions", "1")
    produce(cluster, topic, b"a", b"b", b"c", b"d", b"e", b"f")
    read = raftlog("consume", topic, "--group", group, "--from-beginning", "--max-records", "4")
    assert read.stdout == "a\nb\nc\nd\n"
    return group


def test_a_group_goes_on_where_it_was(raftlog, shared_cluster: LocalCluster, topic_name: str):
    group = topic_name.replace("topic", "group")
    raftlog("topics", "create", topic_name, "--partitions", "1")
    produce(shared_cluster, topic_name, b"a", b"b", b"c", b"d")
    consume = ("consume", topic_name, "--group", group)
    assert raftlog(*consume, "--from-beginning", "--max-records", "3").stdout == "a\nb\nc\n"
    assert raftlog(*consume, "--max-records", "1").stdout == "d\n"
    assert "not with --offset" in raftlog(*consume, "--offset", "1", code=2).stderr


def test_a_group_is_listed_and_described(raftlog, shared_cluster: LocalCluster, topic_name: str):
    group = read_by_a_group(raftlog, shared_cluster, topic_name)
    assert group in raftlog("groups", "list").stdout
    (listed,) = [g for g in json.loads(raftlog("groups", "list", "--json").stdout) if g["group_id"] == group]
    assert (listed["phase"], listed["members"]) == ("Empty", 0)
    described = json.loads(raftlog("groups", "describe", group, "--json").stdout)
    assert described["offsets"] == [
        {"topic": topic_name, "partition": 0, "offset": 4, "lag": 2, "member_id": None},
    ]
    assert f"{topic_name}-0" in raftlog("groups", "describe", group).stdout


def test_offsets_are_reset_by_each_option(raftlog, shared_cluster: LocalCluster, topic_name: str):
    group = read_by_a_group(raftlog, shared_cluster, topic_name)
    dry = raftlog("groups", "reset-offsets", group, "--to-earliest", "--dry-run")
    assert "dry run: nothing was changed" in dry.stderr
    for options, offset in (
        (("--shift-by", "-1"), 3),
        (("--shift-by", "-100"), 0),
        (("--to-latest",), 6),
        (("--to-offset", "5"), 5),
        (("--to-offset", "5000000"), 6),
        (("--to-time", "1d"), 0),
        (("--topic", topic_name, "--to-earliest"), 0),
        ((f"{topic_name}-0", "--to-offset", "2"), 2),
    ):
        (reset,) = json.loads(raftlog("groups", "reset-offsets", group, *options, "--yes", "--json").stdout)
        assert reset["offset"] == offset, options
    assert raftlog("consume", topic_name, "--group", group, "--max-records", "2").stdout == "c\nd\n"


def test_contradictory_options_of_a_reset_are_refused(raftlog, shared_cluster: LocalCluster, topic_name: str):
    group = read_by_a_group(raftlog, shared_cluster, topic_name)
    assert "give exactly one of" in raftlog("groups", "reset-offsets", group, code=2).stderr
    for contradictory in (
        ("--to-earliest", "--to-latest"),
        ("--to-offset", "1", "--shift-by", "1"),
        ("--to-earliest", "--yes", "--dry-run"),
        ("--to-earliest", "--json"),
        ("--shift-by", "1", "--create"),
    ):
        raftlog("groups", "reset-offsets", group, *contradictory, code=2)


def test_a_group_is_reset_and_deleted_once_its_members_have_left(
    raftlog, shared_cluster: LocalCluster, topic_name: str
):
    group = read_by_a_group(raftlog, shared_cluster, topic_name)
    with Consumer(shared_cluster.bootstrap, topic_name, group_id=group) as member:
        values = [record.value for record in member.fetch(max_wait_ms=10_000)]
        assert values == [b"e", b"f"]
        member.commit()
        assert [found.offset for found in member.committed().values() if found] == [6]
        assert member.lag(topic_name, 0) == 0
        member.pause()
        member.resume()
        assert "1 member" in raftlog("groups", "describe", group).stdout
        assert "NON_EMPTY_GROUP" in raftlog("groups", "reset-offsets", group, "--to-earliest", "--yes", code=1).stderr
        assert "NON_EMPTY_GROUP" in raftlog("groups", "delete", group, code=1).stderr
    with Admin(shared_cluster.bootstrap) as admin:
        assert admin.describe_group(group).phase == "Empty"
        assert list(admin.group_offsets(group).values()) == [6]
        assert list(admin.reset_group_offsets(group, to="earliest").values()) == [0]
        assert group in [listed.group_id for listed in admin.list_groups()]
    assert raftlog("groups", "delete", group).stdout == f"deleted {group}\n"
    assert "GROUP_ID_NOT_FOUND" in raftlog("groups", "describe", group, code=1).stderr


def test_resetting_offsets_shows_a_plan_and_asks(raftlog, shared_cluster: LocalCluster, topic_name: str):
    group = topic_name.replace("topic", "asked")
    raftlog("topics", "create", topic_name, "--partitions", "1")
    produce(shared_cluster, topic_name, b"a", b"b", b"c")
    reset = ("groups", "reset-offsets", group, f"{topic_name}-0", "--to-latest")
    unknown = raftlog(*reset, code=1)
    assert "GROUP_ID_NOT_FOUND" in unknown.stderr
    assert "--create" in unknown.stderr
    raftlog(*reset, "--create", "--yes")

    def offset() -> int:
        with Admin(shared_cluster.bootstrap) as admin:
            (found,) = admin.group_offsets(group).values()
            return found

    earlier = ("groups", "reset-offsets", group, "--to-earliest")
    no = raftlog(*earlier, code=1, input="n\n")
    assert no.stdout.split() == ["partition", "offset", "new", "offset", f"{topic_name}-0", "3", "0"]
    assert f"Change the offsets of {group}?" in no.stderr
    assert offset() == 3
    raftlog(*earlier, code=1, input="")  # Nobody answers: nothing is changed.
    assert offset() == 3
    raftlog(*earlier, input="y\n")
    assert offset() == 0
