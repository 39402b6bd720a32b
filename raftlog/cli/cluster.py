"""`raftlog cluster`: the cluster as its brokers see it."""

from __future__ import annotations

from dataclasses import asdict

import click

from raftlog.cli.remote import admin, bootstrap_option, local_option
from raftlog.cli.shared import json_option, print_json, print_table, run
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


@command.command("unregister-broker")
@click.argument("broker", type=click.IntRange(min=0))
@bootstrap_option
def unregister_broker(broker: int, bootstrap: list[str]) -> None:
    """Forget BROKER, which has stopped for good and has no replicas any more."""

    async def work() -> None:
        async with admin(bootstrap) as client:
            await client.unregister_broker(broker)

    run(work())
    click.echo(f"broker {broker}: unregistered")
