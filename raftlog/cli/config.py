"""`raftlog config`: the settings with which commands reach a cluster."""

from __future__ import annotations

from typing import Any

import click

from raftlog.cli.connecting import connecting_in_use
from raftlog.cli.remote import bootstrap_option
from raftlog.cli.shared import json_option, print_json, print_table

_SECRETS = ("password", "token", "password_command", "token_command")
"""Settings whose values are, or might hold, a secret."""
_HIDDEN = "(not shown)"


@click.group("config")
def command() -> None:
    """Show the settings with which commands reach a cluster."""


@command.command("show")
@bootstrap_option
@json_option
def show(bootstrap: list[str], as_json: bool) -> None:  # noqa: ARG001  (checked, and shown with its place)
    """Show each setting, and where it comes from. Secrets are not shown, and no command for one is run."""
    found = connecting_in_use()
    rows = [(name, _shown(name, setting.value), setting.place) for name, setting in sorted(found.settled.items())]
    if as_json:
        settings = {name: {"value": value, "from": place} for name, value, place in rows}
        print_json({"file": str(found.path), "profile": found.profile or None, "settings": settings})
        return
    click.echo(f"file: {found.path}{'' if found.is_file_used else ' (there is none)'}")
    click.echo(f"profile: {found.profile or 'none'}")
    print_table(["setting", "value", "from"], rows)


def _shown(name: str, value: Any) -> str:
    if name in _SECRETS:
        return f"{value[0]} ..." if name.endswith("_command") else _HIDDEN
    return value if isinstance(value, str) else ",".join(value)
