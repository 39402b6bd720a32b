"""`raftlog quotas`: limits of users' and clients' rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from raftlog.cli.remote import admin, bootstrap_option, changes, configs_option, local_option, own_option
from raftlog.cli.shared import json_option, print_done, print_json, print_table, run
from raftlog.model import Quota
from raftlog.wire.metadata import ConfigValue


@click.group("quotas")
def command() -> None:
    """Show and change quotas."""


@command.command("list")
@bootstrap_option
@local_option
@json_option
def list_(bootstrap: list[str], local: bool, as_json: bool) -> None:
    """List all quotas."""

    async def work() -> list[Quota]:
        async with admin(bootstrap) as client:
            return await client.quotas(local=local)

    quotas = run(work())
    if as_json:
        print_json([asdict(quota) for quota in quotas])
        return
    rows = [
        (quota.user or "-", quota.client_id or "-", ", ".join(f"{k}={v:g}" for k, v in sorted(quota.limits.items())))
        for quota in quotas
    ]
    print_table(["user", "client id", "limits"], rows, empty="no quotas")


@command.command("alter")
@own_option("--user", default="", help="A user, or * for those without their own.")
@click.option("--client-id", default="", help="A client id, or *.")
@configs_option
@click.option("--unset", "removed", multiple=True, metavar="NAME", help="Repeatable.")
@bootstrap_option
@json_option
def alter(
    user: str,
    client_id: str,
    configs: Mapping[str, ConfigValue],
    removed: Sequence[str],
    bootstrap: list[str],
    as_json: bool,
) -> None:
    """Change limits: producer_byte_rate, consumer_byte_rate (bytes a second), request_rate (a second)."""
    try:
        limits = {name: None if value is None else float(value) for name, value in changes(configs, removed).items()}
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--config") from None

    async def work() -> None:
        async with admin(bootstrap) as client:
            await client.alter_quota(limits, user=user, client_id=client_id)

    run(work())
    print_done("done", as_json, user=user, client_id=client_id, limits=limits)
