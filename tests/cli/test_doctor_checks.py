"""Doctor's checks of a cluster: facts in, findings out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from raftlog.cli.doctor.cluster_checks import check_cluster
from raftlog.cli.doctor.cluster_facts import _looks
from raftlog.cli.doctor.facts import ClusterFacts, ListenerFacts, NodeFacts
from raftlog.cli.doctor.findings import EXIT_CODES, MAX_FINDINGS, Finding, cleaned, named, worst
from raftlog.cli.doctor.report import report
from raftlog.cli.terminal import clipped
from raftlog.metrics.text import parse
from raftlog.wire.admin import (
    FeaturesResponse,
    LogDir,
    LogDirsResponse,
    QuorumResponse,
    StoredReplica,
    UnusableReplica,
    VoterStatus,
)
from raftlog.wire.metadata import BrokerInfo, ClusterInfo, ControllerInfo, PartitionInfo, TopicInfo

NOW = 1_800_000_000.0
DAY = 86_400


def voter(node_id: int, role: str = "follower", lag: int = 0, heard: int = 10) -> VoterStatus:
    return VoterStatus(
        node_id=node_id, address="127.0.0.1:1", role=role, log_end_offset=100 - lag, lag=lag, last_heard_ms=heard
    )


def quorum(*voters: VoterStatus) -> QuorumResponse:
    return QuorumResponse(
        leader_id=101, term=1, controller_epoch=1, log_end_offset=100, committed_offset=100, voters=voters
    )


def topic(*partitions: tuple[int, tuple[int, ...], tuple[int, ...]], name: str = "t") -> TopicInfo:
    found = tuple(
        PartitionInfo(partition=number, leader=leader, leader_epoch=1, replicas=replicas, isr=isr)
        for number, (leader, replicas, isr) in enumerate(partitions)
    )
    return TopicInfo(topic=name, topic_id="0" * 32, partitions=found)


def node(number: int, kind: str = "broker", **facts: Any) -> NodeFacts:
    listener = "public" if kind == "broker" else "internal"
    url = f"http://127.0.0.1:{9400 + number}"
    given: dict[str, Any] = {
        "listeners": (ListenerFacts(listener=listener, url=url),),  # type: ignore[arg-type]
        "clock_s": (-0.9, 0.2),
        "version": "1.0",
    }
    return NodeFacts(kind=kind, node_id=number, **{**given, **facts})  # type: ignore[arg-type]


def brokers(*numbers: int, fenced: tuple[int, ...] = ()) -> ClusterInfo:
    found = tuple(
        BrokerInfo(broker_id=number, url=f"http://127.0.0.1:{9400 + number}", fenced=number in fenced)
        for number in numbers
    )
    return ClusterInfo(cluster_id="c", controller=ControllerInfo(controller_id=101), brokers=found)


HEALTHY = ClusterFacts(
    now_s=NOW,
    bootstrap=(ListenerFacts(listener="public", url="http://127.0.0.1:9401"),),
    cluster=brokers(1, 2),
    topics=(topic((1, (1, 2), (1, 2)), (2, (2, 1), (1, 2))),),
    quorum=quorum(voter(101, "leader", heard=0), voter(102), voter(103)),
    features=FeaturesResponse(feature_level=3, max_feature_level=3),
    nodes=(node(1), node(2), node(101, "controller")),
)


def found_in(facts: ClusterFacts) -> list[tuple[str, str, str]]:
    """Return what is not healthy: severity, check, and the whole text."""
    return [
        (each.severity, each.check, f"{each.where}: {each.found}")
        for each in cleaned(check_cluster(facts))
        if each.severity != "ok"
    ]


def test_a_healthy_cluster_has_no_finding_but_healthy_ones():
    assert found_in(HEALTHY) == []
    assert {each.check for each in check_cluster(HEALTHY)} >= {"brokers", "quorum", "partitions", "clock", "versions"}
    assert EXIT_CODES[worst(check_cluster(HEALTHY))] == 0


def metrics(text: str) -> dict[str, Any]:
    return {"metrics": parse(text, [line.split("{")[0].split(" ")[0] for line in text.splitlines()])}


def listening(url: str, *, error: str = "", end_s: float | None = None, listener: str = "public") -> dict[str, Any]:
    found = ListenerFacts(listener=listener, url=url, error=error, certificate_end_s=end_s)  # type: ignore[arg-type]
    return {"listeners": (found,)}


def replica(**facts: Any) -> StoredReplica:
    given = {"leader": True, "size_bytes": 1, "log_start_offset": 0, "log_end_offset": 1}
    return StoredReplica(topic="t", partition=0, **{**given, **facts})


def stored(*replicas: StoredReplica, offline: tuple[UnusableReplica, ...] = ()) -> dict[str, Any]:
    folder = LogDir(path="/d", total_bytes=1, usable_bytes=1, replicas=replicas)
    return {"log_dirs": LogDirsResponse(broker_id=1, log_dirs=(folder,), offline=offline)}


def nodes(*changed: NodeFacts) -> dict[str, Any]:
    return {"nodes": changed}


STORIES: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "a fenced broker": ({"cluster": brokers(1, 2, fenced=(2,))}, ("error", "brokers", "broker 2: it is fenced")),
    "a replica on a broker that is not registered": (
        {"cluster": brokers(1)},
        ("error", "brokers", "broker 2: 2 partitions have a replica on it, and it is not registered"),
    ),
    "no broker": ({"cluster": brokers(), "topics": ()}, ("error", "brokers", "no broker is registered")),
    "no active controller": (
        {"quorum": None, "failures": {"quorum": "it timed out"}},
        ("error", "quorum", "no active controller answered: it timed out"),
    ),
    "a voter that the leader does not reach": (
        {"quorum": quorum(voter(101, "leader"), voter(102), voter(103, "unreachable", heard=-1))},
        ("error", "quorum", "controller 103: the leader, controller 101, does not reach it; its last message: never"),
    ),
    "a voter that lags": (
        {"quorum": quorum(voter(101, "leader"), voter(102), voter(103, lag=2_000))},
        ("warning", "quorum", "controller 103: follower, 2,000 entries behind"),
    ),
    "a voter that is silent": (
        {"quorum": quorum(voter(101, "leader"), voter(102), voter(103, heard=60_000))},
        ("warning", "quorum", "its last message: 60 s ago"),
    ),
    "an even number of voters": (
        {"quorum": quorum(voter(101, "leader"), voter(102))},
        ("warning", "quorum", "voters: 101, 102; an even number"),
    ),
    "one voter": ({"quorum": quorum(voter(101, "leader"))}, ("note", "quorum", "voters: 101")),
    "a partition without a leader": (
        {"topics": (topic((-1, (1, 2), ()), (1, (1, 2), (1, 2))),)},
        ("error", "partitions", "t-0: 1 of 2 partitions have no leader"),
    ),
    "an under-replicated partition": (
        {"topics": (topic((1, (1, 2), (1,))),)},
        ("warning", "partitions", "t-0: 1 of 1 partitions lack an in-sync replica; not in sync: broker 2"),
    ),
    "partitions under min ISR": (
        nodes(node(1, **metrics("raftlog_under_min_isr_partitions 3"))),
        ("error", "partitions", "broker 1: 3 partitions that it leads are under min_insync_replicas"),
    ),
    "versions differ": (
        nodes(node(1), node(2, version="1.1")),
        ("warning", "versions", "1.0: broker 1; 1.1: broker 2"),
    ),
    "the feature level may be raised": (
        {"features": FeaturesResponse(feature_level=2, max_feature_level=3)},
        ("note", "feature level", "is 2, and the nodes support 3"),
    ),
    "a clock that is ahead": (
        nodes(node(1, clock_s=(5.0, 6.1))),
        ("warning", "clock", "broker 1: its clock is 5 s or more ahead of this machine's"),
    ),
    "a clock that is far behind": (
        nodes(node(1, clock_s=(-7_301.0, -7_300.0))),
        ("error", "clock", "broker 1: its clock is 2 h or more behind this machine's"),
    ),
    "clocks that are apart": (
        nodes(node(1, clock_s=(1.5, 2.6)), node(2, clock_s=(-2.6, -1.5))),
        ("warning", "clock", "broker 2, broker 1: their clocks are 3 s or more apart"),
    ),
    "no access rules, and other machines": (
        nodes(node(1, authorizer="off", **listening("http://10.0.0.1:9400"))),
        ("warning", "access rules", "security.authorizer is off, and other machines reach http://10.0.0.1:9400"),
    ),
    "a public address that cannot be dialled": (
        nodes(node(1, **listening("http://10.0.0.1:9400", error="Connection refused"))),
        ("error", "addresses", "broker 1, public listener: http://10.0.0.1:9400: Connection refused"),
    ),
    "an internal address that cannot be dialled from a client's machine": (
        nodes(node(1, **listening("http://10.0.0.1:9410", error="Connection refused", listener="internal"))),
        ("note", "addresses", "broker 1, internal listener: http://10.0.0.1:9410: Connection refused"),
    ),
    "an internal address that cannot be dialled from a node's machine": (
        {
            "on_node": True,
            **nodes(node(1, **listening("http://10.0.0.1:9410", error="Connection refused", listener="internal"))),
        },
        ("error", "addresses", "broker 1, internal listener"),
    ),
    "a certificate that ends in 29 days": (
        nodes(node(1, **listening("https://127.0.0.1:9400", end_s=NOW + 29 * DAY))),
        ("warning", "certificates", "broker 1, https://127.0.0.1:9400: ends in 29 days"),
    ),
    "a certificate that ends in 6 days": (
        nodes(node(1, **listening("https://127.0.0.1:9400", end_s=NOW + 6 * DAY))),
        ("error", "certificates", "ends in 6 days"),
    ),
    "a certificate that has ended": (
        nodes(node(1, **listening("https://127.0.0.1:9400", end_s=NOW - 3 * DAY))),
        ("error", "certificates", "ended 3 days ago"),
    ),
    "a replica that cannot be used": (
        nodes(node(1, **stored(offline=(UnusableReplica(topic="t", partition=4, error="bad"),)))),
        ("error", "replicas", "broker 1: 1 cannot be used: t-4 (bad)"),
    ),
    "a damaged replica": (
        nodes(node(1, **stored(replica(damage="crc")))),
        ("error", "replicas", "broker 1: damaged: t-0 (crc)"),
    ),
    "a lost batch": (
        nodes(node(1, **stored(replica(damage="crc", lost_batches=(7,))))),
        ("error", "replicas", "batches that no replica has intact: t-0 at 7"),
    ),
    "a quarantined log": (
        nodes(node(1, **metrics("raftlog_quarantined_logs 2"))),
        ("warning", "replicas", "broker 1: 2 damaged logs are set aside"),
    ),
    "a disk that refuses": (
        nodes(node(1, **metrics('raftlog_refusing_replicas{reason="DISK_FULL"} 1'))),
        ("error", "replicas", "broker 1: 1 refuse appends: DISK_FULL"),
    ),
    "a disk that is nearly full": (
        nodes(
            node(1, **metrics('raftlog_disk_free_bytes{folder="/d"} 9e9\nraftlog_disk_size_bytes{folder="/d"} 1e11'))
        ),
        ("warning", "free space", "broker 1, /d: 9.0 GB of 100.0 GB free (9%)"),
    ),
    "a process that runs out of files": (
        nodes(node(1, **metrics("process_open_fds 950\nprocess_max_fds 1000"))),
        ("warning", "open files", "950 of 1,000"),
    ),
    "a request of doctor that failed": (
        nodes(node(1, failures={"metrics": "it hung"})),
        ("warning", "metrics", "broker 1: could not be checked: it hung"),
    ),
    "a bootstrap URL that does not answer, of several": (
        {"bootstrap": (ListenerFacts(listener="public", url="http://127.0.0.1:9", error="refused"),)},
        ("warning", "bootstrap", "http://127.0.0.1:9: refused"),
    ),
    "nodes beyond the limit": ({"left_out": 5}, ("note", "nodes", "5 nodes beyond the limit")),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_finding_says_what_was_received_and_what_to_do(story: str):
    changed, (severity, check, text) = STORIES[story]
    found = found_in(replace(HEALTHY, **changed))
    assert [(s, c) for s, c, t in found if text in t] == [(severity, check)], found
    if severity in ("warning", "error"):
        assert len(found) == 1, found


CONTROLLER = node(101, "controller", **metrics("raftlog_active_controller 1\nraftlog_cluster_partitions 9"))
LOSING = """raftlog_active_controller 1
raftlog_cluster_partitions 9
raftlog_cluster_offline_partitions 3"""


def of_partitions(facts: ClusterFacts) -> list[tuple[str, str]]:
    return [(each.severity, each.found) for each in cleaned(check_cluster(facts)) if each.check == "partitions"]


def test_partitions_that_the_user_may_not_see_are_not_called_healthy():
    unseen = replace(HEALTHY, topics=(), nodes=(node(1), node(2), CONTROLLER))
    assert of_partitions(unseen) == [("note", "9 of 9 partitions were not visible to this user")]
    assert EXIT_CODES[worst(check_cluster(unseen))] == 0
    some = replace(HEALTHY, nodes=unseen.nodes)
    assert of_partitions(some) == [("note", "7 of 9 partitions were not visible to this user")]


@pytest.mark.parametrize("topics", [(), None])
def test_metrics_tell_of_partitions_that_the_user_may_not_see(topics: tuple[TopicInfo, ...] | None):
    under = metrics("raftlog_under_replicated_partitions 2")
    nodes = (node(1, **under), node(2, **under), node(101, "controller", **metrics(LOSING)))
    assert of_partitions(replace(HEALTHY, topics=topics, nodes=nodes)) == [
        ("error", "3 of 9 partitions have no leader, as metrics say: nothing is read or written"),
        ("warning", "4 of 9 partitions lack an in-sync replica, as metrics say"),
        ("note", "9 of 9 partitions were not visible to this user"),
    ]


def test_without_a_controllers_metrics_those_of_brokers_tell_of_partitions():
    led = metrics("raftlog_partitions_led 4")
    unseen = replace(HEALTHY, topics=(), nodes=(node(1, **led), node(2, **led)))
    assert of_partitions(unseen) == [("note", "8 of 8 partitions were not visible to this user")]
    leaderless = metrics("raftlog_partitions_led 0\nraftlog_partitions 6")
    unseen = replace(HEALTHY, topics=(), nodes=(node(1, **leaderless), node(2, **leaderless)))
    assert of_partitions(unseen) == [("note", "6 of 6 partitions were not visible to this user")]
    assert of_partitions(HEALTHY) == [("ok", "2 partitions are listed, every replica in sync")]


def test_a_standby_that_lags_does_not_count_partitions():
    stale = node(102, "controller", **metrics("raftlog_active_controller 0\nraftlog_cluster_partitions 50"))
    active = node(101, "controller", **metrics("raftlog_active_controller 1\nraftlog_cluster_partitions 2"))
    seen = replace(HEALTHY, nodes=(node(1), node(2), active, stale))
    assert of_partitions(seen) == [("ok", "2 partitions are listed, every replica in sync")]


def test_controllers_are_looked_at_first():
    many = brokers(*range(1, 201))
    for known in (HEALTHY.quorum, None):
        controller = replace(many.controller, url="http://127.0.0.1:1")
        looks = _looks(replace(many, controller=controller), known, {})
        kinds = [facts.kind for facts, _ in looks]
        assert kinds == ["controller"] * (3 if known else 1) + ["broker"] * 200


def test_each_warning_and_error_has_advice_and_a_page():
    for changed, _ in STORIES.values():
        for each in check_cluster(replace(HEALTHY, **changed)):
            if each.severity in ("warning", "error") and each.found != "no broker is registered":
                assert each.advice, each
                assert each.docs.startswith("docs/"), each


def test_a_cluster_that_does_not_answer_is_an_error():
    lost = ListenerFacts(listener="public", url="https://127.0.0.1:9", error="refused", certificate_end_s=NOW - DAY)
    found = found_in(ClusterFacts(now_s=NOW, bootstrap=(lost,)))
    assert [(severity, check) for severity, check, _ in found] == [("error", "certificates"), ("error", "bootstrap")]


def test_a_node_that_did_not_answer_a_clock_question_is_not_compared():
    assert not [
        each for each in check_cluster(replace(HEALTHY, nodes=(node(1, clock_s=None),))) if each.check == "clock"
    ]


def test_texts_of_peers_are_escaped_clipped_and_counted():
    evil = "\x1b[2J\r\n\u202e" + "x" * 100_000
    many = [node(number, failures={f"{number % 100}{evil}": evil}) for number in range(5_000)]
    found = cleaned(check_cluster(replace(HEALTHY, nodes=tuple(many))))
    assert len(found) == MAX_FINDINGS + 1
    assert found[-1].found.endswith("more are left out")
    assert all("\x1b" not in each.check + each.found and len(each.found) <= 400 for each in found)
    lines = list(report(found, width=80, paint=lambda word, _: word))
    assert all(line.isprintable() for line in lines)
    assert clipped("a\x00b" * 1_000, 20) == "a\\x00ba\\x00ba\\x00..."
    assert named(range(7)) == "0, 1, 2, 3, 4 and 2 more"


def test_a_report_has_the_worst_first_and_fits_its_width():
    findings = cleaned(
        [
            Finding(severity="ok", check="quorum", where="the cluster", found="fine"),
            Finding(
                severity="error",
                check="clock",
                where="broker 1",
                found="far off " * 12,
                advice="Run NTP.",
                docs="docs/x",
            ),
        ]
    )
    lines = list(report(findings, width=60, paint=lambda word, _: word))
    assert lines[0] == "error    clock: broker 1"
    assert lines[-4:] == [
        "         See docs/x",
        "",
        "ok       quorum: the cluster: fine",
        "1 error, 0 warnings, 0 notes, 1 ok",
    ]
    assert max(map(len, lines)) <= 60
