"""The `raftlog` command: its subcommands are loaded only when used, so that `raftlog --help` is quick."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "acls": "List, create and delete access rules.",
    "cluster": "Look at the cluster.",
    "configs": "Show and change dynamic settings of brokers.",
    "consume": "Print the records of a topic, one a line.",
    "dev": "Run a cluster on this machine.",
    "groups": "List, describe, reset and delete consumer groups.",
    "log": "Look into the files of partitions.",
    "produce": "Write each line of standard input to a topic.",
    "quorum": "Look at the metadata quorum.",
    "quotas": "Show and change quotas.",
    "server": "Run a node of a cluster.",
    "storage": "Prepare data folders, and check them.",
    "topics": "Create, list, describe, alter and delete topics.",
    "users": "List, create and delete users.",
}
"""Each is a module of this name beside this one; its line here spares `raftlog --help` loading it."""


class LazyGroup(click.Group):
    """Imports a subcommand's module, which names it `command`, on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's own signature)
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"raftlog.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="raftlog")
def cli() -> None:
    """A replicated log without ZooKeeper: run it, and talk to it.

    Exit codes: 0 done, 1 failed, 2 wrong usage.
    """
