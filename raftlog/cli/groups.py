"""`raftlog groups`: members, offsets and lag of consumer groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import click

from raftlog.cli.remote import admin, bootstrap_option, complete_groups, partitions_argument
from raftlog.cli.shared import json_option, plural, print_json, print_table, run, say
from raftlog.cli.times import a_time
from raftlog.client import Admin
from raftlog.client.start_offsets import Start
from raftlog.errors import NotFoundError
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
    rows = [(group.group_id, group.kind, group.phase, group.members, group.coordinator) for group in groups]
    print_table(["group", "protocol", "state", "members", "coordinator"], rows, empty="no groups")


@command.command("describe")
@click.argument("group", shell_complete=complete_groups)
@bootstrap_option
@json_option
def describe(group: str, bootstrap: list[str], as_json: bool) -> None:
    """Show GROUP's members, their partitions, and the group's offset and lag in each partition."""

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
    epoch = f"generation {described.epoch}" if described.kind == "classic" else f"epoch {described.epoch}"
    assignor = f", assignor {described.assignor}" if described.assignor else ""
    say(
        f"{group}: {described.phase}, {plural(len(described.members), 'member')}, {described.kind} protocol, {epoch}"
        f"{assignor}, coordinator {described.coordinator}"
    )
    rows = []
    for partition in partitions:
        member = owners.get(partition)
        named = (member.instance_id or member.member_id, member.client_host) if member else ("-", "-")
        rows.append((partition, offsets.get(partition, "-"), lags.get(partition, "-"), *named))
    print_table(["partition", "offset", "lag", "member", "host"], rows, empty="the group has no members and no offsets")


@command.command("reset-offsets")
@click.argument("group", shell_complete=complete_groups)
@click.argument("partitions", nargs=-1, callback=partitions_argument, metavar="[TOPIC-PARTITION]...")
@click.option("--topic", "topics", multiple=True, help="All partitions of this topic. Repeatable.")
@click.option("--to-earliest", is_flag=True, help="To the first record there is.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option(
    "--to-time",
    type=a_time,
    metavar="TIME",
    help="To a time: ISO 8601 (local time without a zone), ms since 1970, or 90s, 5m, 2h, 1d ago.",
)
@click.option("--to-offset", type=click.IntRange(min=0), help="To this offset, or the nearest that the log holds.")
@click.option("--shift-by", type=int, help="By so many offsets, back if it is negative.")
@click.option("--create", "create", is_flag=True, help="The group does not exist yet: create it with these offsets.")
@click.option("--dry-run", is_flag=True, help="Only show the plan.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@json_option
def reset_offsets(
    *,
    group: str,
    partitions: Sequence[TopicPartition],
    topics: Sequence[str],
    to_earliest: bool,
    to_latest: bool,
    to_time: datetime | None,
    to_offset: int | None,
    shift_by: int | None,
    create: bool,
    dry_run: bool,
    yes: bool,
    bootstrap: list[str],
    as_json: bool,
) -> None:
    """Change the offsets of GROUP, which must have no members: of partitions, of topics, or of all that it has.

    Shows the plan and asks for confirmation first.
    """
    if sum([to_earliest, to_latest, to_time is not None, to_offset is not None, shift_by is not None]) != 1:
        raise click.UsageError("give exactly one of --to-earliest, --to-latest, --to-time, --to-offset, --shift-by")
    if dry_run and yes:
        raise click.UsageError("--dry-run changes nothing and --yes does it without asking: give one of them")
    if as_json and not (dry_run or yes):
        raise click.UsageError("with --json nothing is asked: give --yes, or --dry-run to see the plan")
    if create and shift_by is not None:
        raise click.UsageError("--create begins with no offsets: there is nothing to shift")
    to: Start | None = "earliest" if to_earliest else "latest" if to_latest else to_time
    reset = _Reset(group, partitions, topics, to=to, to_offset=to_offset, shift_by=shift_by or 0, create=create)
    plan = run(reset.plan(bootstrap))
    if as_json:
        print_json([asdict(step) for step in plan])
    else:
        rows = [(TopicPartition(step.topic, step.partition), _or_dash(step.before), step.offset) for step in plan]
        print_table(["partition", "offset", "new offset"], rows, empty="the group has no offsets; name partitions")
    if dry_run or not plan:
        click.echo("dry run: nothing was changed" if dry_run else "nothing was changed", err=True)
        return
    if not yes:
        click.confirm(f"Change the offsets of {group}?", abort=True, err=True)
    run(reset.do(bootstrap, plan))
    if not as_json:
        click.echo(f"{group}: {plural(len(plan), 'offset')} changed", err=True)


def _or_dash(offset: Offset | None) -> str:
    return "-" if offset is None else str(offset)


@dataclass(frozen=True, slots=True)
class _Step:
    """The change of one partition's offset."""

    topic: str
    partition: int
    before: Offset | None
    """The committed offset."""
    offset: Offset


@dataclass(frozen=True, slots=True)
class _Reset:
    """The options of one reset."""

    group: str
    partitions: Sequence[TopicPartition]
    topics: Sequence[str]
    to: Start | None
    to_offset: Offset | None
    shift_by: int
    create: bool

    async def plan(self, bootstrap: list[str]) -> list[_Step]:
        """Return the new offsets."""
        async with admin(bootstrap) as client:
            await self._require_group(client)
            chosen = list(self.partitions)
            for topic in self.topics:
                known = await client.describe_topic(topic, local=True)
                chosen += [TopicPartition(topic, info.partition) for info in known.partitions]
            before = await client.group_offsets(self.group)
            after = await client.reset_group_offsets(
                self.group,
                to=self.to,
                to_offset=self.to_offset,
                shift_by=self.shift_by,
                partitions=chosen or None,
                dry_run=True,
            )
        return [_Step(*partition, before.get(partition), at) for partition, at in sorted(after.items())]

    async def do(self, bootstrap: list[str], plan: Sequence[_Step]) -> None:
        """Commit the new offsets."""
        async with admin(bootstrap) as client:
            await client.alter_group_offsets(self.group, {(step.topic, step.partition): step.offset for step in plan})

    async def _require_group(self, client: Admin) -> None:
        if self.create:
            return
        try:
            await client.describe_group(self.group)
        except NotFoundError as error:
            advice = "raftlog groups list shows the groups; --create creates one with these offsets"
            raise NotFoundError(f"{error.message}; {advice}", code=error.code) from None


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
                    say(f"deleted {group}")

    run(work())
    if as_json:
        print_json({"deleted": groups})
