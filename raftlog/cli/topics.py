"""`raftlog topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from raftlog.cli.remote import (
    admin,
    bootstrap_option,
    changes,
    complete_topics,
    configs_option,
    isolation_option,
    local_option,
    partitions_argument,
)
from raftlog.cli.shared import json_option, plural, print_done, print_json, print_table, run
from raftlog.cli.times import a_time_or_an_end
from raftlog.cli.topic_moves import elect_leaders, ids, reassign
from raftlog.client.start_offsets import Start
from raftlog.model import NO_LEADER, Isolation, TopicPartition
from raftlog.wire.data import HIGH_WATERMARK, OffsetResponse
from raftlog.wire.metadata import ConfigValue, TopicInfo


@click.group("topics")
def command() -> None:
    """Create, list, describe, alter and delete topics; move their replicas and leaders."""


@command.command("create")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), help="Default: the brokers' num_partitions.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Default: default_replication_factor.")
@configs_option
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists already, with any settings.")
@click.option("--validate-only", is_flag=True, help="Create nothing; print what would be created, or the error.")
@bootstrap_option
@json_option
def create(
    name: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Mapping[str, ConfigValue],
    if_not_exists: bool,
    validate_only: bool,
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
                validate_only=validate_only,
            )

    topic = run(work())
    if as_json:
        print_json(asdict(topic))
    else:
        click.echo(f"{topic.topic}: {plural(len(topic.partitions), 'partition')}, {_replicas(topic)} of each")
    if validate_only:
        click.echo("validated: nothing was created", err=True)


@command.command("list")
@bootstrap_option
@local_option
@json_option
def list_(bootstrap: list[str], local: bool, as_json: bool) -> None:
    """List all topics."""

    async def work() -> Sequence[TopicInfo]:
        async with admin(bootstrap) as client:
            return await client.list_topics(local=local)

    topics = run(work())
    if as_json:
        print_json([asdict(topic) for topic in topics])
        return
    rows = [(topic.topic, len(topic.partitions), _replicas(topic), _health(topic)) for topic in topics]
    print_table(["topic", "partitions", "replicas", "health"], rows, empty="no topics")


@command.command("describe")
@click.argument("name", shell_complete=complete_topics)
@bootstrap_option
@local_option
@json_option
def describe(name: str, bootstrap: list[str], local: bool, as_json: bool) -> None:
    """Show the partitions of the topic NAME: leader, replicas, and the in-sync replicas."""

    async def work() -> TopicInfo:
        async with admin(bootstrap) as client:
            return await client.describe_topic(name, local=local)

    topic = run(work())
    if as_json:
        print_json(asdict(topic))
        return
    click.echo(f"topic {topic.topic}   id {topic.topic_id}   settings: {_settings(topic)}")
    print_table(
        ["partition", "leader", "leader epoch", "replicas", "in sync", "eligible"],
        [
            (
                partition.partition,
                "none" if partition.leader == NO_LEADER else partition.leader,
                partition.leader_epoch,
                ids(partition.replicas),
                ids(partition.isr),
                ids(partition.elr) or "-",
            )
            for partition in topic.partitions
        ],
    )


@command.command("alter")
@click.argument("name", shell_complete=complete_topics)
@configs_option
@click.option("--unset", "removed", multiple=True, metavar="NAME", help="Back to the default. Repeatable.")
@click.option(
    "--partitions", type=click.IntRange(min=1), help="The new number of partitions; it cannot be lowered again."
)
@bootstrap_option
@json_option
def alter(
    name: str,
    configs: Mapping[str, ConfigValue],
    removed: Sequence[str],
    partitions: int | None,
    bootstrap: list[str],
    as_json: bool,
) -> None:
    """Change settings of the topic NAME, or add partitions."""
    changed = changes(configs, removed)
    if not changed and partitions is None:
        raise click.UsageError("nothing to change: give --config, --unset or --partitions")

    async def work() -> TopicInfo:
        async with admin(bootstrap) as client:
            return await client.alter_topic(name, configs=changed, partitions=partitions)

    topic = run(work())
    if as_json:
        print_json(asdict(topic))
    else:
        click.echo(f"{topic.topic}: {plural(len(topic.partitions), 'partition')}; settings: {_settings(topic)}")


@command.command("delete")
@click.argument("name", shell_complete=complete_topics)
@bootstrap_option
@json_option
def delete(name: str, bootstrap: list[str], as_json: bool) -> None:
    """Delete the topic NAME and all its records."""

    async def work() -> None:
        async with admin(bootstrap) as client:
            await client.delete_topic(name)

    run(work())
    print_done(f"{name}: deleted", as_json, deleted=name)


@command.command("offsets")
@click.argument("name", shell_complete=complete_topics)
@click.option(
    "--at",
    type=a_time_or_an_end,
    default="latest",
    show_default=True,
    metavar="TIME",
    help="earliest, latest, or a time: ISO 8601 (local time without a zone), ms since 1970, or 90s, 5m, 2h, 1d ago.",
)
@click.option("--partition", "partitions", type=click.IntRange(min=0), multiple=True, help="Repeatable. Default: all.")
@isolation_option
@bootstrap_option
@json_option
def offsets(
    name: str, at: Start, partitions: Sequence[int], isolation: Isolation, bootstrap: list[str], as_json: bool
) -> None:
    """Show each partition's first offset at or after a time (or its end) in the topic NAME."""

    async def work() -> list[OffsetResponse]:
        async with admin(bootstrap) as client:
            return await client.list_offsets(name, at, partitions=partitions or None, isolation=isolation)

    found = run(work())
    if as_json:
        print_json([asdict(each) for each in found])
        return
    rows = [(each.partition, each.offset, each.log_start_offset, each.high_watermark) for each in found]
    print_table(["partition", "offset", "log start offset", "high watermark"], rows)


