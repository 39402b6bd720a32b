"""What the subcommands that talk to a cluster share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from raftlog.cli.shared import DEFAULT_BOOTSTRAP
from raftlog.client import Admin
from raftlog.errors import NotFoundError
from raftlog.wire.metadata import TopicInfo

ADMIN_TIMEOUT_MS = 10_000
"""Longer than a failover, of brokers as of controllers."""

F = TypeVar("F", bound=Callable[..., Any])


def bootstrap_option(function: F) -> F:
    """Add `--bootstrap`, a list of URLs."""
    return click.option(
        "--bootstrap",
        envvar="RAFTLOG_BOOTSTRAP",
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        show_envvar=True,
        metavar="URL[,URL]",
        callback=_split_urls,
        help="Brokers to ask first; any of the cluster will do.",
    )(function)


def _split_urls(context: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    urls = [url.strip().rstrip("/") for url in value.split(",") if url.strip()]
    if not urls or any(not url.startswith("http://") for url in urls):
        raise click.BadParameter(
            f"expected http://host:port, several separated by commas, received {value!r}", context, parameter
        )
    return urls


def admin(bootstrap: Sequence[str]) -> Admin:
    """Return an admin client that gives up while somebody at a terminal still waits."""
    return Admin(bootstrap, timeout_ms=ADMIN_TIMEOUT_MS)


async def require_topic(bootstrap: Sequence[str], topic: str) -> TopicInfo:
    """Return what the cluster knows about `topic`.

    Raises:
        NotFoundError: it does not exist; the message says how to create it.
    """
    async with admin(bootstrap) as client:
        try:
            return await client.describe_topic(topic)
        except NotFoundError:
            raise NotFoundError(
                f"topic {topic!r} does not exist; create it with: raftlog topics create {topic}"
            ) from None
