"""What travels over HTTP: paths, media types, request and response types, and their codec. No IO.

Importing all types takes a client longer than all its code, and most clients use few of them. To load a module on first
use only, write `from raftlog import wire`, and `wire.admin.LogDirsResponse` where it is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raftlog.wire import admin, groups, transactions

__all__ = ["admin", "groups", "transactions"]


def __getattr__(name: str) -> Any:
    """Load a module when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'raftlog.wire' has no attribute {name!r}")
    return import_module(f"raftlog.wire.{name}")
