"""`raftlog quotas`: limits of users' and clients' rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

import click

from raftlog.cli.remote import admin, bootstrap_option, changes, configs_option, local_option, own_option
from raftlog.cli.shared import json_option, print_done, print_json, print_table, run
from raftlog.model import Quota
from raftlog.wire.metadata import ConfigValue


@click.group("quotas")
def command() -> None:
    """Show and change quotas, which each broker enforces by itself."""


@command.command("list")
@bootstrap_option
@local_option
@json_option
def list_(bootstrap: list[str], local: bool, as_json: bool) -> None:
    """List all quotas."""

    async def work() -> tuple[list[Quota], str]:
        async with admin(bootstrap) as client:
            return await client.quotas(local=local), await client.quotas_enforced_for()

    quotas, enforced_for = run(work())
    if as_json:
        print_json([asdict(quota) for quota in quotas])
        return
    rows = [(quota.user or "-", quota.client_id or "-", ", ".join(_limits(quota))) for quota in quotas]
    print_table(["user", "client id", "limits"], rows, empty="no quotas")
    click.echo(enforcement(enforced_for), err=True)


def _limits(quota: Quota) -> list[str]:
    """Return a quota's limits with all their digits."""
    return [f"{name}={int(limit) if limit == int(limit) else limit}" for name, limit in sorted(quota.limits.items())]


@command.command("alter")
@own_option("--user", default="", help="A user, or * for those without their own.")
@own_option("--client-id", default="", help="A client id, or *.")
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
    """Change limits, of each broker.

    producer_byte_rate and consumer_byte_rate are bytes a second, request_rate is requests a second, and
    request_percentage is the percentage of the event loop's time.
    """
    try:
        limits = {name: None if value is None else _limit(value) for name, value in changes(configs, removed).items()}
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--config") from None

    async def work() -> str:
        async with admin(bootstrap) as client:
            await client.alter_quota(limits, user=user, client_id=client_id)
            return await client.quotas_enforced_for()

    enforced_for = run(work())
    told = f"done; {enforcement(enforced_for)}"
    print_done(told, as_json, user=user, client_id=client_id, limits=limits, enforced_for=enforced_for)


def _limit(value: ConfigValue) -> float:
    """Return a limit.

    Raises:
        ValueError: it is no finite number. To remove a limit, --unset names it.
    """
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value} is not a finite number; --unset removes a limit")
    return number


def enforcement(enforced_for: str) -> str:
    """Return a line about what brokers do with quotas."""
    match enforced_for:
        case "users":
            return "brokers enforce quotas"
        case "anonymous":
            return 'brokers enforce quotas; every client is the user ANONYMOUS, as security.authorizer is "off"'
        case _:
            return "the broker that answered does not enforce quotas: it has an earlier version"
