"""`raftlog quorum`: the voters of the metadata quorum."""

from __future__ import annotations

from dataclasses import asdict

import click

from raftlog.cli.remote import admin, bootstrap_option
from raftlog.cli.shared import json_option, print_json, print_table, run
from raftlog.wire.admin import QuorumResponse

_STATIC = """The voters of a quorum are fixed when its cluster is made (docs/adr/0007 says why): nothing was changed.

To replace a voter whose disk or machine is lost, start it again with the same node_id, the same quorum address and an
empty data folder: it takes part only once every other voter has answered it, and votes only once it has caught up.
Watch it with: raftlog quorum describe"""


@click.group("quorum")
def command() -> None:
    """Look at the metadata quorum."""


@command.command("describe")
@bootstrap_option
@json_option
def describe(bootstrap: list[str], as_json: bool) -> None:
    """Show the leader, its term and controller epoch, and how far each voter is."""

    async def work() -> QuorumResponse:
        async with admin(bootstrap) as client:
            return await client.describe_quorum()

    quorum = run(work())
    if as_json:
        print_json(asdict(quorum))
        return
    click.echo(
        f"leader {quorum.leader_id}   term {quorum.term}   controller epoch {quorum.controller_epoch}   "
        f"log end offset {quorum.log_end_offset}   committed offset {quorum.committed_offset}"
    )
    print_table(
        ["voter", "address", "role", "log end offset", "lag", "last heard"],
        [
            (
                voter.node_id,
                voter.address,
                voter.role,
                voter.log_end_offset,
                voter.lag,
                "never" if voter.last_heard_ms < 0 else f"{voter.last_heard_ms} ms ago",
            )
            for voter in quorum.voters
        ],
    )


@command.command("add-voter")
@click.argument("voter", required=False)
def add_voter(voter: str | None) -> None:
    """Refused: voters are static. Says how a voter is replaced instead."""
    raise click.ClickException(f"cannot add {voter or 'a voter'}. {_STATIC}")


@command.command("remove-voter")
@click.argument("voter", required=False)
def remove_voter(voter: str | None) -> None:
    """Refused: voters are static. Says how a voter is replaced instead."""
    raise click.ClickException(f"cannot remove {voter or 'a voter'}. {_STATIC}")
