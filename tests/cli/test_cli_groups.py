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

    def run(*arguments: str, code: int = 0) -> Result:
        done = CliRunner(env={"RAFTLOG_BOOTSTRAP": shared_cluster.bootstrap}).invoke(cli, arguments)
        assert done.exit_code == code, f"{arguments}: {done.exit_code}\n{done.output}\n{done.exception!r}"
        return done

    return run


def produce(cluster: LocalCluster, topic: str, *values: bytes) -> None:
    with Producer(cluster.bootstrap) as producer:
        producer.send_many(topic, list(values))


def test_a_group_is_consumed_described_reset_and_deleted(raftlog, shared_cluster: LocalCluster, topic_name: str):
    group = topic_name.replace("topic", "group")
    raftlog("topics", "create", topic_name, "--partitions", "1")
    produce(shared_cluster, topic_name, b"a", b"b", b"c", b"d")
    consume = ("consume", topic_name, "--group", group)
    assert raftlog(*consume, "--from-beginning", "--max-records", "3").stdout == "a\nb\nc\n"
    assert raftlog(*consume, "--max-records", "1").stdout == "d\n"
    assert "not with --offset" in raftlog(*consume, "--offset", "1", code=2).stderr

    assert group in raftlog("groups", "list").stdout
    (listed,) = [g for g in json.loads(raftlog("groups", "list", "--json").stdout) if g["group_id"] == group]
    assert (listed["phase"], listed["members"]) == ("Empty", 0)
    produce(shared_cluster, topic_name, b"e", b"f")
    described = json.loads(raftlog("groups", "describe", group, "--json").stdout)
    assert described["offsets"] == [
        {"topic": topic_name, "partition": 0, "offset": 4, "lag": 2, "member_id": None},
    ]
    assert f"{topic_name}-0" in raftlog("groups", "describe", group).stdout

    dry = raftlog("groups", "reset-offsets", group, "--to-earliest", "--dry-run")
    assert "dry run: nothing was changed" in dry.stderr
    for options, offset in (
        (("--shift-by", "-1"), 3),
        (("--shift-by", "-100"), 0),
        (("--to-latest",), 6),
        (("--to-offset", "5"), 5),
        (("--to-time", "1d"), 0),
        (("--topic", topic_name, "--to-earliest"), 0),
        ((f"{topic_name}-0", "--to-offset", "2"), 2),
    ):
        (reset,) = json.loads(raftlog("groups", "reset-offsets", group, *options, "--json").stdout)
        assert reset["offset"] == offset, options
    assert "give one of" in raftlog("groups", "reset-offsets", group, code=2).stderr
    assert raftlog(*consume, "--max-records", "2").stdout == "c\nd\n"

    with Consumer(shared_cluster.bootstrap, topic_name, group_id=group) as member:
        values = [record.value for record in member.fetch(max_wait_ms=10_000)]
        assert values == [b"e", b"f"]
        member.commit()
        assert [found.offset for found in member.committed().values() if found] == [6]
        assert member.lag(topic_name, 0) == 0
        member.pause()
        member.resume()
        assert "1 member" in raftlog("groups", "describe", group).stdout
        assert "NON_EMPTY_GROUP" in raftlog("groups", "reset-offsets", group, "--to-earliest", code=1).stderr
        assert "NON_EMPTY_GROUP" in raftlog("groups", "delete", group, code=1).stderr
    with Admin(shared_cluster.bootstrap) as admin:
        assert admin.describe_group(group).phase == "Empty"
        assert list(admin.group_offsets(group).values()) == [6]
        assert list(admin.reset_group_offsets(group, to="earliest").values()) == [0]
        assert group in [listed.group_id for listed in admin.list_groups()]
    assert raftlog("groups", "delete", group).stdout == f"deleted {group}\n"
    assert "GROUP_ID_NOT_FOUND" in raftlog("groups", "describe", group, code=1).stderr
