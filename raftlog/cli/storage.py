"""`raftlog storage`: data folders of stopped nodes, and scrubs of running brokers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from raftlog.cli.remote import admin, bootstrap_option, complete_topics
from raftlog.cli.scrubbing import Scrubbed, scrub_brokers
from raftlog.cli.shared import failure, json_option, plural, print_json, print_table, run
from raftlog.cli.storage_check import check_data_folder, total_bytes
from raftlog.errors import ConfigError, RaftlogError
from raftlog.partition.storage.damage_truncation import cut_at_damage
from raftlog.partition.storage.data_dir import DataDir, kept_unused
from raftlog.partition.storage.fsck import Finding
from raftlog.runtime import new_uuid_hex


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
    if cluster_id is not None and not cluster_id.isprintable():
        raise click.BadParameter(f"expected printable characters, received {cluster_id!r}", param_hint="--cluster-id")
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
    log_scrub_bytes_per_second says. Exit code 1 if something damaged is left, a log could not be read, or
    a broker does not answer. Replicas of such a broker are named as not scrubbed.
    """

    async def work() -> Scrubbed:
        async with admin(bootstrap) as client:
            return await scrub_brokers(client, brokers or None, topics, wait=not no_wait)

    done = run(work())
    damaged, unscrubbed = done.damaged(topics), done.unscrubbed
    ok = not damaged and not done.failed and not done.silent
    if as_json:
        progress = [asdict(each) for each in done.progress]
        found = {"damaged": damaged, "unread": done.failed, "silent": done.silent, "unscrubbed": unscrubbed}
        print_json({"ok": ok, "brokers": progress} | found)
    elif no_wait:
        left = sum(each.bytes_left for each in done.progress)
        click.echo(f"{plural(len(done.progress), 'broker')} checking {left:,} bytes")
    else:
        print_table(
            ("BROKER", "TOPIC", "PARTITION", "WHAT"),
            [tuple(row.values()) for row in (*damaged, *unscrubbed)],
            empty="nothing is damaged" + (f"; {plural(done.found, 'damage')} found and repaired" if done.found else ""),
        )
        if done.failed:
            click.echo(f"{plural(done.failed, 'log')} could not be read; the log of the broker says why", err=True)
    if not as_json:
        for broker in done.silent:  # It may have no replica of the topics, which would name it.
            click.echo(f"broker {broker} does not answer: it scrubs nothing", err=True)
    context.exit(0 if ok else 1)


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
            lost = f"All records after the first damage in {folder.name} will be lost"
            click.confirm(f"{lost}. Continue?", abort=True, err=True)
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
