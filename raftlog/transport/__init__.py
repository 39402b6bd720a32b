"""HTTP between raftlog's own parts: one session type with deadlines and typed errors.

The session's module is loaded at first use, because importing aiohttp takes longer than importing a client. To benefit,
write `from raftlog import transport`, and `transport.HttpSession` where it is needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raftlog.transport.session import Answer, HttpSession, PeerAnswerError

__all__ = ["Answer", "HttpSession", "PeerAnswerError"]


def __getattr__(name: str) -> Any:
    """Load a name from the session's module at its first use."""
    if name not in __all__:
        raise AttributeError(f"module 'raftlog.transport' has no attribute {name!r}")
    found = getattr(import_module("raftlog.transport.session"), name)
    globals()[name] = found
    return found
