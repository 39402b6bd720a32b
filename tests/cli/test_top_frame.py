"""The pure parts of `raftlog top`: rates, the overview, and the text of a frame."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.cells import cell_len

from raftlog.cli.top.frame import MIN_WIDTH, SORTS, duration, frame, number, plain
from raftlog.metrics.overview import METRICS, ClusterReading, GroupRow, NodeReading, TopicRow, overview
from raftlog.metrics.rates import Page, Pages, quantile
from raftlog.metrics.text import parse

FRAMES = Path(__file__).parent / "top_frames"


def pages(before: str | None, now: str, seconds: float = 2.0) -> Pages:
    first = None if before is None else Page(samples=parse(before, METRICS), at_s=10.0)
    return Pages(before=first, now=Page(samples=parse(now, METRICS), at_s=10.0 + seconds))


def broker_page(scale: float, *, follower: int, under: int = 0) -> str:
    """Return a broker's page after `scale` seconds of traffic."""
    lines = [
        f"raftlog_bytes_in_total {1_500_000 * scale}",
        f"raftlog_bytes_out_total {3_000_000 * scale}",
        f"raftlog_records_in_total {12_000 * scale}",
        f"raftlog_records_out_total {24_000 * scale}",
        f'raftlog_topic_bytes_in_total{{topic="flights"}} {1_200_000 * scale}',
        f'raftlog_topic_bytes_out_total{{topic="flights"}} {3_000_000 * scale}',
        f'raftlog_topic_records_in_total{{topic="flights"}} {9_600 * scale}',
        f'raftlog_topic_bytes_in_total{{topic="orders"}} {300_000 * scale}',
        f'raftlog_topic_records_in_total{{topic="orders"}} {2_400 * scale}',
        f'raftlog_requests_total{{route="/v1/produce",status="200"}} {150 * scale}',
        f'raftlog_requests_total{{route="/v1/fetch",status="200"}} {40 * scale}',
        f'raftlog_requests_total{{route="/v1/fetch",status="400"}} {2 * scale}',
        f'raftlog_request_seconds_bucket{{route="/v1/produce",le="0.01"}} {140 * scale}',
        f'raftlog_request_seconds_bucket{{route="/v1/produce",le="0.02"}} {150 * scale}',
        f'raftlog_request_seconds_bucket{{route="/v1/produce",le="+Inf"}} {150 * scale}',
        f'raftlog_group_lag_records{{group="loaders",topic="flights"}} {500 * scale}',
        "raftlog_partitions 12",
        "raftlog_partitions_led 6",
        f"raftlog_under_replicated_partitions {under}",
        f'raftlog_follower_max_lag_records{{follower="{follower}"}} 7',
        'raftlog_disk_free_bytes{folder="/d"} 3e10',
        'raftlog_disk_size_bytes{folder="/d"} 1e11',
        f"process_cpu_seconds_total {0.4 * scale}",
        "process_resident_memory_bytes 95000000",
    ]
    return "\n".join(lines)


CONTROLLER = """
raftlog_active_controller 1
raftlog_quorum_term 3
raftlog_quorum_log_end_offset 4200
raftlog_quorum_voter_lag_entries{voter="101"} 0
raftlog_quorum_voter_lag_entries{voter="102"} 2
raftlog_cluster_offline_partitions 0
process_cpu_seconds_total %s
process_resident_memory_bytes 61000000
"""
STANDBY = CONTROLLER.replace("active_controller 1", "active_controller 0")


def node(kind: Any, node_id: int, before: str | None, now: str, **facts: Any) -> NodeReading:
    return NodeReading(kind=kind, node_id=node_id, pages=pages(before, now), **facts)


HEALTHY = ClusterReading(
    cluster_id="48d04738",
    nodes=(
        node("broker", 1, broker_page(10, follower=2), broker_page(12, follower=2)),
        node("broker", 2, broker_page(10, follower=1), broker_page(12, follower=1)),
        node("controller", 101, CONTROLLER % 1, CONTROLLER % 1.1),
        node("controller", 102, STANDBY % 1, STANDBY % 1.1),
    ),
)
TROUBLE = replace(
    HEALTHY,
    nodes=(
        node("broker", 1, broker_page(10, follower=2, under=3), broker_page(12, follower=2, under=3)),
        NodeReading(kind="broker", node_id=2, fenced=True, error="silent for 4 s", pages=HEALTHY.nodes[1].pages),
        NodeReading(kind="broker", node_id=3),
        *HEALTHY.nodes[2:],
    ),
)
FIRST = replace(
    HEALTHY, nodes=(node("broker", 1, None, broker_page(1, follower=2)), node("controller", 101, None, CONTROLLER % 1))
)


