"""HTTP sessions of the suite itself, with the credentials that its clients take from the environment, too."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields

import raftlog
from raftlog.transport import HttpSession


def use_security(security: raftlog.Security | None) -> None:
    """Set the credentials of this process's clients, and of the children that it starts; None: there are none."""
    for option in fields(raftlog.Security):
        os.environ.pop(f"RAFTLOG_{option.name.upper()}", None)
        if security is not None and (value := getattr(security, option.name)):
            os.environ[f"RAFTLOG_{option.name.upper()}"] = value


def open_session(dial: Mapping[str, str] | None = None) -> HttpSession:
    """Return a session with the credentials of the environment.

    Args:
        dial: replaces addresses when dialling; None: there is no proxy between.
    """
    return HttpSession(dial=dial, tls=raftlog.Security.from_environment().tls_context())
