"""Profiles: named clusters and credentials in a TOML file, which the command line and programs share.

The file holds no secrets. It names files with secrets, and commands that print them.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from raftlog.client.secrets import run_secret_command, warn_if_readable_by_others
from raftlog.client.security import LOGINS, Security
from raftlog.client.settings import Place, Settled, settle
from raftlog.errors import ConfigError

CONFIG_VARIABLE = "RAFTLOG_CONFIG"
PROFILE_VARIABLE = "RAFTLOG_PROFILE"
_FILES = ("ca_file", "cert_file", "key_file", "password_file", "token_file")
_COMMANDS = ("password_command", "token_command")
_SECRETS = {
    "password": "name a file (password_file) or a command (password_command) instead",
    "token": "name a file (token_file) or a command (token_command) instead",
    "key": "name its file (key_file) instead",
}
"""What to write in place of a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The URLs of a cluster, and the credentials for it: one `[profiles.NAME]` of a file. It holds no secret."""

    name: str
    """The profile's name."""
    bootstrap: tuple[str, ...] = ()
    """URLs of brokers; empty: the profile names none."""
    ca_file: str = ""
    """PEM file of the CAs whose certificates are trusted; "": those of the system."""
    cert_file: str = ""
    """PEM file of the client's certificate."""
    key_file: str = ""
    """PEM file of the certificate's key."""
    user: str = ""
    """The user's name."""
    password_file: str = ""
    """A file with the user's password."""
    password_command: tuple[str, ...] = ()
    """A command that prints the user's password."""
    login: str = ""
    """How the password is used: `scram` or `basic`; "": `scram`."""
    token_file: str = ""
    """A file with a bearer token, such as `raftlog login` writes."""
    token_command: tuple[str, ...] = ()
    """A command that prints a bearer token. It runs again before the token expires."""

    @classmethod
    def load(cls, name: str = "", *, config: str | Path = "") -> Profile:
        """Read a profile from a file.

        Args:
            name: the profile; "": that of `RAFTLOG_PROFILE`, or the file's `default_profile`, or its only one.
            config: the file; "": that of `RAFTLOG_CONFIG`, or `~/.config/raftlog/config.toml`.

        Raises:
            ConfigError: the file or the profile is missing or wrong; the message names file and line.
        """
        path = config_path(config, os.environ)
        found = ProfileFile.load(path).select(name or os.environ.get(PROFILE_VARIABLE, ""))
        if found is None:
            raise ConfigError(f"{path}: no profile is chosen: name one, or set default_profile")
        return found

    def security(self) -> Security:
        """Return the TLS files and credentials. Run the command that prints the password, if there is one.

        Raises:
            ConfigError: the command fails, or a setting needs another one.
        """
        return security_of(settle([self.place]))

    @property
    def place(self) -> Place:
        """The profile as one place of settings."""
        own = {option.name: getattr(self, option.name) for option in fields(self) if option.name != "name"}
        return Place(f"profile {self.name}", own)


def security_of(settled: Settled, *, runs_commands: bool = True) -> Security:
    """Return TLS files and credentials; run the command that prints the password. That of a token runs later.

    Args:
        runs_commands: False: raise instead, where a command might ask the user.

    Raises:
        ConfigError: a command fails, or a setting needs another one.
    """
    values = {name: setting.value for name, setting in settled.items() if name != "bootstrap"}
    if user := values.pop("user", ""):
        values["username"] = user
    password_command, token_command = (values.pop(name, ()) for name in _COMMANDS)
    if (password_command or token_command) and not runs_commands:
        raise ConfigError("password_command, token_command: not run here")
    if password_command:
        values["password"] = run_secret_command(password_command, "password_command")
    if token_command:
        values["token_provider"] = partial(run_secret_command, token_command, "token_command")
    for name in {"key_file", "token_file"} & values.keys():
        warn_if_readable_by_others(values[name])
    return Security(**values)


def config_path(given: str | Path, environment: Mapping[str, str]) -> Path:
    """Return the file that is given, or that `RAFTLOG_CONFIG` names, or the user's own."""
    if named := str(given) or environment.get(CONFIG_VARIABLE, ""):
        return _expanded(named).absolute()
    return _expanded(environment.get("XDG_CONFIG_HOME") or "~/.config").absolute() / "raftlog" / "config.toml"


def _expanded(name: str) -> Path:
    """Return a path without `~`, if this user has a home."""
    return Path(os.path.expanduser(name))  # noqa: PTH111  (`Path.expanduser` raises without a home)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileFile:
    """The profiles of one file."""

    path: Path
    profiles: Mapping[str, Profile]
    default: str = ""
    """The profile that is used when none is named; "": the only one, if there is one."""

    @classmethod
    def load(cls, path: Path) -> ProfileFile:
        """Read a file.

        Raises:
            ConfigError: it cannot be read, or is wrong; the message names file and line.
        """
        try:
            text, mode = path.read_text("utf-8"), path.stat().st_mode
        except OSError as error:
            raise ConfigError(
                f"cannot read {path}: {error.strerror}; create it, or name another by --config or {CONFIG_VARIABLE}"
            ) from error
        except UnicodeDecodeError:
            raise ConfigError(f"{path}: expected text in UTF-8") from None
        if mode & stat.S_IWOTH:
            raise ConfigError(
                f"{path}: every user of this machine can change this file, which names commands; run: chmod o-w {path}"
            )
        return parse_profiles(text, path)

    def select(self, name: str = "") -> Profile | None:
        """Return a profile, or without a name the default; None: there is no default.

        Raises:
            ConfigError: there is no such profile.
        """
        if not name and not self.default:
            return next(iter(self.profiles.values())) if len(self.profiles) == 1 else None
        if (found := self.profiles.get(name or self.default)) is None:
            known = f"; it has {', '.join(sorted(self.profiles))}" if self.profiles else "; it has none"
            raise ConfigError(f"{self.path}: no profile {name!r:.80}{_nearest(name, list(self.profiles))}{known}")
        return found


