"""`raftlog storage`: data folders, while no node uses them."""

from __future__ import annotations

from pathlib import Path

import click

from raftlog.cli.shared import failure
from raftlog.errors import RaftlogError
from raftlog.partition.storage.data_dir import DataDir
from raftlog.runtime import new_uuid_hex


@click.group("storage")
def command() -> None:
    """Prepare data folders."""


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
