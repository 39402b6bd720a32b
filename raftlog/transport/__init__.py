"""HTTP between raftlog's own parts: one session type with deadlines and typed errors."""

from raftlog.transport.session import Answer, HttpSession

__all__ = ["Answer", "HttpSession"]