@pytest.mark.parametrize(
    ("name", "reading", "width", "sort"),
    [
        ("healthy-80", HEALTHY, 80, ""),
        ("healthy-120", HEALTHY, 120, ""),
        ("trouble-80", TROUBLE, 80, "in"),
        ("first-80", FIRST, 80, ""),
        ("narrow-40", HEALTHY, 40, ""),
        ("nothing-80", ClusterReading(error="no answer within 3000 ms"), 80, ""),
    ],
)
def test_a_frame_is_the_recorded_one(name: str, reading: ClusterReading, width: int, sort: str):
    lines = frame(overview(reading), width=width, height=None, sort=sort, status="12:00:00", keys=True)
    assert {cell_len(line.text) for line in lines if line.text} == {width}
    path = FRAMES / f"{name}.txt"
    if os.environ.get("REWRITE"):
        path.write_text(plain(lines) + "\n", "utf-8")
    assert plain(lines) + "\n" == path.read_text("utf-8")


def test_an_overview_is_an_object_for_scripts():
    found = orjson.loads(orjson.dumps(asdict(overview(HEALTHY))))
    assert (found["level"], found["words"]) == ("healthy", [])
    assert found["bytes_in_per_s"] == 3_000_000
    assert found["brokers"][0] == {
        "node_id": 1,
        "state": "ok",
        "error": "",
        "partitions_led": 6,
        "partitions": 12,
        "under_replicated": 0,
        "lag_records": 7,
        "bytes_in_per_s": 1_500_000,
        "bytes_out_per_s": 3_000_000,
        "requests_per_s": 192,
        "produce_p99_s": pytest.approx(0.0185),
        "cpu_share": pytest.approx(0.4),
        "rss_bytes": 95_000_000,
        "disk_used_share": 0.7,
    }
    assert found["groups"] == [{"group": "loaders", "topics": 2, "lag_records": 12_000, "growth_per_s": 1_000}]


def test_what_is_wrong_is_said_in_words_the_worst_first():
    found = overview(TROUBLE)
    assert found.level == "critical"
    assert found.words == ("no answer from broker 2", "fenced: broker 2", "3 partitions under-replicated")
    assert [row.state for row in found.brokers] == ["ok", "no answer", "..."]

    lost = replace(HEALTHY, nodes=tuple(replace(each, pages=HEALTHY.nodes[3].pages) for each in HEALTHY.nodes[2:]))
    assert overview(lost).words == ("no active controller",)
    full = node("broker", 1, None, 'raftlog_disk_free_bytes{folder="/d"} 5\nraftlog_disk_size_bytes{folder="/d"} 100')
    assert overview(ClusterReading(nodes=(full,))).words == ("a disk is nearly full: broker 1",)
    for metric, words in (
        ("raftlog_cluster_offline_partitions", "1 partition without a leader"),
        ("raftlog_under_min_isr_partitions", "1 partition refuse acks=all"),
        ("raftlog_offline_replicas", "1 replica cannot be used"),
    ):
        assert overview(ClusterReading(nodes=(node("broker", 1, None, f"{metric} 1"),))).words == (words,)


def test_nodes_that_were_not_read_are_counted_and_no_health_is_claimed_without_them():
    found = overview(replace(HEALTHY, left_out=12))
    assert (found.level, found.words) == ("warning", ("12 nodes were not read: only the first 4 are shown",))
    assert "every partition" not in plain(frame(found, width=80, height=None))


def test_no_active_controller_is_said_only_if_all_voters_were_read():
    standby = replace(HEALTHY, nodes=(*HEALTHY.nodes[:2], HEALTHY.nodes[3]))
    assert overview(standby).words == ("no active controller",)
    found = overview(replace(standby, voters_known=False))
    assert found.level == "warning"
    assert found.words == ("not active: controller 102; the other voters are not known",)


def test_rows_of_topics_and_groups_have_the_whole_name():
    topic, group = "t" * 249, "g" * 256
    lines = (f'raftlog_topic_bytes_in_total{{topic="{topic}"}} 1', f'raftlog_group_lag_records{{group="{group}"}} 1')
    page = "\n".join(lines)
    found = overview(ClusterReading(nodes=(node("broker", 1, page, page),)))
    assert [row.topic for row in found.topics] == [topic]
    assert [row.group for row in found.groups] == [group]


