"""`raftlog configs`: dynamic settings of brokers and topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from raftlog.cli.remote import admin, bootstrap_option, changes, complete_topics, configs_option, local_option
from raftlog.cli.shared import json_option, print_json, print_table, run
from raftlog.wire.metadata import ConfigValue

F = TypeVar("F", bound=Callable[..., Any])


def _entity(function: F) -> F:
    """Add `--broker` and `--topic`."""
    number = click.IntRange(min=0)
    help_ = "Settings of one broker. Default: of all brokers, under those of each."
    function = click.option("--broker", type=number, help=help_)(function)
    return click.option(
        "--topic", shell_complete=complete_topics, help="A topic's own settings, which override those of brokers."
    )(function)


@click.group("configs")
def command() -> None:
    """Show and change settings that need no restart: of topics, and of brokers for topics without their own."""


@command.command("describe")
@_entity
@bootstrap_option
@local_option
@json_option
def describe(broker: int | None, topic: str | None, bootstrap: list[str], local: bool, as_json: bool) -> None:
    """Show settings."""
    _require_one(broker, topic)

    async def work() -> Mapping[str, ConfigValue]:
        async with admin(bootstrap) as client:
            if topic is not None:
                return (await client.describe_topic(topic, local=local)).configs
            return await client.broker_configs(broker, local=local)

    _show(run(work()), as_json)


@command.command("alter")
@_entity
@configs_option
@click.option("--unset", "removed", multiple=True, metavar="NAME", help="Repeatable.")
@bootstrap_option
@json_option
def alter(
    broker: int | None,
    topic: str | None,
    configs: Mapping[str, ConfigValue],
    removed: Sequence[str],
    bootstrap: list[str],
    as_json: bool,
) -> None:
    """Change settings, without a restart and permanently."""
    _require_one(broker, topic)
    changed = changes(configs, removed)
    if not changed:
        raise click.UsageError("nothing to change: give --config or --unset")

    async def work() -> Mapping[str, ConfigValue]:
        async with admin(bootstrap) as client:
            if topic is not None:
                return (await client.alter_topic(topic, configs=changed)).configs
            return await client.alter_broker_configs(changed, broker)

    _show(run(work()), as_json)


def _require_one(broker: int | None, topic: str | None) -> None:
    if broker is not None and topic is not None:
        raise click.UsageError("--broker and --topic exclude each other")


def _show(configs: Mapping[str, ConfigValue], as_json: bool) -> None:
    if as_json:
        print_json(configs)
    else:
        print_table(["setting", "value"], sorted(configs.items()), empty="no dynamic settings")
