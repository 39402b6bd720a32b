"""The comparison with peers: what it makes of samples, and how it starts and ends servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers import __main__ as command
from benchmarks.peers.contestants import (
    CONFLUENT,
    CONTESTANTS,
    GOALS,
    PARTITIONED_GOALS,
    RAFTLOG,
    SERVERS,
    TLS_GOALS,
    WORKS,
)
from benchmarks.peers.server import PeerError, Server, free_ports, listens
from benchmarks.peers.trials import Plan, Table, Trials
from benchmarks.peers.verdict import goals, rows

PRODUCE = next(work for work in WORKS if work.name == "produce_100B")
LATENCY = next(work for work in WORKS if work.unit == "p99_ms")


def sample(**more: float) -> dict[str, float]:
    return {"records": 1_000, "server_cpu_s": 0.5, "client_cpu_s": 0.5, **more}


def table(work: str, unit: str, **values: list[float]) -> Table:
    found = Table()
    for who, measured in values.items():
        name = {"ours": RAFTLOG, "kafka": CONFLUENT}[who]
        found.samples[work, name] = [sample(**{unit: value}) for value in measured]
    return found


def test_the_ratio_is_the_median_of_the_rounds():
    # In round 2 the machine was slow for both: no reason to call anybody faster.
    found = table("produce_100B", "records_per_s", ours=[300, 30, 330], kafka=[100, 10, 100])
    ours, kafka = rows(found, PRODUCE)
    assert (ours.contestant, ours.median, ours.ratio) == (RAFTLOG, 300, 1)
    assert (kafka.contestant, kafka.median, kafka.ratio) == (CONFLUENT, 100, 3)
    assert kafka.cpu_us_per_record == 1_000


def test_a_missed_round_falls_back_to_medians():
    _, kafka = rows(table("produce_100B", "records_per_s", ours=[300, 300], kafka=[100]), PRODUCE)
    assert kafka.ratio == 3


@pytest.mark.parametrize(("ours", "reached"), [(300, True), (299, False)])
def test_throughput_has_to_reach_its_goal(ours: float, reached: bool):
    judged = goals({False: table("produce_100B", "records_per_s", ours=[ours], kafka=[100])})
    [verdict] = [goal for goal in judged if goal["reached"] is not None]
    assert verdict["reached"] is reached
    assert verdict["goal"] == ">= 3 x"


def test_latency_with_our_sync_is_compared_with_kafkas_without():
    plain = table(LATENCY.name, "p99_ms", ours=[1.0], kafka=[2.0])
    synced = table(LATENCY.name, "p99_ms", ours=[4.5], kafka=[9.0])
    judged = [goal for goal in goals({False: plain, True: synced}) if goal["reached"] is not None]
    assert [(goal["ratio"], goal["reached"]) for goal in judged] == [(0.5, True), (2.25, False)]


@pytest.mark.parametrize(("seconds", "reached"), [(0.25, True), (0.26, False)])
def test_a_goal_may_limit_the_cpu_time_of_a_record(seconds: float, reached: bool):
    found = table("produce_1KB", "records_per_s", ours=[300], kafka=[100])
    found.samples["produce_1KB", RAFTLOG][0] |= {"server_cpu_s": seconds, "client_cpu_s": seconds}
    [verdict] = [goal for goal in goals({False: found}, PARTITIONED_GOALS) if goal["reached"] is not None]
    assert (verdict["goal"], verdict["ratio"], verdict["reached"]) == (">= 1.8 x, CPU <= 0.5 x", 3, reached)


def test_percentiles_of_latencies_are_medians_of_the_rounds():
    found = table(LATENCY.name, "p99_ms", ours=[1.0, 2.0, 3.0])
    for row, rare in zip(found.samples[LATENCY.name, RAFTLOG], (9.0, 5.0, 7.0), strict=True):
        row["p99_9_ms"] = rare
    [ours] = rows(found, LATENCY)
    assert ours.to_plain()["p99_9_ms"] == 7.0


def test_every_goal_names_what_is_measured():
    known = {work.name for work in WORKS}
    assert {goal.work for goal in (*GOALS, *PARTITIONED_GOALS, *TLS_GOALS)} <= known


def test_a_peer_that_is_not_installed_is_skipped_loudly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(SERVERS["kafka"], "missing", classmethod(lambda _: "no Kafka in .tools"))
    servers, skipped = command._present(["kafka"])
    assert list(servers) == ["raftlog"]
    assert skipped == {"kafka": "no Kafka in .tools"}
    assert "SKIPPED kafka" in capsys.readouterr().err


def test_tls_is_measured_where_it_can_be(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.argv", ["peers", "--tls"])
    options = command._options()
    assert options.peers == ["raftlog", "kafka"]
    names = [contestant.name for contestant in command._plan(options).contestants]
    assert RAFTLOG in names
    assert CONFLUENT in names
    assert "raftlog + confluent-kafka" not in names
    assert {goal.peer for goal in TLS_GOALS} <= {*names}
    monkeypatch.setattr("sys.argv", ["peers", "--tls", "redis"])
    with pytest.raises(SystemExit):
        command._options()
    assert "--tls: redis is measured in clear only" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("shares", "rate", "runs"), [([0.01], 1, 1), ([0.3, 0.02], 2, 2), ([0.3, 0.1, 0.2, 0.0], 2, 3), ([0.3, None], 1, 2)]
)
def test_a_trial_that_the_host_disturbed_is_measured_again(
    shares: list[float | None], rate: int, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    told: list[str] = []
    plan = Plan(works=[], contestants=[], rounds=1, warmup_rounds=0, seconds=1, warmup_s=0, partitions=1, max_bytes=1)
    trials = Trials(plan, {}, durable=False, folder=tmp_path, say=told.append)
    samples = iter([share if share is None else {"stolen_share": share} for share in shares])
    done: list[int] = []

    def once(*_: object) -> dict[str, float] | None:
        done.append(1)
        found = next(samples)
        return found if found is None else {**found, "records_per_s": len(done)}

    monkeypatch.setattr(trials, "_once", once)
    found = trials._trial(PRODUCE, CONTESTANTS[0], attempts=3)
    assert found is not None
    assert (found["records_per_s"], len(done)) == (rate, runs)
    assert ["the host took" in line for line in told] == [share > 0.03 for share in shares[:runs] if share is not None]


class Sleepers(Server):
    """Processes that do nothing, as a system of servers."""

    name = "sleepers"

    def __init__(self, folder: Path, *, durable: bool = False, command: tuple[str, ...] = ("sleep", "60")) -> None:
        super().__init__(folder, durable=durable)
        self._command = command

    @classmethod
    def missing(cls) -> str | None:
        return None

    @property
    def bootstrap(self) -> str:
        return ""

    @property
    def settings(self) -> dict[str, object]:
        return {}

    def start(self) -> None:
        self.launch("one", self._command)
        self.launch("two", self._command)
        self.wait_until(lambda: self._command[0] == "sleep", "ready")


def test_servers_end_with_their_block(tmp_path: Path):
    with Sleepers(tmp_path / "s") as servers:
        pids = servers.pids
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_a_server_that_ends_is_told_with_its_log(tmp_path: Path):
    with pytest.raises(PeerError, match=r"sleepers: a server exited with 3; the end of (one|two).log:\nno such heap"):
        Sleepers(tmp_path / "s", command=("sh", "-c", "echo no such heap; exit 3")).__enter__()


def test_free_ports_are_free():
    ports = free_ports(3)
    assert len(set(ports)) == 3
    assert not any(map(listens, ports))
