"""Errors that are not raftlog's own, in background tasks: the callers that wait for such a task get an error, too."""

from __future__ import annotations

import logging

from raftlog.errors import RaftlogError, UnknownOutcomeError

_log = logging.getLogger(__name__)


def explained(error: Exception, what: str, cls: type[RaftlogError] = UnknownOutcomeError) -> RaftlogError:
    """Return the error itself if it is raftlog's own; otherwise log it with its traceback, and return one of `cls`.

    Args:
        what: what failed.
    """
    if isinstance(error, RaftlogError):
        return error
    _log.error("%s failed", what, exc_info=error)
    raised = cls(f"{what} failed: {error!r:.500}")
    raised.__cause__ = error
    return raised
