"""Options, completions and lookups of the subcommands that connect to a cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click

from raftlog.cli.connectivity import require_cluster
from raftlog.cli.shared import DEFAULT_BOOTSTRAP
from raftlog.client import Admin
from raftlog.client.connection import parse_bootstrap
from raftlog.client.options import CLIENT_ID_VARIABLE
from raftlog.errors import ConfigError, NotFoundError, RaftlogError
from raftlog.model import TopicPartition
from raftlog.wire.client_ids import EXPECTED, is_client_id
from raftlog.wire.metadata import ConfigValue, TopicInfo

ADMIN_TIMEOUT_MS = 10_000
"""Longer than a failover of brokers or controllers."""
COMPLETION_TIMEOUT_MS = 1_000
"""How long a completion in the shell may take."""

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def bootstrap_option(function: F) -> F:
    """Add `--bootstrap` and `--client-id`."""
    return urls_option(
        click.option(
            "--client-id",
            envvar=CLIENT_ID_VARIABLE,
            show_envvar=True,
            expose_value=False,
            callback=_set_client_id,
            help="The application's name, for quotas.",
        )(function)
    )


def _set_client_id(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Give every client of the command a client id, by the variable that they read."""
    if not value:
        return
    if not is_client_id(value):
        raise click.BadParameter(f"expected {EXPECTED}, received {value!r:.200}", context, parameter)
    before = os.environ.get(CLIENT_ID_VARIABLE)
    os.environ[CLIENT_ID_VARIABLE] = value

    def restore() -> None:
        os.environ.pop(CLIENT_ID_VARIABLE, None)
        if before is not None:
            os.environ[CLIENT_ID_VARIABLE] = before

    context.call_on_close(restore)


def urls_option(function: F) -> F:
    """Add `--bootstrap`, a list of URLs."""
    return click.option(
        "--bootstrap",
        envvar="RAFTLOG_BOOTSTRAP",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        show_envvar=True,
        metavar="URL[,URL]",
        callback=_split_urls,
        help="URLs of one or more brokers of the cluster.",
    )(function)


def local_option(function: F) -> F:
    """Add `--local`."""
    return click.option(
        "--local", is_flag=True, help="Show one broker's metadata: it may be old, but needs no quorum."
    )(function)


def complete_topics(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the cluster's topics for shell completion; none without a quick answer."""
    return _complete(context, incomplete, lambda client: client.list_topics(local=True), lambda topic: topic.topic)


def complete_groups(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return the cluster's consumer groups; see `complete_topics`."""
    return _complete(context, incomplete, lambda client: client.list_groups(), lambda group: group.group_id)


def _complete(
    context: click.Context,
    incomplete: str,
    ask: Callable[[Admin], Awaitable[Sequence[T]]],
    name: Callable[[T], str],
) -> list[str]:
    async def names() -> list[str]:
        async with Admin(
            context.params.get("bootstrap") or [DEFAULT_BOOTSTRAP], timeout_ms=COMPLETION_TIMEOUT_MS
        ) as client:
            return [name(found) for found in await ask(client)]

    try:
        return [found for found in asyncio.run(names()) if found.startswith(incomplete)]
    except RaftlogError:
        return []


def isolation_option(function: F) -> F:
    """Add `--isolation`."""
    return click.option(
        "--isolation",
        type=click.Choice(["read_uncommitted", "read_committed"]),
        default="read_uncommitted",
        show_default=True,
        help="read_committed reads up to the first open transaction and skips aborted records.",
    )(function)


def configs_option(function: F) -> F:
    """Add `--config NAME=VALUE`, repeatable."""
    return click.option(
        "--config", "configs", multiple=True, metavar="NAME=VALUE", callback=_parse_configs, help="Repeatable."
    )(function)


def _parse_configs(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, ConfigValue]:
    configs: dict[str, ConfigValue] = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"expected name=value, received {text!r}", context, parameter)
        if name in configs:
            raise click.BadParameter(f"{name} is set twice", context, parameter)
        configs[name] = int(value) if value.removeprefix("-").isdecimal() else value
    return configs


def changes(
    configs: Mapping[str, ConfigValue], removed: Sequence[str], parameter: str = "--unset"
) -> dict[str, ConfigValue | None]:
    """Return settings to change and (None) to remove.

    Raises:
        BadParameter: a setting is both changed and removed.
    """
    if both := {*configs} & {*removed}:
        raise click.BadParameter(f"{min(both)} is also given a value", param_hint=parameter)
    return {**configs, **dict.fromkeys(removed)}


def partitions_argument(
    context: click.Context, parameter: click.Parameter, texts: Sequence[str]
) -> list[TopicPartition]:
    """Parse `TOPIC-PARTITION` arguments (a topic's name may contain `-`)."""
    partitions = []
    for text in texts:
        topic, separator, number = text.rpartition("-")
        if not separator or not topic or not number.isdecimal():
            raise click.BadParameter(
                f"expected TOPIC-PARTITION such as flights-0, received {text!r}", context, parameter
            )
        partitions.append(TopicPartition(topic, int(number)))
    return partitions


def _split_urls(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    try:
        return [address.url for address in parse_bootstrap(value)]
    except ConfigError as error:
        raise click.BadParameter(error.message.removeprefix("bootstrap: "), context, parameter) from None


@asynccontextmanager
async def admin(bootstrap: Sequence[str]) -> AsyncIterator[Admin]:
    """Yield an admin client with a timeout for interactive use.

    Raises:
        NoClusterError: no broker answers.
    """
    await require_cluster(bootstrap)
    async with Admin(bootstrap, timeout_ms=ADMIN_TIMEOUT_MS) as client:
        yield client


async def require_topic(bootstrap: Sequence[str], topic: str) -> TopicInfo:
    """Return a topic's description.

    Raises:
        NotFoundError: the topic does not exist; the message shows how to create it.
    """
    async with admin(bootstrap) as client:
        try:
            return await client.describe_topic(topic, local=True)
        except NotFoundError:
            raise NotFoundError(
                f"topic {topic!r} does not exist; create it with: raftlog topics create {topic}"
            ) from None
