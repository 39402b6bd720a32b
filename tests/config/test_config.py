"""Settings: good files load, bad ones say which setting, what was expected and what was received."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from raftlog.config import (
    BrokerConfig,
    ControllerConfig,
    NodeConfig,
    TopicConfig,
    defaults_of,
    topic_config,
    validate_topic_configs,
)
from raftlog.errors import ConfigError
from raftlog.model import Address

GOOD = """
node_id = 1
roles = ["broker"]
data_dir = "data"
cluster_id = "c"
[listeners]
public = "127.0.0.1:9400"
internal = "127.0.0.1:9410"
[advertised]
public = "broker.example:80"
[quorum]
key_file = "quorum.key"
voters = [{ node_id = 101, quorum = "127.0.0.1:9430", internal = "127.0.0.1:9420" }]
[dial]
"127.0.0.1:9420" = "127.0.0.1:1"
[topic]
flush = "os"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def test_a_good_file(tmp_path: Path):
    config = NodeConfig.load(write(tmp_path, GOOD))

    assert (config.node_id, config.is_broker, config.is_controller) == (1, True, False)
    assert config.public == Address("broker.example", 80)
    assert config.internal == Address("127.0.0.1", 9410)
    assert config.data_dir == str(tmp_path / "data")
    assert config.quorum.key_file == str(tmp_path / "quorum.key")
    assert config.topic.flush == "os"
    assert config.dial == {"127.0.0.1:9420": "127.0.0.1:1"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('flush = "os"', 'fluhs = "os"', "topic.fluhs: unknown name; known names are cleanup_policy"),
        ("node_id = 1", 'node_id = "one"', "node_id: expected an integer, received 'one'"),
        ("node_id = 1", "node_id = -1", "node_id: expected 0 to"),
        ('roles = ["broker"]', 'roles = ["leader"]', "roles[0]: expected one of 'controller', 'broker'"),
        ('roles = ["broker"]', "roles = []", "roles: expected controller, broker or both"),
        ('roles = ["broker"]', 'roles = ["controller"]', "controller 1 is not among them"),
        ('public = "127.0.0.1:9400"', "", "listeners.public: missing; a broker needs it"),
        ("[topic]", "[topic]\nsegment_bytes = 1", "segment_bytes: expected 4096 to"),
        ("[topic]", "[replication]\nreplica_lag_time_max_ms = 900\n[topic]", "must exceed twice"),
        ('"c"', '"c', "is not valid TOML"),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path: Path, old: str, new: str, message: str):
    path = write(tmp_path, GOOD.replace(old, new, 1))

    with pytest.raises(ConfigError) as caught:
        NodeConfig.load(path)

    assert message in caught.value.message
    assert str(path) in caught.value.message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ControllerConfig(leader_imbalance_check_interval_ms=-1), "at least 1, received -1"),
        (lambda: ControllerConfig(session_check_interval_ms=0), "session_check_interval_ms must be at least 1"),
        (lambda: ControllerConfig(proposal_timeout_ms=0), "proposal_timeout_ms must be at least 1"),
        (lambda: ControllerConfig(snapshot_min_entries=-1), "snapshot_min_entries must be at least 1"),
        (lambda: BrokerConfig(broker_heartbeat_interval_ms=0), "broker_heartbeat_interval_ms must be at least 1"),
        (lambda: BrokerConfig(retention_check_interval_ms=-1), "retention_check_interval_ms must be at least 1"),
        (lambda: BrokerConfig(checkpoint_interval_ms=-1), "checkpoint_interval_ms must be at least 1"),
    ],
)
def test_an_interval_that_would_never_pause_is_refused(make: Callable[[], object], message: str):
    with pytest.raises(ConfigError, match=message):
        make()


def test_settings_that_contradict_each_other_are_refused(tmp_path: Path):
    """A broker that sends heartbeats less often than its session lasts was fenced and unfenced for ever."""
    with pytest.raises(ConfigError, match="a broker would be fenced between two heartbeats"):
        NodeConfig.load(write(tmp_path, GOOD + "[broker]\nbroker_heartbeat_interval_ms = 1_500\n"))
    voter = '{ node_id = %d, quorum = "127.0.0.1:%d", internal = "127.0.0.1:%d" }'
    for ports in ((1, 1, 2), (1, 2, 1)):
        voters = ", ".join(voter % (101 + n, 9430 + port, 9420 + n) for n, port in enumerate(ports))
        text = re.sub(r"voters = .*", f"voters = [{voters}]", GOOD)
        with pytest.raises(ConfigError, match="each needs its own quorum address"):
            NodeConfig.load(write(tmp_path, text))


