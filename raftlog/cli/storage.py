"""`raftlog storage`: data folders of stopped nodes, and scrubs of running brokers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from raftlog.cli.remote import admin, bootstrap_option, complete_topics
from raftlog.cli.shared import failure, json_option, plural, print_json, print_table, run
from raftlog.cli.storage_check import check_data_folder, total_bytes
from raftlog.client import Admin
from raftlog.errors import ConfigError, RaftlogError
from raftlog.partition.storage.damage_truncation import cut_at_damage
from raftlog.partition.storage.data_dir import DataDir, kept_unused
from raftlog.partition.storage.fsck import Finding
from raftlog.runtime import new_uuid_hex
from raftlog.wire.admin import LogDirsResponse, ScrubResponse

_LOOK_S = 0.3
"""The poll interval of the brokers' progress."""


@click.group("storage")
def command() -> None:
    """Format data folders, check them, and cut damaged logs."""


@command.command("format")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--cluster-id", help="The cluster that the folder will belong to. Default: a new random id.")
@click.option("--node-id", type=click.IntRange(min=0, max=2**31 - 1), required=True, help="The node that will own it.")
def format_(folder: Path, cluster_id: str | None, node_id: int) -> None:
    """Format DIR for one node of one cluster, and print the cluster's id.

    Optional: a node formats an empty folder itself. A folder of another node or cluster is refused and not changed.
    """
    if cluster_id == "":
        raise click.BadParameter("expected a name, received none", param_hint="--cluster-id")
    owner = cluster_id or new_uuid_hex()
    try:
        DataDir.open(folder, cluster_id=owner, node_id=node_id).close()
    except RaftlogError as error:
        raise failure(error) from None
    click.echo(owner)


