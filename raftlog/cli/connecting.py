"""The settings of a command that connects to a cluster: options, environment, profile, default."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from raftlog.cli.shared import DEFAULT_BOOTSTRAP
from raftlog.client.addresses import parse_bootstrap
from raftlog.client.profiles import CONFIG_VARIABLE, PROFILE_VARIABLE, ProfileFile, config_path, security_of
from raftlog.client.security import Security
from raftlog.client.settings import PASSWORDS, TOKENS, Place, Settled, from_variables, settle
from raftlog.errors import ConfigError

_KEY = "raftlog.connection"
OPTIONS = ("bootstrap", "ca_file", "cert_file", "key_file", "as_user", "password_file", "token_file")
"""Options of a command by the names of their parameters. `user` is often a name of the command's own."""


@dataclass(slots=True)
class Connecting:
    """How a command reaches its cluster."""

    settled: Settled
    path: Path
    """The file with profiles."""
    is_file_used: bool
    profile: str = ""
    """The profile's name; "": none is used."""
    _security: Security | None = None

    @property
    def bootstrap(self) -> list[str]:
        """Return the URLs of brokers.

        Raises:
            BadParameter: one is not a URL.
        """
        setting = self.settled["bootstrap"]
        try:
            return [address.url for address in parse_bootstrap(setting.value)]
        except ConfigError as error:
            hint = {"option": "--bootstrap", "environment": "RAFTLOG_BOOTSTRAP"}.get(setting.place, setting.place)
            raise click.BadParameter(error.message.removeprefix("bootstrap: "), param_hint=hint) from None

    def security(self, *, may_ask: bool = True) -> Security:
        """Return TLS files and credentials. The first call runs the command, or asks the user, if a password is needed.

        Raises:
            ConfigError: a setting is wrong, or a command fails.
        """
        if self._security is None:
            given = self.settled
            if "user" in given and not any(name in given for name in (*PASSWORDS, *TOKENS)):
                if not may_ask or not sys.stdin.isatty():
                    raise ConfigError(
                        f"user {given['user'].value!r:.80} has no password here: give --password-file, or set "
                        "password_file or password_command in the profile"
                    )
                password = click.prompt(f"Password of {given['user'].value}", hide_input=True, err=True)
                given = settle([Place("prompt", {"password": password}), *_as_places(given)])
            self._security = security_of(given, runs_commands=may_ask)
        return self._security


def _as_places(settled: Settled) -> list[Place]:
    return [Place(setting.place, {name: setting.value}) for name, setting in settled.items()]


def connect(context: click.Context, options: Mapping[str, Any]) -> Connecting:
    """Settle how a command connects; options before the command's name count, too.

    Args:
        options: the command's own ones.

    Raises:
        ConfigError: the file with profiles is wrong, or has no such profile.
    """
    environment = os.environ
    root = context.find_root().params
    named = options.get("profile") or root.get("profile") or environment.get(PROFILE_VARIABLE, "")
    given_file = options.get("config_file") or root.get("config_file") or ""
    path = config_path(given_file, environment)
    is_named = named or given_file or environment.get(CONFIG_VARIABLE)
    is_used = is_named or os.path.exists(path)  # noqa: PTH110  (its folder may be unreadable, which is no error here)
    profile = ProfileFile.load(path).select(named) if is_used else None
    places = [
        Place("option", {name.removeprefix("as_"): options.get(name) for name in OPTIONS}),
        from_variables(environment),
        *([profile.place] if profile is not None else []),
        Place("default", {"bootstrap": DEFAULT_BOOTSTRAP}),
    ]
    found = Connecting(settle(places), path, bool(is_used), "" if profile is None else profile.name)
    context.meta[_KEY] = found
    return found


def security_in_use() -> Security:
    """Return the TLS files and credentials of the command that runs.

    Raises:
        ConfigError: a setting is wrong, or the command for the password fails.
    """
    return connecting_in_use().security()


def connecting_in_use() -> Connecting:
    """Return how the command that runs reaches its cluster; it has the decorator `bootstrap_option`."""
    found: Connecting = click.get_current_context().meta[_KEY]
    return found


def profile_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Return profiles for shell completion."""
    given = context.params.get("config_file") or context.find_root().params.get("config_file") or ""
    try:
        names = ProfileFile.load(config_path(given, os.environ)).profiles
    except ConfigError:
        return []
    return [name for name in names if name.startswith(incomplete)]