def parse_profiles(text: str, path: Path) -> ProfileFile:
    """Return the profiles in a file's text. Pure.

    Args:
        path: the file. Names of files in it are relative to its folder.

    Raises:
        ConfigError: the text is wrong; the message names the file and, where it is known, the line.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why = str(error)
        raise ConfigError(f"{path}{_line_in(why)}: not valid TOML: {why}") from None
    return _Parser(text, path).file(document)


class _Parser:
    """Checks a decoded document."""

    def __init__(self, text: str, path: Path) -> None:
        self._lines = text.splitlines()
        self._path = path

    def file(self, document: Mapping[str, Any]) -> ProfileFile:
        for key in document:
            if key not in ("profiles", "default_profile"):
                known = [option.name for option in fields(Profile)]
                hint = " (settings belong below a line [profiles.NAME])" if key in known else ""
                raise self._error(
                    f"unknown setting {key!r:.80}: expected default_profile or [profiles.NAME]{hint}", key
                )
        tables = document.get("profiles", {})
        if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
            raise self._error("profiles: expected tables such as [profiles.prod]", "profiles")
        profiles = {name: self._profile(name, table) for name, table in tables.items()}
        default = document.get("default_profile", "")
        if not isinstance(default, str) or (default and default not in profiles):
            listed = ", ".join(sorted(profiles)) or "none"
            raise self._error(f"default_profile: expected the name of a profile ({listed})", "default_profile")
        return ProfileFile(path=self._path, profiles=profiles, default=default)

    def _profile(self, name: str, table: Mapping[str, Any]) -> Profile:
        known = [option.name for option in fields(Profile) if option.name != "name"]
        for key in table:
            if key in _SECRETS:
                raise self._error(f"{key}: this file holds no secrets; {_SECRETS[key]}", key, name)
            if key not in known:
                hint = _nearest(key, known) or f": expected {', '.join(known)}"
                raise self._error(f"unknown setting {key!r:.80}{hint}", key, name)
        values: dict[str, Any] = {key: self._value(name, key, value) for key, value in table.items()}
        secrets = [
            key for key in ("password_file", "password_command", "token_file", "token_command") if values.get(key)
        ]
        secrets = ["user", *secrets] if values.get("user") and secrets and secrets[0].startswith("token") else secrets
        if len(secrets) > 1:
            raise self._error(f"{', '.join(secrets)}: expected one of them", secrets[1], name)
        if bool(values.get("cert_file")) != bool(values.get("key_file")):
            key = "cert_file" if values.get("cert_file") else "key_file"
            raise self._error("cert_file, key_file: expected both or none", key, name)
        return Profile(name=name, **values)

    def _value(self, profile: str, key: str, value: object) -> str | tuple[str, ...]:
        if key in _COMMANDS or key == "bootstrap":
            return self._list(profile, key, value)
        if not isinstance(value, str):
            raise self._error(f"{key}: expected text, received {type(value).__name__}", key, profile)
        if key == "login" and value not in ("", *LOGINS):
            raise self._error(f"login: expected {' or '.join(LOGINS)}, received {value!r:.80}", key, profile)
        if key in _FILES and value:
            return str(self._path.parent / _expanded(value))
        return value

    def _list(self, profile: str, key: str, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            try:
                return tuple(shlex.split(value) if key in _COMMANDS else filter(None, map(str.strip, value.split(","))))
            except ValueError:
                raise self._error(f"{key}: a quote is not closed", key, profile) from None
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return tuple(value)
        raise self._error(f"{key}: expected text or a list of texts, received {type(value).__name__}", key, profile)

    def _error(self, why: str, key: str, profile: str = "") -> ConfigError:
        line = self._line_of(key, profile)
        where = f"{self._path}:{line}" if line else f"{self._path}"
        return ConfigError(f"{where}: {f'profile {profile!r:.80}: ' if profile else ''}{why}")

    def _line_of(self, key: str, profile: str) -> int:
        """Return the line of a setting, from 1; 0: it is written in a way that is not looked for."""
        name = re.escape(profile)
        section = re.compile(rf"""\s*\[\s*profiles\s*\.\s*["']?{name}["']?\s*\]""")
        setting = re.compile(rf"""\s*\[?\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
        is_inside = not profile
        for number, line in enumerate(self._lines, 1):
            if profile and line.lstrip().startswith("["):
                is_inside = section.match(line) is not None
            elif is_inside and setting.match(line):
                return number
        return 0


def _line_in(why: str) -> str:
    found = re.search(r"at line (\d+)", why)
    return f":{found[1]}" if found else ""


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
