"""The state of a cluster at one moment, from its nodes' metrics: health, nodes, topics, groups, routes. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from raftlog.metrics.plain_text import clipped
from raftlog.metrics.rates import Pages

Kind: TypeAlias = Literal["broker", "controller"]
Level: TypeAlias = Literal["healthy", "warning", "critical"]
PRODUCE = "/v1/produce"
DISK_WARN = 0.1
MAX_NAME = 256
"""Characters of the longest names, which are those of groups; rows have whole names, to be found by them."""
METRICS = frozenset(
    {
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "raftlog_active_controller",
        "raftlog_broker_fenced",
        "raftlog_build_info",
        "raftlog_bytes_in_total",
        "raftlog_bytes_out_total",
        "raftlog_cluster_offline_partitions",
        "raftlog_cluster_partitions",
        "raftlog_disk_free_bytes",
        "raftlog_disk_size_bytes",
        "raftlog_follower_max_lag_records",
        "raftlog_group_lag_records",
        "raftlog_offline_replicas",
        "raftlog_partitions",
        "raftlog_partitions_led",
        "raftlog_quorum_log_end_offset",
        "raftlog_quorum_term",
        "raftlog_quorum_voter_lag_entries",
        "raftlog_records_in_total",
        "raftlog_records_out_total",
        "raftlog_request_seconds_bucket",
        "raftlog_requests_total",
        "raftlog_topic_bytes_in_total",
        "raftlog_topic_bytes_out_total",
        "raftlog_topic_records_in_total",
        "raftlog_topic_records_out_total",
        "raftlog_under_min_isr_partitions",
        "raftlog_under_replicated_partitions",
    }
)
"""Those that an overview needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """What is known of one node."""

    kind: Kind
    node_id: int
    fenced: bool = False
    pages: Pages | None = None
    """None: it has not answered."""
    error: str = ""
    """Why it does not answer now; "": it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReading:
    """What is known of a cluster."""

    cluster_id: str = ""
    nodes: tuple[NodeReading, ...] = ()
    error: str = ""
    """Why no broker describes the cluster now; "": one does."""
    left_out: int = 0
    """Nodes beyond the limit, which are not read."""
    voters_known: bool = True
    """Whether every controller that votes is among the nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRow:
    """A controller. None: unknown."""

    node_id: int
    state: str
    error: str = ""
    term: int | None = None
    log_end_offset: int | None = None
    lag_entries: int | None = None
    cpu_share: float | None = None
    rss_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """A broker. None: unknown; rates are known from the second reading on."""

    node_id: int
    state: str
    error: str = ""
    partitions_led: int | None = None
    partitions: int | None = None
    under_replicated: int | None = None
    lag_records: int | None = None
    """The most that it is behind in any partition, as its leaders count."""
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None
    requests_per_s: float | None = None
    produce_p99_s: float | None = None
    cpu_share: float | None = None
    """Of one CPU; 1.0 is all of it."""
    rss_bytes: int | None = None
    disk_used_share: float | None = None
    """Of its fullest disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """The traffic of a topic."""

    topic: str
    bytes_in_per_s: float = 0.0
    bytes_out_per_s: float = 0.0
    records_in_per_s: float = 0.0
    records_out_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """A consumer group."""

    group: str
    topics: int
    lag_records: int
    growth_per_s: float | None = None
    """How much its lag grows in a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRow:
    """The requests of one route to all brokers; long polls count with their wait."""

    route: str
    requests_per_s: float
    p99_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """A cluster at one moment."""

    cluster_id: str = ""
    level: Level = "healthy"
    words: tuple[str, ...] = ()
    """What is wrong, the worst first; nothing if the cluster is healthy."""
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None
    records_in_per_s: float | None = None
    records_out_per_s: float | None = None
    requests_per_s: float | None = None
    under_replicated: int = 0
    controllers: tuple[ControllerRow, ...] = ()
    brokers: tuple[BrokerRow, ...] = ()
    topics: tuple[TopicRow, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    routes: tuple[RouteRow, ...] = field(default=())


def overview(reading: ClusterReading) -> Overview:
    """Return a cluster's state; names are escaped."""
    brokers = [node for node in reading.nodes if node.kind == "broker"]
    controllers = [node for node in reading.nodes if node.kind == "controller"]
    answering = [node.pages for node in brokers if node.pages is not None and not node.error]
    critical = list(_critical(reading, brokers, controllers))
    warnings = list(_warnings(reading, brokers, controllers))
    lags = _follower_lags(answering)
    return Overview(
        cluster_id=clipped(reading.cluster_id, 40),
        level="critical" if critical else "warning" if warnings else "healthy",
        words=(*critical, *warnings),
        bytes_in_per_s=_sum(pages.rate("raftlog_bytes_in_total") for pages in answering),
        bytes_out_per_s=_sum(pages.rate("raftlog_bytes_out_total") for pages in answering),
        records_in_per_s=_sum(pages.rate("raftlog_records_in_total") for pages in answering),
        records_out_per_s=_sum(pages.rate("raftlog_records_out_total") for pages in answering),
        requests_per_s=_sum(pages.rate("raftlog_requests_total") for pages in answering),
        under_replicated=_total(answering, "raftlog_under_replicated_partitions"),
        controllers=_controllers(controllers),
        brokers=tuple(_broker(node, lags) for node in brokers),
        topics=_topics(answering),
        groups=_groups(answering),
        routes=_routes(answering),
    )


def _critical(
    reading: ClusterReading, brokers: Sequence[NodeReading], controllers: Sequence[NodeReading]
) -> Iterator[str]:
    answering = [node.pages for node in reading.nodes if node.pages is not None and not node.error]
    if reading.error:
        yield f"no broker describes the cluster: {clipped(reading.error, 120)}"
    if reading.voters_known and _are_standbys(controllers):
        yield "no active controller"
    offline = max((_now(pages, "raftlog_cluster_offline_partitions") for pages in answering), default=0)
    for count, text in (
        (offline, "without a leader"),
        (_total(answering, "raftlog_under_min_isr_partitions"), "refuse acks=all"),
    ):
        if count:
            yield f"{_count(count, 'partition')} {text}"
    silent = [f"{node.kind} {node.node_id}" for node in reading.nodes if node.error]
    if silent:
        yield f"no answer from {_list(silent)}"
    if unusable := _total(answering, "raftlog_offline_replicas"):
        yield f"{_count(unusable, 'replica')} cannot be used"
    fenced = [f"broker {node.node_id}" for node in brokers if node.fenced]
    if fenced:
        yield f"fenced: {_list(fenced)}"


def _warnings(
    reading: ClusterReading, brokers: Sequence[NodeReading], controllers: Sequence[NodeReading]
) -> Iterator[str]:
    answering = [node.pages for node in reading.nodes if node.pages is not None and not node.error]
    if not reading.voters_known and _are_standbys(controllers):
        names = _list([f"controller {node.node_id}" for node in controllers])
        yield f"not active: {names}; the other voters are not known"
    if under := _total(answering, "raftlog_under_replicated_partitions"):
        yield f"{_count(under, 'partition')} under-replicated"
    full = [f"broker {node.node_id}" for node in brokers if (_disk_used(node.pages) or 0) > 1 - DISK_WARN]
    if full:
        yield f"a disk is nearly full: {_list(full)}"
    if reading.left_out:
        shown = f"only the first {len(reading.nodes)} are shown"
        yield f"{_count(reading.left_out, 'node')} were not read: {shown}"


def _are_standbys(controllers: Sequence[NodeReading]) -> bool:
    """Return whether all controllers answer, and none is active."""
    seen = [node for node in controllers if node.pages is not None and not node.error]
    active = any(_now(node.pages, "raftlog_active_controller") for node in seen)
    return bool(seen) and len(seen) == len(controllers) and not active


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _count(count: float, noun: str) -> str:
    return f"{count:,.0f} {noun}{'s' * (count != 1)}"


def _now(pages: Pages | None, name: str) -> float:
    return 0.0 if pages is None else pages.now.samples.total(name)


def _total(answering: Iterable[Pages], name: str) -> int:
    return round(sum(_now(pages, name) for pages in answering))


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _follower_lags(answering: Iterable[Pages]) -> dict[str, float]:
    lags: dict[str, float] = {}
    for pages in answering:
        for follower, lag in pages.now.samples.by_label("raftlog_follower_max_lag_records", "follower").items():
            lags[follower] = max(lag, lags.get(follower, 0))
    return lags


def _disk_used(pages: Pages | None) -> float | None:
    if pages is None:
        return None
    sizes = pages.now.samples.by_label("raftlog_disk_size_bytes", "folder")
    free = pages.now.samples.by_label("raftlog_disk_free_bytes", "folder")
    return max((1 - free[name] / size for name, size in sizes.items() if size > 0 and name in free), default=None)


def _controllers(nodes: Sequence[NodeReading]) -> tuple[ControllerRow, ...]:
    lags: dict[str, float] = {}
    for node in nodes:
        if node.pages is not None and not node.error and _now(node.pages, "raftlog_active_controller"):
            lags = node.pages.now.samples.by_label("raftlog_quorum_voter_lag_entries", "voter")
    return tuple(_controller(node, lags) for node in nodes)


def _controller(node: NodeReading, lags: Mapping[str, float]) -> ControllerRow:
    lag = lags.get(str(node.node_id))
    lag_entries = None if lag is None else round(lag)
    if node.error or node.pages is None:
        return ControllerRow(
            node_id=node.node_id,
            state="no answer" if node.error else "...",
            error=clipped(node.error, 120),
            lag_entries=lag_entries,
        )
    pages = node.pages
    return ControllerRow(
        node_id=node.node_id,
        state="active" if _now(pages, "raftlog_active_controller") else "standby",
        term=round(_now(pages, "raftlog_quorum_term")),
        log_end_offset=round(_now(pages, "raftlog_quorum_log_end_offset")),
        lag_entries=lag_entries,
        cpu_share=pages.rate("process_cpu_seconds_total"),
        rss_bytes=round(_now(pages, "process_resident_memory_bytes")),
    )


def _broker(node: NodeReading, lags: Mapping[str, float]) -> BrokerRow:
    lag = lags.get(str(node.node_id))
    lag_records = None if lag is None else round(lag)
    if node.error or node.pages is None:
        state = "no answer" if node.error else "..."
        error = clipped(node.error, 120)
        return BrokerRow(node_id=node.node_id, state=state, error=error, lag_records=lag_records)
    pages = node.pages
    return BrokerRow(
        node_id=node.node_id,
        state="fenced" if node.fenced or _now(pages, "raftlog_broker_fenced") else "ok",
        partitions_led=round(_now(pages, "raftlog_partitions_led")),
        partitions=round(_now(pages, "raftlog_partitions")),
        under_replicated=round(_now(pages, "raftlog_under_replicated_partitions")),
        lag_records=lag_records,
        bytes_in_per_s=pages.rate("raftlog_bytes_in_total"),
        bytes_out_per_s=pages.rate("raftlog_bytes_out_total"),
        requests_per_s=pages.rate("raftlog_requests_total"),
        produce_p99_s=pages.quantiles("raftlog_request_seconds", "route", 0.99).get(PRODUCE),
        cpu_share=pages.rate("process_cpu_seconds_total"),
        rss_bytes=round(_now(pages, "process_resident_memory_bytes")),
        disk_used_share=_disk_used(pages),
    )


def _topics(answering: Sequence[Pages]) -> tuple[TopicRow, ...]:
    sums: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for column in ("bytes_in", "bytes_out", "records_in", "records_out"):
        for pages in answering:
            for topic, rate in pages.rates(f"raftlog_topic_{column}_total", "topic").items():
                values = sums[topic]
                values[f"{column}_per_s"] = values.get(f"{column}_per_s", 0.0) + rate
    return tuple(TopicRow(topic=clipped(topic, MAX_NAME), **rates) for topic, rates in sums.items())


def _groups(answering: Sequence[Pages]) -> tuple[GroupRow, ...]:
    name = "raftlog_group_lag_records"
    lags, before, topics = defaultdict[str, float](float), defaultdict[str, float](float), defaultdict[str, int](int)
    seconds: dict[str, float | None] = {}
    for pages in answering:
        for sample in pages.now.samples.each(name):
            group = sample.labels.get("group", "")
            lags[group] += sample.value
            topics[group] += 1
            seconds[group] = pages.seconds
        for sample in pages.before.samples.each(name) if pages.before is not None else ():
            before[sample.labels.get("group", "")] += sample.value
    return tuple(
        GroupRow(
            group=clipped(group, MAX_NAME),
            topics=topics[group],
            lag_records=round(lag),
            growth_per_s=(lag - before[group]) / elapsed if (elapsed := seconds[group]) and group in before else None,
        )
        for group, lag in lags.items()
    )


def _routes(answering: Sequence[Pages]) -> tuple[RouteRow, ...]:
    rates, slowest = defaultdict[str, float](float), dict[str, float]()
    for pages in answering:
        for route, rate in pages.rates("raftlog_requests_total", "route").items():
            rates[route] += rate
        for route, seconds in pages.quantiles("raftlog_request_seconds", "route", 0.99).items():
            slowest[route] = max(seconds, slowest.get(route, 0.0))
    return tuple(
        RouteRow(route=clipped(route, 120), requests_per_s=rate, p99_s=slowest.get(route))
        for route, rate in rates.items()
        if rate > 0
    )