def test_a_restarted_node_counts_from_zero_and_no_time_is_no_rate():
    restarted = pages("raftlog_bytes_in_total 1000", "raftlog_bytes_in_total 10")
    assert restarted.rate("raftlog_bytes_in_total") == 5
    assert pages(None, "raftlog_bytes_in_total 10").rate("raftlog_bytes_in_total") is None
    assert pages("raftlog_bytes_in_total 1", "raftlog_bytes_in_total 10", 0.0).rate("raftlog_bytes_in_total") is None


def test_quantiles_are_those_of_prometheus():
    inf = float("inf")
    assert quantile({}, 0.99) is None
    assert quantile({1.0: 0, inf: 0}, 0.99) is None
    assert quantile({1.0: 100, 2.0: 100, inf: 100}, 0.5) == 0.5
    assert quantile({1.0: 50, 2.0: 100, inf: 100}, 0.75) == 1.5
    assert quantile({1.0: 50, inf: 100}, 0.99) == 1.0


def test_numbers_and_times_are_short():
    assert [number(value) for value in (None, 0, 7, 3.14, 99.96, 9_999, 10_000, 1_234_567, 2.5e9, 7e12, -20_000)] == [
        "-", "0", "7", "3.1", "100", "9999", "10.0k", "1.2M", "2.5G", "7.0T", "-20.0k",
    ]  # fmt: skip
    assert [duration(value) for value in (None, 0.00012, 0.0198, 0.25, 12.5)] == [
        "-",
        "0.1ms",
        "19.8ms",
        "250ms",
        "12.5s",
    ]


def test_a_frame_fits_any_terminal_and_says_what_it_leaves_out():
    topics = tuple(TopicRow(topic=f"topic-{number:03}", bytes_in_per_s=number) for number in range(300))
    groups = tuple(GroupRow(group=f"group-{number}", topics=1, lag_records=number) for number in range(300))
    crowded = replace(overview(HEALTHY), topics=topics, groups=groups)
    for width in (1, 40, 79, 80, 200):
        for height in (1, 5, 24, 50, 1_000):
            lines = frame(crowded, width=width, height=height, keys=True)
            assert len(lines) <= max(2, height)
            assert {cell_len(line.text) for line in lines if line.text} == {max(width, MIN_WIDTH)}
    text = plain(frame(crowded, width=80, height=30, keys=True))
    assert "topic-299" in text
    assert "group-299" in text
    assert "... and 29" in text


def test_counts_of_large_brokers_leave_all_columns_whole():
    large, huge = 10_000, 10**21
    rows = overview(HEALTHY).brokers
    crowded = replace(
        overview(HEALTHY),
        brokers=(
            replace(rows[0], partitions_led=3_333, partitions=large, disk_used_share=0.73),
            replace(rows[1], partitions_led=huge, partitions=huge, lag_records=huge, disk_used_share=1.0),
        ),
    )
    for width in (40, 80, 120):
        lines = frame(crowded, width=width, height=None)
        assert {cell_len(line.text) for line in lines if line.text} == {width}
    shown = plain(frame(crowded, width=80, height=None)).splitlines()
    (first,) = (line for line in shown if line.startswith("1 ok"))
    assert first.split()[2] == "3333/10.0k"
    assert first.endswith(" 73%")
    (second,) = (line for line in shown if line.startswith("2 ok"))
    assert second.endswith(" 100%")


def test_rows_are_sorted_by_each_key():
    rows = (TopicRow(topic="b", bytes_in_per_s=1, bytes_out_per_s=9), TopicRow(topic="a", bytes_in_per_s=2))
    found = replace(overview(HEALTHY), topics=rows)

    def order(sort: str) -> list[str]:
        text = plain(frame(found, width=80, height=None, sort=sort)).splitlines()
        return [line.split()[0] for line in text if line.split()[:1] in (["a"], ["b"])]

    assert {sort: order(sort) for sort in ("in", "out", "name")} == {
        "in": ["a", "b"],
        "out": ["b", "a"],
        "name": ["a", "b"],
    }
    for sort in SORTS.values():
        assert order(sort)


def test_names_cannot_write_to_the_terminal_and_keep_their_width():
    evil, wide = '\x1b[2J\u202e\\"\\n', "日本語の長い名前" + "界" * 99
    page = "\n".join(f'raftlog_group_lag_records{{group="{name}",topic="t"}} 1' for name in (evil, wide))
    nodes = (node("broker", 1, page, page),)
    found = overview(ClusterReading(cluster_id="\x1b[2J" * 99, error="\x1b]0;x\x07", nodes=nodes))
    assert len(found.groups) == 2
    lines = frame(found, width=80, height=None)
    assert all(line.text.isprintable() for line in lines)
    assert {cell_len(line.text) for line in lines if line.text} == {80}
