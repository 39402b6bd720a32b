"""`raftlog groups`: who reads what, how far, and from where on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

import click

from raftlog.cli.remote import admin, bootstrap_option, complete_groups, partitions_argument
from raftlog.cli.shared import json_option, plural, print_json, print_table, run
from raftlog.cli.times import a_time
from raftlog.client.starts import Start
from raftlog.model import Offset, TopicPartition
from raftlog.wire.groups import GroupDescription, GroupListing, flat


@click.group("groups")
def command() -> None:
    """List, describe, reset and delete consumer groups."""


@command.command("list")
@bootstrap_option
@json_option
def list_(bootstrap: list[str], as_json: bool) -> None:
    """List all groups."""

    async def work() -> list[GroupListing]:
        async with admin(bootstrap) as client:
            return await client.list_groups()

    groups = run(work())
    if as_json:
        print_json([asdict(group) for group in groups])
        return
    rows = [(group.group_id, group.phase, group.members, group.coordinator) for group in groups]
    print_table(["group", "state", "members", "coordinator"], rows, empty="no groups")


@command.command("describe")
@click.argument("group", shell_complete=complete_groups)
@bootstrap_option
@json_option
def describe(group: str, bootstrap: list[str], as_json: bool) -> None:
    """Show GROUP's members, what each of them reads, and how far the group has read every partition."""

    async def work() -> tuple[GroupDescription, dict[TopicPartition, Offset], dict[TopicPartition, int]]:
        async with admin(bootstrap) as client:
            described = await client.describe_group(group)
            return described, await client.group_offsets(group), await client.group_lag(group)

    described, offsets, lags = run(work())
    owners = {partition: member for member in described.members for partition in flat(member.assignment)}
    partitions = sorted({*offsets, *owners})
    if as_json:
        document = asdict(described) | {
            "offsets": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "offset": offsets.get(partition),
                    "lag": lags.get(partition),
                    "member_id": owners[partition].member_id if partition in owners else None,
                }
                for partition in partitions
            ]
        }
        print_json(document)
        return
    click.echo(
        f"{group}: {described.phase}, {plural(len(described.members), 'member')}, epoch {described.epoch}, "
        f"assignor {described.assignor}, coordinator {described.coordinator}"
    )
    rows = []
    for partition in partitions:
        member = owners.get(partition)
        named = (member.instance_id or member.member_id, member.client_host) if member else ("-", "-")
        rows.append((partition, offsets.get(partition, "-"), lags.get(partition, "-"), *named))
    print_table(["partition", "offset", "lag", "member", "host"], rows, empty="it reads nothing, and has no offsets")


@command.command("reset-offsets")
@click.argument("group", shell_complete=complete_groups)
@click.argument("partitions", nargs=-1, callback=partitions_argument, metavar="[TOPIC-PARTITION]...")
@click.option("--topic", "topics", multiple=True, help="All partitions of this topic. Repeatable.")
@click.option("--to-earliest", "end", flag_value="earliest", help="To the first record there is.")
@click.option("--to-latest", "end", flag_value="latest", help="To the end.")
@click.option(
    "--to-time", type=a_time, metavar="TIME", help="To a time: ISO 8601, ms since 1970, or 90s, 5m, 2h, 1d ago."
)
@click.option("--to-offset", type=click.IntRange(min=0), help="To this offset.")
@click.option("--shift-by", type=int, help="By so many offsets, back if it is negative.")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@bootstrap_option
@json_option
def reset_offsets(
    group: str,
    partitions: Sequence[TopicPartition],
    topics: Sequence[str],
    end: Literal["earliest", "latest"] | None,
    to_time: int | None,
    to_offset: int | None,
    shift_by: int | None,
    dry_run: bool,
    bootstrap: list[str],
    as_json: bool,
) -> None:
    """Let GROUP, which must have no members, read on elsewhere: in partitions, topics, or all that it has read."""
    if [end, to_time, to_offset, shift_by].count(None) != 3:
        raise click.UsageError("give one of --to-earliest, --to-latest, --to-time, --to-offset, --shift-by")
    to: Start | None = end if to_time is None else to_time
    after = run(
        _reset(bootstrap, group, partitions, topics, to=to, to_offset=to_offset, shift_by=shift_by or 0, dry=dry_run)
    )
    if as_json:
        print_json([{"topic": p.topic, "partition": p.partition, "offset": at} for p, at in sorted(after.items())])
        return
    print_table(["partition", "new offset"], sorted(after.items()), empty="the group has no offsets; name partitions")
    if dry_run:
        click.echo("dry run: nothing was changed", err=True)


async def _reset(
    bootstrap: list[str],
    group: str,
    partitions: Sequence[TopicPartition],
    topics: Sequence[str],
    *,
    to: Start | None,
    to_offset: Offset | None,
    shift_by: int,
    dry: bool,
) -> dict[TopicPartition, Offset]:
    async with admin(bootstrap) as client:
        chosen = list(partitions)
        for topic in topics:
            known = await client.describe_topic(topic, local=True)
            chosen += [TopicPartition(topic, info.partition) for info in known.partitions]
        if to_offset is None:
            named = chosen or None
            return await client.reset_group_offsets(group, to=to, shift_by=shift_by, partitions=named, dry_run=dry)
        after = dict.fromkeys(chosen or await client.group_offsets(group), to_offset)
        if not dry:
            await client.alter_group_offsets(group, {(*partition,): at for partition, at in after.items()})
        return after


@command.command("delete")
@click.argument("groups", nargs=-1, required=True, shell_complete=complete_groups)
@bootstrap_option
@json_option
def delete(groups: Sequence[str], bootstrap: list[str], as_json: bool) -> None:
    """Delete GROUPS that have no members, with their offsets."""

    async def work() -> None:
        async with admin(bootstrap) as client:
            for group in groups:
                await client.delete_group(group)
                if not as_json:
                    click.echo(f"deleted {group}")

    run(work())
    if as_json:
        print_json({"deleted": groups})
