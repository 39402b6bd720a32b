"""Gathers facts about a cluster. Every answer may be hostile, late or missing: each failure is a fact."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias, TypeVar

from raftlog.cli.doctor.dialling import Dialler
from raftlog.cli.doctor.facts import ClusterFacts, ListenerFacts, NodeFacts
from raftlog.cli.doctor.node_checks import METRICS
from raftlog.errors import AuthenticationError, AuthorizationError, RaftlogError
from raftlog.metrics.text import parse
from raftlog.model import Address
from raftlog.wire import paths
from raftlog.wire.admin import FeaturesResponse, LogDirsResponse, QuorumResponse, UsersResponse
from raftlog.wire.metadata import BrokerInfo, ClientMetadata, ClusterInfo

T = TypeVar("T")
_Look: TypeAlias = Callable[[Dialler, NodeFacts], Awaitable[NodeFacts]]
MAX_NODES = 100
"""Nodes that are looked at."""
LATE = "it did not answer before the deadline"


async def gather_cluster(
    dialler: Dialler,
    bootstrap: Sequence[str],
    *,
    on_node: bool,
    quorum_urls: Mapping[int, str],
    progress: Callable[[str], None],
) -> ClusterFacts:
    """Return facts about a cluster and its nodes.

    Args:
        bootstrap: URLs of brokers.
        on_node: this is the machine of a node.
        quorum_urls: the Raft listeners of controllers to dial, by their ids.
        progress: called with what is looked at.
    """
    progress(f"looking for a broker at {len(bootstrap)} addresses")
    addresses = [Address.of_url(url) for url in bootstrap[:MAX_NODES]]
    reached = await asyncio.gather(*(_bootstrap(dialler, address) for address in addresses))
    facts = ClusterFacts(now_s=time.time(), on_node=on_node, bootstrap=tuple(listener for listener, _ in reached))
    found = [
        (address, cluster) for address, (_, cluster) in zip(addresses, reached, strict=True) if cluster is not None
    ]
    if not found:
        return facts
    address, cluster = found[0]
    progress("reading the cluster's metadata")
    facts = await _describe(dialler, address, replace(facts, cluster=cluster))
    looks = _looks(cluster, facts.quorum, quorum_urls)
    progress(f"looking at {len(looks[:MAX_NODES])} nodes")
    nodes = await _all_in_time(dialler, looks[:MAX_NODES])
    return replace(facts, now_s=time.time(), nodes=nodes, left_out=max(0, len(looks) - MAX_NODES))


def _looks(
    cluster: ClusterInfo, quorum: QuorumResponse | None, quorum_urls: Mapping[int, str]
) -> list[tuple[NodeFacts, _Look]]:
    """Return each node and how to look at it: the controllers first, since there are few and they count partitions."""
    looks: list[tuple[NodeFacts, _Look]] = []
    if quorum is not None:
        voters = [_controller_facts(each.node_id, each.address, quorum_urls) for each in quorum.voters]
        looks += [(voter, _look_at_controller) for voter in voters]
    elif (active := cluster.controller).url:
        looks.append((_controller_facts(active.controller_id, active.url, quorum_urls), _look_at_controller))
    return [*looks, *((_broker_facts(broker), _look_at_broker) for broker in cluster.brokers)]


async def _bootstrap(dialler: Dialler, address: Address) -> tuple[ListenerFacts, ClusterInfo | None]:
    listener = ListenerFacts(listener="public", url=address.url)
    reached, found = await asyncio.gather(
        dialler.reach(listener),
        _or_error(dialler.read(ClusterInfo, address, paths.CLUSTER, large=True, consistency="local")),
    )
    if isinstance(found, _Failed):
        return replace(reached, error=found), None
    return replace(reached, error=""), found


async def _describe(dialler: Dialler, address: Address, facts: ClusterFacts) -> ClusterFacts:
    """Return the facts with what one broker says about topics, quorum and feature level."""
    failures: dict[str, str] = {}

    async def part(name: str, work: Awaitable[T]) -> T | None:
        try:
            return await work
        except (AuthenticationError, AuthorizationError) as error:
            failures[f"{name} (not permitted)"] = error.message
        except RaftlogError as error:
            failures[name] = error.message
        return None

    metadata, quorum, features = await asyncio.gather(
        part("topics", dialler.read(ClientMetadata, address, paths.METADATA, large=True)),
        part("quorum", dialler.read(QuorumResponse, address, paths.QUORUM, large=True)),
        part("feature level", dialler.read(FeaturesResponse, address, paths.FEATURES, large=True)),
    )
    topics = None if metadata is None else metadata.topics
    return replace(facts, topics=topics, quorum=quorum, features=features, failures=failures)


def _broker_facts(broker: BrokerInfo) -> NodeFacts:
    listeners = [ListenerFacts(listener="public", url=broker.url)]
    if broker.internal_url:
        listeners.append(ListenerFacts(listener="internal", url=broker.internal_url))
    return NodeFacts(kind="broker", node_id=broker.broker_id, version=broker.version, listeners=tuple(listeners))


def _controller_facts(node_id: int, address: str, quorum_urls: Mapping[int, str]) -> NodeFacts:
    listeners = [ListenerFacts(listener="internal", url=address if "://" in address else f"http://{address}")]
    if node_id in quorum_urls:
        listeners.append(ListenerFacts(listener="quorum", url=quorum_urls[node_id]))
    return NodeFacts(kind="controller", node_id=node_id, listeners=tuple(listeners))


async def _all_in_time(dialler: Dialler, looks: Sequence[tuple[NodeFacts, _Look]]) -> tuple[NodeFacts, ...]:
    """Look at all nodes; those that are not done before the deadline get that as a failure."""
    tasks = [asyncio.ensure_future(look(dialler, node)) for node, look in looks]
    if not tasks:
        return ()
    try:
        await asyncio.wait(tasks, timeout=dialler.whole_s())
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    nodes = []
    for task, (node, _) in zip(tasks, looks, strict=True):
        if task.cancelled():
            nodes.append(replace(node, failures={"node": LATE}))
        elif (error := task.exception()) is not None:
            nodes.append(replace(node, failures={"node": f"{type(error).__name__}: {error}"}))
        else:
            nodes.append(task.result())
    return tuple(nodes)


async def _look_at_broker(dialler: Dialler, node: NodeFacts) -> NodeFacts:
    node, address = await _reach_all(dialler, node)
    if address is None:
        return node
    path = paths.fill(paths.LOG_DIRS, broker=node.node_id)
    page, users, log_dirs = await asyncio.gather(
        _or_error(dialler.page(address)),
        _or_error(dialler.read(UsersResponse, address, paths.USERS, consistency="local")),
        _or_error(dialler.read(LogDirsResponse, address, path)),
    )
    failures = {
        name: found for name, found in (("access rules", users), ("replicas", log_dirs)) if isinstance(found, _Failed)
    }
    node = replace(
        _with_page(node, page),
        authorizer="" if isinstance(users, _Failed) else users.authorizer,
        log_dirs=None if isinstance(log_dirs, _Failed) else log_dirs,
    )
    return replace(node, failures={**node.failures, **failures})


async def _look_at_controller(dialler: Dialler, node: NodeFacts) -> NodeFacts:
    node, address = await _reach_all(dialler, node)
    if address is None:
        return node
    return _with_page(node, await _or_error(dialler.page(address)))


def _with_page(node: NodeFacts, page: str | _Failed) -> NodeFacts:
    if isinstance(page, _Failed):
        return replace(node, failures={"metrics": page})
    metrics = parse(page, METRICS)
    return replace(node, metrics=metrics, version=metrics.label("raftlog_build_info", "version") or node.version)


async def _reach_all(dialler: Dialler, node: NodeFacts) -> tuple[NodeFacts, Address | None]:
    """Dial every listener; return the node, and the address of the first one if it answers a health check."""
    reached = await asyncio.gather(*(dialler.reach(listener) for listener in node.listeners))
    node = replace(node, listeners=tuple(reached))
    first = node.listeners[0]
    with suppress(ValueError):
        address = Address.of_url(first.url)
        if first.error:
            return node, None
        why, clock = await dialler.health(address)
        if not why:
            return replace(node, clock_s=clock), address
        if first.listener == "internal" and first.certificate_end_s is not None:
            return replace(node, failures={"node": f"{why}; a client's certificate may be needed (--cert-file)"}), None
        return replace(node, listeners=(replace(first, error=why), *node.listeners[1:])), None
    return node, None


class _Failed(str):
    """Why a request failed."""

    __slots__ = ()


async def _or_error(work: Awaitable[T]) -> T | _Failed:
    try:
        return await work
    except RaftlogError as error:
        return _Failed(error.message or error.code.value)
