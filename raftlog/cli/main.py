"""The `raftlog` command: its subcommands are loaded only when used, so that `raftlog --help` is quick."""

from __future__ import annotations

import difflib
import errno
import importlib
import io
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

_COMMANDS = {
    "acls": "List, create and delete access rules.",
    "cluster": "Look at the cluster.",
    "config": "Show the settings with which commands reach a cluster.",
    "completion": "Print a script that completes the command line in a shell.",
    "configs": "Show and change settings of topics and brokers.",
    "consume": "Print the records of a topic, one a line.",
    "dev": "Run a cluster on this machine.",
    "doctor": "Check a cluster, a node's files and its machine.",
    "export": "Write the records of a topic to files.",
    "generate": "Write files that describe this version.",
    "groups": "List, describe, reset and delete consumer groups.",
    "import": "Send the rows of files to a topic.",
    "log": "Look into the files of partitions.",
    "login": "Get a token from an issuer.",
    "perf": "Measure throughput and latency.",
    "produce": "Write each line of standard input to a topic.",
    "quorum": "Look at the metadata quorum.",
    "quotas": "Show and change quotas.",
    "security": "Make certificates and keys for a cluster.",
    "server": "Run a node of a cluster.",
    "storage": "Prepare data folders, and check them.",
    "top": "Show a cluster's health and load, again each second.",
    "topics": "Create, list, describe, alter and delete topics.",
    "users": "List, create and delete users.",
    "verify": "Write numbered records, and check that none is missing, doubled or out of order.",
}
"""Help text by subcommand, which has a module of the same name; so `raftlog --help` imports none of them."""
_MODULES = {"import": "import_", "doctor": "doctor.command", "top": "top.command"}
"""Modules of subcommands whose name is a Python keyword, or that have a package."""


_AS_JSON = "raftlog.as_json"


class LazyGroup(click.Group):
    """Imports a subcommand's module on first use; its command is named `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's own signature)
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"raftlog.cli.{_MODULES.get(cmd_name, cmd_name)}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and name[:1].isalnum() and not ctx.resilient_parsing:
            near = difflib.get_close_matches(name, _COMMANDS, n=1)
            ctx.fail(f"No such command {name!r}.{f' Did you mean {near[0]!r}?' if near else ''}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; print errors as one line, or as JSON with `--json`."""
        _print_everything()
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise self._in_form(ctx, error) from None
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            if not full and error.filename is None:
                raise
            told = f"cannot use {error.filename}: {error.strerror}"
            told = f"cannot write: {error.strerror}; free some space and try again" if full else told
            raise self._in_form(ctx, click.ClickException(told)) from None

    def _in_form(self, ctx: click.Context, error: click.ClickException) -> click.ClickException:
        if not ctx.meta.get(_AS_JSON):
            return error
        from raftlog.cli.shared import as_json_error  # noqa: PLC0415  (`--help` loads next to nothing)

        return as_json_error(error)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        options = args[: args.index("--")] if "--" in args else args
        ctx.meta[_AS_JSON] = "--json" in options
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete without importing every subcommand."""
        found = [
            CompletionItem(name, help=_COMMANDS[name]) for name in sorted(_COMMANDS) if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


def _print_everything() -> None:
    """Let names be printed that the terminal's encoding cannot show, such as one in Cyrillic in ISO 8859-1: escaped."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _profiles(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from raftlog.cli.connecting import profile_names  # noqa: PLC0415  (`--help` loads next to nothing)

    return profile_names(context, parameter, incomplete)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="raftlog")
@click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="The file with profiles.  [env var: RAFTLOG_CONFIG; default: ~/.config/raftlog/config.toml]",
)
@click.option(
    "--profile",
    metavar="NAME",
    shell_complete=_profiles,
    help="URLs of a cluster, and credentials for it.  [env var: RAFTLOG_PROFILE; default: the file's default_profile]",
)
def cli(config_file: str | None, profile: str | None) -> None:
    """A replicated log without ZooKeeper: run it, and talk to it.

    Options of a command have precedence over environment variables, and these over the profile.

    Exit codes: 0 done, 1 failed, 2 wrong usage. Those of doctor: 0 healthy, 1 warnings, 2 errors.
    """
