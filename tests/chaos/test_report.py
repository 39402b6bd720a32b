"""The page about forged histories: what it shows, and that it needs nothing from anywhere else."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import orjson

from chaos.checker import check
from chaos.failover import Outage, outages, p99
from chaos.history import Fault, History, Leadership, Read, Send
from chaos.report import page, plain, section, write

S = 1_000_000_000


def sent(value: str, offset: int, *, at_s: float, took_s: float = 0.01, partition: int = 0) -> Send:
    invoked = int(at_s * S)
    return Send(
        process="p",
        partition=partition,
        value=value,
        invoked_ns=invoked,
        completed_ns=invoked + int(took_s * S),
        outcome="ok",
        offset=offset,
    )


def led(partition: int, leader: int, epoch: int, *, at_s: float) -> Leadership:
    return Leadership(
        broker="broker-2",
        partition=partition,
        leader=leader,
        leader_epoch=epoch,
        isr=(1, 2),
        seen_ns=int(at_s * S),
    )


def a_failover() -> History:
    """Broker 1 leads partition 0 and is killed at 10 s; what was sent at 10.2 s is acknowledged at 10.7 s."""
    return History(
        sends=[
            sent("a", 0, at_s=1),
            sent("other", 0, at_s=10.1, partition=1),
            sent("b", 1, at_s=9.9, took_s=0.75),
            sent("c", 2, at_s=10.2, took_s=0.5),
        ],
        final_reads=[
            Read(process="final", partition=partition, offset=offset, value=value, completed_ns=30 * S)
            for partition, offset, value in ((0, 0, "a"), (0, 1, "b"), (0, 2, "c"), (1, 0, "other"))
        ],
        leaderships=[led(0, 1, 0, at_s=0.5), led(1, 2, 0, at_s=0.5), led(0, 2, 1, at_s=10.6)],
        faults=[
            Fault(kind="SIGKILL", target="leader", nodes=("broker-1",), begun_ns=10 * S, ended_ns=14 * S, back_ms=40)
        ],
    )


def test_a_failover_takes_what_clients_wait():
    assert outages(a_failover()) == [Outage(kind="SIGKILL", target="leader", partition=0, ms=700)]


def test_the_99th_percentile_of_few_times_is_the_longest():
    assert p99([3, 1, 2]) == 3
    assert p99(list(range(200))) == 197


def test_a_failover_that_another_fault_met_says_nothing():
    history = a_failover()
    history.faults.append(
        Fault(kind="latency", target="all", nodes=("broker-2",), begun_ns=13 * S, ended_ns=16 * S, detail="400 ms")
    )

    assert outages(history) == []


def rendered(history: History, broken: str = "") -> tuple[dict, str]:
    verdict = check(history)
    report = plain("story", history, verdict, broken, {"longest_gap_ms": 70})
    return report, page([section(report, history, verdict)], [report], history.faults, ["SKIPPED: a <thing>"])


def test_a_page_shows_figures_faults_and_what_was_skipped():
    report, html = rendered(a_failover())

    assert report["ok"]
    assert report["failovers_ms"] == {"SIGKILL x leader": {"count": 1, "median": 700, "p99": 700, "max": 700}}
    assert "every promise held" in html
    assert "SIGKILL x leader: broker-1" in html
    assert "SKIPPED: a &lt;thing&gt;" in html
    assert re.search(r"<tr><td>SIGKILL<td[^>]*>0<td class=\"all\">1", html)
    assert "longest_gap_ms<td>70" in html


def test_an_anomaly_is_shown_with_its_operations():
    history = a_failover()
    history.final_reads = [read for read in history.final_reads if read.value != "b"]

    report, html = rendered(history, broken="broker-1 <ended> by itself")

    assert not report["ok"]
    assert "1 of 1 scenarios BROKEN" in html
    assert "broker-1 &lt;ended&gt; by itself" in html
    assert "<b>lost</b>: b was acknowledged at offset 1 and is missing" in html
    assert "Send(process=&#x27;p&#x27;, partition=0, value=&#x27;b&#x27;" in html


def test_the_page_is_self_contained(tmp_path: Path):
    report, _ = rendered(a_failover())
    summary = {"ok": True, "skipped": [], "scenarios": [report]}

    html = write(tmp_path, [section(report, a_failover(), check(a_failover()))], summary, a_failover().faults)

    loads = {"script", "link", "img", "iframe", "object", "image", "use"}
    found: list[str] = []

    class Loads(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list) -> None:
            found.extend([tag] if tag in loads else [])
            found.extend(value for name, value in attrs if name in {"href", "src"} and not value.startswith("#"))

    Loads().feed(html.read_text())
    assert found == []
    assert orjson.loads((tmp_path / "report.json").read_bytes()) == summary


def test_a_run_in_which_nothing_happened_has_a_page_too():
    report, html = rendered(History(), broken="the cluster did not start")

    assert not report["ok"]
    assert "the cluster did not start" in html
