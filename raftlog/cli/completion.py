"""`raftlog completion`: a script that completes the command line in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_RAFTLOG_COMPLETE"
"""The variable of click's completion protocol, which the script sets when it calls `raftlog`."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in SHELL.

    \b
    bash: raftlog completion bash > ~/.local/share/bash-completion/completions/raftlog
    zsh:  raftlog completion zsh > "${fpath[1]}/_raftlog"
    fish: raftlog completion fish > ~/.config/fish/completions/raftlog.fish

    Or for one session: source <(raftlog completion bash)
    """  # noqa: D301  (click wants the character)
    complete = get_completion_class(shell)
    assert complete is not None
    root = context.find_root().command
    click.echo(complete(root, {}, "raftlog", _VARIABLE).source())
