"""The limit of open files, which sockets and segments share; shells set it low (1,024)."""

from __future__ import annotations

import logging
import resource

_log = logging.getLogger(__name__)
ENOUGH = 1 << 20
"""The highest limit that Linux allows by default (`fs.nr_open`); it refuses a higher one."""


_RESERVE = 2_048


def raise_limit() -> None:
    """Raise this process's limit of open files as far as the system allows; log a warning if that fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(hard, ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        _log.warning("the limit of open files stays at %d: %s", soft, error)


def affordable_segments(wanted: int) -> int:
    """Return how many segment files may be open at once: at most half of the limit, to leave some for sockets."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or wanted <= soft // 2:
        return wanted
    _log.warning(
        "broker.max_open_segments is %d, and this process may open %d files (ulimit -n): it keeps %d segments open",
        wanted,
        soft,
        soft // 2,
    )
    return soft // 2


def affordable_connections(wanted: int, *, segments: int) -> int:
    """Return how many connections a listener may keep: the rest after segments and a reserve, for two listeners.

    The reserve covers other files, and connections that are accepted only to be refused.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    left = soft - min(segments, soft // 2) - min(_RESERVE, soft // 4)
    return max(1, min(wanted, left // 2))


def wanted_files(connections: int, *, segments: int) -> int:
    """Return the limit with which `affordable_connections` and `affordable_segments` leave the settings as they are."""
    return max(2 * segments, 2 * connections + segments + _RESERVE)
