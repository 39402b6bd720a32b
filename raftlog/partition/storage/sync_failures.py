"""After a failed sync of any of its files, a log accepts no more changes (docs/adr/0005)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from raftlog.errors import StorageError
from raftlog.partition.storage.files import FailedSyncError

Change = TypeVar("Change", bound=Callable[..., Any])


class Failing(Protocol):
    """A log that can fail."""

    def fail(self, failure: StorageError) -> None:
        """Refuse all further changes."""
        ...


def fails_on_sync_error(change: Change) -> Change:
    """Decorate a method of a log: when it raises `FailedSyncError`, the log is marked as failed."""

    @wraps(change)
    def changed(log: Failing, *arguments: Any, **named: Any) -> Any:
        try:
            return change(log, *arguments, **named)
        except FailedSyncError as error:
            log.fail(error)
            raise

    return cast("Change", changed)
