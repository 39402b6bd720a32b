"""`raftlog perf` and `raftlog verify` against a real cluster."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from raftlog.blocking import Admin, Producer
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


@contextmanager
def interrupted_when(condition: Callable[[], bool], number: signal.Signals) -> Iterator[None]:
    """Send this process a signal once a condition holds, while the block runs."""
    over = threading.Event()

    def watch() -> None:
        while not condition():
            if over.wait(0.02):
                return
        os.kill(os.getpid(), number)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def figures(done: Result) -> dict[str, Any]:
    return json.loads(done.stdout.splitlines()[-1])


def events(done: Result | bytes, *wanted: str) -> list[dict[str, Any]]:
    lines = done if isinstance(done, bytes) else done.stdout_bytes
    found = [json.loads(line) for line in lines.splitlines()]
    return [event for event in found if event["event"] in wanted]


def test_throughput_and_latency_are_measured(raftlog, topic_name: str):
    load = ("--topic", topic_name, "--record-size", "50")
    created = ("--create", "--partitions", "2", "--replication-factor", "3")
    done = raftlog("perf", "produce", *load, *created, "--records", "3000", "--chunk", "100", "--compression", "lz4")
    assert "3,000 records acknowledged in " in done.stderr
    written = figures(done)
    assert (written["records"], written["unknown"], written["failed"]) == (3_000, 0, 0)
    assert 0 < written["p50_ms"] <= written["p99_ms"] <= written["max_ms"] < 60_000
    assert written["records_per_s"] == pytest.approx(3_000 / written["seconds"], rel=0.01)
    assert written["mb_per_s"] == pytest.approx(3_000 * 50 / written["seconds"] / 1e6, rel=0.01)

    for how in ([], ["--rate", "200"]):
        single = figures(raftlog("perf", "latency", *load, "--records", "20", "--warmup", "1", *how))
        assert (single["records"], single["failed"], single["unknown"]) == (20, 0, 0)
        assert single["p50_ms"] > 0
    everything = 3_300 + 2 * 21  # Warming up counts, too.

    for how in ([], ["--arrow"]):
        read = figures(raftlog("perf", "consume", "--topic", topic_name, "--warmup", "0", *how))
        assert read["records"] == everything
        assert read["mb_per_s"] == pytest.approx(everything * 50 / read["seconds"] / 1e6, rel=0.01)
    small = raftlog("perf", "consume", "--topic", topic_name, "--warmup", str(everything), code=1)
    assert "try --warmup 0" in small.stderr
    few = raftlog("perf", "consume", "--topic", topic_name, "--records", "1000000", "--timeout", "0.5", code=1)
    assert "no more records came within 0.5 s" in few.stderr

    assert "TOPIC_ALREADY_EXISTS" in raftlog("perf", "produce", *load, *created, code=1).stderr
    assert "are for --create" in raftlog("perf", "produce", *load, "--partitions", "2", code=2).stderr
    assert "does not exist" in raftlog("perf", "consume", "--topic", f"not-{topic_name}", code=1).stderr


def test_an_interrupted_run_tells_what_was_acknowledged(raftlog, shared_cluster: LocalCluster, topic_name: str):
    with Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(topic_name, partitions=1)

        def end() -> int:
            return admin.list_offsets(topic_name)[0].high_watermark

        with interrupted_when(lambda: end() > 0, signal.SIGINT):
            load = ("--records", "100000000", "--warmup", "0", "--chunk", "100")
            done = raftlog("perf", "produce", "--topic", topic_name, *load, code=1)
        assert "interrupted: the figures cover the records acknowledged until then" in done.stderr
        assert figures(done)["unknown"] == 0
        assert figures(done)["records"] == end() > 0


def test_numbered_records_are_verified(raftlog, shared_cluster: LocalCluster, topic_name: str, tmp_path: Path):
    group = topic_name.replace("topic", "group")
    raftlog("topics", "create", topic_name, "--partitions", "2")
    done = raftlog(
        "verify", "produce", "--topic", topic_name, "--records", "101", "--producer", "a", "--record-size", "40"
    )
    acknowledged = events(done, "acknowledged")
    assert sorted((line["partition"], line["number"]) for line in acknowledged) == [
        *((0, number) for number in range(51)), *((1, number) for number in range(50)),
    ]  # fmt: skip
    assert all(line["offset"] == line["number"] for line in acknowledged)
    (summary,) = events(done, "summary")
    assert (summary["ok"], summary["acknowledged"], summary["unknown"]) == (True, 101, 0)
    told = tmp_path / "a.jsonl"
    told.write_bytes(done.stdout_bytes)

    done = raftlog("verify", "consume", "--topic", topic_name, "--produced", str(told))
    assert sum(line["records"] for line in events(done, "read")) == 101
    (summary,) = events(done, "summary")
    assert (summary["ok"], summary["complete"], summary["records"], summary["missing"]) == (True, True, 101, 0)

    done = raftlog("verify", "consume", "--topic", topic_name, "--group", group, "--records", "101")
    assert {(line["partition"], line["offset"]) for line in events(done, "committed")} >= {(0, 51), (1, 50)}
    (assigned,) = events(done, "assigned")
    assert assigned["partitions"] == [0, 1]
    again = raftlog(
        "verify", "consume", "--topic", topic_name, "--group", group, "--records", "1", "--timeout", "0.5", code=1
    )
    assert events(again, "summary")[0]["complete"] is False

    with Producer(shared_cluster.bootstrap) as producer:
        producer.send(topic_name, b"a:51:", partition=0)
        producer.send(topic_name, b"a:51:", partition=0)
        producer.send(topic_name, b"a:53:", partition=0)
        producer.send(topic_name, b"something else", partition=0)
    done = raftlog("verify", "consume", "--topic", topic_name, "--timeout", "0.5", code=1)
    kinds = [(line["kind"], line["first"], line["offset"]) for line in events(done, "violation")]
    assert kinds == [("duplicated", 51, 52), ("missing", 52, 53)]
    (summary,) = events(done, "summary")
    assert (summary["ok"], summary["missing"], summary["duplicated"], summary["foreign"]) == (False, 1, 1, 1)

    told.write_text('{"event": "acknowledged", "producer": "b", "partition": 1, "number": 4}\n')
    done = raftlog("verify", "consume", "--topic", topic_name, "--produced", str(told), "--timeout", "0.5", code=1)
    assert events(done, "summary")[0]["missing"] == 1 + 5
    told.write_text("junk\n")
    assert (
        "line 1 is not from"
        in raftlog("verify", "consume", "--topic", topic_name, "--produced", str(told), code=1).stderr
    )
    both = ("--produced", str(told), "--group", group)
    assert "not with --group" in raftlog("verify", "consume", "--topic", topic_name, *both, code=2).stderr
    assert (
        "expected 1 to 100 letters" in raftlog("verify", "produce", "--topic", "t", "--producer", "a b", code=2).stderr
    )


def test_both_end_with_a_summary_when_they_are_told_to_end(raftlog, shared_cluster: LocalCluster, topic_name: str):
    group = topic_name.replace("topic", "group")
    with Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(topic_name, partitions=1)
        with interrupted_when(lambda: admin.list_offsets(topic_name)[0].high_watermark >= 30, signal.SIGTERM):
            produced = raftlog("verify", "produce", "--topic", topic_name, "--rate", "500")
        (summary,) = events(produced, "summary")
        assert summary["ok"]
        assert summary["sent"] == summary["acknowledged"] == len(events(produced, "acknowledged")) >= 30

        with interrupted_when(lambda: sum(admin.group_offsets(group).values()) == summary["sent"], signal.SIGINT):
            consumed = raftlog("verify", "consume", "--topic", topic_name, "--group", group)
        (read,) = events(consumed, "summary")
        assert (read["ok"], read["records"]) == (True, summary["sent"])
