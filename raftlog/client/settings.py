"""Settles a client's settings from several places: options, environment, profile, default. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

VARIABLES = {
    "bootstrap": "RAFTLOG_BOOTSTRAP",
    "ca_file": "RAFTLOG_CA_FILE",
    "cert_file": "RAFTLOG_CERT_FILE",
    "key_file": "RAFTLOG_KEY_FILE",
    "user": "RAFTLOG_USERNAME",
    "password": "RAFTLOG_PASSWORD",
    "password_file": "RAFTLOG_PASSWORD_FILE",
    "login": "RAFTLOG_LOGIN",
    "token": "RAFTLOG_TOKEN",
    "token_file": "RAFTLOG_TOKEN_FILE",
}
"""The environment variable of each setting."""
_ALONE = ("bootstrap", "ca_file", "login")
_CERTIFICATE = ("cert_file", "key_file")
PASSWORDS = ("password", "password_file", "password_command")
TOKENS = ("token", "token_file", "token_command")


class Place(NamedTuple):
    """Where settings come from, and those that it has."""

    name: str
    given: Mapping[str, Any]
    """Values by setting. An empty value counts as none."""


class Setting(NamedTuple):
    """A value, and the name of its place."""

    value: Any
    place: str


Settled: TypeAlias = Mapping[str, Setting]


def from_variables(environment: Mapping[str, str]) -> Place:
    """Return what the environment's variables say."""
    return Place("environment", {name: environment.get(variable, "") for name, variable in VARIABLES.items()})


def settle(places: Sequence[Place]) -> Settled:
    """Return the value of each setting that has one.

    What belongs together comes from one place: a certificate and its key, a user and the password. A password of a
    place that names a user is not sent as another user's.

    Args:
        places: in the order of precedence.
    """
    settled: dict[str, Setting] = {}
    for place in places:
        for name in _ALONE:
            if name not in settled and place.given.get(name):
                settled[name] = Setting(place.given[name], place.name)
    _take_first(settled, places, _CERTIFICATE)
    _settle_credentials(settled, places)
    return settled


def _take_first(settled: dict[str, Setting], places: Sequence[Place], names: Sequence[str]) -> None:
    """Take some settings from the first place that has one of them."""
    place = next((place for place in places if any(place.given.get(name) for name in names)), None)
    if place is not None:
        settled.update({name: Setting(place.given[name], place.name) for name in names if place.given.get(name)})


def _settle_credentials(settled: dict[str, Setting], places: Sequence[Place]) -> None:
    user: Setting | None = None
    for index, place in enumerate(places):
        own_user = place.given.get("user")
        found = [name for name in (*PASSWORDS, *TOKENS) if place.given.get(name)]
        if user is not None:
            is_anothers = own_user and own_user != user.value
            found = [] if is_anothers else [name for name in found if name in PASSWORDS]
        if user is None and own_user:
            user = Setting(own_user, place.name)
        if found:
            settled.update({name: Setting(place.given[name], place.name) for name in found})
            if user is None and found[0] in PASSWORDS:
                below = [lower for lower in places[index + 1 :] if lower.given.get("user")]
                user = Setting(below[0].given["user"], below[0].name) if below else None
            break
    if user is not None:
        settled["user"] = user
