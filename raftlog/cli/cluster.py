"""`raftlog cluster`: the cluster as its brokers see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import click

from raftlog.cli.remote import admin, bootstrap_option, local_option
from raftlog.cli.shared import json_option, print_done, print_json, print_table, run
from raftlog.wire.admin import LogDirsResponse, StoredReplica, UnusableReplica
from raftlog.wire.metadata import ClusterInfo


@click.group("cluster")
def command() -> None:
    """Look at the cluster."""


@command.command("describe")
@bootstrap_option
@local_option
@json_option
def describe(bootstrap: list[str], local: bool, as_json: bool) -> None:
    """Show the active controller and the brokers."""

    async def work() -> ClusterInfo:
        async with admin(bootstrap) as client:
            return await client.describe_cluster(local=local)

    cluster = run(work())
    if as_json:
        print_json(asdict(cluster))
        return
    controller = cluster.controller
    active = "none known" if controller.controller_id < 0 else str(controller.controller_id)
    voters = ",".join(map(str, controller.voters)) or "unknown"
    click.echo(f"cluster {cluster.cluster_id}   active controller: {active}   voters: {voters}")
    print_table(
        ["broker", "url", "internal", "rack", "state"],
        [
            (broker.broker_id, broker.url, broker.internal_url, broker.rack, "fenced" if broker.fenced else "active")
            for broker in cluster.brokers
        ],
    )


@command.command("log-dirs")
@click.option("--broker", "brokers", type=click.IntRange(min=0), multiple=True, help="Repeatable. Default: all.")
@click.option("--topic", "topics", multiple=True, help="Only replicas of this topic. Repeatable.")
@bootstrap_option
@json_option
def log_dirs(brokers: Sequence[int], topics: Sequence[str], bootstrap: list[str], as_json: bool) -> None:
    """Show the size of each replica, by broker and folder, and the free space of the disks."""

    async def work() -> list[LogDirsResponse]:
        async with admin(bootstrap) as client:
            return await client.log_dirs(brokers or None)

    found = [_only(broker, topics) for broker in run(work())]
    if as_json:
        print_json([asdict(broker) for broker in found])
        return
    rows = list[tuple[object, ...]]()
    for broker in found:
        for folder in broker.log_dirs:
            room = f"{folder.usable_bytes:,} of {folder.total_bytes:,} bytes free"
            click.echo(f"broker {broker.broker_id}, {folder.path}: {room}", err=True)
            rows += [(broker.broker_id, folder.path, *_named(r), _role(r), r.size_bytes) for r in folder.replicas]
        rows += [(broker.broker_id, "?", *_named(offline), offline.error, "?") for offline in broker.offline]
    print_table(["broker", "folder", "topic", "partition", "role", "bytes"], rows, empty="no replicas")


def _named(replica: StoredReplica | UnusableReplica) -> tuple[str, int]:
    return replica.topic, replica.partition


def _role(replica: StoredReplica) -> str:
    role = "leader" if replica.leader else "follower"
    if replica.lost_batches:
        return f"{role}, lost batches at {', '.join(map(str, replica.lost_batches))}"
    return f"{role}, damaged" if replica.damage else role


def _only(broker: LogDirsResponse, topics: Sequence[str]) -> LogDirsResponse:
    """Return only the replicas of `topics`; all if it is empty."""
    if not topics:
        return broker
    folders = (
        replace(folder, replicas=tuple(stored for stored in folder.replicas if stored.topic in topics))
        for folder in broker.log_dirs
    )
    offline = tuple(stored for stored in broker.offline if stored.topic in topics)
    return replace(broker, log_dirs=tuple(folders), offline=offline)


@command.command("unregister-broker")
@click.argument("broker", type=click.IntRange(min=0))
@bootstrap_option
@json_option
def unregister_broker(broker: int, bootstrap: list[str], as_json: bool) -> None:
    """Unregister BROKER, which is stopped for good and has no replicas."""

    async def work() -> None:
        async with admin(bootstrap) as client:
            await client.unregister_broker(broker)

    run(work())
    print_done(f"broker {broker}: unregistered", as_json, unregistered=broker)
