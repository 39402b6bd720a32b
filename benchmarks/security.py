"""What TLS and credentials cost: a cluster in clear beside one with TLS everywhere, three replicas, acks=all."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.clusters import Secured, running
from benchmarks.loads import Load, costs
from benchmarks.report import Bound, Effort, Figure, repeat
from benchmarks.tls_hop import FORMS, Hops
from raftlog import blocking
from raftlog.cli.local_cluster import LocalCluster

_USER, _PASSWORD = "bench", "a password of the benchmark"
_KB = 1024
_FILLED = "filled"
_HOPS = 3
"""Of a record with three replicas: from the client to the leader, and to each follower."""


class _Keyed(LocalCluster):
    """In clear, with the cluster key that logins need."""

    def start(self, *names: str) -> None:
        self.data.joinpath("cluster.key").write_text(secrets.token_hex(32))
        super().start(*names)


@contextmanager
def _both(effort: Effort) -> Iterator[tuple[Load, Load]]:
    """Run a cluster in clear and one with TLS."""
    with running() as plain, running(Secured) as secured:
        assert isinstance(secured, Secured)
        yield Load(plain, effort), Load(secured, effort, environment=secured.environment)


def _compared(effort: Effort, name: str, loads: tuple[Load, Load], least: float, **job: Any) -> list[Figure]:
    """Run a job with both, alternating; the ratio is that of rates, and the costs are CPU for each megabyte."""
    turns = repeat(effort.pick(7, quick=3), name)
    pairs = [[load.run(**job) for load in loads] for _ in turns]
    rates = [[float(result["records_per_s"]) for result in results] for results in zip(*pairs, strict=True)]
    notes = [costs(list(results)) for results in zip(*pairs, strict=True)]
    ratios = [second / first for first, second in zip(*rates, strict=True)]
    return [
        Figure(name=f"{name}_plain_records_per_s", samples=rates[0], better="more", notes=notes[0]),
        Figure(name=f"{name}_records_per_s", samples=rates[1], better="more", notes=notes[1]),
        Figure(name=f"{name}_of_plain", samples=ratios, bounds=(Bound(statistic="median", at_least=least),)),
    ]


def produce(effort: Effort) -> list[Figure]:
    """Records of 1 KB that are acknowledged in a second."""
    with _both(effort) as loads:
        return _compared(effort, "tls_produce_1KB", loads, 0.85, work="produce", record_bytes=_KB)


def limit(effort: Effort) -> list[Figure]:
    """How much of plain throughput TLS can leave at most, while all cores are busy.

    A produced record makes three hops: to the leader, and to two followers. Their encryption alone is added to what the
    plain cluster spends for a megabyte of records of 1 KB (every process of it, and the client). A consumer is the
    slowest part of its path: to what it spends in clear, decryption alone is added.
    """
    hops, turns = Hops(), effort.pick(7, quick=3)
    with running() as cluster:
        load, spent, consumers = Load(cluster, effort), list[float](), list[float]()
        records = _fill([load])
        hop: dict[str, list[float]] = {form: [] for form in FORMS}
        for _ in repeat(turns, "limit"):
            for form, samples in hop.items():
                samples.append(hops.cpu_ms_per_mb(form, effort.pick(256, quick=64)))
            cost = costs([load.run(work="produce", record_bytes=_KB)])
            spent.append(1_000 * (cost["server_cpu_s_per_MB"] + cost["client_cpu_s_per_MB"]))
            cost = costs([load.run(**_reading(records))])
            consumers.append(1_000 * cost["client_cpu_s_per_MB"])
    added = {
        "memory": hop["memory"],
        **{
            form: [tls - clear for tls, clear in zip(hop[form], hop["clear"], strict=True)]
            for form in ("fd", "asyncio")
        },
    }
    bounds = {
        form: [plain / (plain + _HOPS * more) for plain, more in zip(spent, samples, strict=True)]
        for form, samples in added.items()
    }
    return [
        *(Figure(name=f"{form}_hop_cpu_ms_per_MB", samples=samples, better="less") for form, samples in hop.items()),
        Figure(name="plain_produce_1KB_cpu_ms_per_MB", samples=spent, better="less"),
        *(Figure(name=f"most_of_plain_produced_with_{form}", samples=samples) for form, samples in bounds.items()),
        Figure(name="plain_consumer_1KB_cpu_ms_per_MB", samples=consumers, better="less"),
        Figure(
            name="most_of_plain_consumed",
            samples=[plain / (plain + more) for plain, more in zip(consumers, hop["decrypt"], strict=True)],
        ),
    ]


def consume(effort: Effort) -> list[Figure]:
    """Records of 1 KB that are read in a second, as Arrow."""
    with _both(effort) as loads:
        return _compared(effort, "tls_consume_1KB", loads, 0.5, **_reading(_fill(loads)))


def _fill(loads: Sequence[Load]) -> int:
    """Write a topic to each cluster; return how many records each has at least."""
    seconds = 4.0 if loads[0].effort.quick else 10.0
    job: dict[str, Any] = {"work": "fill", "topic": _FILLED, "seconds": seconds, "warmup_s": 0.0, "record_bytes": _KB}
    return min(int(load.run(**job)["records"]) for load in loads)


def _reading(records: int) -> dict[str, Any]:
    """Return the job of a consumer of that topic."""
    return {
        "work": "consume",
        "topic": _FILLED,
        "records": records,
        "record_bytes": _KB,
        "options": {"arrow": True},
    }


def latency(effort: Effort) -> list[Figure]:
    """From the call until every replica has the record, at 1,000 records a second: TLS beside plain."""
    with _both(effort) as loads:
        turns = repeat(effort.pick(7, quick=3), "latency")
        pairs = [[float(load.run(work="latency")["p50_ms"]) for load in loads] for _ in turns]
    ratios = [second / first for first, second in pairs]
    return [
        Figure(name="plain_p50_ms", samples=[first for first, _ in pairs], better="less"),
        Figure(name="tls_p50_ms", samples=[second for _, second in pairs], better="less"),
        Figure(name="tls_p50_of_plain", samples=ratios, bounds=(Bound(statistic="median", at_most=1.3),)),
    ]


def credentials(effort: Effort) -> list[Figure]:
    """The same cluster in clear, one record for each request, without credentials and with a user's."""
    with running(_Keyed, extra={"*": {"security": {"cluster_key_file": "../cluster.key"}}}) as cluster:
        with blocking.Admin(cluster.bootstrap) as admin:
            admin.put_user(_USER, _PASSWORD)
        known = {"RAFTLOG_USERNAME": _USER, "RAFTLOG_PASSWORD": _PASSWORD}
        loads = Load(cluster, effort), Load(cluster, effort, environment=known)
        job: dict[str, Any] = {
            "work": "produce",
            "options": {"producer": {"batch_bytes": 16 << 10, "max_in_flight": 5}},
        }
        return _compared(effort, "credentials_produce_16KB", loads, 0.95, **job)


FIGURES = {"produce": produce, "limit": limit, "consume": consume, "latency": latency, "credentials": credentials}
