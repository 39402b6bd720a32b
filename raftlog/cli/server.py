"""`raftlog server`: run one node in the foreground."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path

import click

from raftlog.cli.processes import die_with_parent
from raftlog.cli.shared import failure
from raftlog.config import NodeConfig
from raftlog.errors import ConfigError, RaftlogError
from raftlog.serving.log_lines import LogForm, configure

_log = logging.getLogger(__name__)


@click.group("server")
def command() -> None:
    """Run a node of a cluster."""


@command.command("start")
@click.option(
    "--config",
    "config_path",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The node's settings; see docs/reference/settings.md.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    envvar="RAFTLOG_LOG_LEVEL",
    show_envvar=True,
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="text",
    show_default=True,
    envvar="RAFTLOG_LOG_FORMAT",
    show_envvar=True,
    help="json: each line is one object, with the request's id where there is one.",
)
@click.option("--parent-pid", type=int, hidden=True, help="Exit when this process, which must be the parent, exits.")
def start(config_path: Path, log_level: str, log_format: LogForm, parent_pid: int | None) -> None:
    """Run one node until SIGTERM or Ctrl-C. It logs to standard error."""
    if parent_pid is not None:
        die_with_parent(parent_pid)
    configure(log_level, log_format)
    try:
        config = NodeConfig.load(config_path)
        if importlib.util.find_spec("pysyncobj") is None:
            raise ConfigError("the server's packages are not installed; install: pip install 'raftlog[server]'")
        from raftlog.broker.node import run_node  # noqa: PLC0415  (only now is it known that its needs are there)

        run_node(config)
    except RaftlogError as error:
        if log_format == "json":
            _log.critical("the node cannot run: %s: %s", error.code.value, error)
            raise SystemExit(1) from None
        raise failure(error) from None
