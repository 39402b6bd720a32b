"""`raftlog storage scrub`: unread damage is found now, and repaired before the command exits."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftlog.blocking import Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.main import cli

pytestmark = pytest.mark.cluster


@pytest.fixture
def raftlog(shared_cluster: LocalCluster):
    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner(env={"RAFTLOG_BOOTSTRAP": shared_cluster.bootstrap}).invoke(cli, arguments)
        assert result.exit_code == code, result.output
        return result

    return run


def produce(cluster: LocalCluster, topic: str, value: bytes) -> None:
    with Producer(cluster.bootstrap) as producer:
        producer.send(topic, value)


def segment(cluster: LocalCluster, broker: int, topic: str) -> Path:
    (found,) = (cluster.data / f"broker-{broker}").glob(f"data/partitions/{topic}-0-*/*.log")
    return found


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    with path.open("r+b") as file:
        file.write(content)


def test_rot_on_all_brokers_is_found_and_mended(raftlog, shared_cluster: LocalCluster, topic_name: str):
    raftlog("topics", "create", topic_name, "--partitions", "1", "--replication-factor", "3")
    for number in range(6):
        produce(shared_cluster, topic_name, b"%d" % number * 1_000)
    whole = segment(shared_cluster, 1, topic_name).read_bytes()
    for broker in (1, 2, 3):
        flip(segment(shared_cluster, broker, topic_name), len(whole) // 3 * (broker - 1) + 100)

    scrubbed = raftlog("storage", "scrub", "--topic", topic_name, "--broker", "1", "--broker", "2")
    assert scrubbed.stderr + scrubbed.stdout == "nothing is damaged; 2 damages found and repaired\n"
    for broker in (1, 2):
        assert segment(shared_cluster, broker, topic_name).read_bytes() == whole
    assert segment(shared_cluster, 3, topic_name).read_bytes() != whole

    found = json.loads(raftlog("storage", "scrub", "--json").stdout)
    assert (found["ok"], found["damaged"]) == (True, [])
    assert [each["broker_id"] for each in found["brokers"]] == [1, 2, 3]
    assert [each["replicas_left"] for each in found["brokers"]] == [0, 0, 0]
    assert segment(shared_cluster, 3, topic_name).read_bytes() == whole
    assert raftlog("storage", "scrub", "--topic", topic_name).stderr == "nothing is damaged\n"


def test_what_no_replica_has_whole_is_named_and_the_command_fails(
    raftlog, shared_cluster: LocalCluster, topic_name: str
):
    raftlog("topics", "create", topic_name, "--partitions", "1", "--replication-factor", "3")
    produce(shared_cluster, topic_name, b"x" * 1_000)
    for broker in (1, 2, 3):
        flip(segment(shared_cluster, broker, topic_name), 500)
    said = raftlog("storage", "scrub", "--topic", topic_name, code=1).stdout
    assert re.search(rf"1 +{topic_name} +0 .*no replica has intact: 0", said), said
    raftlog("topics", "delete", topic_name)


def test_it_can_be_left_to_itself_and_says_what_it_does_not_know(raftlog, shared_cluster: LocalCluster):
    assert re.fullmatch(r"3 brokers checking [0-9,]+ bytes\n", raftlog("storage", "scrub", "--no-wait").stdout)
    assert "there is no topic 'nowhere'" in raftlog("storage", "scrub", "--topic", "nowhere", code=1).stderr
    assert "there is no broker 9" in raftlog("storage", "scrub", "--broker", "9", code=1).stderr
    assert shared_cluster.data.is_dir()
