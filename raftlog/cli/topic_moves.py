"""`raftlog topics reassign` and `elect-leaders`: moves of replicas and leaders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from raftlog.cli.remote import admin, bootstrap_option, partitions_argument
from raftlog.cli.shared import json_option, print_json, print_table, run
from raftlog.config import REASSIGNMENT_THROTTLE
from raftlog.errors import ConfigError
from raftlog.model import NO_LEADER, TopicPartition
from raftlog.schema import from_plain
from raftlog.wire.admin import ElectedLeader, Reassignment, ReassignmentRequest
from raftlog.wire.codec import decode_plain


@click.command("reassign")
@click.argument("partitions", nargs=-1, callback=partitions_argument, metavar="[TOPIC-PARTITION]...")
@click.option("--to", "target", metavar="BROKER[,BROKER]", help="The target replicas, preferred leader first.")
@click.option(
    "--plan", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A JSON file with several moves."
)
@click.option("--cancel", is_flag=True, help="Cancel the moves of these partitions.")
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
    """Move the replicas of partitions; without arguments, list the moves in progress.

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
            ids(m.replicas),
            ids(m.adding),
            ids(m.removing),
            ids(m.isr),
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
        raise click.UsageError("give partitions with --to or --cancel, or a --plan, or nothing to list the moves")
    if plan is not None:
        try:
            read = from_plain(
                ReassignmentRequest, decode_plain(plan.read_bytes(), error=ConfigError), error=ConfigError
            )
        except ConfigError as error:
            raise click.BadParameter(error.message, param_hint="--plan") from None
        return {(entry.topic, entry.partition): entry.replicas for entry in read.partitions}
    if target is None:
        return dict.fromkeys(partitions)
    if not all(part.strip().isdecimal() for part in target.split(",")):
        raise click.BadParameter(f"expected broker ids such as 1,2,3, received {target!r}", param_hint="--to")
    return dict.fromkeys(partitions, tuple(int(part) for part in target.split(",")))


@click.command("elect-leaders")
@click.argument("partitions", nargs=-1, callback=partitions_argument, metavar="[TOPIC-PARTITION]...")
@click.option("--unclean", is_flag=True, help="Elect any replica that is alive. LOSES RECORDS; asks for confirmation.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@bootstrap_option
@json_option
def elect_leaders(
    partitions: list[TopicPartition], unclean: bool, yes: bool, bootstrap: list[str], as_json: bool
) -> None:
    """Elect the preferred leaders, of these partitions or of all."""
    if unclean and not yes:
        if as_json:
            raise click.UsageError("with --json nothing is asked: give --yes")
        click.confirm("Records that only the missing replicas have will be lost. Continue?", abort=True, err=True)

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


def ids(brokers: Sequence[int]) -> str:
    """Return `1,2,3`."""
    return ",".join(map(str, brokers))
