"""`raftlog storage`: data folders, while no node uses them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from raftlog.cli.shared import failure, json_option, plural, print_json, print_table
from raftlog.cli.storage_check import check_data_folder, total_bytes
from raftlog.errors import ConfigError, RaftlogError
from raftlog.partition.storage.check import Finding
from raftlog.partition.storage.cutting import cut_at_damage
from raftlog.partition.storage.data_dir import DataDir, in_use
from raftlog.runtime import new_uuid_hex


@click.group("storage")
def command() -> None:
    """Prepare data folders, check them, and give up what is damaged."""


@command.command("format")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--cluster-id", help="The cluster that the folder will belong to. Default: a new one, drawn at random.")
@click.option("--node-id", type=click.IntRange(min=0, max=2**31 - 1), required=True, help="The node that will own it.")
def format_(folder: Path, cluster_id: str | None, node_id: int) -> None:
    """Give DIR to one node of one cluster, and print the cluster's id.

    Optional: a node formats an empty folder itself. A folder of another node or cluster is refused and left as it is.
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
    """Read every file of a stopped node's data folder, and say what is wrong. Nothing is changed.

    Exit code 1 if anything is damaged. A note is something that the next start mends by itself.
    """
    for folder in folders:
        _require_unused(folder)
    findings = list[Finding]()
    columns = (TextColumn("checking"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
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
            click.echo(f"{plural(damaged, 'damage')} found; see 'A damaged log' in docs/operations.md", err=True)
    context.exit(1 if damaged else 0)


@command.command("cut")
@click.argument("folder", metavar="PARTITION_DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
def cut(folder: Path, yes: bool) -> None:
    """Give up a stopped node's log from its first damage on; the damaged log is kept beside it.

    For the last replica of a partition, when nothing better is left: records after the damage are lost.
    """
    folder = folder.absolute()
    _require_unused(folder.parent.parent)
    if not yes:
        click.confirm(f"Everything after the first damage in {folder.name} will be given up. Go on?", abort=True)
    try:
        end, aside = cut_at_damage(folder)
    except RaftlogError as error:
        raise failure(error) from None
    click.echo(f"{folder} ends at offset {end} now; the damaged log is at {aside}")


def _require_unused(folder: Path) -> None:
    if in_use(folder):
        raise failure(ConfigError(f"{folder} is in use by another process; stop the node first"))
