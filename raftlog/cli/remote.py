"""Options, completions and lookups of the subcommands that connect to a cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, TypeVar, cast

import click

from raftlog.cli.connecting import OPTIONS, connect, profile_names, security_in_use
from raftlog.cli.connectivity import require_cluster
from raftlog.cli.shared import DEFAULT_BOOTSTRAP
from raftlog.client import Admin
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


_FILE = click.Path(dir_okay=False)
_CONNECTING = (
    click.option(
        "--bootstrap",
        metavar="URL[,URL]",
        help="URLs of one or more brokers of the cluster.  [env var: RAFTLOG_BOOTSTRAP; default: those of the profile, "
        f"or {DEFAULT_BOOTSTRAP}]",
    ),
    click.option("--profile", metavar="NAME", shell_complete=profile_names, help="A profile in the file of --config."),
    click.option("--config", "config_file", type=_FILE, metavar="FILE", help="The file with profiles."),
    click.option("--ca-file", type=_FILE, metavar="FILE", help="PEM file of the CAs that are trusted."),
    click.option("--cert-file", type=_FILE, metavar="FILE", help="PEM file of the client's certificate."),
    click.option("--key-file", type=_FILE, metavar="FILE", help="PEM file of the certificate's key."),
    click.option(
        "--user", "as_user", help="The user's name. Without a password elsewhere, the terminal is asked for it."
    ),
    click.option("--password-file", type=_FILE, metavar="FILE", help="A file whose only line is the user's password."),
    click.option("--token-file", type=_FILE, metavar="FILE", help="A file with a token, as raftlog login writes it."),
    click.option(
        "--client-id",
        envvar=CLIENT_ID_VARIABLE,
        show_envvar=True,
        expose_value=False,
        callback=_set_client_id,
        help="The application's name, for quotas.",
    ),
)


def bootstrap_option(function: F) -> F:
    """Add `--bootstrap` and the options for profiles, TLS and credentials; pass on `bootstrap`, a list of URLs.

    `security_in_use` returns the rest.
    """

    @wraps(function)
    def connected(*arguments: Any, **given: Any) -> Any:
        own = {name: given.pop(name, None) for name in (*OPTIONS, "profile", "config_file")}
        try:
            found = connect(click.get_current_context(), own)
            bootstrap = found.bootstrap
        except ConfigError as error:
            raise click.ClickException(error.message) from None
        return function(*arguments, bootstrap=bootstrap, **given)

    wrapped = cast("F", connected)
    for decorate in reversed(_CONNECTING):
        wrapped = decorate(wrapped)
    return wrapped


def own_option(*declarations: str, **settings: Any) -> Callable[[F], F]:
    """Add an option of a command's own, in place of the one of `bootstrap_option` with the same name."""

    def add(function: F) -> F:
        params: list[click.Parameter] = getattr(function, "__click_params__", [])
        params[:] = [param for param in params if not {*param.opts} & {*declarations}]
        return click.option(*declarations, **settings)(function)

    return add


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
        found = connect(context, context.params)
        security = found.security(may_ask=False)
        async with Admin(found.bootstrap, timeout_ms=COMPLETION_TIMEOUT_MS, security=security) as client:
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
    """Add `--config NAME=VALUE`, repeatable. The file with profiles is then named before the command."""
    return own_option(
        "--config", "configs", multiple=True, metavar="NAME=VALUE", callback=_parse_configs, help="Repeatable."
    )(function)


def _parse_configs(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> dict[str, ConfigValue]:
    configs: dict[str, ConfigValue] = {}
    for text in values:
        name, separator, value = text.partition("=")
        if not separator or not name:
            hint = "" if "=" in text else "; a file with profiles comes first: raftlog --config FILE COMMAND"
            raise click.BadParameter(f"expected name=value, received {text!r}{hint}", context, parameter)
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


@asynccontextmanager
async def admin(bootstrap: Sequence[str]) -> AsyncIterator[Admin]:
    """Yield an admin client with a timeout for interactive use.

    Raises:
        NoClusterError: no broker answers.
    """
    security = security_in_use()
    await require_cluster(bootstrap, security)
    async with Admin(bootstrap, timeout_ms=ADMIN_TIMEOUT_MS, security=security) as client:
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
