"""The contestants, the measured work, and raftlog's goals relative to each peer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.peers.bare import Bare
from benchmarks.peers.jetstream import JetStream
from benchmarks.peers.kafka import Kafka
from benchmarks.peers.rabbitmq import RabbitMq
from benchmarks.peers.raftlog import Raftlog
from benchmarks.peers.redis import Redis
from benchmarks.peers.server import Server

SERVERS: dict[str, type[Server]] = {cls.name: cls for cls in (Raftlog, Kafka, JetStream, RabbitMq, Redis, Bare)}
NEVER_SYNCS = frozenset({"rabbitmq"})
"""They cannot sync before they acknowledge, so they are not in that table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One measurement of every contestant."""

    name: str
    unit: Literal["records_per_s", "p99_ms"]
    job: dict[str, Any]
    durable: bool = False
    """Measured with a sync before the acknowledgement, too."""

    @property
    def more_is_better(self) -> bool:
        return self.unit == "records_per_s"


WORKS = (
    Work(name="produce_100B", unit="records_per_s", job={"work": "produce", "record_bytes": 100}, durable=True),
    Work(name="produce_1KB", unit="records_per_s", job={"work": "produce", "record_bytes": 1024}, durable=True),
    Work(name="latency_1000_per_s", unit="p99_ms", job={"work": "latency", "record_bytes": 100}, durable=True),
    Work(name="consume_100B", unit="records_per_s", job={"work": "consume", "record_bytes": 100}),
    Work(name="consume_1KB", unit="records_per_s", job={"work": "consume", "record_bytes": 1024}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """A client of a system."""

    name: str
    server: str
    driver: str
    works: frozenset[str] = frozenset({"produce", "latency", "consume"})
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def has_certificate(self) -> bool:
        """Whether it can use its server with TLS: raftlog asks clients for certificates."""
        return self.server != RAFTLOG or self.driver == "raftlog_client"

    def does(self, work: Work, *, durable: bool) -> bool:
        if durable and (not work.durable or self.server in NEVER_SYNCS):
            return False
        return work.job["work"] in self.works


_PRODUCE, _CONSUME = frozenset({"produce"}), frozenset({"consume"})
RAFTLOG, RAFTLOG_ARROW, CONFLUENT = "raftlog", "raftlog, as Arrow", "kafka + confluent-kafka"
JETSTREAM = "jetstream + nats-py"
RAFTLOG_EACH, CONFLUENT_EACH = "raftlog, send_nowait", "kafka + confluent-kafka, produce"
"""A call for each record; the others give many to one call."""
CONTESTANTS = (
    Contestant(name=RAFTLOG, server="raftlog", driver="raftlog_client"),
    Contestant(name=RAFTLOG_EACH, server="raftlog", driver="raftlog_client", works=_PRODUCE, options={"each": True}),
    Contestant(name=RAFTLOG_ARROW, server="raftlog", driver="raftlog_client", works=_CONSUME, options={"arrow": True}),
    Contestant(name="raftlog + confluent-kafka", server="raftlog", driver="confluent"),
    Contestant(name=CONFLUENT, server="kafka", driver="confluent"),
    Contestant(name=CONFLUENT_EACH, server="kafka", driver="confluent", works=_PRODUCE, options={"each": True}),
    Contestant(name="kafka + aiokafka", server="kafka", driver="aio_kafka"),
    Contestant(name=JETSTREAM, server="jetstream", driver="nats_js"),
    Contestant(name="rabbitmq + rstream", server="rabbitmq", driver="rabbit_stream"),
    Contestant(name="redis + redis-py", server="redis", driver="redis_streams"),
    Contestant(name="bare Python, a bound", server="bare", driver="bare", works=frozenset({"produce", "latency"})),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """raftlog's figure over a peer's, from one run. Throughput must be at least `times`, latency at most."""

    work: str
    peer: str
    times: float
    ours: str = RAFTLOG
    durable: bool = False
    peer_durable: bool = False
    cpu_share: float | None = None
    """raftlog's CPU time for each record over the peer's, servers and client: at most this."""


def _goals() -> tuple[Goal, ...]:
    at_100 = {CONFLUENT: 3, "kafka + aiokafka": 10, JETSTREAM: 50, "rabbitmq + rstream": 4}
    at_1k = {"kafka + aiokafka": 6, JETSTREAM: 20, "rabbitmq + rstream": 2}
    return (
        *(Goal(work="produce_100B", peer=peer, times=n) for peer, n in {**at_100, "redis + redis-py": 5}.items()),
        *(Goal(work="produce_1KB", peer=peer, times=n) for peer, n in {**at_1k, "redis + redis-py": 2}.items()),
        Goal(work="produce_1KB", peer=CONFLUENT, times=2, cpu_share=0.55),
        Goal(work="produce_100B", peer=CONFLUENT, times=5, durable=True, peer_durable=True),
        Goal(work="produce_1KB", peer=CONFLUENT, times=5, durable=True, peer_durable=True),
        Goal(work="produce_100B", peer=CONFLUENT_EACH, times=0.8, ours=RAFTLOG_EACH),
        Goal(work="consume_100B", peer=CONFLUENT, times=2),
        Goal(work="consume_100B", peer=CONFLUENT, times=15, ours=RAFTLOG_ARROW),
        Goal(work="latency_1000_per_s", peer=CONFLUENT, times=1),
        Goal(work="latency_1000_per_s", peer=CONFLUENT, times=2, durable=True),
        Goal(work="latency_1000_per_s", peer=JETSTREAM, times=1),
        Goal(work="latency_1000_per_s", peer=JETSTREAM, times=1, durable=True, peer_durable=True),
    )


GOALS = _goals()
TLS_GOALS = tuple(
    Goal(work=work, peer=CONFLUENT, times=1)
    for work in ("produce_100B", "produce_1KB", "consume_100B", "consume_1KB", "latency_1000_per_s")
)
"""Ahead of Kafka with its TLS."""
PARTITIONED_GOALS = (
    Goal(work="produce_100B", peer=CONFLUENT, times=4),
    Goal(work="produce_1KB", peer=CONFLUENT, times=1.8, cpu_share=0.5),
)
"""With several partitions."""