@command.command("delete-records")
@click.argument("partitions", nargs=-1, required=True, callback=partitions_argument, metavar="TOPIC-PARTITION...")
@click.option(
    "--before",
    required=True,
    metavar="OFFSET",
    help="Delete the records below it; high_watermark: all that can be read now.",
)
@bootstrap_option
@json_option
def delete_records(partitions: list[TopicPartition], before: str, bootstrap: list[str], as_json: bool) -> None:
    """Delete the records of partitions below an offset, permanently."""
    if before != HIGH_WATERMARK and not before.isdecimal():
        raise click.BadParameter(f"expected an offset or {HIGH_WATERMARK}, received {before!r}", param_hint="--before")
    offset = None if before == HIGH_WATERMARK else int(before)

    async def work() -> list[tuple[TopicPartition, int]]:
        async with admin(bootstrap) as client:
            return [(each, await client.delete_records(*each, before=offset)) for each in partitions]

    starts = run(work())
    if as_json:
        print_json([{"topic": t, "partition": p, "log_start_offset": start} for (t, p), start in starts])
        return
    for (topic, partition), start in starts:
        click.echo(f"{topic}-{partition}: starts at offset {start}")


def _settings(topic: TopicInfo) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(topic.configs.items())) or "none of its own"


def _replicas(topic: TopicInfo) -> str:
    return plural(max((len(partition.replicas) for partition in topic.partitions), default=0), "replica")


def _health(topic: TopicInfo) -> str:
    leaderless = sum(partition.leader == NO_LEADER for partition in topic.partitions)
    lagging = sum(len(partition.isr) < len(partition.replicas) for partition in topic.partitions)
    if leaderless:
        return f"{plural(leaderless, 'partition')} without a leader"
    return f"{plural(lagging, 'partition')} short of replicas in sync" if lagging else "all replicas in sync"


command.add_command(reassign)
command.add_command(elect_leaders)
