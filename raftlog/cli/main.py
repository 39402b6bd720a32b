"""The `raftlog` command: its subcommands are loaded only when used, so that `raftlog --help` needs no pyarrow."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "acls": "raftlog.cli.acls",
    "cluster": "raftlog.cli.cluster",
    "configs": "raftlog.cli.configs",
    "consume": "raftlog.cli.consume",
    "dev": "raftlog.cli.dev",
    "log": "raftlog.cli.log",
    "produce": "raftlog.cli.produce",
    "quorum": "raftlog.cli.quorum",
    "quotas": "raftlog.cli.quotas",
    "server": "raftlog.cli.server",
    "storage": "raftlog.cli.storage",
    "topics": "raftlog.cli.topics",
    "users": "raftlog.cli.users",
}


class LazyGroup(click.Group):
    """Imports a subcommand's module, which names it `command`, on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's own signature)
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if (module := _COMMANDS.get(cmd_name)) is None:
            return None
        command: click.Command = importlib.import_module(module).command
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="raftlog")
def cli() -> None:
    """A replicated log without ZooKeeper: run it, and talk to it.

    Exit codes: 0 done, 1 failed, 2 wrong usage.
    """
