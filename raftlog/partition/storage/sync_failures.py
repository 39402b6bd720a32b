"""What a failed sync does to a log: it takes no more changes, whichever of its files could not be synced."""

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
        """Take no more changes."""
        ...


def fails_on_sync_error(change: Change) -> Change:
    """Have a log fail when `change`, one of its methods, raises `FailedSyncError` (docs/adr/0005)."""

    @wraps(change)
    def changed(log: Failing, *arguments: Any, **named: Any) -> Any:
        try:
            return change(log, *arguments, **named)
        except FailedSyncError as error:
            log.fail(error)
            raise

    return cast("Change", changed)