@command.command("check")
@click.option(
    "--data",
    "folders",
    multiple=True,
    default=[Path("data")],
    show_default="data",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The data folder of a stopped node, or one of its log folders; may be repeated.",
)
@json_option
@click.pass_context
def check(context: click.Context, folders: tuple[Path, ...], as_json: bool) -> None:
    """Read every file of a stopped node's data folder, and report damage. Changes nothing.

    Exit code 1 if a file is damaged. A note is something that the next start repairs by itself.
    """
    findings = list[Finding]()
    columns = (TextColumn("checking"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with _unused(*folders), Progress(*columns, console=Console(stderr=True, emoji=False), transient=True) as progress:
        task = progress.add_task("", total=sum(map(total_bytes, folders)))
        for folder in folders:
            findings += check_data_folder(folder, lambda count: progress.advance(task, count))
    damaged = sum(finding.severity == "damage" for finding in findings)
    if as_json:
        print_json({"ok": not damaged, "findings": [asdict(finding) for finding in findings]})
    else:
        rows = [(finding.severity, finding.path, finding.what) for finding in findings]
        print_table(("", "FILE", "WHAT"), rows, empty="nothing is wrong")
        if damaged:
            click.echo(f"{plural(damaged, 'damage')} found; see docs/how-to/recover-a-damaged-disk.md", err=True)
    context.exit(1 if damaged else 0)


@command.command("scrub")
@click.option("--broker", "brokers", type=click.IntRange(min=0), multiple=True, help="Repeatable. Default: all.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    shell_complete=complete_topics,
    help="Only this topic. Repeatable. Default: all.",
)
@click.option("--no-wait", is_flag=True, help="Start the scrub, and return.")
@bootstrap_option
@json_option
@click.pass_context
def scrub(
    context: click.Context,
    brokers: Sequence[int],
    topics: Sequence[str],
    no_wait: bool,
    bootstrap: list[str],
    as_json: bool,
) -> None:
    """Have running brokers read their logs from disk now and check every batch, as they do by themselves every week.

    What is damaged is repaired from other replicas. It goes on if this command is interrupted; how fast, each broker's
    log_scrub_bytes_per_second says. Exit code 1 if something damaged is left, or a log could not be
    read.
    """

    async def work() -> _Scrubbed:
        async with admin(bootstrap) as client:
            begun = await client.scrub(brokers or None, topics)
            return _Scrubbed(begun, []) if no_wait else await _follow(client, begun, topics)

    done = run(work())
    damaged = [] if no_wait else done.damaged(topics)
    if as_json:
        ok = not damaged and not done.failed
        print_json(
            {"ok": ok, "brokers": [asdict(each) for each in done.progress], "damaged": damaged, "unread": done.failed}
        )
    elif no_wait:
        left = sum(each.bytes_left for each in done.progress)
        click.echo(f"{plural(len(done.progress), 'broker')} checking {left:,} bytes")
    else:
        print_table(
            ("BROKER", "TOPIC", "PARTITION", "WHAT"),
            [tuple(row.values()) for row in damaged],
            empty="nothing is damaged" + (f"; {plural(done.found, 'damage')} found and repaired" if done.found else ""),
        )
        if done.failed:
            click.echo(f"{plural(done.failed, 'log')} could not be read; the log of the broker says why", err=True)
    context.exit(1 if damaged or done.failed else 0)


@dataclass(frozen=True, slots=True)
class _Scrubbed:
    """The final progress of the brokers' scrubbers, and the remaining damage."""

    progress: list[ScrubResponse]
    log_dirs: list[LogDirsResponse]
    found: int = 0
    failed: int = 0
    """How many logs could not be read to their end."""

    def damaged(self, topics: Sequence[str]) -> list[dict[str, object]]:
        rows = list[tuple[int, str, int, str]]()
        for broker in self.log_dirs:
            for replica in [replica for folder in broker.log_dirs for replica in folder.replicas]:
                what = replica.damage or ("batches are lost" if replica.lost_batches else "")
                if replica.lost_batches:
                    what += f"; no replica has intact: {', '.join(map(str, replica.lost_batches))}"
                rows += [(broker.broker_id, replica.topic, replica.partition, what)] if what else []
            rows += [(broker.broker_id, lost.topic, lost.partition, lost.error) for lost in broker.offline]
        names = ("broker", "topic", "partition", "what")
        return [dict(zip(names, row, strict=True)) for row in sorted(rows) if not topics or row[1] in topics]


async def _follow(client: Admin, begun: list[ScrubResponse], topics: Sequence[str]) -> _Scrubbed:
    """Wait until the requested logs are checked, and all damage is repaired or known to be lost."""
    brokers = [each.broker_id for each in begun]
    now, total = begun, sum(each.bytes_left for each in begun)
    columns = (TextColumn("scrubbing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    hidden = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True, emoji=False), transient=True, disable=hidden) as progress:
        task = progress.add_task("", total=total)
        while any(each.replicas_left for each in now):
            await asyncio.sleep(_LOOK_S)
            now = await client.scrub_progress(brokers)
            progress.update(task, completed=total - sum(each.bytes_left for each in now))
    found = sum(each.damage_found for each in now) - sum(each.damage_found for each in begun)
    log_dirs = await client.log_dirs(brokers)
    while found and any(_is_under_repair(broker, topics) for broker in log_dirs):
        await asyncio.sleep(_LOOK_S)
        log_dirs = await client.log_dirs(brokers)
    before = {each.broker_id: each.checks_failed for each in begun}
    failed = sum(max(0, each.checks_failed - before[each.broker_id]) for each in now)  # A broker may have restarted.
    return _Scrubbed(now, log_dirs, found, failed)


def _is_under_repair(broker: LogDirsResponse, topics: Sequence[str]) -> bool:
    replicas = [replica for folder in broker.log_dirs for replica in folder.replicas]
    wanted = [replica for replica in replicas if not topics or replica.topic in topics]
    return any(replica.damage and not replica.lost_batches for replica in wanted)


@command.command("cut")
@click.argument("folder", metavar="PARTITION_DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
def cut(folder: Path, yes: bool) -> None:
    """Truncate a stopped node's log at its first damage; the damaged log is kept beside it.

    For the last replica of a partition, as a last resort: records after the damage are lost.
    """
    folder = folder.absolute()
    with _unused(folder.parent.parent):
        if not yes:
            click.confirm(f"All records after the first damage in {folder.name} will be lost. Continue?", abort=True)
        try:
            end, aside = cut_at_damage(folder)
        except RaftlogError as error:
            raise failure(error) from None
    click.echo(f"{folder} ends at offset {end} now; the damaged log is at {aside}")


@contextmanager
def _unused(*folders: Path) -> Iterator[None]:
    """Keep nodes from starting on some data folders meanwhile, also while the operator is asked."""
    with ExitStack() as kept:
        for folder in folders:
            try:
                kept.enter_context(kept_unused(folder))
            except ConfigError as error:
                raise failure(error) from None
        yield
