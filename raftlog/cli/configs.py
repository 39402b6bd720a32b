"""`raftlog configs`: dynamic settings of brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from raftlog.cli.remote import admin, bootstrap_option, changes, configs_option, local_option
from raftlog.cli.shared import json_option, print_json, print_table, run
from raftlog.wire.metadata import ConfigValue

_broker = click.option(
    "--broker", type=click.IntRange(min=0), help="Default: settings of all brokers, under those of each."
)


@click.group("configs")
def command() -> None:
    """Show and change dynamic settings of brokers: what topics go by that have no setting of their own.

    A topic's own settings: raftlog topics describe, raftlog topics alter.
    """


@command.command("describe")
@_broker
@bootstrap_option
@local_option
@json_option
def describe(broker: int | None, bootstrap: list[str], local: bool, as_json: bool) -> None:
    """Show dynamic settings."""

    async def work() -> dict[str, ConfigValue]:
        async with admin(bootstrap) as client:
            return await client.broker_configs(broker, local=local)

    _show(run(work()), as_json)


@command.command("alter")
@_broker
@configs_option
@click.option("--unset", "removed", multiple=True, metavar="NAME", help="Repeatable.")
@bootstrap_option
@json_option
def alter(
    broker: int | None, configs: Mapping[str, ConfigValue], removed: Sequence[str], bootstrap: list[str], as_json: bool
) -> None:
    """Change dynamic settings, live and for good."""
    changed = changes(configs, removed)
    if not changed:
        raise click.UsageError("nothing to change: give --config or --unset")

    async def work() -> dict[str, ConfigValue]:
        async with admin(bootstrap) as client:
            return await client.alter_broker_configs(changed, broker)

    _show(run(work()), as_json)


def _show(configs: Mapping[str, ConfigValue], as_json: bool) -> None:
    if as_json:
        print_json(configs)
    else:
        print_table(["setting", "value"], sorted(configs.items()), empty="no dynamic settings")
