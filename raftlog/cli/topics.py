"""`raftlog topics`: create, list, describe, alter and delete topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from raftlog.cli.remote import admin, bootstrap_option, changes, configs_option, local_option, partitions_argument
from raftlog.cli.shared import json_option, plural, print_json, print_table, run
from raftlog.config import REASSIGNMENT_THROTTLE
from raftlog.errors import ConfigError
from raftlog.model import NO_LEADER, TopicPartition
from raftlog.schema import from_plain
from raftlog.wire.admin import ElectedLeader, Reassignment, ReassignmentRequest
from raftlog.wire.codec import decode_plain
from raftlog.wire.data import HIGH_WATERMARK
from raftlog.wire.metadata import ConfigValue, TopicInfo


@click.group("topics")
def command() -> None:
    """Create, list, describe, alter and delete topics; move their replicas and leaders."""


@command.command("create")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), help="Default: the brokers' num_partitions.")
@click.option("--replication-factor", type=click.IntRange(min=1), help="Default: default_replication_factor.")
@configs_option
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
@click.argument("name")
@bootstrap_option
@local_option
@json_option
def describe(name: str, bootstrap: list[str], local: bool, as_json: bool) -> None:
    """Show the partitions of the topic NAME: leader, replicas, and who of them is in sync."""

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
                _ids(partition.replicas),
                _ids(partition.isr),
                _ids(partition.elr) or "-",
            )
            for partition in topic.partitions
        ],
    )


@command.command("alter")
@click.argument("name")
@configs_option
@click.option("--unset", "removed", multiple=True, metavar="NAME", help="Back to the default. Repeatable.")
@click.option("--partitions", type=click.IntRange(min=1), help="More partitions; there is no way back.")
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
@click.argument("name")
@bootstrap_option
def delete(name: str, bootstrap: list[str]) -> None:
    """Delete the topic NAME and all its records."""

    async def work() -> None:
        async with admin(bootstrap) as client:
            await client.delete_topic(name)

    run(work())
    click.echo(f"{name}: deleted")


@command.command("delete-records")
@click.argument("partitions", nargs=-1, required=True, callback=partitions_argument, metavar="TOPIC-PARTITION...")
@click.option(
    "--before", required=True, metavar="OFFSET", help="Records below it go; high_watermark: all that can be read now."
)
@bootstrap_option
@json_option
def delete_records(partitions: list[TopicPartition], before: str, bootstrap: list[str], as_json: bool) -> None:
    """Delete the records of partitions below an offset, for good."""
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


@command.command("reassign")
@click.argument("partitions", nargs=-1, callback=partitions_argument, metavar="[TOPIC-PARTITION]...")
@click.option("--to", "target", metavar="BROKER[,BROKER]", help="Where the replicas shall be, preferred leader first.")
@click.option("--plan", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A JSON file of many moves.")
@click.option("--cancel", is_flag=True, help="Go back to where these partitions were.")
@click.option(
    "--throttle",
    type=int,
    metavar="BYTES",
    help="Bytes a second that each broker may fetch for moves, from now on; -1: as fast as it can.",
)
@bootstrap_option
@json_option
def reassign(
    partitions: list[TopicPartition],
    target: str | None,
    plan: Path | None,
    cancel: bool,
    throttle: int | None,
    bootstrap: list[str],
    as_json: bool,
) -> None:
    """Move the replicas of partitions; without arguments, list the moves under way.

    A plan is {"partitions": [{"topic": "flights", "partition": 0, "replicas": [1, 2, 3]}]}.
    """
    moves = _moves(partitions, target, plan, cancel)

    async def work() -> list[Reassignment]:
        async with admin(bootstrap) as client:
            if throttle is not None:
                await client.alter_broker_configs({REASSIGNMENT_THROTTLE: None if throttle == -1 else throttle})
            return await client.reassign_partitions(moves) if moves else await client.reassignments()

    moving = run(work())
    if as_json:
        print_json([asdict(move) for move in moving])
        return
    rows = [
        (
            f"{m.topic}-{m.partition}",
            _ids(m.replicas),
            _ids(m.adding),
            _ids(m.removing),
            _ids(m.isr),
            "" if m.records_left is None else f"{m.records_left:,}",
        )
        for m in moving
    ]
    titles = ["partition", "replicas", "adding", "removing", "in sync", "records left"]
    print_table(titles, rows, empty="nothing is moving")


def _moves(
    partitions: list[TopicPartition], target: str | None, plan: Path | None, cancel: bool
) -> dict[tuple[str, int], Sequence[int] | None]:
    if sum((target is not None, plan is not None, cancel)) > 1 or bool(partitions) != (target is not None or cancel):
        raise click.UsageError("give partitions with --to or --cancel, or a --plan, or nothing to list what moves")
    if plan is not None:
        try:
            read = from_plain(
                ReassignmentRequest, decode_plain(plan.read_bytes(), error=ConfigError), error=ConfigError
            )
        except ConfigError as error:
            raise click.BadParameter(error.message, param_hint="--plan") from None
        return {(asked.topic, asked.partition): asked.replicas for asked in read.partitions}
    if target is None:
        return dict.fromkeys(partitions)
    if not all(part.strip().isdecimal() for part in target.split(",")):
        raise click.BadParameter(f"expected broker ids such as 1,2,3, received {target!r}", param_hint="--to")
    return dict.fromkeys(partitions, tuple(int(part) for part in target.split(",")))


@command.command("elect-leaders")
@click.argument("partitions", nargs=-1, callback=partitions_argument, metavar="[TOPIC-PARTITION]...")
@click.option(
    "--unclean", is_flag=True, help="Lead with any replica that is alive. LOSES RECORDS; asks before it does."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@json_option
def elect_leaders(
    partitions: list[TopicPartition], unclean: bool, yes: bool, bootstrap: list[str], as_json: bool
) -> None:
    """Give leadership back to the preferred leaders, of these partitions or of all."""
    if unclean and not yes:
        click.confirm("Records that only the missing replicas hold will be lost. Go on?", abort=True)

    async def work() -> list[ElectedLeader]:
        async with admin(bootstrap) as client:
            return await client.elect_leaders(partitions or None, unclean=unclean)

    elected = run(work())
    if as_json:
        print_json([asdict(result) for result in elected])
        return
    rows = [
        (f"{result.topic}-{result.partition}", "none" if result.leader == NO_LEADER else result.leader, result.error)
        for result in elected
    ]
    print_table(["partition", "leader", "why not"], rows, empty="every leader is the preferred one already")


def _settings(topic: TopicInfo) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(topic.configs.items())) or "none of its own"


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
