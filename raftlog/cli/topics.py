"""`raftlog topics`: create, list, describe and delete topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from raftlog.cli.remote import admin, bootstrap_option
from raftlog.cli.shared import json_option, plural, print_json, print_table, run
from raftlog.model import NO_LEADER
from raftlog.wire.metadata import ConfigValue, TopicInfo


@click.group("topics")
def command() -> None:
    """Create, list, describe and delete topics."""


def _parse_configs(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, ConfigValue]:
    configs: dict[str, ConfigValue] = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"expected name=value, received {text!r}", context, parameter)
        if name in configs:
            raise click.BadParameter(f"{name} is set twice", context, parameter)
        configs[name] = int(value) if value.removeprefix("-").isdecimal() else value
    return configs


@command.command("create")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), help="Default: the brokers' num_partitions.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Default: default_replication_factor.")
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", callback=_parse_configs, help="Repeatable.")
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is fine, whatever it looks like.")
@bootstrap_option
@json_option
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Mapping[str, ConfigValue],
    if_not_exists: bool,
    bootstrap: list[str],
    as_json: bool,
) -> None:
    """Create the topic NAME."""

    async def work() -> TopicInfo:
        async with admin(bootstrap) as client:
            return await client.create_topic(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                if_not_exists=if_not_exists,
            )

    topic = run(work())
    if as_json:
        print_json(asdict(topic))
    else:
        click.echo(f"{topic.topic}: {plural(len(topic.partitions), 'partition')}, {_replicas(topic)} of each")


@command.command("list")
@bootstrap_option
@json_option
def list_(bootstrap: list[str], as_json: bool) -> None:
    """List all topics."""

    async def work() -> Sequence[TopicInfo]:
        async with admin(bootstrap) as client:
            return await client.list_topics()

    topics = run(work())
    if as_json:
        print_json([asdict(topic) for topic in topics])
        return
    rows = [(topic.topic, len(topic.partitions), _replicas(topic), _health(topic)) for topic in topics]
    print_table(["topic", "partitions", "replicas", "health"], rows)


@command.command("describe")
@click.argument("name")
@bootstrap_option
@json_option
def describe(name: str, bootstrap: list[str], as_json: bool) -> None:
    """Show the partitions of the topic NAME: leader, replicas, and who of them is in sync."""

    async def work() -> TopicInfo:
        async with admin(bootstrap) as client:
            return await client.describe_topic(name)

    topic = run(work())
    if as_json:
        print_json(asdict(topic))
        return
    settings = ", ".join(f"{key}={value}" for key, value in sorted(topic.configs.items())) or "none of its own"
    click.echo(f"topic {topic.topic}   id {topic.topic_id}   settings: {settings}")
    print_table(
        ["partition", "leader", "leader epoch", "replicas", "in sync"],
        [
            (
                partition.partition,
                "none" if partition.leader == NO_LEADER else partition.leader,
                partition.leader_epoch,
                _ids(partition.replicas),
                _ids(partition.isr),
            )
            for partition in topic.partitions
        ],
    )


@command.command("delete")
@click.argument("name")
@bootstrap_option
def delete(name: str, bootstrap: list[str]) -> None:
    """Delete the topic NAME and all its records."""

    async def work() -> None:
        async with admin(bootstrap) as client:
            await client.delete_topic(name)

    run(work())
    click.echo(f"{name}: deleted")


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def _replicas(topic: TopicInfo) -> str:
    return plural(max((len(partition.replicas) for partition in topic.partitions), default=0), "replica")


def _health(topic: TopicInfo) -> str:
    leaderless = sum(partition.leader == NO_LEADER for partition in topic.partitions)
    lagging = sum(len(partition.isr) < len(partition.replicas) for partition in topic.partitions)
    if leaderless:
        return f"{plural(leaderless, 'partition')} without a leader"
    return f"{plural(lagging, 'partition')} short of replicas in sync" if lagging else "all replicas in sync"