def test_a_nodes_defaults_do_not_reach_internal_topics_where_they_would_stop_coordinators():
    node = TopicConfig(max_message_bytes=20_000, segment_ms=1, min_cleanable_dirty_ratio=0.1, file_delete_delay_ms=7)
    assert topic_config("t", node, {"segment_ms": 5}) == replace(node, segment_ms=5)
    internal = topic_config("__consumer_offsets", node, {"cleanup_policy": "compact"})
    assert internal == TopicConfig(
        cleanup_policy="compact", segment_ms=60_000, min_cleanable_dirty_ratio=0.1, file_delete_delay_ms=7
    )
    assert defaults_of("__transaction_state", {"retention_ms": 1, "segment_ms": 1}) == {"segment_ms": 60_000}


def test_a_missing_file(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"cannot read .*none\.toml: No such file"):
        NodeConfig.load(tmp_path / "none.toml")


def test_topic_settings_take_numbers_as_text_and_keep_only_what_was_set():
    assert validate_topic_configs({"retention_ms": "-1", "flush": "os"}) == {"retention_ms": -1, "flush": "os"}
    assert TopicConfig().with_overrides({"retention_ms": 5, "from_the_future": 1}).retention_ms == 5


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"retention": 1}, "retention: unknown name; known names are cleanup_policy, delete_retention_ms"),
        ({"retention_ms": "soon"}, "retention_ms: expected an integer, received 'soon'"),
        ({"retention_ms": -2}, "retention_ms: expected -1 or more, received -2"),
        ({"min_insync_replicas": 0}, "min_insync_replicas: expected at least 1, received 0"),
        ({"max_message_bytes": 1}, "max_message_bytes: expected 1024 to"),
        ({"flush": "never"}, "flush: expected one of 'batch', 'os', received 'never'"),
        ({"cleanup_policy": "compress"}, "cleanup_policy: expected one of 'delete', 'compact', 'compact,delete'"),
        ({"min_cleanable_dirty_ratio": "1.5"}, "min_cleanable_dirty_ratio: expected 0 to 1, received 1.5"),
        ({"max_compaction_lag_ms": 0}, "max_compaction_lag_ms: expected -1, or 1 or more, received 0"),
    ],
)
def test_bad_topic_settings(overrides: dict[str, object], message: str):
    with pytest.raises(ConfigError) as caught:
        validate_topic_configs(overrides)

    assert message in caught.value.message


def test_cleanup_policies_and_ratios_come_as_text_too():
    typed = validate_topic_configs({"cleanup_policy": "compact,delete", "min_cleanable_dirty_ratio": "0.25"})

    assert typed == {"cleanup_policy": "compact,delete", "min_cleanable_dirty_ratio": 0.25}
    policies = [TopicConfig().with_overrides({"cleanup_policy": p}) for p in ("delete", "compact", "compact,delete")]
    assert [(p.compacts, p.deletes) for p in policies] == [(False, True), (True, False), (True, True)]


def test_a_setting_in_kafkas_spelling_is_answered_with_ours():
    with pytest.raises(ConfigError, match=r"retention\.ms: unknown setting; did you mean retention_ms\?"):
        validate_topic_configs({"retention.ms": 1})


ACL = '[security]\nauthorizer = "acl"\nsuper_users = ["User:admin"]\n'
CERTIFIED = """[tls]
cert_file = "node.pem"
key_file = "node.key"
ca_file = "ca.pem"
public = "required"
internal = "required"
client_auth = "optional"
node_auth = "required"
"""


WEAKER = (("public", "off"), ("internal", "optional"), ("client_auth", "none"), ("node_auth", "none"))


def test_rules_need_a_cluster_key_or_certificates_of_nodes(tmp_path: Path):
    """Otherwise a node could not prove to others what it is: at both listeners, because brokers forward requests."""
    key = 'cluster_key_file = "k"\n'
    assert NodeConfig.load(write(tmp_path, GOOD + ACL + key)).security.cluster_key_file
    assert not NodeConfig.load(write(tmp_path, GOOD + ACL + CERTIFIED)).security.cluster_key_file
    for missing in ("", *(f'{name} = "{value}"' for name, value in WEAKER)):
        name = missing.partition(" ")[0]
        lines = [line for line in CERTIFIED.splitlines() if not line.startswith(f"{name} =")] if missing else []
        text = "\n".join([*lines, missing])
        with pytest.raises(ConfigError, match="cluster_key_file: missing"):
            NodeConfig.load(write(tmp_path, GOOD + ACL + text))
